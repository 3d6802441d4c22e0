"""What one snapshot changes: its rows beside the table's, key by key.

Of each key the table knows its row, the snapshot in which that changed last (``c``), and, where the
newest snapshots lack it, since which one (``m``, in the side table of missing keys). So the row was
seen, unchanged, in every snapshot from ``c`` on until ``m``, or until the newest. That is all that
is needed to take any snapshot at any time:

- the newest: a row that differs, or was missing, changes in it; a key that it lacks is missing
  since it;
- one that comes late (``k``; ``n`` is the next one after it): where it interrupts ``c … m``, the
  row changed in ``n`` instead; where it extends that to the left, in ``k``; where it lies behind
  it, its row is the newest there is, and is missing since ``n``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from mirrorlake.landing.fold.shape import SnapshotTable
from mirrorlake.landing.fold.state import State
from mirrorlake.schema.own_columns import SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ADDED, CHANGED, REMOVED = "added", "changed", "removed"
KIND, WAS, SINCE, COPIES = "_mirror_kind", "_mirror_was", "_mirror_since", "_mirror_copies"
"""What becomes of a key; since which snapshot it was missing, and is; how often it came."""
ROW = "_mirror_row"
"""The columns of a snapshot's row but the key's, as one."""
_NEW, _OLD, _C = "_mirror_new", "_mirror_old", "_mirror_c"
_DIFFERS, _TAKEN = "_mirror_differs", "_mirror_taken"


@dataclass(frozen=True)
class ComparedSnapshot:
    """Which rows are compared.

    Attributes:
        number: the snapshot's.
        state: what the table held before.
        floor: the first day inside the newest snapshot's window; None: any.
    """

    number: int
    state: State
    floor: date | None

    @property
    def next(self) -> int | None:
        """The snapshot right after a late one; None for the newest."""
        return self.state.after(self.number)


def unique_rows(rows: DataFrame, table: SnapshotTable) -> DataFrame:
    """One row per key: the key, the other columns as `ROW`, and `COPIES`, 2 where there were
    several.

    Of several it is the greatest by day, then column by column: any two readings of the snapshot
    choose the same one. Where they are refused, all of them are there: the second one as 2, by
    which the key is known, and further ones as 3 and so on.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    packed = _packed(table)
    keys = [f.expr(name) for name in table.key_sql]
    if table.duplicates == "resolved":
        chosen = f.max_by(f.expr(packed), f.expr(table.order_sql())).alias(ROW)
        return rows.groupBy(*keys).agg(chosen, f.expr("least(count(*), 2L)").alias(COPIES))
    # In the order that the join needs anyway; to group by the key would sort the rows twice.
    number = f.row_number().over(Window.partitionBy(*keys).orderBy(*keys))
    numbered = rows.withColumn(COPIES, number.cast("long"))
    return numbered.selectExpr(*table.key_sql, f"{packed} AS {ROW}", COPIES)


def plain_rows(rows: DataFrame, table: SnapshotTable) -> DataFrame:
    """The rows as `unique_rows` gives them, where nobody has to know yet whether a key came twice:
    to number them takes longer than the join."""
    return rows.selectExpr(*table.key_sql, f"{_packed(table)} AS {ROW}", f"1L AS {COPIES}")


def repeated_keys(rows: DataFrame, table: SnapshotTable) -> int:
    """How many keys these rows have more than once. Mostly none: their hashes show that sooner."""
    from pyspark.sql import functions as f

    hashes = rows.groupBy(f.expr(table.hash_sql())).count()
    if hashes.where("count > 1").first() is None:
        return 0
    return rows.groupBy(*table.key_sql).count().where("count > 1").count()


def compare_rows(
    source: DataFrame,
    target: DataFrame,
    missing: DataFrame | None,
    table: SnapshotTable,
    compared: ComparedSnapshot,
) -> DataFrame:
    """Every key whose row, or whose being missing, changes.

    Args:
        source: the snapshot's rows by `unique_rows`.
        target: the table's rows that may have one of the same keys.
        missing: the side table of missing keys (key, `WAS`), or None if it is empty.

    Returns:
        One row per key: the table's columns as they become, `SNAPSHOT`, `KIND` (`ADDED`,
        `CHANGED`, `REMOVED`; ``same`` where the row stays), `WAS`, `SINCE` (since which snapshot it
        was and becomes missing, NULL: not), `COPIES`. Keys that came several times are there
        although they may not change, with as many rows.
    """
    return (
        _decided(source, target, missing, table, compared)
        .selectExpr(
            *_columns(table), SNAPSHOT, KIND, WAS, SINCE, f"coalesce({COPIES}, 1L) AS {COPIES}"
        )
        .where(f"{KIND} <> 'same' OR NOT ({WAS} <=> {SINCE}) OR {COPIES} > 1")
    )


def folded_rows(
    source: DataFrame,
    target: DataFrame,
    missing: DataFrame | None,
    table: SnapshotTable,
    compared: ComparedSnapshot,
) -> DataFrame:
    """The rows as they are afterwards, unchanged ones too: what replaces the target's."""
    return (
        _decided(source, target, missing, table, compared)
        .where(f"{KIND} <> '{REMOVED}'")
        .selectExpr(*_columns(table), SNAPSHOT)
    )


def _decided(
    source: DataFrame,
    target: DataFrame,
    missing: DataFrame | None,
    table: SnapshotTable,
    compared: ComparedSnapshot,
) -> DataFrame:
    """Both sides of every key (`_NEW`, `_OLD`), and what becomes of it: `KIND`, `SNAPSHOT`,
    `SINCE`, and `_TAKEN`, whether the new row is the one that stays."""
    differs = table.differs_sql(_NEW, _OLD)
    one_side = f"{_NEW} IS NULL OR {_OLD} IS NULL"
    kind, snapshot, since, taken = _decision_sql(table, compared)
    return (
        _joined(source, target, missing, table)
        .selectExpr(
            "*",
            f"CASE WHEN {one_side} THEN NULL ELSE ({differs}) END AS {_DIFFERS}",
        )
        .selectExpr("*", f"{kind} AS {KIND}", f"{snapshot} AS {SNAPSHOT}")
        .selectExpr("*", f"{since} AS {SINCE}", f"{taken} AS {_TAKEN}")
    )


def _columns(table: SnapshotTable) -> list[str]:
    """The table's columns, of the row that stays."""
    others = (f"IF({_TAKEN}, {_NEW}.{name}, {_OLD}.{name}) AS {name}" for name in table.others)
    return [*table.key_sql, *others]


def _joined(
    source: DataFrame, target: DataFrame, missing: DataFrame | None, table: SnapshotTable
) -> DataFrame:
    """Per key: `_NEW`, `_OLD` (its other columns; NULL where there is none), `_C`, `WAS`,
    `COPIES`."""
    keys = list(table.key)
    new = source.selectExpr(*table.key_sql, f"{ROW} AS {_NEW}", COPIES)
    old = target.selectExpr(*table.key_sql, f"{_packed(table)} AS {_OLD}", f"{SNAPSHOT} AS {_C}")
    joined = new.join(old, keys, "full_outer")
    if missing is None:
        return joined.selectExpr("*", f"CAST(NULL AS BIGINT) AS {WAS}")
    return joined.join(missing.select(*table.key_sql, WAS), keys, "left")


def _packed(table: SnapshotTable) -> str:
    """All columns but the key's as one, which is never NULL: whether there is a row at all."""
    return f"struct({', '.join(table.others)})" if table.others else "struct(1 AS `1`)"


def _decision_sql(table: SnapshotTable, compared: ComparedSnapshot) -> tuple[str, str, str, str]:
    """SQL of `KIND`, of the snapshot in which the row changed last, of `SINCE` (which may use
    `KIND`), and of whether the row becomes the snapshot's."""
    if compared.next is None:
        return _newest_decision_sql(table, compared.number)
    return _late_decision_sql(table, compared)


def _newest_decision_sql(table: SnapshotTable, number: int) -> tuple[str, str, str, str]:
    gone = "same" if table.missing == "kept" else REMOVED
    kind = (
        f"CASE WHEN {_OLD} IS NULL THEN '{ADDED}' WHEN {_NEW} IS NULL THEN '{gone}' "
        f"WHEN {_DIFFERS} OR {WAS} IS NOT NULL THEN '{CHANGED}' ELSE 'same' END"
    )
    snapshot = f"IF({kind} IN ('{ADDED}', '{CHANGED}'), {number}L, {_C})"
    lacking = f"coalesce({WAS}, {number}L)" if table.missing == "kept" else "CAST(NULL AS BIGINT)"
    since = f"IF({_NEW} IS NULL, {lacking}, CAST(NULL AS BIGINT))"
    return kind, snapshot, since, f"{KIND} IN ('{ADDED}', '{CHANGED}')"


def _late_decision_sql(
    table: SnapshotTable, compared: ComparedSnapshot
) -> tuple[str, str, str, str]:
    k, n = compared.number, f"{compared.next}L"
    # A row of a day that has left the window since is not taken; it takes the key's row along.
    inside = "TRUE"
    if compared.floor is not None and table.day is not None:
        day = table.day_sql("" if table.in_days else f"{_NEW}.")
        inside = f"coalesce({day} >= DATE'{compared.floor}', TRUE)"
    same = f"({_NEW} IS NOT NULL AND NOT {_DIFFERS})"
    # Not seen since before k, and seen again in k with another row, or after k's predecessor too.
    behind = f"({_OLD} IS NOT NULL AND {WAS} IS NOT NULL AND {WAS} <= {n})"
    other = f"({behind} AND {_NEW} IS NOT NULL AND NOT ({WAS} = {n} AND NOT {_DIFFERS}))"
    later = f"({_OLD} IS NOT NULL AND NOT {behind} AND {_C} < {k}L AND NOT {same})"
    earlier = f"({_OLD} IS NOT NULL AND NOT {behind} AND {_C} > {k}L AND {same} AND {_C} = {n})"
    add = f"({_OLD} IS NULL AND {inside})" if table.missing == "kept" else "FALSE"
    kind = (
        f"CASE WHEN {add} THEN '{ADDED}' WHEN {other} THEN IF({inside}, '{CHANGED}', '{REMOVED}') "
        f"WHEN {later} OR {earlier} THEN '{CHANGED}' ELSE 'same' END"
    )
    snapshot = (
        f"CASE WHEN {_OLD} IS NULL OR {other} THEN {k}L WHEN {later} THEN {n} "
        f"WHEN {earlier} THEN {k}L ELSE {_C} END"
    )
    lacks = f"({behind} AND {_NEW} IS NULL AND {WAS} = {n})"
    since = (
        f"CASE WHEN {add} OR ({other} AND {inside}) THEN {n} "
        f"WHEN {other} THEN CAST(NULL AS BIGINT) WHEN {lacks} THEN {k}L ELSE {WAS} END"
    )
    return kind, snapshot, since, f"({_OLD} IS NULL OR {other})"
