"""The lake's side of a small range without Spark: enough to say that it is equal.

A query of Spark costs a second or more before its first row. For the next chunk of a table, and for
a small load before it is visible, the rows are read by PyIceberg, and their forms are made by
Arrow's kernels: a third writing of the forms of `mirrorlake.proof.canonical`, which may say less
than the two others. It says nothing (None) where a row keeps an original, a value has no plain form
here, or a key is NULL; then, and where what it says is not what MySQL says, Spark reads as ever.
So a mistake here costs time, and hides nothing as long as two values have two forms.

Source: Arrow C++ documentation, "Compute Functions"; Iceberg specification, "Scan Planning".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.destinations.base import EVERY_ROW, Condition, Destination
from mirrorlake.proof.canonical import DELETED_AT, NULL, ORIGINALS, Form
from mirrorlake.proof.hashing import hash_bytes
from mirrorlake.proof.order import Part
from mirrorlake.proof.ranges import INTEGERS, NOTHING, Range, Span, Tally
from mirrorlake.proof.rows import Key, RowDigest, RowForm
from mirrorlake.proof.target import MOST_BESIDE, Target, named
from mirrorlake.sources.mysql.tables import Column, SourceTable

pc: Any = _compute  # its functions are made at import: type checkers see none of them
AT_ONCE = 20_000
"""Rows that are digested at once."""
_PLAIN_SCALE = 6
"""Arrow writes small numbers of a larger scale with an exponent."""
_TIMES = ("date", "datetime", "timestamp")


class _Unsaid(Exception):
    """What stands here has no form here."""


@dataclass
class Local:
    """The lake's rows within a range of keys: those between the cursor's bounds but for some keys,
    and the others one by one."""

    tally: Tally = NOTHING
    beside: list[RowDigest] = field(default_factory=list[RowDigest])

    def list_beside(self, rows: Sequence[RowDigest]) -> None:
        """Take rows up one by one; too many of them are Spark's."""
        self.beside += rows
        if len(self.beside) > MOST_BESIDE:
            raise _Unsaid


def digest_locally(
    lake: Destination,
    target: Target,
    parts: Sequence[Part],
    keys: Range | Span,
    newer: Sequence[Key],
) -> Local | None:
    """The lake's rows within a range of keys; None where only Spark can say it.

    Args:
        newer: keys that MySQL has moved past the bound.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    if not _is_sayable(target, parts, keys):
        return None
    span = keys if isinstance(keys, Span) else _as_span(keys)
    batches = _batches(lake, target, _row_filter(parts, span))
    if batches is None:
        return None
    found = Local()
    if target.mirror.snapshot is None:
        return found
    forms = {",".join(key).encode("utf-8", "replace") for key in newer}
    moved = _Moved(forms, listed=bool(named(target, newer)))
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                rows = _within(target, parts, span, batch.slice(start, AT_ONCE))
                _take(target, rows, moved, found)
    except _Unsaid:
        return None
    return found


def tally_rows(table: SourceTable, form: RowForm, batches: Iterable[Any]) -> Tally | None:
    """Number and digest of rows of a lake table, by the columns of a form; None where only Spark
    can say it.

    Raises:
        LakeError: the storage failed.
    """
    if not _is_plain(table):
        return None
    columns = {column.name: column for column in table.columns}
    found = NOTHING
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                rows = pa.Table.from_batches([batch.slice(start, AT_ONCE)])
                if form.originals:
                    _refuse_originals(rows)
                forms = [
                    _form(columns[cell.name], cell, rows.column(cell.name).combine_chunks())
                    for cell in form.cells
                ]
                found += _tally(_joined(forms))
    except _Unsaid:
        return None
    return found


@dataclass(frozen=True)
class _Moved:
    """Forms of keys that MySQL has moved past the bound; ``listed``: their rows are listed one by
    one."""

    keys: set[bytes]
    listed: bool


def _is_sayable(target: Target, parts: Sequence[Part], keys: Range | Span) -> bool:
    ends = keys != Range() and keys != Span()
    ordered = all(p.column.data_type in (*INTEGERS, "decimal", *_TIMES) for p in parts)
    return _is_plain(target.table) and (ordered or not ends)


def _is_plain(table: SourceTable) -> bool:
    """Whether Arrow writes the numbers of every column as MySQL does."""
    return all(
        column.data_type != "decimal" or (column.scale or 0) <= _PLAIN_SCALE
        for column in table.columns
    )


def _as_span(keys: Range) -> Span:
    low, high = keys.bounds
    return Span((low,) if low else None, (high,) if high else None)


# --- reading --------------------------------------------------------------------------------------


def _row_filter(parts: Sequence[Part], span: Span) -> Condition:
    """The rows of the span, and perhaps more: by the key's leading column alone."""
    if span == Span():
        return EVERY_ROW  # a key that both sides order differently has no parts to filter by
    leading = parts[0].column
    lo, hi = (None if end is None else _value(leading, end[0]) for end in (span.lo, span.hi))
    # A key without a place in its type may be anywhere.
    return Condition(leading.name, lo, hi, or_null=True)


def _batches(lake: Destination, target: Target, rows: Condition) -> Iterator[Any] | None:
    names = [cell.name for cell in target.rows.cells]
    names += [ORIGINALS] if target.rows.originals else []
    names += [DELETED_AT] if target.flags else []
    return lake.scan(target.mirror.identifier, names, rows, target.mirror.snapshot)


def _within(target: Target, parts: Sequence[Part], span: Span, batch: Any) -> Any:
    """The rows of a batch that are compared."""
    rows = pa.Table.from_batches([batch])
    if target.rows.originals:
        _refuse_originals(rows)
    if any(rows.column(part.column.name).null_count for part in parts):
        raise _Unsaid
    if target.flags:
        rows = rows.filter(pc.is_null(rows.column(DELETED_AT)))
    if span.lo is not None:
        rows = rows.filter(_from(parts, span.lo, rows))
    if span.hi is not None:
        rows = rows.filter(pc.invert(_from(parts, span.hi, rows)))
    return rows


def _refuse_originals(rows: Any) -> None:
    kept = pc.fill_null(pc.list_value_length(rows.column(ORIGINALS)), 0)
    if pc.any(pc.greater(kept, 0)).as_py():
        raise _Unsaid


def _from(parts: Sequence[Part], cells: Sequence[str], rows: Any) -> Any:
    """Which rows are at or past these leading cells."""
    column = rows.column(parts[0].column.name)
    end = pa.scalar(_value(parts[0].column, cells[0]), column.type)
    if len(parts) == 1:
        return pc.greater_equal(column, end)
    rest = pc.and_(pc.equal(column, end), _from(parts[1:], cells[1:], rows))
    return pc.or_(pc.greater(column, end), rest)


def _value(column: Column, cell: str) -> Any:
    """The value that a form of a key's column stands for, as Arrow takes it."""
    if column.data_type in INTEGERS:
        return int(cell)
    if column.data_type == "decimal":
        return Decimal(cell)
    try:
        if column.data_type == "date":
            return date.fromisoformat(cell)
        at = datetime.fromisoformat(cell)
    except ValueError:
        raise _Unsaid from None
    return at.replace(tzinfo=UTC) if column.data_type == "timestamp" else at


def within_cursor(cells: Any, first: str, until: str) -> Any:
    """Which cells of a cursor lie from one bound to below the other ('' for none), as the scope's
    own conditions say in SQL: a cursor without a place in its type is a zero date, the oldest."""
    inside = pc.true_unless_null(cells)
    if until:
        inside = pc.and_(inside, pc.less(cells, _bound(until, cells.type)))
    if first:
        inside = pc.and_(inside, pc.greater_equal(cells, _bound(first, cells.type)))
    return pc.fill_null(inside, not first)


def _bound(text: str, kind: Any) -> Any:
    """A bound as the cursor's own type."""
    if pa.types.is_timestamp(kind):
        # Arrow takes a moment without a zone for one in UTC.
        return pa.scalar(datetime.fromisoformat(text.strip("'")), kind)
    if pa.types.is_date(kind):
        return pa.scalar(date.fromisoformat(text.strip("'")), kind)
    # Wide enough for every integer there is.
    return pa.scalar(Decimal(text), pa.decimal128(38))


# --- digesting ------------------------------------------------------------------------------------


def _take(target: Target, rows: Any, moved: _Moved, found: Local) -> None:
    """Add some rows to what was found of the lake."""
    columns = {column.name: column for column in target.table.columns}
    forms = {
        cell.name: _form(columns[cell.name], cell, rows.column(cell.name).combine_chunks())
        for cell in target.rows.cells
    }
    joined = _joined([forms[cell.name] for cell in target.rows.cells])
    keys = [forms[column.name] for column in target.key]
    chosen = pa.array([True] * rows.num_rows, pa.bool_())
    if moved.keys:
        own = _joined(keys)
        away = pc.is_in(own, pa.array(sorted(moved.keys), own.type))
        if moved.listed:
            found.list_beside(_listed(joined.filter(away), [key.filter(away) for key in keys]))
        chosen = pc.invert(away)
    scope = target.scope
    if scope.beside:
        cursor = rows.column(scope.cursor).combine_chunks()
        inside = within_cursor(cursor, scope.first, scope.until)
        beside = pc.and_(chosen, pc.invert(inside))
        found.list_beside(_listed(joined.filter(beside), [key.filter(beside) for key in keys]))
        chosen = pc.and_(chosen, inside)
    found.tally += _tally(joined.filter(chosen))


def _listed(forms: Any, keys: Sequence[Any]) -> list[RowDigest]:
    """Key and digest of each row."""
    digests = [int.from_bytes(hash_bytes(form)[:8]) for form in forms.to_pylist()]
    if not keys:
        return [((str(digest),), digest) for digest in digests]
    texts = ([cell.decode("utf-8", "surrogateescape") for cell in key.to_pylist()] for key in keys)
    return list(zip(zip(*texts, strict=True), digests, strict=True))


def _tally(forms: Any) -> Tally:
    digests = b"".join(hash_bytes(form) for form in forms.to_pylist())
    words = np.frombuffer(digests, dtype=">u4").reshape(len(forms), 8)
    halves = words[:, :2].astype(np.uint64)
    high, low = (int(part) for part in halves.sum(axis=0, dtype=np.uint64))
    return Tally(len(forms), (high << 32) + low)


def _joined(forms: Sequence[Any]) -> Any:
    return pc.binary_join_element_wise(*forms, pa.scalar(b",", pa.large_binary()))


def _form(column: Column, form: Form, cells: Any) -> Any:
    """The forms of some cells as bytes."""
    made = _forms_of(column, form)(cells)
    return pc.fill_null(made.cast(pa.large_binary()), NULL.encode())


def _forms_of(column: Column, form: Form) -> Callable[[Any], Any]:
    if form.iceberg in ("float", "double"):
        return _bits
    if column.data_type in ("datetime", "timestamp"):
        return lambda cells: _moments(cells, column.fraction or 0)
    if form.digested:
        return lambda cells: _each(cells, lambda v: hash_bytes(v).hex())
    if form.iceberg == "binary":
        return lambda cells: _each(cells, lambda v: v.hex().upper())
    if form.iceberg == "string":
        return _prefixed
    return lambda cells: cells.cast(pa.string())


def _each(cells: Any, make: Callable[[bytes], str]) -> Any:
    values = cells.cast(pa.large_binary()).to_pylist()
    return pa.array([None if v is None else make(v) for v in values], pa.string())


def _prefixed(cells: Any) -> Any:
    texts = cells.cast(pa.large_binary())
    lengths = pc.binary_length(texts).cast(pa.string()).cast(pa.large_binary())
    return pc.binary_join_element_wise(lengths, texts, pa.scalar(b":", pa.large_binary()))


def _bits(cells: Any) -> Any:
    """A number's bits, as MySQL has them; NULL is NULL whatever lies below it."""
    wide = cells.cast(pa.float64())
    numbers = pc.fill_null(wide, 0.0).to_numpy().view(np.uint64)
    texts = [f"{number:016X}" for number in numbers.tolist()]
    return pa.array(texts, pa.string(), mask=wide.is_null().to_numpy(zero_copy_only=False))


def _moments(cells: Any, digits: int) -> Any:
    """As many digits of a second as are declared; more of them have no form here."""
    micros = cells.cast(pa.int64())
    step = 10 ** (6 - digits)
    present = pc.fill_null(micros, 0)
    if pc.any(pc.not_equal(pc.multiply(pc.divide(present, step), step), present)).as_py():
        raise _Unsaid
    texts = cells.cast(pa.timestamp("us")).cast(pa.string())
    return pc.utf8_slice_codeunits(texts, 0, 19 + (digits + 1 if digits else 0))
