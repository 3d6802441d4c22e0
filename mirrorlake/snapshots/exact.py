"""Is the published table the newest snapshot? Both are read anew and compared row by row.

It uses none of the fold's digests, cells and strategies: the snapshot's rows, and the table's
without those that the snapshot lacks, are compared as multisets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorlake.errors import LakeError
from mirrorlake.lake.catalog import Lake, as_sql_identifier
from mirrorlake.snapshots.shape import SnapshotTable, before_sql
from mirrorlake.snapshots.stage import read_missing
from mirrorlake.snapshots.state import State, read_state
from mirrorlake.spark import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AS_TEXT = ("float", "double")  # SQL calls -0.0 and 0.0 equal; their texts are not


@dataclass(frozen=True)
class Compared:
    """One comparison.

    Attributes:
        snapshot: the newest snapshot's number.
        rows: its rows inside the window.
        missing: rows of it that the table does not have, or keys where a key's row was chosen.
        extra: rows of the table that it does not have, those aside whose keys it lacks.
    """

    snapshot: int
    rows: int
    missing: int
    extra: int

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra)


def newest_of(lake: Lake, table: SnapshotTable) -> tuple[int, State]:
    """(version, state) of what readers see.

    Raises:
        LakeError: nothing was published yet.
    """
    found = lake.load(table.identifier)
    head = found.current_snapshot() if found is not None else None
    state = read_state(found) if found is not None else State()
    if head is None or state.newest is None:
        raise LakeError(
            f"table {table.name} holds no snapshot yet",
            table=table.name,
            next_step="Fold one first",
        )
    return head.snapshot_id, state


def compare_newest(lake: Lake, table: SnapshotTable, frame: DataFrame) -> Compared:
    """Compare the newest snapshot's rows, read anew as ``frame``, with the published ones.

    Both are read as a whole and shuffled: it costs as much as a MERGE, and writes nothing.

    Raises:
        LakeError: nothing was published yet, or Spark or the storage failed.
    """
    version, state = newest_of(lake, table)
    spark = frame.sparkSession
    if state.floor is not None:
        frame = frame.where(f"coalesce(NOT ({before_sql(table, state.floor)}), TRUE)")
    with spark_errors(table.name):
        rows = spark.sql(f"SELECT * FROM {table.identifier.sql} VERSION AS OF {version}")  # noqa: S608
        missing = read_missing(spark, table, state.missing)
        if missing is not None:
            rows = rows.join(missing.select(*table.key_sql), list(table.key), "left_anti")
        source, target = frame.selectExpr(*_forms(table)), rows.selectExpr(*_forms(table))
        if table.duplicates == "resolved":
            keys = [frame.selectExpr(*table.key_sql).distinct(), rows.selectExpr(*table.key_sql)]
            absent = keys[0].exceptAll(keys[1]).count()
        else:
            absent = source.exceptAll(target).count()
        newest = state.newest
        return Compared(
            snapshot=newest.id if newest else 0,
            rows=source.count(),
            missing=absent,
            extra=target.exceptAll(source).count(),
        )


def _forms(table: SnapshotTable) -> list[str]:
    forms: list[str] = []
    for name, kind in table.compared:
        column = as_sql_identifier(name)
        if kind in _AS_TEXT:
            forms.append(f"CAST({column} AS STRING) AS {column}")
        elif kind.startswith("list<"):
            forms.append(f"to_json({column}) AS {column}")
        else:
            forms.append(column)
    return forms
