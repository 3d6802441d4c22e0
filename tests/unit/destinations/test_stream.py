"""Rows of a lake table file by file, and those of new files alone."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from mirrorlake.config import LakeConfig, Namespaces, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.reading import stream
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table
from mirrorlake.operations.checking.observe import duplicate_keys
from mirrorlake.schema.own_columns import ORIGINAL


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(LakeConfig(warehouse=str(tmp_path / "lake")))


def filled(lake: Lake, *commits: list[int]) -> Table:
    columns = current_schema([("id", "long"), ("word", "string")], False)
    table = ensure_current_table(lake, Identifier("n", "t"), columns)
    for ids in commits:
        words = [f"word {i}" for i in ids]
        table.append(pa.table({"id": ids, "word": words}, table.schema().as_arrow()))
    return table


def ids(lake: Lake, table: Table, since: int | None = None) -> list[int]:
    return sorted(i for b in read_batches(lake, table, ("id",), since) for i in b["id"].to_pylist())


def test_all_rows_are_read_as_their_schema_says(lake: Lake) -> None:
    table = filled(lake, [1, 2], [3])
    batches = list(read_batches(lake, table))
    assert sum(b.num_rows for b in batches) == 3
    assert {str(b.schema.field("word").type) for b in batches} == {"large_string"}


def test_only_rows_of_newer_files(lake: Lake) -> None:
    table = filled(lake, [1, 2])
    first = table.current_snapshot()
    assert first is not None
    table = filled(lake, [3])
    assert ids(lake, table, first.snapshot_id) == [3]
    assert ids(lake, table, 12345) == [1, 2, 3]  # a snapshot that has expired: all rows


def test_a_row_that_was_rewritten_is_new(lake: Lake) -> None:
    table = filled(lake, [1, 2])
    first = table.current_snapshot()
    assert first is not None
    table.delete("id = 1")
    assert ids(lake, table) == [2]
    assert ids(lake, table, first.snapshot_id) == [2]


def test_one_file_is_in_memory_at_a_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(lake, [1], [2], [3])
    asked: list[int] = []
    scan = stream.ArrowScan.to_record_batches

    def counted(self: stream.ArrowScan, tasks: list[object]) -> object:
        asked.append(len(tasks))
        return scan(self, tasks)  # type: ignore[arg-type]

    monkeypatch.setattr(stream.ArrowScan, "to_record_batches", counted)
    reading = read_batches(lake, table)
    next(reading)
    assert asked == [1]


def test_an_empty_table_has_no_rows(lake: Lake) -> None:
    assert ids(lake, filled(lake)) == []


def contract(*key: str) -> TableContract:
    names = Namespaces(raw="r", deduped="n", clean="c")
    return TableContract(
        source="s", database="d", table="t", mode="full", key=key, namespaces=names
    )


def test_repeated_keys_are_counted_over_files(lake: Lake) -> None:
    filled(lake, [1, 2], [2, 3, 3])
    assert duplicate_keys(lake, contract("ID")) == 2
    assert duplicate_keys(lake, contract("id", "word")) == 2


def test_keys_that_only_their_originals_tell_apart_are_no_repeats(lake: Lake) -> None:
    """Two zero dates are two keys, and one of them twice is a repeat."""
    columns = current_schema([("born", "date"), ("n", "int")], True)
    table = ensure_current_table(lake, Identifier("n", "t"), columns)
    texts = ["0000-00-00", "2020-00-00", "2020-00-00"]
    rows = [
        {"born": None, "n": n, ORIGINAL: [{"column": "born", "text": text}]}
        for n, text in enumerate(texts)
    ]
    rows.append({"born": date(2020, 1, 1), "n": 3, ORIGINAL: [{"column": "n", "text": "x"}]})
    rows.append({"born": date(2020, 1, 2), "n": 4, ORIGINAL: []})
    table.append(pa.Table.from_pylist(rows[:2], table.schema().as_arrow()))
    assert duplicate_keys(lake, contract("born")) == 0
    table.append(pa.Table.from_pylist(rows[2:], table.schema().as_arrow()))
    assert duplicate_keys(lake, contract("born")) == 1


def test_deduped_of_an_entity_is_laid_out_by_day_whatever_its_time_is(lake: Lake) -> None:
    """A DATE too: lakes of all releases have one layout."""
    for number, kind in enumerate(("date", "timestamp")):
        columns = current_schema([("id", "long"), ("made", kind)], False)
        named = Identifier("n", f"e{number}")
        table = ensure_current_table(lake, named, columns, ("id",), "made")
        (field,) = table.spec().fields
        assert (field.name, str(field.transform)) == ("made_day", "day")
