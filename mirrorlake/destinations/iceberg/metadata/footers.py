"""What a commit says of a data file, from its footer (Parquet's metadata).

PyIceberg says the same, and is what this is held to (`tests/unit/destinations/test_footers.py`): it
makes each value of the footer an object of Python before it makes the object bytes, which for a
table of 25 columns took as long as writing a small file. Numbers are taken as they stand here.

Source: Iceberg specification, Appendix D, "Single-value serialization".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    StatsAggregator,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.decimal import bytes_required, decimal_to_bytes
from pyiceberg.utils.truncate import (
    truncate_upper_bound_binary_string,
    truncate_upper_bound_text_string,
)

from mirrorlake.destinations.iceberg.metadata.metrics import FileMetrics

_FORMATS: dict[type[PrimitiveType], str] = {
    BooleanType: "<?",
    IntegerType: "<i",
    LongType: "<q",
    DateType: "<i",
    TimestampType: "<q",
    TimestamptzType: "<q",
    FloatType: "<f",
    DoubleType: "<d",
}
# Python's calendar, from year 1 to 9999, as days and as microseconds from 1970.
_CALENDAR = {
    "<i": (-719_162, 2_932_896),
    "<q": (-719_162 * 86_400_000_000, 253_402_300_799_999_999),
}

_PHYSICAL = (
    *("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE"),
    *("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
)

_Bound = Callable[[Any], bytes | None]


@dataclass(frozen=True)
class _Column:
    """One field: whether its values are counted, and how the bytes of its bounds are made of what
    the footer has; without them only counts are given.

    ``raw``: whether the footer's own number is taken, and not what Arrow makes of it.
    """

    field: int
    name: str
    counted: bool
    physical: frozenset[str]
    lower: _Bound | None
    upper: _Bound | None
    raw: bool


@dataclass(frozen=True)
class FooterPlan:
    """How the footers of a schema's files are read: made once, it takes as long as a file's own
    part."""

    columns: dict[str, _Column]

    @classmethod
    def of(cls, schema: Schema) -> FooterPlan:
        collectors = compute_statistics_plan(schema, {})
        fields = parquet_path_to_id_mapping(schema)
        return cls({path: _column(collectors[field]) for path, field in fields.items()})


def metrics_of(footer: Any, plan: FooterPlan, partition: date | int, size: int) -> FileMetrics:
    """What a commit says of a file of a partition with this footer.

    Raises:
        KeyError: a column that the schema lacks.
        ValueError: a column of another type than the schema's.
    """
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    starts: list[int] = []
    ends: dict[int, tuple[_Column, list[Any], list[Any]]] = {}
    silent: set[int] = set()
    for group in map(footer.row_group, range(footer.num_row_groups)):
        starts.append(_start(group.column(0)))
        for chunk in map(group.column, range(footer.num_columns)):
            column = plan.columns[chunk.path_in_schema]
            field = column.field
            sizes[field] = sizes.get(field, 0) + chunk.total_compressed_size
            if not column.counted:
                continue
            values[field] = values.get(field, 0) + chunk.num_values
            found = chunk.statistics if chunk.is_stats_set else None
            if found is None:
                silent.add(field)
                continue
            if found.has_null_count:
                nulls[field] = nulls.get(field, 0) + found.null_count
            if column.lower is not None:
                _add_ends(ends, column, found)
    for field in silent:
        ends.pop(field, None)
        nulls.pop(field, None)
    lower, upper = _bounds(ends)
    return FileMetrics(
        size,
        partition,
        {
            "record_count": footer.num_rows,
            "column_sizes": sizes,
            "value_counts": values,
            "null_value_counts": nulls,
            "nan_value_counts": {},
            "lower_bounds": lower,
            "upper_bounds": upper,
            "split_offsets": sorted(starts),
        },
    )


def _start(chunk: Any) -> int:
    data, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    return dictionary if chunk.has_dictionary_page and dictionary < data else data


def _add_ends(
    ends: dict[int, tuple[_Column, list[Any], list[Any]]], column: _Column, found: Any
) -> None:
    """Take up the least and the greatest value of a column in one row group."""
    held = ends.get(column.field)
    if held is None:
        if found.physical_type not in column.physical:
            raise ValueError(f"column {column.name} has type {found.physical_type} in a file")
        held = ends[column.field] = (column, [], [])
    if not found.has_min_max:
        return
    raw = column.raw and found.physical_type != "FIXED_LEN_BYTE_ARRAY"
    held[1].append(found.min_raw if raw else found.min)
    held[2].append(found.max_raw if raw else found.max)


def _bounds(
    ends: dict[int, tuple[_Column, list[Any], list[Any]]],
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    try:
        for field, (column, least, most) in ends.items():
            if least and column.lower is not None and column.upper is not None:
                low, high = column.lower(min(least)), column.upper(max(most))
                lower.update({} if low is None else {field: low})
                upper.update({} if high is None else {field: high})
    except OverflowError:
        # A day or moment past Python's calendar, which somebody wrote into the lake: no bounds.
        return {}, {}
    return lower, upper


# --- a column's bounds ----------------------------------------------------------------------------


def _column(collector: StatisticsCollector) -> _Column:
    kind, mode, length = collector.iceberg_type, collector.mode.type, collector.mode.length
    lower, upper, raw = _makers(kind, length)
    if mode in (MetricModeTypes.NONE, MetricModeTypes.COUNTS):
        lower = upper = None
    counted = mode != MetricModeTypes.NONE
    physical = _physical_types(kind)
    return _Column(collector.field_id, collector.column_name, counted, physical, lower, upper, raw)


def _makers(kind: PrimitiveType, length: int | None) -> tuple[_Bound, _Bound, bool]:
    """The makers of the lower and of the upper bound, and whether they take the raw value."""
    if isinstance(kind, StringType):
        return (
            lambda text: text[:length].encode(),
            lambda text: _encoded(truncate_upper_bound_text_string(text, length)),
            False,
        )
    if isinstance(kind, BinaryType):
        return (
            lambda value: value[:length],
            lambda value: truncate_upper_bound_binary_string(value, length),
            False,
        )
    if isinstance(kind, DecimalType):
        return _decimal, _decimal, True
    form = _FORMATS.get(type(kind))
    if form is None:
        return partial(to_bytes, kind), partial(to_bytes, kind), False
    packed = _packed(form, timed=isinstance(kind, DateType | TimestampType | TimestamptzType))
    return packed, packed, True


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _packed(form: str, *, timed: bool) -> _Bound:
    pack = struct.Struct(form).pack
    if not timed:
        return pack
    first, last = _CALENDAR[form]

    def made(number: int) -> bytes:
        if not first <= number <= last:
            raise OverflowError(number)
        return pack(number)

    return made


def _decimal(value: int | Decimal) -> bytes:
    """Of the unscaled number, or of the decimal where the column has more than 18 digits."""
    if isinstance(value, int):
        return value.to_bytes(bytes_required(value), "big", signed=True)
    return decimal_to_bytes(value)


def _physical_types(kind: PrimitiveType) -> frozenset[str]:
    """The types of Parquet that a column of this type may have in a file."""
    found: set[str] = set()
    for physical in _PHYSICAL:
        with suppress(ValueError):
            StatsAggregator(kind, physical)
            found.add(physical)
    return frozenset(found)
