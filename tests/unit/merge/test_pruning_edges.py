"""Where a layer's files begin, by their manifests."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType

from mirrorlake.config import LakeConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.merge import pruning
from mirrorlake.merge.pruning import edges_of

NOON, LATER = datetime(2024, 1, 1, 12, 0, 0, 5), datetime(2024, 1, 2)
BY_TYPE: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    (pa.int32(), [-5, 3], [7, 9]),
    (pa.int64(), [-(2**63), 3], [2**40, 2**63 - 1]),
    (pa.string(), ["Z", "a"], ["\u00e4", "\U0001f600"]),  # by bytes, as no collation orders them
    (pa.binary(), [b"", b"\x01"], [b"\xff", b"\xff\x00"]),
    (pa.decimal128(20, 2), [Decimal("-1.50"), Decimal("0.00")], [Decimal("7.25")]),
    (pa.date32(), [date(1, 1, 1), date(2024, 1, 1)], [date(9999, 12, 31)]),
    (pa.timestamp("us"), [NOON, LATER], [datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC)], [LATER.replace(tzinfo=UTC)]),
]


def table_of(folder: Path, kind: pa.DataType, *files: list[Any]) -> Table:
    lake = Lake(LakeConfig(warehouse=str(folder / "lake")))
    lake.make_namespace("n")
    schema = pa.schema([pa.field("other", pa.int32()), pa.field("k", kind)])
    table = lake.catalog.create_table("n.t", schema)
    for values in files:
        table.append(pa.table({"other": [0] * len(values), "k": values}, schema=schema))
    return table


@pytest.mark.parametrize(("kind", "first", "second"), BY_TYPE, ids=[str(k[0]) for k in BY_TYPE])
def test_each_large_file_after_the_first_begins_at_its_least_value(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: pa.DataType,
    first: list[Any],
    second: list[Any],
) -> None:
    """As Arrow gives the values of the column, which they are compared with."""
    monkeypatch.setattr(pruning, "LARGE", 0)
    table = table_of(tmp_path, kind, second, [None, *reversed(first)], [None, None])
    assert edges_of(table, "K") == (second[0],)
    met = pruning.cells(pa.chunked_array([pa.array(second, kind)]), edges_of(table, "k") or ())
    assert met == (pruning.KeyRange(second[0], None, closed=False),)


def test_changes_that_meet_all_files_make_no_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one that is true of every row either: Iceberg would read dictionaries to evaluate it."""
    monkeypatch.setattr(pruning, "LARGE", 0)
    table = table_of(tmp_path, pa.int32(), [1, 2], [5, 6], [9])
    edges = edges_of(table, "k") or ()
    assert tuple(edges) == (5, 9)
    told = pruning.Bounds(pruning.cells(pa.chunked_array([[2, 6, 9]]), edges), missing=False)
    assert pruning.bounds_sql(told, [("k", "int")]) == "true"


def test_a_table_of_small_files_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entity's days, say: ranges between its few large files would open all of them."""
    table = table_of(tmp_path, pa.int32(), [1], [5], list(range(5_000)))
    assert edges_of(table, "k") is None
    sizes = sorted(task.file.file_size_in_bytes for task in table.scan().plan_files())
    monkeypatch.setattr(pruning, "LARGE", sizes[-1])
    assert edges_of(table, "k") == ()  # the largest one has most of the bytes


def test_a_table_of_many_files_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "MOST_FILES", 1)
    monkeypatch.setattr(pruning, "LARGE", 0)
    assert edges_of(table_of(tmp_path, pa.int32(), [1]), "k") == ()
    assert edges_of(table_of(tmp_path / "two", pa.int32(), [1], [5]), "k") is None


def test_a_file_of_a_narrower_type_begins_where_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "LARGE", 0)
    table = table_of(tmp_path, pa.int32(), [1], [5])
    with table.update_schema() as update:
        update.update_column("k", LongType())
    table = table.refresh()
    table.append(pa.table({"other": pa.array([0], pa.int32()), "k": pa.array([2**40])}))
    assert edges_of(table, "k") == (5, 2**40)
