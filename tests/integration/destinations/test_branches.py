"""Branches of lake tables: made, written, published by fast-forward, dropped; and main set back.

What main shows is read by PyIceberg, and by Spark through its own catalog.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import (
    create_branch,
    drop_branch,
    list_branches,
    publish_branch,
    read_branch,
    roll_back,
    set_forward,
)
from mirrorlake.destinations.iceberg.commits.commit import (
    LOAD_ID,
    Commit,
    commit_load,
    find_load,
    head_of,
)
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table
from mirrorlake.errors import CommitConflict, LakeError
from mirrorlake.merge.staging import branch_sql
from tests.integration.conftest import Place

ROWS = Schema(NestedField(1, "id", LongType(), required=False))


@pytest.fixture
def name(place: Place) -> Identifier:
    """An empty table of the test's own; its namespace has a space."""
    identifier = Identifier("branches of", f"t{uuid.uuid4().hex[:8]}")
    ensure_current_table(place.lake, identifier, ROWS)
    return identifier


def load(place: Place, name: Identifier) -> Table:
    found = place.lake.load(name)
    assert found is not None
    return found


def append(place: Place, name: Identifier, *ids: int, branch: str = "main") -> int:
    table = load(place, name)
    table.append(rows(*ids), branch=branch)
    head = table.snapshot_by_name(branch)
    assert head is not None
    return head.snapshot_id


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def shown(place: Place, name: Identifier) -> list[int]:
    """What readers see on main; two of them agree."""
    found: list[int] = sorted(load(place, name).scan().to_arrow()["id"].to_pylist())
    spark: Any = place.spark.get().sql(f"SELECT id FROM {name.sql} ORDER BY id").collect()
    assert [row.id for row in spark] == found
    return found


def test_an_empty_table_is_branched_and_published(place: Place, name: Identifier) -> None:
    head = create_branch(place.lake, name, "first", None)
    assert list_branches(place.lake, name) == {"first": head}
    assert head_of(place.lake, name) is None
    written = append(place, name, 1, 2, branch="first")
    assert shown(place, name) == []
    assert publish_branch(place.lake, name, "first", None) == written
    assert shown(place, name) == [1, 2]
    assert list_branches(place.lake, name) == {"main": written}
    append(place, name, 3)
    assert shown(place, name) == [1, 2, 3]


def test_a_branch_is_seen_by_nobody_until_it_is_published(place: Place, name: Identifier) -> None:
    main = append(place, name, 1)
    assert create_branch(place.lake, name, "b", main) == main
    append(place, name, 2, branch="b")
    place.spark.run(f"INSERT INTO {name.sql}.branch_b VALUES (3)")
    head = read_branch(place.lake, name, "b")
    assert shown(place, name) == [1]
    assert publish_branch(place.lake, name, "b", main, keep=True) == head
    assert shown(place, name) == [1, 2, 3]
    # Once more, as after a crash: main is there already.
    assert publish_branch(place.lake, name, "b", main) == head
    assert list_branches(place.lake, name) == {"main": head}


def test_main_that_moved_is_never_forced(place: Place, name: Identifier) -> None:
    main = append(place, name, 1)
    create_branch(place.lake, name, "b", main)
    append(place, name, 2, branch="b")
    moved = append(place, name, 9)
    # Whatever the caller takes for main's head: what main holds would be lost.
    for expected in (main, moved):
        with pytest.raises(CommitConflict, match=rf"main has moved .* to {moved}") as caught:
            publish_branch(place.lake, name, "b", expected)
        assert caught.value.retryable
    assert shown(place, name) == [1, 9]
    assert set(list_branches(place.lake, name)) == {"main", "b"}


def test_a_writer_between_the_look_and_the_commit(
    place: Place, name: Identifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = append(place, name, 1)
    create_branch(place.lake, name, "b", main)
    append(place, name, 2, branch="b")
    stale = load(place, name)
    append(place, name, 9)
    fresh, looks = Lake.load, iter([stale])
    monkeypatch.setattr(Lake, "load", lambda lake, what: next(looks, None) or fresh(lake, what))
    with pytest.raises(CommitConflict, match="another writer was faster"):
        publish_branch(place.lake, name, "b", main)
    assert shown(place, name) == [1, 9]


def test_names_that_nobody_made_are_refused(place: Place, name: Identifier) -> None:
    main = append(place, name, 1)
    create_branch(place.lake, name, "b", main)
    with pytest.raises(LakeError, match=r"no branch 'c'.*Its branches: b, main"):
        publish_branch(place.lake, name, "c", main)
    with pytest.raises(LakeError, match="no branch 'c'"):
        drop_branch(place.lake, name, "c")
    with pytest.raises(LakeError, match="no branch 'c'"):
        read_branch(place.lake, name, "c")
    with pytest.raises(LakeError, match="has a branch or tag 'b' already"):
        create_branch(place.lake, name, "b", main)
    for wrong in ("main", "", "a b", "`"):
        with pytest.raises(LakeError, match="can't have a branch"):
            create_branch(place.lake, name, wrong, main)
    with pytest.raises(LakeError, match="no snapshot 7"):
        create_branch(place.lake, name, "d", 7)
    with pytest.raises(CommitConflict, match="is not empty any more"):
        create_branch(place.lake, name, "d", None)
    with pytest.raises(LakeError, match="no lake table"):
        list_branches(place.lake, Identifier(name.namespace, "none"))
    drop_branch(place.lake, name, "b")
    with pytest.raises(LakeError, match="can't be without main"):
        drop_branch(place.lake, name, "main")
    assert list_branches(place.lake, name) == {"main": main}


def test_main_is_set_back_and_forward_again(place: Place, name: Identifier) -> None:
    first, second = append(place, name, 1), append(place, name, 2)
    create_branch(place.lake, name, "b", first)
    aside = append(place, name, 3, branch="b")
    with pytest.raises(LakeError, match=f"never showed snapshot {aside}"):
        roll_back(place.lake, name, aside, second)
    with pytest.raises(CommitConflict, match="main has moved"):
        roll_back(place.lake, name, first, first)
    assert roll_back(place.lake, name, first, second) == first
    assert shown(place, name) == [1]
    with pytest.raises(LakeError, match="never showed"):
        roll_back(place.lake, name, second, first)
    assert set_forward(place.lake, name, second, first) == second
    assert shown(place, name) == [1, 2]
    with pytest.raises(LakeError, match="did not come of main"):
        set_forward(place.lake, name, aside, second)


def test_a_load_on_a_branch_is_not_found_on_main(place: Place, name: Identifier) -> None:
    """An unpublished load must never be taken for a visible one."""
    main = append(place, name, 1)
    create_branch(place.lake, name, "b", main)
    table = load(place, name)
    path = f"{table.location()}/data/x.parquet"
    pq.write_table(rows(5), path.removeprefix("file://"))
    commit = Commit(name, main, [path], {LOAD_ID: "l1"}, branch="b")
    head = commit_load(place.lake, commit)
    assert head == read_branch(place.lake, name, "b")
    assert find_load(place.lake, name, "l1") is None
    found = find_load(place.lake, name, "l1", "b")
    assert found is not None
    assert found.snapshot_id == head
    with pytest.raises(CommitConflict, match=r"\(branch b\) moved"):
        commit_load(place.lake, commit)
    with pytest.raises(CommitConflict, match=r"\(branch typo\) moved"):
        commit_load(place.lake, Commit(name, None, [path], {LOAD_ID: "l2"}, branch="typo"))
    publish_branch(place.lake, name, "b", main)
    assert find_load(place.lake, name, "l1") is not None
    assert shown(place, name) == [1, 5]


def test_spark_goes_on_where_the_last_writers_clock_was_ahead(
    place: Place, name: Identifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's Java library neither reads nor writes what lies ahead of its clock; a branch, with
    which each fold begins, takes it back."""
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 7200)
    head = append(place, name, 1)
    monkeypatch.setattr(time, "time", clock)
    spark = place.spark.get()
    refused = "Expected sorted snapshot log entries|Invalid update timestamp"
    with pytest.raises(Exception, match=refused):
        spark.sql(f"INSERT INTO {name.sql} VALUES (2)")
    create_branch(place.lake, name, "b", head)
    spark.sql(f"INSERT INTO {branch_sql(name, 'b')} VALUES (2)")
    publish_branch(place.lake, name, "b", head)
    assert sorted(row.id for row in spark.table(name.sql).collect()) == [1, 2]
