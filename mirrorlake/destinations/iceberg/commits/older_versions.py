"""Older versions of a lake table, taken away with their files: those that show what nobody is to
see any more.

What belongs here: versions and files. What doesn't: when they go (`mirrorlake.serving.hiding`), and
versions that merely grew old (`mirrorlake.operations.upkeep.maintain`).

Source: Iceberg specification, "Snapshots", "Manifests".
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress

from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.metadata_read import metadata_read

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
        others = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != head]
        if others:
            table.maintenance.expire_snapshots().by_ids(others).commit()
    return tags


def remove_older_files(lake: Connection, identifier: Identifier, at: str) -> list[str]:
    """Remove the files that versions of a table showed, and that none of now shows; those that are
    still there. Doing it again is no error.

    Args:
        at: the table's metadata file from before the versions expired.

    Raises:
        LakeDamaged: that file can't be read.
        LakeError: the catalog or the storage failed.
    """
    table = lake.load(identifier)
    if table is None:
        return []
    with lake.translated(identifier):
        with metadata_read(identifier):
            then = FromInputFile.table_metadata(table.io.new_input(at))
        now = {s.snapshot_id for s in table.snapshots()}
        used = {path for group in _files(table.io, table.snapshots()) for path in group}
        gone = [s for s in then.snapshots if s.snapshot_id not in now]
        left: list[str] = []
        # Data before what names it: who dies in between finds the rest again.
        for group in _files(table.io, gone):
            left += _removed(table.io, group - used)
        return left


def remove_all_files(table: Table) -> None:
    """Remove the files of a table that no catalog names any more."""
    metadata = table.metadata
    earlier = {entry.metadata_file for entry in metadata.metadata_log}
    for group in (*_files(table.io, metadata.snapshots), earlier, {table.metadata_location}):
        for path in _removed(table.io, group):
            logger.warning("file %s was not removed", path)


def _files(io: FileIO, snapshots: Iterable[Snapshot]) -> tuple[set[str], set[str], set[str]]:
    """The data and delete files that versions show, their manifests, and the lists of these; what
    is not there any more names nothing."""
    data: set[str] = set()
    manifests: set[str] = set()
    lists: set[str] = set()
    for snapshot in snapshots:
        lists.add(snapshot.manifest_list)
        with suppress(FileNotFoundError):
            for manifest in snapshot.manifests(io):
                if manifest.manifest_path in manifests:
                    continue
                manifests.add(manifest.manifest_path)
                with suppress(FileNotFoundError):
                    entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
                    data.update(entry.data_file.file_path for entry in entries)
    return data, manifests, lists


def _removed(io: FileIO, paths: Iterable[str]) -> list[str]:
    """Remove files; those that are still there."""
    left: list[str] = []
    for path in sorted(paths):
        try:
            with suppress(FileNotFoundError):
                io.delete(path)
        except OSError as error:
            logger.warning("file %s was not removed: %s", path, error)
            left.append(path)
    return left
