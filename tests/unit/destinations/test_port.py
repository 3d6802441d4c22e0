"""What every destination promises: one suite, run over each kind of lake there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from mirrorlake.config import LakeConfig
from mirrorlake.destinations.base import MAIN, Commit, Condition, Destination, Identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.commits.data_files import write_files
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.conditions import raw_day, rows_of_load
from mirrorlake.destinations.iceberg.tables.schemas import raw_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_raw_table
from mirrorlake.errors import CommitConflict, LakeError
from mirrorlake.schema.versions import Exact, SchemaVersion

FIRST, SECOND = date(2026, 1, 1), date(2026, 1, 2)
RAW = Identifier("ns", "t")


@dataclass
class Place:
    """A destination with an empty raw table, and the way to write a file for it."""

    lake: Destination
    write: Callable[[str, date, list[int]], str]

    def commit(self, load_id: str, day: date, ids: list[int], **more: Any) -> int | None:
        path = self.write(load_id, day, ids)
        parent = more.pop("parent", self.lake.head(RAW))
        return self.lake.commit(Commit(RAW, parent, [path], {LOAD_ID: load_id}, **more))

    def ids(self, rows: Condition | None = None, version: int | None = None) -> list[int]:
        args = () if rows is None else (rows,)
        batches = self.lake.scan(RAW, ("id",), *args, version=version)
        assert batches is not None
        return sorted(number for batch in batches for number in batch["id"].to_pylist())


def iceberg(folder: Path) -> Place:
    lake = Lake(LakeConfig(warehouse=str(folder / "lake")))
    columns = (Exact("id", "int", "id"),)
    version = SchemaVersion("t", (("id", "int"),))
    made = ensure_raw_table(lake, RAW, raw_schema(columns, with_key=False), "s.d.t", version)
    schema = schema_to_pyarrow(made.schema())

    def write(load_id: str, day: date, ids: list[int]) -> str:
        values = {"id": ids, "_mirror_load": [load_id] * len(ids), "_mirror_day": [day] * len(ids)}
        arrays = [pa.array(values.get(f.name, [None] * len(ids)), f.type) for f in schema]
        rows = pa.Table.from_arrays(arrays, schema=schema)
        [file] = write_files(dict(made.io.properties), made.location(), f"{load_id}-1", rows)
        return file.path

    return Place(lake, write)


@pytest.fixture(params=[iceberg])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return request.param(tmp_path)


def test_a_table_without_rows_has_no_version(place: Place) -> None:
    assert place.lake.head(RAW) is None
    assert place.lake.count_rows(RAW) == 0
    assert place.lake.statistics(RAW) is None
    assert place.ids() == []


def test_what_is_not_there_is_none_and_no_error(place: Place) -> None:
    other = Identifier("ns", "other")
    assert place.lake.head(other) is None
    assert place.lake.scan(other, ("id",)) is None
    assert place.lake.count_rows(other) is None
    assert place.lake.statistics(other) is None
    assert place.lake.find_load(other, "l1") is None
    assert place.lake.drop(other) is False
    with pytest.raises(LakeError):
        place.lake.branches(other)


def test_a_commit_is_found_by_its_load_and_counted(place: Place) -> None:
    first = place.commit("l1", FIRST, [1, 2])
    second = place.commit("l2", SECOND, [3])
    assert (place.lake.find_load(RAW, "l1"), place.lake.find_load(RAW, "l2")) == (first, second)
    assert place.lake.find_load(RAW, "l3") is None
    assert place.lake.head(RAW) == second
    now, then = place.lake.statistics(RAW), place.lake.statistics(RAW, first)
    assert now is not None
    assert then is not None
    assert (now.rows, now.data_files, now.delete_files) == (3, 2, 0)
    assert (then.rows, then.data_files) == (2, 1)
    assert now.bytes > then.bytes > 0


def test_a_commit_on_another_parent_shows_nothing(place: Place) -> None:
    first = place.commit("l1", FIRST, [1])
    with pytest.raises(CommitConflict):
        place.commit("l2", FIRST, [2], parent=None)
    assert (place.lake.head(RAW), place.ids()) == (first, [1])


def test_a_commit_replaces_the_days_that_its_condition_selects(place: Place) -> None:
    place.commit("l1", FIRST, [1, 2])
    place.commit("l2", SECOND, [3])
    place.commit("l3", FIRST, [4], replaces=raw_day(FIRST))
    assert place.ids() == [3, 4]


def test_a_scan_selects_rows_and_versions(place: Place) -> None:
    first = place.commit("l1", FIRST, [1, 2, 3])
    place.commit("l2", SECOND, [4])
    assert place.ids(Condition("id", 2, 4)) == [2, 3, 4]
    assert place.ids(Condition("id", None, 2)) == [1, 2]
    assert place.ids(Condition("id", 3, None)) == [3, 4]
    assert place.ids(rows_of_load("l1")) == [1, 2, 3]
    assert place.ids(Condition("_mirror_seq", 7, 9)) == []
    assert place.ids(Condition("_mirror_seq", 7, 9, or_null=True)) == [1, 2, 3, 4]
    assert place.ids(version=first) == [1, 2, 3]


def test_a_branch_is_seen_by_nobody_until_it_is_published(place: Place) -> None:
    first = place.commit("l1", FIRST, [1])
    at = place.lake.create_branch(RAW, "b", first)
    path = place.write("l2", FIRST, [2])
    change = Commit(RAW, at, [path], {LOAD_ID: "l2"}, branch="b")
    head = place.lake.commit(change)
    assert place.lake.branches(RAW) == {MAIN: first, "b": head}
    assert (place.ids(), place.lake.find_load(RAW, "l2")) == ([1], None)
    assert place.lake.publish_branch(RAW, "b", first) == head
    assert (place.ids(), place.lake.find_load(RAW, "l2")) == ([1, 2], head)
    assert place.lake.branches(RAW) == {MAIN: head}


def test_a_branch_whose_main_moved_is_not_published(place: Place) -> None:
    first = place.commit("l1", FIRST, [1])
    at = place.lake.create_branch(RAW, "b", first)
    place.lake.commit(Commit(RAW, at, [place.write("l2", FIRST, [2])], {LOAD_ID: "l2"}, branch="b"))
    place.commit("l3", FIRST, [3])
    with pytest.raises(CommitConflict):
        place.lake.publish_branch(RAW, "b", first)
    assert place.ids() == [1, 3]
    place.lake.drop_branch(RAW, "b")
    assert set(place.lake.branches(RAW)) == {MAIN}


def test_main_is_replaced_by_a_branch_that_began_with_nothing(place: Place) -> None:
    first = place.commit("l1", FIRST, [1])
    at = place.lake.begin_branch(RAW, "b")
    place.lake.commit(Commit(RAW, at, [place.write("l2", FIRST, [2])], {LOAD_ID: "l2"}, branch="b"))
    place.lake.replace_main(RAW, "b", first)
    assert place.ids() == [2]


def test_main_goes_back_and_forward_again(place: Place) -> None:
    first = place.commit("l1", FIRST, [1])
    second = place.commit("l2", FIRST, [2])
    assert first is not None
    assert second is not None
    assert place.lake.roll_back(RAW, first, second) == first
    assert place.ids() == [1]
    assert place.lake.set_forward(RAW, second, first) == second
    assert place.ids() == [1, 2]


def test_a_renamed_table_keeps_its_rows(place: Place) -> None:
    place.commit("l1", FIRST, [1])
    other = Identifier("ns", "other.one")
    place.lake.rename(RAW, other)
    assert (place.lake.count_rows(other), place.lake.count_rows(RAW)) == (1, None)
    assert place.lake.drop(other) is True
    assert place.lake.count_rows(other) is None
