"""Which rows a check compares by digests, which by their keys, and which must wait.

A mirror that was folded up to a load holds every row whose cursor is older than that load's moment,
less the settle time. What MySQL wrote later may not be in the lake yet: such rows wait, and are
counted. Every row of the lake is checked, wherever its cursor lies: a row that MySQL has no more is
extra, however new it looks. Where MySQL has not changed the table since the load, nothing waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from mirrorlake.config.contract import TableContract
from mirrorlake.config.server import SourceConfig
from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.errors import ConfigError
from mirrorlake.ledger.records import Load, Receipt
from mirrorlake.proof.ranges.ranges import INTEGERS
from mirrorlake.sources.mysql.tables import Column, SourceTable

TIMES = ("date", "datetime", "timestamp")
_IN_FLIGHT = timedelta(seconds=5)
"""Rows stamped just before a load may have been committed just after it."""
_LOWEST = str(-(2**63) - 1)
"""Below every integer."""


@dataclass(frozen=True)
class Scope:
    """Conditions in each side's SQL, '' for all rows (in ``newer``, ``beside``, ``later``: none).

    Attributes:
        source, lake: the rows that digests compare.
        newer: in MySQL, rows that have moved past the bound: the lake may hold them with any
            cursor, so their keys are left out there.
        settled: in MySQL, whether a row is old enough that the mirror must hold it as it is.
        words: what is compared, for people.
        cursor, below, first, until: the cursor's column, and bounds as literals, '' for none: rows
            below ``below`` are settled; the lake's rows from ``first`` to below ``until`` are
            compared by digests.
        beside: in the lake, the other rows: each is looked up in MySQL by its key.
        later: in MySQL, rows that need not be in the lake yet, where these are only counted.
        still: MySQL has not changed the table since the newest load: no row waits.
    """

    source: str
    lake: str
    newer: str
    settled: str
    words: str
    cursor: str = ""
    below: str = ""
    first: str = ""
    until: str = ""
    beside: str = ""
    later: str = ""
    still: bool = False


ALL = Scope("", "", "", "1", "all rows")
UNKNOWN = Scope("", "", "", "0", "all rows: what the newest load saw is not known")
"""Equal is equal all the same; nothing else can be decided, but for rows that MySQL has no more."""


@dataclass(frozen=True)
class _Bounds:
    """Literals of the cursor: below ``settled`` rows are old enough, below ``read`` the newest load
    has read what was committed by then."""

    settled: str
    read: str


def settled_scope(
    table: SourceTable,
    contract: TableContract,
    source: SourceConfig,
    load: Load,
    *,
    still: bool,
) -> Scope:
    """What a check of a mirror that was folded up to ``load`` compares.

    Args:
        still: whether MySQL has surely not changed the table since that load began to read.
    """
    if contract.copies or contract.cursor is None:
        return ALL
    cursor, receipt = table.column(contract.cursor), load.receipt
    if receipt is None:
        return UNKNOWN
    if cursor.data_type in INTEGERS:
        if receipt.hi is None:
            return _nothing_read(cursor)
        hi = int(receipt.hi)
        bounds = _Bounds(str(hi - contract.overlap_keys), str(hi + 1))
        return _scope(cursor, contract, bounds, "", still=still)
    bounds = _time_bounds(cursor, contract, source, receipt)
    first = _moment(cursor, datetime.combine(contract.start, time())) if contract.start else ""
    return _scope(cursor, contract, bounds, first, still=still)


def _time_bounds(
    cursor: Column, contract: TableContract, source: SourceConfig, receipt: Receipt
) -> _Bounds:
    moment = datetime.fromisoformat(receipt.moment).replace(tzinfo=UTC)
    at = moment - contract.settle
    if receipt.oldest_open is not None:
        # What was written in a transaction that was open then, the next load brings.
        began = datetime.fromisoformat(receipt.oldest_open).replace(tzinfo=UTC)
        at = min(at, began - timedelta(minutes=1))
    read = max(at, moment - _IN_FLIGHT)
    return _Bounds(*(_moment(cursor, _wall(cursor, when, source)) for when in (at, read)))


def _nothing_read(cursor: Column) -> Scope:
    """The newest load found an empty table: whatever the lake holds is looked up by its key."""
    lake, beside = _lake_sides(cursor, "", _LOWEST)
    return Scope(
        *("1 = 0", lake, "", "0", "no row: the newest load found none"),
        cursor=cursor.name,
        until=_LOWEST,
        beside=beside,
        later="1 = 1",
    )


def _scope(
    cursor: Column, contract: TableContract, bounds: _Bounds, first: str, *, still: bool
) -> Scope:
    ours = cursor.sql
    moving = contract.rereads
    until = bounds.settled
    if not moving and contract.key:
        # Rows of an append table stay as they are: what was read can be compared at once.
        until = bounds.read
    high = "" if still else until
    # Where rows move, the lake may hold one of them with any cursor: it is left out by its key.
    of_lake = "" if moving else high
    later = f"{ours} >= {high}" if high else ""
    source = " AND ".join(
        [*([f"{ours} < {high}"] if high else []), *([f"{ours} >= {first}"] if first else [])]
    )
    words = f"{cursor.name} < {high}" if high else "all rows: MySQL is as the newest load found it"
    if first:
        words = f"{first} <= {words}" if high else f"{first} <= {cursor.name}: {words}"
    lake, beside = _lake_sides(cursor, first, of_lake)
    return Scope(
        source=source,
        lake=lake,
        newer=later if moving else "",
        settled=f"{ours} < {bounds.settled}",
        words=words,
        cursor=cursor.name,
        below=bounds.settled,
        first=first,
        until=of_lake,
        beside=beside,
        later="" if moving else later,
        still=still,
    )


def _lake_sides(cursor: Column, first: str, until: str) -> tuple[str, str]:
    """The lake's rows from one bound to below the other, and all others; '' for all, and none."""
    name, typed = as_sql_identifier(cursor.name), _lake_type(cursor)
    inside = [f"{name} < {typed}{until}"] if until else []
    beside = [f"{name} >= {typed}{until}"] if until else []
    if first:
        inside.append(f"{name} >= {typed}{first}")
        beside += [f"{name} < {typed}{first}", f"{name} IS NULL"]
    chosen = " AND ".join(inside)
    if until and not first:
        # A cursor without a place in its type is a zero date: NULL in the lake, the first in MySQL.
        chosen += f" OR {name} IS NULL"
    return (f"({chosen})" if chosen else ""), (f"({' OR '.join(beside)})" if beside else "")


def _wall(cursor: Column, at: datetime, source: SourceConfig) -> datetime:
    """The wall clock that no row written at ``at`` or later is stamped below.

    Where clocks are turned back within the day that follows, they pass through the same hour twice:
    what is stamped in it may have been written after ``at``, so it waits.
    """
    if cursor.data_type == "timestamp":
        return at.replace(tzinfo=None)
    walls = (moment.astimezone(source.zone) for moment in (at, at + timedelta(days=1)))
    offset = min(wall.utcoffset() or timedelta(0) for wall in walls)
    return at.replace(tzinfo=None) + offset


def _moment(column: Column, at: datetime) -> str:
    """A moment as both sides' literal; Spark's needs its type before it."""
    return f"'{at.date()}'" if column.data_type == "date" else f"'{at.isoformat(sep=' ')}'"


def _lake_type(column: Column) -> str:
    """Spark's word before a literal of this type; its session is in UTC, as MySQL's is."""
    types = {"date": "DATE", "datetime": "TIMESTAMP_NTZ", "timestamp": "TIMESTAMP"}
    return types.get(column.data_type, "")


def day_condition(table: SourceTable, contract: TableContract, day: date) -> tuple[str, str]:
    """The rows of a raw day, in each side's SQL.

    Raises:
        ConfigError: no column of the table tells a row's day.
    """
    for name in (contract.cursor, contract.created):
        column = table.column(name) if name else None
        if column is not None and column.data_type in TIMES:
            low = _moment(column, datetime.combine(day, time()))
            high = _moment(column, datetime.combine(day + timedelta(days=1), time()))
            ours, theirs = column.sql, as_sql_identifier(column.name)
            typed = _lake_type(column)
            return (
                f"{ours} >= {low} AND {ours} < {high}",
                f"{theirs} >= {typed}{low} AND {theirs} < {typed}{high}",
            )
    raise ConfigError(
        f"table {contract.name}: no column tells a row's day, so no partition can be checked",
        table=contract.name,
        next_step="Check it with --full, or name a time column as `cursor` or `created`",
    )


def both(*conditions: str) -> str:
    """Conditions that all hold, '' for none."""
    return " AND ".join(f"({c})" for c in conditions if c)
