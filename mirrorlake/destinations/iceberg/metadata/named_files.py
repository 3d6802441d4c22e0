"""The files that snapshots of a table name, with their sizes.

Source: the Iceberg specification, "Manifests", "Snapshots".
"""

from __future__ import annotations

from collections.abc import Collection

from pyiceberg.manifest import ManifestFile

from mirrorlake.destinations.iceberg.manifests import entries_of, manifests_of
from mirrorlake.destinations.iceberg.model import LakeTable


def files_named(table: LakeTable, snapshots: Collection[int]) -> dict[int, dict[str, int]]:
    """By snapshot, the data and delete files that it names: path → bytes. Each manifest is read
    once."""
    read: dict[str, dict[str, int]] = {}
    found: dict[int, dict[str, int]] = {}
    for number in snapshots:
        snapshot, named = table.snapshot_by_id(number), dict[str, int]()
        for manifest in manifests_of(table.io, snapshot):
            if manifest.manifest_path not in read:
                entries = entries_of(table.io, manifest)
                files = {e.data_file.file_path: e.data_file.file_size_in_bytes for e in entries}
                read[manifest.manifest_path] = files
            named |= read[manifest.manifest_path]
        found[number] = named
    return found


def metadata_of_versions(table: LakeTable) -> set[str]:
    """The lists of manifests of all versions of a table, and the manifests that they name.

    Raises:
        FileNotFoundError: such a list is not there.
    """
    lists = {snapshot.manifest_list for snapshot in table.snapshots()}
    return lists | set(_manifests(table))


def files_of_versions(table: LakeTable) -> set[str]:
    """The data and delete files that any version of a table names. Each manifest is read once.

    Raises:
        FileNotFoundError: a manifest, or the list of a version's, is not there.
    """
    return {
        entry.data_file.file_path
        for manifest in _manifests(table).values()
        for entry in entries_of(table.io, manifest)
    }


def _manifests(table: LakeTable) -> dict[str, ManifestFile]:
    found = (one for snapshot in table.snapshots() for one in manifests_of(table.io, snapshot))
    return {manifest.manifest_path: manifest for manifest in found}
