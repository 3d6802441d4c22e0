"""The lake's side of a range without Spark: enough to say that it is equal.

A query of Spark costs a second or more before its first row. For the next chunk of a table, and for
a load before it is visible, the rows are read by PyIceberg, and digested by DuckDB
(`mirrorlake.proof.sides.duckdb_forms`), which may say less than the two others. It says nothing
(None) where a row keeps an original, a value has no plain form here, or a key is NULL; then, and
where what it says is not what MySQL says, Spark reads as ever. So a mistake here costs time, and
hides nothing as long as two values have two forms.

Source: Arrow C++ documentation, "Compute Functions"; Iceberg specification, "Scan Planning".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.destinations.base import EVERY_ROW, Condition, Destination
from mirrorlake.proof.forms.canonical import DELETED_AT, ORIGINALS, Form
from mirrorlake.proof.forms.hashing import hash_bytes
from mirrorlake.proof.forms.rows import Key, RowDigest, RowForm
from mirrorlake.proof.ranges.order import Part
from mirrorlake.proof.ranges.ranges import INTEGERS, NOTHING, Range, Span, Tally
from mirrorlake.proof.ranges.target import MOST_BESIDE, Target, named
from mirrorlake.proof.sides.duckdb_forms import NoForm, forms_of, tally_files, tally_forms, tally_of
from mirrorlake.sources.mysql.tables import Column, SourceTable

pc: Any = _compute  # its functions are made at import: type checkers see none of them
LOCAL_ROWS = 100_000_000
"""Up to this many rows are digested without Spark: a row takes about 2 µs of two cores."""
AT_ONCE = 20_000
"""Rows that are digested at once."""
_TIMES = ("date", "datetime", "timestamp")


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
            raise NoForm


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
    if not _is_sayable(parts, keys):
        return None
    span = keys if isinstance(keys, Span) else _as_span(keys)
    found = Local()
    try:
        batches = _batches(lake, target, _row_filter(parts, span))
        if batches is None:
            return None
        if target.mirror.snapshot is None:
            return found
        if span == Span() and not newer and not target.scope.beside:
            tally = _tally_files(lake, target, [part.column.name for part in parts])
            if tally is not None:
                return Local(tally)
        forms = {",".join(key).encode("utf-8", "replace") for key in newer}
        moved = _Moved(forms, listed=bool(named(target, newer)))
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                rows = _within(target, parts, span, batch.slice(start, AT_ONCE))
                _take(target, rows, moved, found)
    except NoForm:
        return None
    return found


def _tally_files(lake: Destination, target: Target, key: Sequence[str]) -> Tally | None:
    """All of the lake's rows, where they are plain files on this machine, which DuckDB reads by
    itself; None elsewhere."""
    snapshot, rows = target.mirror.snapshot, target.rows
    if snapshot is None or target.flags:
        return None
    originals = ORIGINALS if rows.originals else None
    names = [cell.name for cell in rows.cells] + ([originals] if originals else [])
    files = lake.local_files(target.mirror.identifier, names, snapshot)
    if files is None:
        return None
    try:
        return tally_files(_cells(target.table, rows), files, key, originals)
    except NoForm:
        return None


def tally_rows(table: SourceTable, form: RowForm, batches: Iterable[Any]) -> Tally | None:
    """Number and digest of rows of a lake table, by the columns of a form; None where only Spark
    can say it.

    Raises:
        LakeError: the storage failed.
    """
    try:
        return tally_of(_cells(table, form), _placed(form, batches))
    except NoForm:
        return None


def _cells(table: SourceTable, form: RowForm) -> list[tuple[Column, Form]]:
    columns = {column.name: column for column in table.columns}
    return [(columns[cell.name], cell) for cell in form.cells]


def _placed(form: RowForm, batches: Iterable[Any]) -> Iterator[Any]:
    """Rows whose values all have a place in their columns."""
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if form.originals:
            refuse_originals(rows)
        yield rows


@dataclass(frozen=True)
class _Moved:
    """Forms of keys that MySQL has moved past the bound; ``listed``: their rows are listed one by
    one."""

    keys: set[bytes]
    listed: bool


def _is_sayable(parts: Sequence[Part], keys: Range | Span) -> bool:
    ends = keys != Range() and keys != Span()
    ordered = all(p.column.data_type in (*INTEGERS, "decimal", *_TIMES) for p in parts)
    return ordered or not ends


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
        refuse_originals(rows)
    if any(rows.column(part.column.name).null_count for part in parts):
        raise NoForm
    if target.flags:
        rows = rows.filter(pc.is_null(rows.column(DELETED_AT)))
    if span.lo is not None:
        rows = rows.filter(_from(parts, span.lo, rows))
    if span.hi is not None:
        rows = rows.filter(pc.invert(_from(parts, span.hi, rows)))
    return rows


def refuse_originals(rows: Any) -> None:
    """See that no row keeps an original.

    Raises:
        NoForm: one does.
    """
    kept = pc.fill_null(pc.list_value_length(rows.column(ORIGINALS)), 0)
    if pc.any(pc.greater(kept, 0)).as_py():
        raise NoForm


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
        raise NoForm from None
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
    if not rows.num_rows:
        return
    if not moved.keys and not target.scope.beside:
        found.tally += tally_of(_cells(target.table, target.rows), [rows])
        return
    made = forms_of(_cells(target.table, target.rows), rows)
    at = {cell.name: n for n, cell in enumerate(target.rows.cells)}
    joined = made.column("form")
    keys = [made.column(f"f{at[column.name]}") for column in target.key]
    chosen = pa.array([True] * rows.num_rows, pa.bool_())
    if moved.keys:
        away = pc.is_in(_joined(keys), pa.array(sorted(moved.keys), pa.large_binary()))
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
    found.tally += tally_forms(joined.filter(chosen))


def _joined(forms: Sequence[Any]) -> Any:
    """Forms as bytes, with commas between them."""
    texts = [form.cast(pa.large_binary()) for form in forms]
    return pc.binary_join_element_wise(*texts, pa.scalar(b",", pa.large_binary()))


def _listed(forms: Any, keys: Sequence[Any]) -> list[RowDigest]:
    """Key and digest of each row."""
    digests = [int.from_bytes(hash_bytes(form.encode())[:8]) for form in forms.to_pylist()]
    if not keys:
        return [((str(digest),), digest) for digest in digests]
    return list(zip(zip(*(key.to_pylist() for key in keys), strict=True), digests, strict=True))
