"""Versions that expire, and their files: as Iceberg's Java library leaves both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.update import SetSnapshotRefUpdate

from mirrorlake.config import LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits import older_versions as module
from mirrorlake.destinations.iceberg.commits.older_versions import (
    expire_versions,
    older_versions,
    remove_older_files,
)
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.small_files import needs_rewrite
from mirrorlake.errors import CommitConflict, LakeDamaged

T = Identifier("d", "t")
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
    lake.make_namespace("d")
    lake.catalog.create_table(T.path, ROWS.schema, location=f"{tmp_path}/lake/d/t")
    return lake


def table_of(lake: Lake) -> Table:
    found = lake.load(T)
    assert found is not None
    return found


def grow(lake: Lake, commits: int) -> list[int]:
    """That many commits, each in place of the rows before; all versions by now, the oldest
    first."""
    for _ in range(commits):
        table = table_of(lake)
        table.overwrite(ROWS) if table.current_snapshot() else table.append(ROWS)
    return [one.snapshot_id for one in table_of(lake).snapshots()]


def files_below(tmp_path: Path) -> set[str]:
    return {p.name for p in (tmp_path / "lake/d/t").rglob("*") if p.is_file()}


NOW = datetime(2100, 1, 1, tzinfo=UTC)  # all versions are older
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def test_newest_and_younger_ones_and_what_is_named_stay(lake: Lake) -> None:
    ids = grow(lake, 4)
    assert older_versions(table_of(lake), NOW, 1) == set(ids[:-1])
    assert older_versions(table_of(lake), NOW, 3) == set(ids[:-3])
    assert older_versions(table_of(lake), LONG_AGO, 1) == set()
    at = table_of(lake).snapshot_by_id(ids[-3])
    assert at is not None
    moment = datetime.fromtimestamp(at.timestamp_ms / 1000, UTC)
    assert older_versions(table_of(lake), moment, 1) == set(ids[:-3])
    table_of(lake).manage_snapshots().create_tag(ids[1], "kept").commit()
    assert older_versions(table_of(lake), NOW, 1) == {*ids[:-1]} - {ids[1]}
    table_of(lake).manage_snapshots().create_branch(ids[3], "b").commit()
    assert older_versions(table_of(lake), NOW, 2) == {*ids[:-2]} - {ids[1], ids[3], ids[2]}


def test_a_branch_has_a_policy_of_its_own(lake: Lake) -> None:
    ids = grow(lake, 4)
    table = table_of(lake)

    def keep(**policy: Any) -> None:
        ref = SetSnapshotRefUpdate(ref_name="b", type="branch", snapshot_id=ids[-2], **policy)
        lake.catalog.commit_table(table, (), (ref,))

    keep(**{"min-snapshots-to-keep": 3})
    assert isinstance(table_of(lake).metadata.refs["b"], SnapshotRef)
    assert older_versions(table_of(lake), NOW, 1) == set(ids[:-4])
    keep(**{"max-snapshot-age-ms": int(timedelta(days=1).total_seconds() * 1000)})
    assert older_versions(table_of(lake), NOW, 1) == set(), "all are younger than a day"


def test_what_is_left_says_that_there_was_something_before(lake: Lake) -> None:
    """PyIceberg lets the oldest version that stays begin the table: by that a lake that was set
    back could not be told from one whose versions expired."""
    ids = grow(lake, 3)
    before = {one.snapshot_id: one.parent_snapshot_id for one in table_of(lake).snapshots()}
    expire_versions(lake, T, ids[:-2])
    left = table_of(lake).snapshots()
    assert [one.snapshot_id for one in left] == ids[-2:]
    assert {one.snapshot_id: one.parent_snapshot_id for one in left} == {
        number: before[number] for number in ids[-2:]
    }
    assert left[0].parent_snapshot_id == ids[-3], "which is gone"
    assert table_of(lake).scan().to_arrow() == ROWS


def test_a_reader_of_a_moment_whose_version_is_gone_is_given_no_other(lake: Lake) -> None:
    ids = grow(lake, 4)
    table_of(lake).manage_snapshots().create_tag(ids[1], "kept").commit()
    expire_versions(lake, T, older_versions(table_of(lake), NOW, 1))
    table = table_of(lake)
    assert {one.snapshot_id for one in table.snapshots()} == {ids[1], ids[-1]}
    assert [entry.snapshot_id for entry in table.metadata.snapshot_log] == [ids[-1]]
    assert grow(lake, 1)[-1] == table_of(lake).metadata.snapshot_log[-1].snapshot_id


def test_their_files_go_and_no_others(lake: Lake, tmp_path: Path) -> None:
    table_of(lake).append(ROWS)
    table_of(lake).append(ROWS)  # a file that later versions have, too
    table_of(lake).delete("id = 2")
    ids = grow(lake, 2)
    table_of(lake).manage_snapshots().create_tag(ids[1], "kept").commit()
    kept = table_of(lake).scan(snapshot_id=ids[1]).to_arrow()
    gone = older_versions(table_of(lake), NOW, 1)
    only = {
        Path(one).name
        for number in gone
        for one in paths_of(table_of(lake), [number])
        if one not in paths_of(table_of(lake), {*ids} - gone)
    }
    before, at = files_below(tmp_path), table_of(lake).metadata_location
    expire_versions(lake, T, gone)
    assert remove_older_files(lake, T, at) == []
    written = {Path(table_of(lake).metadata_location).name}
    assert only, "or it shows nothing"
    assert files_below(tmp_path) == (before | written) - only
    assert table_of(lake).scan().to_arrow() == ROWS
    assert table_of(lake).scan(snapshot_id=ids[1]).to_arrow() == kept
    assert remove_older_files(lake, T, at) == [], "again is no error"


def test_files_that_are_not_the_tables_own_stay(lake: Lake, tmp_path: Path) -> None:
    """Somebody's version showed a file of their own; ours is shown again, and theirs grows old."""
    table_of(lake).append(ROWS)
    theirs = tmp_path / "theirs.parquet"
    pq.write_table(ROWS, theirs)
    table_of(lake).add_files([f"file://{theirs}"])
    number = table_of(lake).snapshots()[-1].snapshot_id
    grow(lake, 1)
    table_of(lake).delete("id >= 0")
    table_of(lake).append(ROWS)
    at = table_of(lake).metadata_location
    gone = older_versions(table_of(lake), NOW, 1)
    assert number in gone
    expire_versions(lake, T, gone)
    assert remove_older_files(lake, T, at) == []
    assert theirs.exists()


def paths_of(table: Table, versions: Sequence[int] | set[int]) -> set[str]:
    """All files that some versions name, found by PyIceberg's own lists of them."""
    found = set[str]()
    for number in versions:
        snapshot = table.snapshot_by_id(number)
        assert snapshot is not None
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io)
            found |= {one.data_file.file_path for one in entries}
    return found


def test_no_file_goes_while_nobody_knows_what_a_version_that_stays_needs(
    lake: Lake, tmp_path: Path
) -> None:
    for _ in range(3):
        table_of(lake).append(ROWS)
    ids = [one.snapshot_id for one in table_of(lake).snapshots()]
    at = table_of(lake).metadata_location
    expire_versions(lake, T, ids[:1])
    head = table_of(lake).current_snapshot()
    assert head is not None
    Path(head.manifest_list.removeprefix("file://")).unlink()
    before = files_below(tmp_path)
    with pytest.raises(LakeDamaged, match="is not there"):
        remove_older_files(Lake(lake.config), T, at)
    assert files_below(tmp_path) == before


def test_a_tag_that_somebody_else_makes_meanwhile_stays(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg, and REST servers, drop the tags of a version that they are to remove."""
    ids = grow(lake, 3)
    commit = lake.catalog.commit_table

    def tagged(*given: Any) -> Any:
        monkeypatch.undo()
        table_of(lake).manage_snapshots().create_tag(ids[0], "theirs").commit()
        return commit(*given)

    monkeypatch.setattr(lake.catalog, "commit_table", tagged)
    with pytest.raises(CommitConflict, match="another writer"):
        expire_versions(lake, T, ids[:1])
    assert table_of(lake).metadata.refs["theirs"].snapshot_id == ids[0]
    assert table_of(lake).snapshot_by_id(ids[0]) is not None


def test_a_branch_that_moved_meanwhile_keeps_what_it_names(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = grow(lake, 3)
    commit = lake.catalog.commit_table

    def set_back(*given: Any) -> Any:
        monkeypatch.undo()
        table_of(lake).manage_snapshots().set_current_snapshot(snapshot_id=ids[0]).commit()
        return commit(*given)

    monkeypatch.setattr(lake.catalog, "commit_table", set_back)
    with pytest.raises(CommitConflict):
        expire_versions(lake, T, ids[:1])
    assert table_of(lake).metadata.current_snapshot_id == ids[0]


def test_nothing_to_expire_is_no_commit(lake: Lake) -> None:
    grow(lake, 1)
    at = table_of(lake).metadata_location
    expire_versions(lake, T, [1, 2, 3])
    expire_versions(lake, T, [])
    expire_versions(lake, Identifier("d", "none"), [1])
    assert table_of(lake).metadata_location == at
    assert module.remove_older_files(lake, Identifier("d", "none"), at) == []


def test_small_files_are_told_from_manifests(lake: Lake) -> None:
    """As `rewrite_data_files` would find them: see `tests/integration/merge/test_compacted.py`,
    which asks it."""
    assert not needs_rewrite(table_of(lake)), "it is empty"
    table_of(lake).append(ROWS)
    assert not needs_rewrite(table_of(lake)), "one small file is all that there is"
    table_of(lake).append(ROWS)
    assert needs_rewrite(table_of(lake)), "two"
    size = max(task.file.file_size_in_bytes for task in table_of(lake).scan().plan_files())

    def aim(target: int) -> None:
        with table_of(lake).transaction() as change:
            change.set_properties({"write.target-file-size-bytes": str(target)})

    aim(size * 8)
    assert not needs_rewrite(table_of(lake)), "two that are just large enough"
    aim(size * 8 + 8)
    assert needs_rewrite(table_of(lake)), "two that are just too small"
    aim(size // 4 - 8)
    assert needs_rewrite(table_of(lake)), "too large ones"
    aim(size)
    assert not needs_rewrite(table_of(lake))
