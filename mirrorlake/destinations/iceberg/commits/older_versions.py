"""Older versions of a lake table, taken away with their files.

What belongs here: versions and files. What doesn't: when they go: once a rule hides what they show
(`mirrorlake.serving.hiding`), and when they grew old (`mirrorlake.operations.upkeep.maintain`).

Source: Iceberg specification, "Snapshots", "Snapshot Retention Policy", "Manifests".
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.metadata_read import metadata_read
from mirrorlake.destinations.iceberg.manifests import (
    ManifestCut,
    entries_of,
    manifests_of,
)
from mirrorlake.destinations.iceberg.metadata.named_files import (
    files_of_versions,
    metadata_of_versions,
)
from mirrorlake.destinations.iceberg.storage.listing import listed_path
from mirrorlake.errors import CommitConflict

logger = logging.getLogger(__name__)


def expire_all_but_main(lake: Connection, identifier: Identifier) -> list[str]:
    """Let a table know the version that main shows, and no other: branches and tags go, too. The
    files stay.

    Returns:
        The tags that went.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    tags = list[str]()
    table = lake.load(identifier)
    if table is None:
        return tags
    with lake.translated(identifier):
        for name, ref in dict(table.metadata.refs).items():
            if name == MAIN_BRANCH:
                continue
            refs = table.manage_snapshots()
            is_branch = ref.snapshot_ref_type == SnapshotRefType.BRANCH
            tags += [] if is_branch else [name]
            (refs.remove_branch(name) if is_branch else refs.remove_tag(name)).commit()
            table = table.refresh()
        head = table.metadata.current_snapshot_id
    expire_versions(lake, identifier, {s.snapshot_id for s in table.snapshots()} - {head})
    return tags


def older_versions(table: Table, before: datetime, newest: int) -> set[int]:
    """The versions that are older than a moment, but for what a tag names and the newest ones of
    each branch. A branch's own policy is kept in place of these two.
    """
    oldest = before.timestamp() * 1000
    stay = {one.snapshot_id for one in table.snapshots() if one.timestamp_ms >= oldest}
    for ref in table.metadata.refs.values():
        if ref.snapshot_ref_type == SnapshotRefType.TAG:
            stay.add(ref.snapshot_id)
            continue
        least = ref.min_snapshots_to_keep or newest
        since = oldest
        if ref.max_snapshot_age_ms is not None:
            since = datetime.now(UTC).timestamp() * 1000 - ref.max_snapshot_age_ms
        head = table.snapshot_by_id(ref.snapshot_id)
        for number, one in enumerate(ancestors_of(head, table.metadata)):
            if number >= least and one.timestamp_ms < since:
                break
            stay.add(one.snapshot_id)
    return {one.snapshot_id for one in table.snapshots()} - stay


def expire_versions(lake: Connection, identifier: Identifier, versions: Collection[int]) -> None:
    """Let a table know these versions no more; their files stay. The caller holds its lease.

    Raises:
        CommitConflict: the table, one of its branches or one of its tags is another one by now.
        CommitUnknown: nobody said whether they went.
        LakeError: the catalog or the storage failed.
    """
    table = lake.load(identifier)
    there = {one.snapshot_id for one in table.snapshots()} if table is not None else set[int]()
    gone = sorted(there.intersection(versions))
    if table is None or not gone:
        return
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        *(
            AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id)  # pyright: ignore[reportCallIssue] (by its alias only)
            for name, ref in table.metadata.refs.items()
        ),
    )

    def is_done() -> bool:
        now = lake.load(identifier)
        return now is not None and not any(now.snapshot_by_id(number) for number in gone)

    conflict = CommitConflict(
        f"lake table {identifier} was changed by another writer while old versions were to expire",
        table=str(identifier),
        next_step="Nothing was changed; the next maintenance finds them again",
    )
    with lake.committing(identifier, is_done, lambda: conflict):
        lake.catalog.commit_table(table, requirements, (RemoveSnapshotsUpdate(snapshot_ids=gone),))  # pyright: ignore[reportCallIssue]


def remove_older_files(lake: Connection, identifier: Identifier, at: str) -> list[str]:
    """Remove the files that versions of a table showed, and that none of now shows; those that are
    still there. Doing it again is no error.

    Args:
        at: the table's metadata file from before the versions expired.

    Raises:
        LakeDamaged: that file can't be read, or a manifest of a version that stays is not there, so
            that nobody knows which files it needs; nothing is removed.
        LakeError: the catalog or the storage failed.
    """
    table = lake.load(identifier)
    if table is None:
        return []
    with lake.translated(identifier):
        with metadata_read(identifier):
            then = FromInputFile.table_metadata(table.io.new_input(at))
        now = {s.snapshot_id for s in table.snapshots()}
        gone = [s for s in then.snapshots if s.snapshot_id not in now]
        if not gone:
            return []
        used = files_of_versions(table) | metadata_of_versions(table)
        left: list[str] = []
        # Data before what names it: who dies in between finds the rest again.
        for group in _files(table.io, gone, known=used):
            left += _removed(table, group - used)
        return left


def remove_all_files(table: Table) -> None:
    """Remove the files of a table that no catalog names any more."""
    metadata = table.metadata
    earlier = {entry.metadata_file for entry in metadata.metadata_log}
    for group in (*_files(table.io, metadata.snapshots), earlier, {table.metadata_location}):
        for path in _removed(table, group):
            logger.warning("file %s was not removed", path)


def _files(
    io: FileIO, snapshots: Iterable[Snapshot], known: Collection[str] = ()
) -> tuple[set[str], set[str], set[str]]:
    """The data and delete files that versions that are gone showed, their manifests, and the lists
    of these; what is not there any more names nothing. Manifests that are known are not read."""
    data: set[str] = set()
    manifests: set[str] = set()
    lists: set[str] = set()
    for snapshot in snapshots:
        lists.add(snapshot.manifest_list)
        with suppress(FileNotFoundError, ManifestCut):
            for manifest in manifests_of(io, snapshot):
                if manifest.manifest_path in manifests or manifest.manifest_path in known:
                    continue
                manifests.add(manifest.manifest_path)
                with suppress(FileNotFoundError, ManifestCut):
                    entries = entries_of(io, manifest)
                    data.update(entry.data_file.file_path for entry in entries)
    return data, manifests, lists


def _removed(table: Table, paths: Iterable[str]) -> list[str]:
    """Remove files; those that are still there. What is not below the table's own folder stays: a
    version that other hands made may have shown files of another table, or a person's own."""
    folder = f"{listed_path(table.location())}/"
    left: list[str] = []
    for path in sorted(path for path in paths if listed_path(path).startswith(folder)):
        try:
            with suppress(FileNotFoundError):
                table.io.delete(path)
        except OSError as error:
            logger.warning("file %s was not removed: %s", path, error)
            left.append(path)
    return left
