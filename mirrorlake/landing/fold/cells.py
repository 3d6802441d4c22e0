"""Digests by cell: which parts of a snapshot are as they were in the snapshot before.

One scan of the snapshot gives the digests of its cells. They are compared with those that were kept
of the newest folded snapshot: rows in cells that are equal are the same rows, and neither they nor
the mirror's are looked at again. What is kept is the snapshot's own content, so rows that the
mirror keeps although they are missing don't count. Kept digests are a list of additions: a fold
writes the differences alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from mirrorlake.landing.fold.shape import SnapshotTable
from mirrorlake.landing.fold.state import State, Totals, columns_of
from mirrorlake.merge.pruning import among_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTED = 200_000
"""Up to this many cells are named to the scans that follow; beyond, all rows are read."""
_SHARE = 0.35
"""The share of cells that may differ for that to pay."""
_SUMS = ("n", "a", "b", "c", "d")


@dataclass(frozen=True)
class CellDifference:
    """Where a snapshot differs from the one before.

    Attributes:
        cells: its digests by cell, cached.
        deltas: what to add to the kept digests, kept too.
        listed: the cells of keys that differ; None if they are too many to list.
        days: the days that differ; None without a day column.
        count: how many cells of keys differ, and there are.
        known: whether there were digests to compare with; without, everything differs.
    """

    cells: DataFrame
    deltas: DataFrame
    listed: tuple[int, ...] | None
    days: tuple[date | None, ...] | None
    count: tuple[int, int]
    totals: Totals
    known: bool

    @property
    def empty(self) -> bool:
        return self.count[0] == 0

    def days_since(self, floor: date | None) -> tuple[date | None, ...] | None:
        """The days that differ and stay; None where that is not known."""
        if not self.known or self.days is None:
            return None
        return tuple(d for d in self.days if d is None or floor is None or d >= floor)

    @property
    def changed(self) -> float:
        """About which share of the rows differs: equal shares in every cell are taken for."""
        differing, cells = self.count
        rows = self.totals.n / cells if cells else 1.0
        if not differing or rows <= 0:
            return 0.0
        same = max(1.0 - differing / cells, 1.0 / (4 * cells))
        return min(1.0, -math.log(same) / max(rows, 1.0))

    def drop(self) -> None:
        """Free what is cached."""
        self.cells.unpersist()


def read_totals(rows: DataFrame, table: SnapshotTable) -> Totals:
    """How many rows there are, and their digest, in one scan."""
    return _totals(_summed(_hashed(rows, table, table.cell_sql(16))))[0]


def cells_of(rows: DataFrame, table: SnapshotTable, slots: int) -> DataFrame:
    """The digests of rows by cell: cell, n, a, b, c, d."""
    cell = table.cell_sql(slots)
    if table.day is not None and not table.in_days:
        # Each row counts twice: in its key's cell, and in its day's.
        cell = f"explode(array({cell}, {table.day_cell_sql()}))"
    return _summed(_hashed(rows, table, cell))


def compare_cells(
    spark: SparkSession, rows: DataFrame, table: SnapshotTable, state: State
) -> CellDifference:
    """Compare a snapshot's digests with those that are kept of the newest one."""
    known = state.trusted and state.cells is not None and state.columns == columns_of(table)
    cells = cells_of(rows, table, state.slots).persist()
    deltas = _deltas(cells, _kept(spark, table, state)) if known else cells
    # Not a cache: Spark would make that again once the kept digests are written to.
    deltas = deltas.localCheckpoint() if known else deltas
    keys = deltas.where("cell >= 0 OR cell = -2")
    totals, there = _totals(cells)
    listed: tuple[int, ...] | None = None
    if known:
        listed = tuple(keys.select("cell").limit(LISTED + 1).toArrow()["cell"].to_pylist())
    if listed is None or len(listed) > LISTED:
        differing, listed = keys.count(), None
        days = _days(deltas, table, state.slots)
    else:
        differing = len(listed)
        in_days = table.in_days and -2 not in listed
        days = (
            tuple({table.day_of_cell(cell, state.slots) for cell in listed})
            if in_days
            else _days(deltas, table, state.slots)
        )
        listed = listed if differing <= max(_SHARE * there, 64) else None
    return CellDifference(cells, deltas, listed, days, (differing, there), totals, known)


def _totals(cells: DataFrame) -> tuple[Totals, int]:
    # Of all rows a sum may pass 2^63.
    sums = [f"coalesce(sum(CAST({n} AS DECIMAL(38, 0))), 0) AS {n}" for n in _SUMS]
    row: Any = cells.where("cell >= 0 OR cell = -2").selectExpr(*sums, "count(*) AS cells").first()
    found = row.asDict()
    return Totals(**{name: int(found[name]) for name in _SUMS}), found["cells"]


def _days(deltas: DataFrame, table: SnapshotTable, slots: int) -> tuple[date | None, ...] | None:
    if table.day is None:
        return None
    if table.in_days:
        first = deltas.where("cell >= 0").selectExpr(f"cell - cell % {slots}L AS cell").distinct()
    else:
        first = deltas.where("cell < 0 AND cell <> -2").select("cell")
    return tuple(table.day_of_cell(row.cell, slots) for row in first.collect())


def read_lost_days(
    difference: CellDifference, table: SnapshotTable, slots: int
) -> tuple[date | None, ...]:
    """Days that the snapshot before had rows of, and this one has none of."""
    if table.day is None or not difference.known:
        return ()
    cell = f"cell - cell % {slots}L" if table.in_days else "cell"
    which = "cell >= 0" if table.in_days else "cell < 0 AND cell <> -2"
    # A day's rows all went if as many went as there were: what is left of it is nothing.
    now = difference.cells.where(which).selectExpr(f"{cell} AS cell").distinct()
    then = difference.deltas.where(which).where("n < 0").selectExpr(f"{cell} AS cell").distinct()
    lost = then.join(now, "cell", "left_anti").collect()
    return tuple(table.day_of_cell(row.cell, slots) for row in lost)


def _hashed(rows: DataFrame, table: SnapshotTable, cell: str) -> DataFrame:
    one, two = table.hashes_sql()
    hashed = rows.selectExpr(f"{one} AS _h1", f"{two} AS _h2", f"{cell} AS cell")
    halves = [
        f"{half} AS {name}"
        for name, half in zip(
            _SUMS[1:],
            (
                "_h1 & 4294967295L",
                "shiftrightunsigned(_h1, 32)",
                "_h2 & 4294967295L",
                "shiftrightunsigned(_h2, 32)",
            ),
            strict=True,
        )
    ]
    return hashed.selectExpr("cell", "1L AS n", *halves)


def _summed(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    # No sum can pass 2^63: a half has 32 bits, and there are fewer than 2^31 rows in a cell.
    return rows.groupBy("cell").agg(*(f.sum(name).alias(name) for name in _SUMS))


def _kept(spark: SparkSession, table: SnapshotTable, state: State) -> DataFrame:
    stored = spark.sql(
        f"SELECT * FROM {table.cells.sql} VERSION AS OF {state.cells}"  # noqa: S608
    )
    return _summed(stored).where(_not_all_zero(_SUMS))


def _deltas(cells: DataFrame, kept: DataFrame) -> DataFrame:
    both = cells.alias("x").join(kept.alias("y"), "cell", "full_outer")
    parts = [f"coalesce(x.{name}, 0L) - coalesce(y.{name}, 0L) AS {name}" for name in _SUMS]
    return both.selectExpr("cell", *parts).where(_not_all_zero(_SUMS))


def _not_all_zero(names: Sequence[str]) -> str:
    return " OR ".join(f"{name} <> 0" for name in names)


def cells_sql(table: SnapshotTable, slots: int, cells: Sequence[int] | None, of: str = "") -> str:
    """Rows whose key is in one of these cells, and in few others; every row for None. A cell comes
    whole or not at all, on every side of a comparison."""
    if cells is None:
        return "TRUE"
    return among_sql(table.cell_sql(slots, of), cells) if cells else "FALSE"
