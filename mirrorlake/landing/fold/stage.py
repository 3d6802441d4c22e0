"""Writing a fold on a branch: the rows in one of three ways, and the two side tables.

Nothing of it is seen by a reader before main is moved to the branch. The side tables have no
branch: a version of them counts only if the published version of the rows names it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from mirrorlake.destinations.base import Destination, as_sql_identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.landing.fold.cells import CellDifference
from mirrorlake.landing.fold.changes import ADDED, CHANGED, KIND, REMOVED, SINCE, WAS
from mirrorlake.landing.fold.results import ChangeCounts
from mirrorlake.landing.fold.shape import (
    MISSED_DAY,
    MISSED_FIRST,
    SnapshotTable,
    before_sql,
    days_sql,
)
from mirrorlake.landing.fold.state import State
from mirrorlake.landing.fold.tables import align, ensure_cells, ensure_missing
from mirrorlake.merge.staging import branch_sql
from mirrorlake.schema.own_columns import SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ChosenDays = Sequence[date | None] | None
_ADDITIONS = 16
"""Folds that add to the kept digests; the next writes them again."""
BROADCAST = 2_000_000
"""The keys of up to this many rows are brought to every worker; of more, they are shuffled."""


@dataclass(frozen=True)
class Stage:
    """A branch that a fold writes on."""

    spark: SparkSession
    lake: Lake
    table: SnapshotTable
    branch: str

    @property
    def sql(self) -> str:
        """The branch, as Spark takes it."""
        return branch_sql(self.table.identifier, self.branch)

    def read(self) -> DataFrame:
        return self.spark.table(self.sql)


def append_rows(stage: Stage, rows: DataFrame, number: int) -> None:
    """The first snapshot: all of its rows."""
    names = [as_sql_identifier(name) for name, _ in stage.table.columns]
    written = rows.selectExpr(*names, f"CAST({number} AS BIGINT) AS {SNAPSHOT}")
    written.writeTo(stage.sql).append()


def put_rows(stage: Stage, changes: DataFrame, counts: ChangeCounts, days: ChosenDays) -> None:
    """The rows that change, merge-on-read: what they replace is deleted, then they are appended.

    Not by a MERGE, for which Spark would shuffle the keys of every row of these days: a delete
    holds the rows, as they are read, against the keys of what changes, and nothing else is
    shuffled. Between the two commits the branch lacks these rows; nobody reads it yet.

    Args:
        days: those that the table's rows of these keys may be of; None for all.
    """
    table = stage.table
    if counts.changed or counts.removed:
        gone = changes.where(f"{KIND} IN ('{CHANGED}', '{REMOVED}')").select(*table.key_sql)
        on = table.same_key_sql("t.", "s.")
        hint = "/*+ BROADCAST(s) */ " if counts.changed + counts.removed <= BROADCAST else ""
        which = "" if days is None else f"{days_sql(table, days, 't.')} AND "
        with _view(gone) as name:
            stage.spark.sql(
                f"DELETE FROM {stage.sql} t WHERE {which}"  # noqa: S608
                f"EXISTS (SELECT {hint}1 FROM {name} s WHERE {on})"
            )
    if counts.added or counts.changed:
        names = [as_sql_identifier(name) for name, _ in table.columns]
        put = changes.where(f"{KIND} IN ('{ADDED}', '{CHANGED}')").select(*names, SNAPSHOT)
        put.writeTo(stage.sql).append()


def replace_rows(stage: Stage, rows: DataFrame, days: ChosenDays) -> None:
    """All rows of some days (of the table for None), in one commit."""
    from pyspark.sql import functions as f

    which = "TRUE" if days is None else days_sql(stage.table, days)
    names = [as_sql_identifier(name) for name, _ in stage.table.columns]
    rows.select(*names, SNAPSHOT).writeTo(stage.sql).overwrite(f.expr(which))


def drop_days(stage: Stage, floor: date) -> int:
    """Days before ``floor`` leave, by metadata alone: a day is a partition. How many rows left."""
    which = before_sql(stage.table, floor)
    found: Any = stage.spark.sql(f"SELECT count(*) AS n FROM {stage.sql} WHERE {which}").first()  # noqa: S608
    stage.spark.sql(f"DELETE FROM {stage.sql} WHERE {which}")  # noqa: S608
    return int(found.n)


# --- beside ---------------------------------------------------------------------------------------


def read_missing(
    spark: SparkSession, table: SnapshotTable, version: int | None
) -> DataFrame | None:
    """The keys that the newest snapshots lack: key, ``missed_day``, `WAS`; None if there are
    none."""
    if version is None:
        return None
    keys = ", ".join(table.key_sql)
    return spark.sql(
        f"SELECT {keys}, {MISSED_DAY}, {MISSED_FIRST} AS {WAS} "  # noqa: S608
        f"FROM {table.missing_rows.sql} VERSION AS OF {version}"
    )


def missing_count(lake: Destination, table: SnapshotTable, version: int | None) -> int:
    """How many keys a version of the side table lists at most: deleted ones count too."""
    listed = lake.statistics(table.missing_rows, version) if version is not None else None
    return listed.rows if listed is not None else 0


def write_missing(stage: Stage, state: State, changes: DataFrame, *, only_new: bool) -> int | None:
    """Write which keys became missing, or are not any more; the side table's version.

    ``only_new``: whether all of them became missing, and none was.
    """
    table, spark, lake = stage.table, stage.spark, stage.lake
    ensure_missing(lake, table)
    if not align(lake, table.missing_rows, state.missing):
        spark.sql(f"DELETE FROM {table.missing_rows.sql} WHERE TRUE")  # noqa: S608
    moved = changes.where(f"NOT ({WAS} <=> {SINCE})").selectExpr(
        *table.key_sql, f"{table.day_sql()} AS {MISSED_DAY}", f"{SINCE} AS {MISSED_FIRST}"
    )
    if only_new:
        moved.coalesce(1).writeTo(table.missing_rows.sql).append()
        return lake.head(table.missing_rows)
    on = " AND ".join(f"t.{name} = s.{name}" for name in table.key_sql)
    columns = [*table.key_sql, MISSED_DAY, MISSED_FIRST]
    with _view(moved) as name:
        spark.sql(
            f"MERGE INTO {table.missing_rows.sql} t USING {name} s ON {on} "  # noqa: S608
            f"WHEN MATCHED AND s.{MISSED_FIRST} IS NULL THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET t.{MISSED_FIRST} = s.{MISSED_FIRST}, "
            f"t.{MISSED_DAY} = s.{MISSED_DAY} "
            f"WHEN NOT MATCHED AND s.{MISSED_FIRST} IS NOT NULL THEN INSERT "
            f"({', '.join(columns)}) VALUES ({', '.join(f's.{c}' for c in columns)})"
        )
    return lake.head(table.missing_rows)


def write_cells(stage: Stage, state: State, difference: CellDifference) -> tuple[int | None, int]:
    """Keep a snapshot's digests; the side table's version, and how many additions it is made of."""
    from pyspark.sql import functions as f

    table, lake = stage.table, stage.lake
    ensure_cells(lake, table)
    align(lake, table.cells, state.cells)
    if difference.known and state.additions < _ADDITIONS:
        deltas = difference.deltas.coalesce(1).sortWithinPartitions("cell")
        deltas.writeTo(table.cells.sql).append()
        return lake.head(table.cells), state.additions + 1
    cells = difference.cells.repartition(1).sortWithinPartitions("cell")
    cells.writeTo(table.cells.sql).overwrite(f.lit(True))
    return lake.head(table.cells), 0


@contextmanager
def _view(rows: DataFrame) -> Iterator[str]:
    name = f"mirror_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        rows.sparkSession.catalog.dropTempView(name)
