"""Which rows are old enough to be compared: what a moving source may still change waits.

A mirror that was folded up to a load holds every row whose cursor is older than that load's moment,
less the settle time. In MySQL those are the rows below the bound. In the lake it is the same, but
for rows that MySQL has moved past the bound since: their keys are asked for, and left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.lake.catalog import as_sql_identifier
from mirrorlake.ledger import Load
from mirrorlake.mysql.connect import quote
from mirrorlake.mysql.introspect import Column, SourceTable
from mirrorlake.proof.ranges import INTEGERS

TIMES = ("date", "datetime", "timestamp")


@dataclass(frozen=True)
class Scope:
    """Conditions of the rows that are compared, '' for all.

    Attributes:
        source, lake: the rows, in each side's SQL.
        newer: in MySQL's SQL, the rows that have moved past the bound; '' where rows don't move.
        settled: in MySQL's SQL, whether a row is old enough, wherever else it lies.
        words: what is compared, for people.
        cursor, below, first: the lake's condition taken apart, where there is one: its column, and
            the bounds as literals (``first`` is '' for none).
    """

    source: str
    lake: str
    newer: str
    settled: str
    words: str
    cursor: str = ""
    below: str = ""
    first: str = ""


ALL = Scope("", "", "", "1", "all rows")
NONE = Scope("1 = 0", "1 = 0", "", "0", "no row: none is old enough yet")


def settled_scope(
    table: SourceTable, contract: TableContract, source: SourceConfig, load: Load
) -> Scope:
    """The rows that a mirror folded up to ``load`` must hold as MySQL has them."""
    if contract.mode == "full" or contract.cursor is None:
        return ALL
    cursor, receipt = table.column(contract.cursor), load.receipt
    if receipt is None:
        return NONE
    if cursor.data_type in INTEGERS:
        if receipt.hi is None:
            return NONE
        return _below(cursor, str(int(receipt.hi) - contract.overlap_keys), "", "", moving=False)
    at = datetime.fromisoformat(receipt.moment).replace(tzinfo=UTC) - contract.settle
    if receipt.oldest_open is not None:
        # What was written in a transaction that was open then, the next load brings.
        began = datetime.fromisoformat(receipt.oldest_open).replace(tzinfo=UTC)
        at = min(at, began - timedelta(minutes=1))
    # A day later: whatever the zone, the first day itself is not judged.
    start = contract.start + timedelta(days=1) if contract.start else None
    bound = _wall(cursor, at, source)
    first = "" if start is None else _moment(cursor, datetime.combine(start, time()))
    return _below(
        cursor,
        _moment(cursor, bound),
        first,
        _lake_type(cursor),
        moving=contract.mode == "incremental",
    )


def _below(cursor: Column, bound: str, first: str, typed: str, *, moving: bool) -> Scope:
    ours, theirs = quote(cursor.name), as_sql_identifier(cursor.name)
    settled = f"{ours} < {bound}"
    # A cursor without a place in its type is a zero date: NULL in the lake, the first in MySQL.
    lake = f"({theirs} < {typed}{bound} OR {theirs} IS NULL)"
    source, words = settled, f"{cursor.name} < {bound}"
    if first:
        source += f" AND {ours} >= {first}"
        lake = f"({theirs} < {typed}{bound} AND {theirs} >= {typed}{first})"
        words = f"{first} <= {words}"
    newer = f"{ours} >= {bound}" if moving else ""
    return Scope(source, lake, newer, settled, words, cursor.name, bound, first)


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
    return {"date": "DATE", "datetime": "TIMESTAMP_NTZ", "timestamp": "TIMESTAMP"}[column.data_type]


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
            ours, theirs = quote(column.name), as_sql_identifier(column.name)
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
