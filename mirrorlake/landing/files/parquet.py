"""Landed Parquet: which columns a file has, and its rows as typed batches.

A file whose columns already have the contract's types is read by Spark itself, columns pruned;
any other one here, value by value where its columns hold texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.errors import LandingError
from mirrorlake.landing.files.cells import arrow_type, convert
from mirrorlake.landing.files.columns import LandedColumn
from mirrorlake.landing.files.limits import may_expand_to, too_much
from mirrorlake.landing.files.records import (
    Bad,
    LandedFile,
    OnBad,
    Reading,
    originals_of,
    refusal_of,
)

BATCH_ROWS = 32_768
_READ_ALIKE: dict[str, tuple[pa.DataType, ...]] = {
    "int": (pa.int32(), pa.int16(), pa.int8()),
    "long": (pa.int64(),),
    "float": (pa.float32(),),
    "double": (pa.float64(),),
    "string": (pa.string(), pa.large_string()),
    "binary": (pa.binary(), pa.large_binary()),
    "boolean": (pa.bool_(),),
    "date": (pa.date32(),),
    "timestamp": (pa.timestamp("us"), pa.timestamp("ms")),
    "timestamptz": (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
}


def check_parquet(reading: Reading, file: LandedFile) -> bool:
    """Look at a file's footer; whether Spark itself reads every column of it exactly.

    Raises:
        LandingError: it is gone, changed, no Parquet, or lacks a column; a column is extra, or has
            a type that can't be the contract's.
    """
    found = open_parquet(reading, file)
    schema = found.schema_arrow
    _check_names(reading, file, schema.names)
    footer: Any = found.metadata
    at = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    native = True
    for column in reading.schema.columns:
        if column.name not in schema.names:
            native = False
            continue
        kind = plain_type(schema.field(column.name).type)
        native &= _is_native(column, kind)
        if not _can_be(column, kind):
            raise refusal_of(
                reading,
                Bad(_place(reading, file), 0, f"column {column.name!r} is {kind} in the file"),
            )
        if native and _needs_looking(column):
            native = _keeps_its_bounds(column, footer, at.get(column.name))
    return native


def read_parquet(
    reading: Reading, file: LandedFile, on_bad: OnBad | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file in batches of the schema's types; rows are counted from 1 as lines are.

    Raises:
        LandingError: see `check_parquet`; or a row has a value that its column can't hold.
    """
    found = open_parquet(reading, file)
    _check_names(reading, file, found.schema_arrow.names)
    columns = [c for c in reading.schema.columns if c.name in found.schema_arrow.names]
    left, first = reading.max_bad, 1
    try:
        batches = found.iter_batches(BATCH_ROWS, columns=[c.name for c in columns])
        for batch in batches:
            made, refused = _converted(reading, batch)
            for row in sorted(refused):
                bad = Bad(_place(reading, file), first + row, refused[row])
                if left <= 0:
                    raise refusal_of(reading, bad)
                left -= 1
                if on_bad is not None:
                    on_bad(bad)
            first += batch.num_rows
            if made.num_rows:
                yield made
    except (OSError, pa.ArrowInvalid) as error:
        raise _damaged(reading, file) from error


def open_parquet(reading: Reading, file: LandedFile) -> pq.ParquetFile:
    stream = reading.store.open(file.path, file.version)
    try:
        found = pq.ParquetFile(stream)
    except (OSError, pa.ArrowInvalid) as error:
        stream.close()
        raise _damaged(reading, file) from error
    footer: Any = found.metadata
    groups = (footer.row_group(n).total_byte_size for n in range(footer.num_row_groups))
    if sum(groups) > may_expand_to(reading.limits, file.bytes):
        stream.close()
        raise too_much(_place(reading, file), file.bytes, reading.limits)
    return found


def _damaged(reading: Reading, file: LandedFile) -> LandingError:
    return LandingError(
        f"{_place(reading, file)} is no whole file of Parquet",
        table=reading.table,
        next_step="Nothing of its snapshot was taken. Land the snapshot again, whole",
    )


def _place(reading: Reading, file: LandedFile) -> str:
    return reading.store.describe(file.path)


def _check_names(reading: Reading, file: LandedFile, names: list[str]) -> None:
    allowed = {*(c.name for c in reading.schema.columns), *reading.schema.left_out}
    for name in names:
        if names.count(name) > 1:
            raise refusal_of(reading, Bad(_place(reading, file), 0, f"has {name!r} twice"))
        if name not in allowed and reading.extra_columns == "refuse":
            words = f"has the column {name!r}, which its schema has not"
            raise refusal_of(reading, Bad(_place(reading, file), 0, words))
    for column in reading.schema.columns:
        if column.name not in names and (
            reading.missing_columns == "refuse" or not column.nullable
        ):
            words = f"lacks the column {column.name!r}"
            raise refusal_of(reading, Bad(_place(reading, file), 0, words))


def plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind  # pyright: ignore[reportAttributeAccessIssue]


def _is_native(column: LandedColumn, kind: pa.DataType) -> bool:
    if column.digits is not None:
        return kind == pa.decimal128(*column.digits)
    return kind in _READ_ALIKE[column.iceberg]


def _is_texts(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _can_be(column: LandedColumn, kind: pa.DataType) -> bool:
    """Whether values of a file's type may be the column's: each is then checked."""
    if _is_native(column, kind) or (_is_texts(kind) and column.iceberg != "binary"):
        return True
    numeric = column.digits is not None or column.iceberg in ("int", "long")
    if numeric:
        return pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if column.iceberg == "double":
        return pa.types.is_float32(kind)
    both_times = column.iceberg.startswith("timestamp") and pa.types.is_timestamp(kind)
    return both_times and bool(kind.tz) == (column.iceberg == "timestamptz")  # pyright: ignore[reportAttributeAccessIssue]


def _needs_looking(column: LandedColumn) -> bool:
    """Whether a type alone does not say that a value is one of the column's."""
    bits = {"int": 32, "long": 64}.get(column.iceberg, 0)
    whole = (-(2**bits) // 2, 2**bits // 2 - 1)
    full = column.low is None or (column.low, column.high) == whole
    return not column.nullable or not full


def _keeps_its_bounds(column: LandedColumn, footer: Any, at: int | None) -> bool:
    """Whether the footer's statistics say that no value is NULL or out of range that may not be."""
    for group in range(footer.num_row_groups) if at is not None else ():
        stats = footer.row_group(group).column(at).statistics
        if stats is None or not stats.has_null_count:
            return False
        if not column.nullable and stats.null_count:
            return False
        if (
            column.low is not None
            and column.high is not None
            and stats.null_count < stats.num_values + stats.null_count
        ):
            if not stats.has_min_max:
                return False
            if stats.min < column.low or stats.max > column.high:
                return False
    return at is not None


def _converted(reading: Reading, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    arrays: list[Any] = []
    refused: dict[int, str] = {}
    originals: dict[str, dict[int, str]] = {}
    for column in reading.schema.columns:
        if column.name not in batch.schema.names:
            arrays.append(pa.nulls(batch.num_rows, arrow_type(column)))
            continue
        values: Any = batch.column(column.name)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        cast = _cast_at_once(column, values)
        if cast is not None:
            arrays.append(cast)
            continue
        done = convert(column, [_written(value) for value in values.to_pylist()])
        arrays.append(done.values)
        originals[column.name] = done.originals
        for row, reason in done.refused.items():
            refused.setdefault(row, reason)
    if reading.schema.has_original:
        arrays.append(originals_of(originals, batch.num_rows))
    made = pa.RecordBatch.from_arrays(arrays, schema=reading.arrow_schema())
    if refused:
        made = made.filter(pa.array([row not in refused for row in range(batch.num_rows)]))
    return made, refused


def _cast_at_once(column: LandedColumn, values: Any) -> Any:
    """The values in the column's type, where that needs no look at each of them."""
    if _needs_looking(column) or (_is_texts(values.type) and column.iceberg != "string"):
        return None
    if pa.types.is_float32(values.type) and column.iceberg == "double":
        return values.cast(pa.float64())
    try:
        return values.cast(arrow_type(column), safe=True)
    except pa.ArrowInvalid:
        return None


def _written(value: Any) -> Any:
    """A value as a text would say it, so that one rule checks both."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, bytes) else _text_of(value)


def _text_of(value: Any) -> str:
    if hasattr(value, "isoformat"):
        return value.isoformat(sep=" ") if hasattr(value, "hour") else value.isoformat()
    return format(value, "f") if hasattr(value, "as_tuple") else repr(value)
