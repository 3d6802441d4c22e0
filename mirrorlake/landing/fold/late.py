"""Snapshots that come late: keys that only they have, and that left with their day since.

A key that no newer snapshot in the table has is added by a late one. Where the key's row has been
dropped with its day since, the table does not know it any more; the version before that drop does.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.errors import SnapshotRefused
from mirrorlake.landing.fold.changes import ADDED, KIND, WAS
from mirrorlake.landing.fold.shape import SnapshotTable, before_sql
from mirrorlake.landing.fold.stage import read_missing
from mirrorlake.landing.fold.state import FoldedSnapshot, State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def without_gone(
    spark: SparkSession,
    lake: Lake,
    table: SnapshotTable,
    state: State,
    number: int,
    changes: DataFrame,
) -> DataFrame:
    """The changes of a late snapshot, less the keys that a newer one had and that left with their
    day.

    Raises:
        SnapshotRefused: the version before a drop has expired, so that is not known.
    """
    added = f"{KIND} = '{ADDED}'"
    rows = lake.load(table.identifier)
    for drop in state.taken:
        # The first of the newer snapshots that were folded when the days were dropped.
        known = [t.id for t in state.taken if t.order < drop.order and t.id > number]
        if drop.before is None or drop.floor is None or not known:
            continue
        _check_there(table, rows, drop, number)
        gone = _gone(spark, table, drop, drop.floor, min(known))
        kept = changes.where(added).join(gone, list(table.key), "left_anti")
        changes = changes.where(f"NOT ({added})").unionByName(
            kept.select(*map(as_sql_identifier, changes.columns))
        )
    return changes


def _gone(
    spark: SparkSession, table: SnapshotTable, drop: FoldedSnapshot, floor: date, first: int
) -> DataFrame:
    """The keys that left in a drop, and were seen in ``first`` or later before."""
    keys = ", ".join(table.key_sql)
    rows = spark.sql(
        f"SELECT {keys} FROM {table.identifier.sql} VERSION AS OF {drop.before} "  # noqa: S608
        f"WHERE {before_sql(table, floor)}"
    )
    missing = read_missing(spark, table, drop.missing)
    if missing is None:
        return rows
    both = rows.join(missing.select(*table.key_sql, WAS), list(table.key), "left")
    return both.where(f"{WAS} IS NULL OR {WAS} > {first}L").select(*table.key_sql)


def _check_there(
    table: SnapshotTable, rows: LakeTable | None, drop: FoldedSnapshot, number: int
) -> None:
    if rows is None or rows.snapshot_by_id(drop.before or 0) is None:
        raise SnapshotRefused(
            f"table {table.name}: snapshot {number} comes too late: days left the window with "
            f"snapshot {drop.id}, and the version before that has expired",
            table=table.name,
            next_step="Its keys can't be distinguished from keys that left since: leave it out, or "
            "keep versions longer (`mirrorlake maintain --keep-days`)",
        )
