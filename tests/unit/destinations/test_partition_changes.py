"""Which partitions two versions differ in: with these replaced, the earlier one is the later one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from mirrorlake.config import LakeConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.reading.partition_changes import (
    identity_columns,
    partitions_since,
)

COLUMNS = {
    "id": LongType(),
    "day": DateType(),
    "shop": StringType(),
    "at": TimestampType(),
    "moment": TimestamptzType(),
    "open": BooleanType(),
}
DAYS = st.sampled_from([None, date(2026, 1, 1), date(1969, 12, 31)])
SHOPS = st.sampled_from([None, "", "a/b=c"])
VERSION = st.dictionaries(st.integers(0, 9), st.tuples(DAYS, SHOPS), min_size=1, max_size=8)
Rows = Mapping[int, tuple[date | None, str | None]]


def make(folder: str, *by: str) -> tuple[Lake, Table]:
    lake = Lake(LakeConfig(warehouse=folder))
    lake.make_namespace("n")
    fields = [NestedField(i, n, k, required=False) for i, (n, k) in enumerate(COLUMNS.items(), 1)]
    numbers = {name: number for number, name in enumerate(COLUMNS, 1)}
    spec = PartitionSpec(
        *(PartitionField(numbers[n], 1000 + i, IdentityTransform(), n) for i, n in enumerate(by))
    )
    return lake, lake.catalog.create_table(("n", "t"), Schema(*fields), partition_spec=spec)


def append(table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        table.append(pa.Table.from_pylist([*rows], table.schema().as_arrow()))


def as_rows(version: Rows) -> list[dict[str, Any]]:
    return [{"id": n, "day": day, "shop": shop} for n, (day, shop) in version.items()]


@pytest.mark.full
@settings(max_examples=10, deadline=None)
@given(VERSION, VERSION)
def test_replaced_partitions_give_the_later_version(before: Rows, after: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake, table = make(folder, "day", "shop")
        append(table, as_rows(before))
        first = table.metadata.current_snapshot_id
        assert first is not None
        for number in [n for n, part in before.items() if after.get(n) != part]:
            table.delete(EqualTo("id", number))
        append(table, as_rows({n: p for n, p in after.items() if before.get(n) != p}))
        found = partitions_since(lake, table, first)
        assert found is not None
        parts = set(found.parts)
        read = [r for b in found.read_added(lake, ["id", "day", "shop"]) for r in b.to_pylist()]
        kept = [r for r in as_rows(before) if texts(r) not in parts]
        assert all(texts(row) in parts for row in read)
        assert sorted(map(repr, kept + read)) == sorted(map(repr, as_rows(after)))
        assert len(read) <= found.added_rows


def texts(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    day = row["day"]
    return (None if day is None else day.isoformat(), row["shop"])


def test_a_partition_is_named_by_the_text_of_its_value(tmp_path: Any) -> None:
    lake, table = make(str(tmp_path), "at", "moment", "open")
    append(table, [{"id": 1}])
    first = table.metadata.current_snapshot_id
    assert first is not None
    at = datetime(1960, 1, 2, 3, 4, 5, 6)
    append(table, [{"id": 2, "at": at, "moment": at, "open": False}])
    found = partitions_since(lake, table, first)
    assert found is not None
    text = "1960-01-02 03:04:05.000006"
    assert found.parts == ((text, f"{text}+00:00", "false"),)
    assert partitions_since(lake, table, 12) is None
    assert identity_columns(table) == {
        "at": "timestamp",
        "moment": "timestamptz",
        "open": "boolean",
    }


@pytest.mark.parametrize("moved", [False, True])
def test_a_table_that_was_partitioned_otherwise_has_no_such_columns(
    tmp_path: Any, moved: bool
) -> None:
    _, table = make(str(tmp_path), *(["day"] if moved else []))
    with table.update_spec() as spec:
        spec.add_field("at", DayTransform(), "at_day")
    assert identity_columns(table) == {}
