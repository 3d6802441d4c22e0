"""What is said of a file is what PyIceberg says of it, for every type and value."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from mirrorlake.destinations.iceberg.metadata.footers import FooterPlan, metrics_of

DAY = date(2026, 1, 2)
TEXT = st.text(max_size=40) | st.sampled_from(["", "\U0010ffff" * 17, "a" * 15 + "\U0010ffff" * 3])
VALUES: dict[str, tuple[IcebergType, st.SearchStrategy[Any]]] = {
    "flag": (BooleanType(), st.booleans()),
    "int": (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (LongType(), st.integers(-(2**63), 2**63 - 1)),
    "float": (FloatType(), st.floats(width=32)),
    "double": (DoubleType(), st.floats()),
    "small": (DecimalType(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "medium": (DecimalType(18, 4), st.decimals(-(10**13), 10**13, places=4)),
    "large": (DecimalType(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "edge": (DecimalType(9, 0), st.sampled_from([-129, -128, -1, 0, 127, 128]).map(Decimal)),
    "text": (StringType(), TEXT),
    "bytes": (BinaryType(), st.binary(max_size=40) | st.just(b"\xff" * 17)),
    "day": (DateType(), st.dates()),
    "moment": (TimestampType(), st.datetimes()),
    "instant": (TimestamptzType(), st.datetimes(timezones=st.just(UTC))),
}
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
LONGEST = 5_000
"""Bytes of a text of which Parquet keeps no statistics."""


def schema_of() -> Schema:
    fields = [NestedField(n, name, kind) for n, (name, (kind, _)) in enumerate(VALUES.items(), 1)]
    pair = StructType(
        NestedField(102, "column", StringType()), NestedField(103, "text", StringType())
    )
    return Schema(*fields, NestedField(100, "originals", ListType(101, pair)))


SCHEMA = schema_of()
ARROW = schema_to_pyarrow(SCHEMA)
PLAN = FooterPlan.of(SCHEMA)


def footer_of(*groups: list[dict[str, Any]]) -> Any:
    """The footer of a file with these row groups."""
    out = io.BytesIO()
    with pq.ParquetWriter(out, ARROW, store_decimal_as_integer=True) as writer:
        for rows in groups:
            writer.write_table(pa.Table.from_pylist(rows, ARROW))
    return pq.read_metadata(io.BytesIO(out.getvalue()))


def said_by_pyiceberg(footer: Any) -> dict[str, Any]:
    plan = compute_statistics_plan(SCHEMA, {})
    fields = parquet_path_to_id_mapping(SCHEMA)
    return data_file_statistics_from_parquet_metadata(footer, plan, fields).to_serialized_dict()


def row(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(ARROW.names), **given}


rows = st.fixed_dictionaries({name: st.none() | kind for name, (_, kind) in VALUES.items()})


@given(st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=3))
def test_every_value(groups: list[list[dict[str, Any]]]) -> None:
    footer = footer_of(*[[row(**one) for one in group] for group in groups])
    found = metrics_of(footer, PLAN, DAY, 17)
    assert (found.size, found.partition) == (17, DAY)
    assert found.statistics == said_by_pyiceberg(footer)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"double": float("nan"), "float": float("nan")},
        {"double": -0.0, "float": 0.0},
        {"text": "x" * LONGEST, "bytes": b"x" * LONGEST},
        {"day": date.min, "moment": EARLIEST.replace(tzinfo=None), "instant": EARLIEST},
        {"day": date.max, "moment": LATEST.replace(tzinfo=None), "instant": LATEST},
        {"originals": [{"column": "day", "text": "0000-00-00"}]},
    ],
)
def test_at_the_edges(values: dict[str, Any]) -> None:
    footer = footer_of([row(**values), row()], [row()])
    assert metrics_of(footer, PLAN, DAY, 1).statistics == said_by_pyiceberg(footer)


@pytest.mark.parametrize(
    ("column", "far"),
    [("day", pa.array([2**31 - 1], pa.int32())), ("moment", pa.array([2**62], pa.int64()))],
)
def test_past_the_calendar_there_are_no_bounds(column: str, far: Any) -> None:
    field = ARROW.field(column)
    table = pa.Table.from_pylist([row(int=1)], ARROW)
    table = table.set_column(ARROW.names.index(column), field, far.cast(field.type))
    out = io.BytesIO()
    pq.write_table(table, out)
    found = metrics_of(pq.read_metadata(io.BytesIO(out.getvalue())), PLAN, DAY, 1).statistics
    assert found["lower_bounds"] == found["upper_bounds"] == {}
    assert found["null_value_counts"][2] == 0


def test_a_column_of_another_type_is_refused() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"int": ["text"]}), out)
    with pytest.raises(ValueError, match="column int has type BYTE_ARRAY"):
        metrics_of(pq.read_metadata(io.BytesIO(out.getvalue())), PLAN, DAY, 1)


def test_without_statistics_there_are_counts_alone() -> None:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row(int=1)], ARROW), out, write_statistics=False)
    footer = pq.read_metadata(io.BytesIO(out.getvalue()))
    found = metrics_of(footer, PLAN, DAY, 1).statistics
    assert found == said_by_pyiceberg(footer)
    assert (found["lower_bounds"], found["value_counts"][2]) == ({}, 1)
