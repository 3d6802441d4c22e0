"""What is checked before a snapshot is folded, and of the branch before it is published."""

from __future__ import annotations

from datetime import date
from shlex import quote
from typing import TYPE_CHECKING

from mirrorlake.errors import LakeError, SchemaError, SnapshotRefused
from mirrorlake.landing.fold.cells import CellDifference, cells_of, cells_sql
from mirrorlake.landing.fold.shape import SnapshotTable, days_sql
from mirrorlake.landing.fold.stage import BROADCAST, Stage, missing_count, read_missing
from mirrorlake.landing.fold.state import State
from mirrorlake.merge.row_sql.conversions import spark_type
from mirrorlake.runtime.plural import plural
from mirrorlake.table.shrink import is_too_small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_columns(table: SnapshotTable, frame: DataFrame) -> None:
    """See that a snapshot has the contract's columns with the contract's types, and no others.

    Raises:
        SchemaError: it has not.
    """
    found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    wanted = {name: spark_type(kind) for name, kind in table.columns}
    for name, kind in wanted.items():
        if found.get(name) != kind:
            there = f"{found[name]}, not {kind}" if name in found else "missing"
            raise SchemaError(
                f"table {table.name}: column {name!r} of the snapshot is {there}",
                table=table.name,
                column=name,
                next_step="The published table is as it was: see who wrote the snapshot",
            )
    others = sorted(set(found) - set(wanted))
    if others:
        raise SchemaError(
            f"table {table.name}: the snapshot has columns that the contract lacks: "
            f"{', '.join(others)}",
            table=table.name,
            column=others[0],
            next_step="Name them in the contract; the published table is as it was",
        )


def check_size(table: SnapshotTable, number: int, state: State, rows: int) -> None:
    """See that a snapshot is no smaller than the newest one, by the contract's ``shrink_limit``.

    Raises:
        SnapshotRefused: it is; nothing was written.
    """
    newest, limit = state.newest, table.shrink_limit
    if newest is None or limit is None or not is_too_small(newest.totals.n, rows, limit):
        return
    raise refused(
        table,
        f"snapshot {number} has {plural(rows, 'row')}, and snapshot {newest.id} had "
        f"{newest.totals.n:,}: {1 - rows / newest.totals.n:.0%} less, and shrink_limit is "
        f"{limit:.0%}",
        _accept(table),
    )


def _accept(table: SnapshotTable) -> str:
    return (
        "Look whether the source should hold so few. If it should: `mirrorlake land "
        f"{quote(table.name)} --accept-smaller ID`; if not, newer snapshots are taken without it"
    )


def check_days(
    table: SnapshotTable, number: int, lost: tuple[date | None, ...], first: date | None
) -> None:
    """See that no day between others is gone: where rows that are missing are removed, it would be
    lost. Days leave a sliding window at its beginning alone.

    Args:
        lost: the days that this snapshot has no row of, and the one before had.
        first: the first day that this snapshot has.

    Raises:
        SnapshotRefused: one is; nothing was written.
    """
    inside = sorted(day for day in lost if day is not None and (first is None or day >= first))
    if table.missing == "kept" or not (inside or None in lost):
        return
    words = ", ".join(map(str, inside[:5])) or "the rows without a day"
    days = f"{len(inside)} days" if len(inside) > 1 else "1 day"
    raise refused(
        table,
        f"snapshot {number} has no row of {days} that the one before had: {words}",
        _accept(table),
    )


def check_keys(table: SnapshotTable, number: int, without: int, several: int) -> None:
    """See that every row has a key of its own.

    Raises:
        SnapshotRefused: rows have no key, or several have one and duplicates are refused.
    """
    if without:
        raise refused(
            table,
            f"snapshot {number} has rows without a key (NULL in {', '.join(table.key)})",
            "Repair the source, or choose a key that is never NULL",
        )
    if several and table.duplicates == "refused":
        keys = plural(several, "key")
        raise refused(
            table,
            f"snapshot {number} holds {keys} more than once",
            "Repair the source and land the next snapshot; or choose a key that tells its rows "
            f"apart or set `duplicates: resolved`, then `mirrorlake land {quote(table.name)} "
            "--retry ID`",
        )


def count_wrong(
    stage: Stage,
    state: State,
    after: State,
    difference: CellDifference,
    days: tuple[date | None, ...] | None,
    *,
    several: bool,
) -> int:
    """In how many of the cells that were to change the branch does not hold the snapshot: its rows
    that the snapshot has (all but those that are missing) have the snapshot's own digests.

    One key twice, a row lost, cut or doubled, or a file that was another one when it was read a
    second time, shows here.
    """
    from pyspark.sql import functions as f

    table = stage.table
    rows = stage.read()
    if difference.known and days is not None:
        rows = rows.where(days_sql(table, days))
    by_day = difference.known and table.day is not None and not table.in_days
    if difference.known and not by_day:
        rows = rows.where(cells_sql(table, state.slots, difference.listed))
    missing = read_missing(stage.spark, table, after.missing)
    if missing is not None:
        keys = missing.select(*table.key_sql)
        if missing_count(stage.lake, table, after.missing) <= BROADCAST:
            keys = keys.hint("broadcast")
        same = f.expr(table.same_key_sql("t.", "s."))
        rows = rows.alias("t").join(keys.alias("s"), same, "left_anti")
    found = cells_of(rows, table, state.slots)
    wanted = difference.cells
    touched = difference.deltas.select("cell")
    if by_day:
        found, touched = found.where("cell < 0"), touched.where("cell < 0")
    names = ("n", "a", "b", "c", "d")
    both = (
        touched.join(found.alias("x"), "cell", "left")
        .join(wanted.alias("y"), "cell", "left")
        .where(" OR ".join(f"coalesce(x.{n}, 0L) <> coalesce(y.{n}, 0L)" for n in names))
    )
    if several:  # the snapshot's own digests count every copy of a key
        both = both.where("coalesce(x.n, 0L) >= coalesce(y.n, 0L)")
    return both.count()


def not_staged(table: SnapshotTable, wrong: int) -> LakeError:
    return LakeError(
        f"table {table.name}: what was staged is not the snapshot: {wrong} of the changed cells "
        "differ",
        table=table.name,
        next_step="The published table is as it was: see that the snapshot's files did not "
        "change, and fold it again",
        retryable=True,
    )


def refused(table: SnapshotTable, words: str, step: str) -> SnapshotRefused:
    return SnapshotRefused(
        f"table {table.name}: {words}. The published table stays as it was",
        table=table.name,
        next_step=step,
    )
