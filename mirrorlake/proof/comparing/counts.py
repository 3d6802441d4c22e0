"""Rows counted on both sides, per day and in all: cheap, and no proof, since a row too few and one
too many of a day cancel out.

Rows that are old enough must be as many on both sides. Of newer ones the lake may lack some, which
wait; it may not have more than MySQL. Nor may it have more from before the contract's ``start``,
where MySQL has rows that were never to be mirrored. The lake's rows are counted without Spark, one
data file in memory at a time. Only where MySQL has moved rows on, and the key is no single
whole number, does Spark count them, leaving these out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
from pymysql.connections import Connection

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.metadata.row_counts import count_shown
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.tables.integrity import damage_errors
from mirrorlake.errors import ProofError
from mirrorlake.proof.comparing.compare import leaving_out
from mirrorlake.proof.comparing.resolve import read_mirror, resolve_target
from mirrorlake.proof.forms.canonical import DELETED_AT
from mirrorlake.proof.forms.rows import Key
from mirrorlake.proof.ranges.ranges import INTEGERS, Verdict
from mirrorlake.proof.ranges.scope import TIMES, both
from mirrorlake.proof.ranges.target import Target
from mirrorlake.proof.sides.local_side import within_cursor
from mirrorlake.proof.sides.mysql_side import SourceSide, one_state, text_of
from mirrorlake.proof.sides.spark_side import LakeSide
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.sources.mysql.tables import Column
from mirrorlake.workspace import Workspace

pc: Any = _compute  # its functions are made at import: type checkers see none of them
NO_DAY = "none"
"""The day of rows that have none: a zero date, or a table without a column that has it."""
DayCounts = Mapping[str, tuple[int, int]]
"""By day, rows in MySQL and rows in the lake."""


@dataclass(frozen=True)
class Counts:
    """Rows older than settle, by the day of their cursor (or of ``created``), on both sides.

    Attributes:
        compared: which rows, as a condition. Of a full copy: those that it read, whatever MySQL
            holds by now.
        verdict: different where a day's rows differ; rows that MySQL deleted are no difference
            where the contract ignores them. Undecided where there are rows in MySQL, and none that
            could be counted.
        source_rows, lake_rows: in all.
        lost: rows that days of MySQL have more than the lake's.
        surplus: rows that days of the lake have more than MySQL's: deleted there, or moved.
        waiting: rows of MySQL that are not counted: written so lately that the lake need not have
            them yet.
        days: of days that differ.
        counted: of every day that has a row on either side.
        waiting_days: ``waiting`` by day.
        dated: whether the table has a column that tells a row's day; else all rows are counted
            under none.
    """

    table: str
    compared: str
    verdict: Verdict
    source_rows: int
    lake_rows: int
    lost: int
    surplus: int
    waiting: int
    days: DayCounts
    counted: DayCounts
    waiting_days: Mapping[str, int] = field(default_factory=dict[str, int])
    dated: bool = True


def count_rows(workspace: Workspace, contract: TableContract) -> Counts:
    """Count both sides.

    With N the keys that MySQL holds at or past the bound, the rows that MySQL has before it are
    counted, and the rows before it in the lake whose key is not in N: an update that moves a row
    to another day is no loss.

    Raises:
        MirrorlakeError: see `resolve_target`, and what either side may raise.
    """
    with damage_errors(workspace.lake, workspace.ledger, contract):
        return _count_rows(workspace, contract)


def _count_rows(workspace: Workspace, contract: TableContract) -> Counts:
    if contract.copies:
        return _count_copy(workspace, contract)
    source = workspace.config.sources[contract.source]
    with session(source, contract.database) as connection:
        target = resolve_target(workspace, contract, connection)
        scope = target.scope
        known = scope.settled != "0" or bool(scope.cursor)
        ours = _count_source(connection, target)
        theirs = _count_lake(workspace, target, None)
        before = _count_before(connection, target) if theirs.before else {}
    if ours.moved and (theirs.settled != ours.settled or _surplus_of(theirs.newer, ours.newer)):
        theirs = _count_without(workspace, target, ours.moved, theirs)
    sides = _Sides(dict(ours.settled), dict(theirs.settled))
    waiting = sides.add_newer(ours.newer, theirs.newer)
    sides.add_before(before, theirs.before)
    counts = _counts(contract, scope.words, sides.source, sides.lake, waiting)
    counts = replace(counts, dated=_day_column(target) is not None)
    nothing = counts.waiting > 0 and not counts.source_rows and not counts.lake_rows
    if nothing or (not known and counts.verdict == "different"):
        return replace(counts, verdict="undecided")
    return counts


@dataclass(frozen=True)
class _Side:
    """One side's rows by day: those that are old enough, those that are newer, and those from
    before the contract's ``start``. ``moved``: MySQL's keys past the bound, where rows move."""

    settled: Mapping[str, int]
    newer: Mapping[str, int]
    before: Mapping[str, int] = field(default_factory=dict[str, int])
    moved: list[Key] = field(default_factory=list[Key])


@dataclass(frozen=True)
class _Sides:
    """Rows that are held against each other, by day."""

    source: dict[str, int]
    lake: dict[str, int]

    def add_newer(self, ours: Mapping[str, int], theirs: Mapping[str, int]) -> dict[str, int]:
        """Count what both sides have of newer rows, and what the lake has more; by day, how many
        of MySQL's rows wait."""
        for day, rows in theirs.items():
            self._add(day, min(rows, ours.get(day, 0)), rows)
        return {
            day: rows - theirs.get(day, 0)
            for day, rows in ours.items()
            if rows > theirs.get(day, 0)
        }

    def add_before(self, ours: Mapping[str, int], theirs: Mapping[str, int]) -> None:
        """The same of rows from before ``start``: of those MySQL may have more."""
        for day, rows in theirs.items():
            self._add(day, min(rows, ours.get(day, 0)), rows)

    def _add(self, day: str, source: int, lake: int) -> None:
        self.source[day] = self.source.get(day, 0) + source
        self.lake[day] = self.lake.get(day, 0) + lake


def _surplus_of(theirs: Mapping[str, int], ours: Mapping[str, int]) -> bool:
    """Whether the lake has more rows of a day."""
    return any(rows > ours.get(day, 0) for day, rows in theirs.items())


def _counts(
    contract: TableContract,
    compared: str,
    ours: Mapping[str, int],
    theirs: Mapping[str, int],
    waiting: Mapping[str, int],
) -> Counts:
    days = {day: (ours.get(day, 0), theirs.get(day, 0)) for day in sorted({*ours, *theirs})}
    differ = {day: sides for day, sides in days.items() if len(set(sides)) > 1}
    lost = sum(max(0, a - b) for a, b in differ.values())
    surplus = sum(max(0, b - a) for a, b in differ.values())
    ignored = contract.deletes == "ignore"
    return Counts(
        table=contract.name,
        compared=compared,
        verdict="different" if lost or (surplus and not ignored) else "equal",
        source_rows=sum(ours.values()),
        lake_rows=sum(theirs.values()),
        lost=lost,
        surplus=surplus,
        waiting=sum(waiting.values()),
        days=differ,
        counted=days,
        waiting_days=waiting,
    )


def _count_copy(workspace: Workspace, contract: TableContract) -> Counts:
    """What the newest copy read, against deduped: MySQL may have changed every row since."""
    mirror, table = read_mirror(workspace, contract)
    if mirror.load.receipt is None:
        raise ProofError(
            f"table {contract.name}: what its newest copy read is not known: the ledger was lost",
            table=contract.name,
            next_step="Sync it: a new copy records it",
        )
    with workspace.lake.translated(contract.name):
        held = count_shown(table)
    read = {NO_DAY: mirror.load.receipt.rows}
    return _counts(contract, "the newest copy", read, {NO_DAY: held}, {})


def _day_column(target: Target) -> Column | None:
    for name in (target.contract.cursor, target.contract.created):
        column = target.table.column(name) if name else None
        if column is not None and column.data_type in TIMES:
            return column
    return None


# --- MySQL ----------------------------------------------------------------------------------------


def _bounds(target: Target) -> tuple[str, str]:
    """The cursor's bounds in MySQL's SQL: of rows that are newer, and from before ``start``."""
    scope = target.scope
    if not scope.cursor:
        return "", ""
    name = target.table.column(scope.cursor).sql
    newer = "" if scope.still else f"{name} >= {scope.below}" if scope.below else "1 = 1"
    return newer, f"{name} < {scope.first}" if scope.first else ""


def _count_source(connection: Connection[Any], target: Target) -> _Side:
    newer, before = _bounds(target)
    settled = both(f"NOT ({newer})" if newer else "", f"NOT ({before})" if before else "")
    side = SourceSide(target.table, target.rows, target.key, "")
    with reading(target.source), one_state(connection):
        moved: list[Key] = []
        if newer and target.scope.newer and target.key:
            moved = side.read_keys(connection, side.keys_sql(newer))
        found = _by_day(connection, target, settled)
        return _Side(found, _by_day(connection, target, newer) if newer else {}, {}, moved)


def _count_before(connection: Connection[Any], target: Target) -> dict[str, int]:
    with reading(target.source):
        return _by_day(connection, target, _bounds(target)[1])


def _by_day(connection: Connection[Any], target: Target, condition: str) -> dict[str, int]:
    column = _day_column(target)
    side = SourceSide(target.table, target.rows, target.key, condition)
    day = f"CAST(DATE({column.sql}) AS CHAR)" if column else "NULL"
    where = f" WHERE {condition}" if condition else ""
    statement = f"SELECT {day}, COUNT(*) FROM {side.name}{where} GROUP BY 1"  # noqa: S608
    counts: Counter[str] = Counter()
    for cell, rows in rows_of(connection, statement):
        counts[_day(cell)] += int(rows)
    return dict(counts)


def _day(cell: Any) -> str:
    """A day of the calendar; what has none in the lake has none here."""
    text = NO_DAY if cell is None else text_of(cell)
    return NO_DAY if text.startswith("0000") or "-00" in text else text


# --- the lake -------------------------------------------------------------------------------------


def _count_lake(workspace: Workspace, target: Target, without: tuple[int, ...] | None) -> _Side:
    """Rows by day. Without those whose key, one whole number, is among some, the newer ones count
    as all others: MySQL has them no more."""
    day, scope = _day_column(target), target.scope
    key = "" if without is None else target.key[0].name
    flag = DELETED_AT if target.flags else ""
    wanted = dict.fromkeys(n for n in (day.name if day else "", scope.cursor, key, flag) if n)
    table = workspace.lake.load(target.mirror.identifier)
    found = (Counter[str](), Counter[str](), Counter[str]())
    if table is None or table.current_snapshot() is None:
        return _Side({}, {})
    columns = tuple(wanted) or (table.schema().fields[0].name,)
    for batch in read_batches(workspace.lake, table, columns):
        rows = pa.Table.from_batches([batch])
        if flag:
            rows = rows.filter(pc.is_null(rows.column(flag)))
        if key:
            column = rows.column(key)
            rows = rows.filter(pc.invert(pc.is_in(column, pa.array(without, column.type))))
        for counts, some in zip(found, _parts(target, rows, gone=key != ""), strict=True):
            _add_days(counts, some, day)
    settled, newer, before = map(dict, found)
    return _Side(settled, newer, before)


def _parts(target: Target, rows: Any, *, gone: bool) -> tuple[Any, Any, Any]:
    """Rows that are old enough, newer, and from before ``start``."""
    scope = target.scope
    none = rows.schema.empty_table()
    if not scope.cursor:
        return rows, none, none
    cursor = rows.column(scope.cursor)
    since = within_cursor(cursor, scope.first, "")
    before = rows.filter(pc.invert(since))
    if scope.still or gone:
        return rows.filter(since), none, before
    if not scope.below:
        return none, rows.filter(since), before
    settled = within_cursor(cursor, scope.first, scope.below)
    return rows.filter(settled), rows.filter(pc.and_not(since, settled)), before


def _add_days(counts: Counter[str], rows: Any, day: Column | None) -> None:
    if day is None:
        counts.update({NO_DAY: rows.num_rows} if rows.num_rows else {})
        return
    for one in pc.value_counts(rows.column(day.name).cast(pa.date32())).to_pylist():
        value: date | None = one["values"]
        counts[NO_DAY if value is None else value.isoformat()] += int(one["counts"])


def _count_without(workspace: Workspace, target: Target, moved: list[Key], all_: _Side) -> _Side:
    """Rows by day without those that MySQL has moved past the bound, wherever the lake has them:
    MySQL has none of the others past the bound."""
    if len(target.key) == 1 and target.key[0].data_type in INTEGERS:
        keys = tuple(int(key[0]) for key in moved)
        return replace(_count_lake(workspace, target, keys), before=all_.before)
    with spark_errors(target.name):
        counted = _count_by_spark(workspace.spark.get(), target, moved)
        return _Side(counted, {}, before=all_.before)


def _count_by_spark(spark: Any, target: Target, newer: list[Key]) -> dict[str, int]:
    mirror, scope = target.mirror, target.scope
    source = SourceSide(target.table, target.rows, target.key, "")
    side = LakeSide(
        mirror.identifier,
        mirror.snapshot,
        target.rows,
        source.key_forms,
        both(scope.lake),
        flags=target.flags,
    )
    column = _day_column(target)
    name = f"CAST(CAST({as_sql_identifier(column.name)} AS DATE) AS STRING)" if column else "NULL"
    with leaving_out(spark, newer) as without:
        statement = side.counts_sql(f"coalesce({name}, '{NO_DAY}')", without)
        return {str(day): int(rows) for day, rows in spark.sql(statement).collect()}
