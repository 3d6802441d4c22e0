"""Chunks: a window cut into conditions that cover it exactly once, under the server's comparison.

Bounds are half-open, and every bound is written twice, in the chunk that it ends and in the chunk
that it begins, as one literal in the column's own charset and collation: whatever order the server
has, a row is on one side. Numbers, dates and bytes are cut by halving, where the index says how
many rows lie between (EXPLAIN looks into it, and reads no row). Texts have no middle that Python
could know: there, and where many rows share a value, the index is walked in steps of
a fixed number of entries. Nothing is ever read by OFFSET, and what can't be cut by an index is read
in one stream.

Source: MySQL 8.0 manual, 8.2.1.2 "Range Optimization", 10.3.8 "Character Set Introducers".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

from pymysql.connections import Connection

from mirrorlake.ledger import Window
from mirrorlake.load.chunks.pieces import Piece, merge_pieces
from mirrorlake.load.chunks.statements import Equality
from mirrorlake.schema.own_columns import KEY, TOKEN
from mirrorlake.sources.mysql.reading.reader import BATCH_ROWS
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import Column, quote
from mirrorlake.sources.mysql.types.collations import is_collated, text_identity
from mirrorlake.sources.mysql.types.registry import HUGE, INTEGERS, LABELS, LARGE, PRINTED, TEXTS
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.windows import condition_of

logger = logging.getLogger(__name__)

Bound: TypeAlias = tuple[str, ...]
"""SQL literals, one for each of the first columns of the index."""

# Beyond that, chunks get longer instead of more.
_MOST_CHUNKS = 4_096
_PRINTED = ("date", "datetime", "decimal", *PRINTED)


@dataclass(frozen=True)
class _Cut:
    """What a table is cut by: the first columns of an index, all of types with sure literals."""

    table: str
    index: str
    columns: tuple[Column, ...]

    @property
    def source(self) -> str:
        return f"{self.table} FORCE INDEX ({quote(self.index)})"


def plan_chunks(
    connection: Connection[Any], plan: ResolvedTable, window: Window, rows_per_chunk: int
) -> tuple[str, ...]:
    """The window cut into conditions that cover it exactly once, under the server's comparison.

    The first chunk is open below and the last open above. Full tables and live windows are one
    chunk: one statement is one consistent read. A large initial load, and a large reload, is cut
    by columns of the key: so a load reads a key once, whatever happens to its row meanwhile. Why a
    large one is not cut is in the log.

    Raises:
        SourceError: the server was lost or refused.
    """
    base = condition_of(plan, window)
    if window.kind not in ("initial", "reload") or plan.table.estimated_rows <= rows_per_chunk:
        return (base,)
    cut = _cut_of(plan)
    if cut is None:
        return _one_stream(plan, base, "no index of its key begins with a column of a sure order")
    cursor = plan.cursor.name if plan.cursor else None
    rows = _estimate(connection, cut, base) if base else plan.table.estimated_rows
    if rows <= rows_per_chunk:
        return (base,)
    if cut.columns[0].name != cursor and base and rows * 4 < plan.table.estimated_rows:
        # Each chunk by key would look at all rows of the window, or at the whole table.
        return _one_stream(plan, base, "the window is a small part, and the key is not its cursor")
    step = max(rows_per_chunk, rows // _MOST_CHUNKS)
    within = base if cut.columns[0].name == cursor else ""
    bounds = _bounds(connection, cut, within, step, rows)
    return tuple(_joined(base, condition) for condition in _conditions(cut.columns, bounds))


def key_ranges(connection: Connection[Any], plan: ResolvedTable, rows: int) -> tuple[str, ...]:
    """Conditions of ranges of the primary key that cover the table exactly once, in its order, of
    about so many rows each; none where it has fewer, or no sure scale.

    Raises:
        SourceError: the server was lost or refused.
    """
    cut, there = _cut_of(plan), plan.table.estimated_rows
    if cut is None or cut.index != "PRIMARY" or there <= rows:
        return ()
    cut = _Cut(cut.table, cut.index, cut.columns[:1])
    if _scale(connection, cut, "") is None:
        return ()  # to find bounds would be to read the index
    bounds = _bounds(connection, cut, "", rows, there)
    return tuple(_conditions(cut.columns, bounds)) if bounds else ()


def _one_stream(plan: ResolvedTable, base: str, reason: str) -> tuple[str, ...]:
    logger.info("table %s is read in one stream: %s", plan.name, reason)
    return (base,)


def _cut_of(plan: ResolvedTable) -> _Cut | None:
    """The index of the key that is cut by: one that begins with the cursor, else the primary one.

    Only columns of the key: an update moves no row from one chunk into another.
    """
    key = {name.lower() for name in plan.key}
    cursor = plan.cursor.name.lower() if plan.cursor else ""
    found: list[tuple[bool, bool, int, _Cut]] = []
    for index in plan.table.indexes:
        columns: list[Column] = []
        for name in index.ranges:
            column = plan.table.column(name)
            if name.lower() not in key or _literal(column) is None:
                break
            columns.append(column)
        if columns:
            table = f"{quote(plan.table.database)}.{quote(plan.table.name)}"
            cut = _Cut(table, index.name, tuple(columns))
            by_cursor = columns[0].name.lower() == cursor
            found.append((not by_cursor, index.name != "PRIMARY", -len(columns), cut))
    return min(found, key=lambda f: f[:3])[3] if found else None


def _literal(column: Column) -> str | None:
    """SQL whose text is a literal of the column's value, read alike by every session; None for
    types without one (an ENUM is ordered by number and compared by text).

    TIMESTAMP has none: its text depends on the session's zone.
    """
    name, kind = column.sql, column.data_type
    if kind in (*INTEGERS, "year"):
        return f"CAST({name} AS CHAR)"
    if kind in ("binary", "varbinary"):
        return f"CONCAT('x''', HEX({name}), '''')"
    if kind in TEXTS and column.charset and column.collation:
        before, after = f"_{column.charset} x''", f"'' COLLATE {column.collation}"
        return f"CONCAT('{before}', HEX({name}), '{after}')"
    if kind in _PRINTED:
        return f"CONCAT('''', CAST({name} AS CHAR), '''')"
    return None


# --- bounds ---------------------------------------------------------------------------------------


def _bounds(
    connection: Connection[Any], cut: _Cut, within: str, step: int, rows: int
) -> list[Bound]:
    """Inner bounds, increasing under the server's comparison, about ``step`` rows apart.

    Args:
        rows: how many the server expects in all.
    """
    scale = _scale(connection, cut, within)
    if scale is None:
        return _walk(connection, cut, None, None, step)
    low, high, literal = scale
    bounds: list[Bound] = []
    pieces = merge_pieces(_halved(connection, cut, scale, (low, high + 1), step), rows, step)
    for number, (start, end, expected) in enumerate(pieces):
        if number:
            bounds.append((literal(start),))
        if expected > 2 * step:
            # One value, or one day: as far as halving goes. The columns after it tell rows apart.
            upper = (literal(end),) if number + 1 < len(pieces) else None
            lower = (literal(start),) if number else None
            bounds += _walk(connection, cut, lower, upper, step)
    return bounds


_Scale: TypeAlias = tuple[int, int, Callable[[int], str]]


def _scale(connection: Connection[Any], cut: _Cut, within: str) -> _Scale | None:
    """The first column's lowest and highest value as whole numbers, and a number's literal; None
    where values have no such scale."""
    column = cut.columns[0]
    name = column.sql
    where = f" WHERE {within}" if within else ""
    sql = f"SELECT MIN({name}), MAX({name}) FROM {cut.source}{where}"  # noqa: S608
    if column.data_type in INTEGERS:
        low, high = rows_of(connection, sql)[0]
        return None if low is None else (int(low), int(high), str)
    if column.data_type in ("date", "datetime"):
        low, high = rows_of(connection, sql)[0]
        if not isinstance(low, date) or not isinstance(high, date):
            return None  # empty, or a zero date, which has no place on a scale
        first, last = (d.date() if isinstance(d, datetime) else d for d in (low, high))
        return first.toordinal(), last.toordinal(), _day_literal
    if column.data_type == "binary" and (column.length or 0) >= _LANE:
        low, high = rows_of(connection, sql)[0]
        return None if low is None else (_lane(low), _lane(high), _lane_literal)
    return None


_LANE = 8


def _lane(value: bytes) -> int:
    return int.from_bytes(value[:_LANE], "big")


def _lane_literal(number: int) -> str:
    return f"x'{number:0{2 * _LANE}x}'"


def _day_literal(number: int) -> str:
    return f"'{date.fromordinal(number).isoformat()}'"


def _halved(
    connection: Connection[Any], cut: _Cut, scale: _Scale, span: tuple[int, int], step: int
) -> list[Piece]:
    """The span as pieces (start, end, estimated rows) of about ``step`` rows, or of one value.

    Neighbours that are small together are one piece: a sparse key costs no chunks.
    """
    literal, column = scale[2], cut.columns[0]
    first, last = span
    pieces: list[Piece] = []
    waiting = [span]
    while waiting:
        start, end = waiting.pop()
        # The first piece is open below and the last above, as their chunks will be.
        lower = (literal(start),) if start > first else None
        upper = (literal(end),) if end < last else None
        rows = _estimate(connection, cut, _range((column,), lower, upper))
        if rows > step and end - start > 1:
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
        elif pieces and pieces[-1][2] + rows <= step:
            before = pieces.pop()
            pieces.append((before[0], end, before[2] + rows))
        else:
            pieces.append((start, end, rows))
    return pieces


def _estimate(connection: Connection[Any], cut: _Cut, where: str) -> int:
    """How many rows the server expects there: it looks into the index, and reads none."""
    condition = f" WHERE {where}" if where else ""
    source = cut.source if where else cut.table
    with connection.cursor() as cursor:
        explained = f"EXPLAIN FORMAT=TRADITIONAL SELECT 1 FROM {source}{condition}"  # noqa: S608
        found = rows_of(connection, explained, cursor=cursor)
        names = [str(column[0]).lower() for column in cursor.description or ()]
    # Named, for a server may be set to another format; one that says no number gets one stream.
    return int(found[0][names.index("rows")] or 0) if found and "rows" in names else 0


def _walk(
    connection: Connection[Any], cut: _Cut, lower: Bound | None, upper: Bound | None, step: int
) -> list[Bound]:
    """Bounds between ``lower`` and ``upper`` by going along the index, ``step`` entries at a time.

    Values that repeat past a whole step are one piece: the next value after them is the bound."""
    literals = ", ".join(str(_literal(c)) for c in cut.columns)
    order = ", ".join(c.sql for c in cut.columns)
    bounds: list[Bound] = []
    at = lower
    while True:
        moved = f"({_after(cut.columns, at)})" if at else "1"
        select = f"SELECT {literals}, {moved} FROM {cut.source}"  # noqa: S608

        def next_row(condition: str, skip: int, select: str = select) -> tuple[Any, ...] | None:
            where = f" WHERE {condition}" if condition else ""
            sql = f"{select}{where} ORDER BY {order} LIMIT {skip}, 1"
            found = rows_of(connection, sql)
            return found[0] if found else None

        row = next_row(_range(cut.columns, at, upper), step)
        if row is not None and not row[-1] and at is not None:
            row = next_row(_joined(_after(cut.columns, at), _range(cut.columns, None, upper)), 0)
        if row is None:
            return bounds
        at = tuple(_text(literal) for literal in row[:-1])
        bounds.append(at)


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


# --- conditions -----------------------------------------------------------------------------------


def _conditions(columns: Sequence[Column], bounds: Sequence[Bound]) -> list[str]:
    """One condition a chunk: everything below the first bound, between each two, and above."""
    ends = zip([None, *bounds], [*bounds, None], strict=True)
    return [_range(columns, lower, upper) for lower, upper in ends]


def _range(columns: Sequence[Column], lower: Bound | None, upper: Bound | None) -> str:
    """``lower`` ≤ the columns < ``upper``, row by row, in a form that an index serves."""
    parts = [
        _compared(columns, lower, ">", ">=") if lower else "",
        _compared(columns, upper, "<", "<") if upper else "",
    ]
    return _joined(*parts)


def _after(columns: Sequence[Column], bound: Bound) -> str:
    return _compared(columns, bound, ">", ">")


def _compared(columns: Sequence[Column], bound: Bound, strictly: str, at_last: str) -> str:
    """(a, b) > (1, 2) as a > 1 OR (a = 1 AND b > 2), and beside it a >= 1 for the index. A bound
    may be of the first columns alone."""
    names = [c.sql for c in columns[: len(bound)]]
    condition = f"{names[-1]} {at_last} {bound[-1]}"
    for name, literal in reversed(list(zip(names[:-1], bound[:-1], strict=True))):
        condition = f"{name} {strictly} {literal} OR ({name} = {literal} AND ({condition}))"
    if len(bound) == 1:
        return condition
    return f"{names[0]} {strictly}= {bound[0]} AND ({condition})"


def _joined(*conditions: str) -> str:
    return " AND ".join(f"({c})" for c in conditions if c)


def equality_columns(plan: ResolvedTable) -> tuple[Equality, ...]:
    """Columns of raw by which the server's own equality is kept."""
    found: list[Equality] = []
    if (key := key_expression(plan)) is not None:
        found.append(Equality(KEY, plan.key, key))
    if plan.entity is not None:
        token = plan.entity.token
        found.append(Equality(TOKEN, (token.name,), f"UNHEX(SHA2({_key_part(token)}, 256))"))
    return tuple(found)


def key_expression(plan: ResolvedTable) -> str | None:
    """SQL of one binary value per key under the server's collation, or None where texts tell keys
    apart.

    Each column's bytes are hashed apart, then together: joined, they would not be injective.
    """
    if not plan.keeps_aliases:
        return None
    parts = [f"SHA2({_key_part(plan.table.column(name))}, 256)" for name in plan.key]
    joined = parts[0] if len(parts) == 1 else f"SHA2(CONCAT({', '.join(parts)}), 256)"
    return f"UNHEX({joined})"


def _key_part(column: Column) -> str:
    """SQL of bytes that are equal exactly where the server calls two values of a key equal."""
    name = column.sql
    if is_collated(column):
        return text_identity(column)
    if column.data_type in (*LABELS, "bit"):
        # ENUM's error prints like a legal '': the number tells them apart.
        return f"{name} + 0"
    if column.data_type in ("float", "double"):
        # The text of a FLOAT is rounded; -0.0 becomes 0.0, which is the same key.
        return f"{name} + 0e0"
    # Bytes, not CHAR: a binary value is no text.
    return f"CAST({name} AS BINARY)"


# --- what is held at once -------------------------------------------------------------------------

_MANY_ROWS = 10_000


def batch_rows(plan: ResolvedTable) -> int:
    """How many rows the reader may hold at once, by their types alone: few where one may have
    megabytes."""
    kinds = {column.data_type for column in plan.table.columns}
    if kinds & HUGE:
        return 64
    return 1_024 if kinds & LARGE else BATCH_ROWS


def widest_columns(plan: ResolvedTable, window: Window | None) -> tuple[str, ...]:
    """The columns, in SQL, that may make a row large, where it is worth asking how large rows are:
    the window (or without one, the table) has many."""
    if not brings_many(plan, window):
        return ()
    read = {exact.name for exact in plan.columns}
    large = HUGE | LARGE
    return tuple(c.sql for c in plan.table.columns if c.data_type in large and c.name in read)


def brings_many(plan: ResolvedTable, window: Window | None) -> bool:
    """Whether a window (without one, the table) has enough rows that it is worth asking first
    how they are best held."""
    return (window is None or window.kind != "live") and plan.table.estimated_rows > _MANY_ROWS
