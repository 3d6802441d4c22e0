"""Chunks: a window cut into conditions that cover it exactly once."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from pymysql.connections import Connection

from mirrorlake.ledger import Window
from mirrorlake.mysql.connect import quote, rows_of
from mirrorlake.mysql.introspect import Column
from mirrorlake.plan import INTEGERS, TIMES, TablePlan, no_pad
from mirrorlake.windows import condition_of, time_bound


def plan_chunks(
    connection: Connection[Any], plan: TablePlan, window: Window, rows_per_chunk: int
) -> tuple[str, ...]:
    """The window cut into conditions that cover it exactly once, under the server's comparison.

    The first chunk is open below and the last open above, so rows outside the statistics are read
    too. Full tables and live windows are one chunk: one statement is one consistent read. A large
    initial load, and a large reload, is cut by a column of the key: so a load reads a key once,
    whatever happens to its row meanwhile.
    """
    base = condition_of(plan, window)
    pieces = -(-plan.table.estimated_rows // rows_per_chunk)
    column = _split_column(plan)
    if window.kind not in ("initial", "reload") or pieces < 2 or column is None:
        return (base,)
    bounds = _bounds(connection, plan, column, base, pieces)
    ranges = zip([None, *bounds], [*bounds, None], strict=True)
    return tuple(_joined(base, _range(column, lo, hi)) for lo, hi in ranges)


def _split_column(plan: TablePlan) -> Column | None:
    if plan.cursor is not None and plan.cursor.name in plan.key:
        return plan.cursor
    first = plan.table.column(plan.key[0]) if plan.key else None
    return first if first and first.data_type in (*INTEGERS, *TIMES) else None


def _bounds(
    connection: Connection[Any], plan: TablePlan, column: Column, base: str, pieces: int
) -> list[Any]:
    """Inner bounds between the column's lowest and highest value, evenly spaced."""
    name = quote(column.name)
    where = f" WHERE {base}" if base else ""
    whole = f"{quote(plan.table.database)}.{quote(plan.table.name)}"
    sql = f"SELECT MIN({name}), MAX({name}) FROM {whole}{where}"  # noqa: S608
    low, high = rows_of(connection, sql)[0]
    if column.data_type in INTEGERS:
        return _evenly(low, high, pieces)
    if not isinstance(low, date) or not isinstance(high, date):
        return []  # empty, or a zero date, which has no place on a scale
    first, last = _date(low).toordinal(), _date(high).toordinal()
    return [date.fromordinal(day) for day in _evenly(first, last, pieces)]


def _date(value: date) -> date:
    return value.date() if isinstance(value, datetime) else value


def _evenly(low: int | None, high: int | None, pieces: int) -> list[int]:
    """Up to ``pieces - 1`` increasing inner bounds of [low, high].

    >>> _evenly(0, 100, 4)
    [25, 50, 75]
    >>> _evenly(5, 6, 4)
    [6]
    >>> _evenly(None, None, 4)
    []
    """
    if low is None or high is None or high <= low:
        return []
    span = high - low
    return sorted({low + -(-span * i // pieces) for i in range(1, pieces)} - {low})


def _range(column: Column, lo: Any, hi: Any) -> str:
    parts: list[str] = []
    for operator, bound in ((">=", lo), ("<", hi)):
        if bound is None:
            continue
        if isinstance(bound, int):
            parts.append(f"{quote(column.name)} {operator} {bound}")
        elif column.data_type == "timestamp":
            at = datetime.combine(bound, time())
            parts.append(time_bound(column, at, ZoneInfo("UTC"), operator))
        else:
            parts.append(f"{quote(column.name)} {operator} '{bound.isoformat()}'")
    return " AND ".join(parts)


def _joined(*conditions: str) -> str:
    return " AND ".join(f"({c})" for c in conditions if c)


def key_expression(plan: TablePlan) -> str | None:
    """SQL of one binary value per key under the server's collation, or None where texts tell keys
    apart.

    Each text column's weights (padded beyond its longest value's, so that a collation that ignores
    trailing spaces gives equal weights) are hashed apart, then together: joined weights would not
    be injective.

    Source: MySQL 8.0 manual, 12.8 "String Functions", WEIGHT_STRING.
    """
    if not plan.keeps_aliases:
        return None
    parts = [f"SHA2({_key_part(plan, plan.table.column(name))}, 256)" for name in plan.key]
    joined = parts[0] if len(parts) == 1 else f"SHA2(CONCAT({', '.join(parts)}), 256)"
    return f"UNHEX({joined})"


def _key_part(plan: TablePlan, column: Column) -> str:
    """SQL of bytes that are equal exactly where the server calls two values of a key equal."""
    name = quote(column.name)
    if column in plan.collated_key:
        padded = (column.length or 1) * _expansion(column)
        return f"WEIGHT_STRING({name}{'' if no_pad(column) else f' AS CHAR({padded})'})"
    if column.data_type in ("enum", "set", "bit"):
        # ENUM's error prints like a legal '': the number tells them apart.
        return f"{name} + 0"
    if column.data_type in ("float", "double"):
        # The text of a FLOAT is rounded; -0.0 becomes 0.0, which is the same key.
        return f"{name} + 0e0"
    # Bytes, not CHAR: a binary value is no text.
    return f"CAST({name} AS BINARY)"


def _expansion(column: Column) -> int:
    """Into how many weights one character may expand ('ß' into two). Padding to fewer would cut the
    weights of a long key, and make two keys one."""
    collation = column.collation or ""
    return 1 if collation.endswith(("_bin", "_general_ci")) else 8
