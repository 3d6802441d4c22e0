"""The files that snapshots of a table name, with their sizes.

Source: the Iceberg specification, "Manifests", "Snapshots".
"""

from __future__ import annotations

from collections.abc import Collection

from mirrorlake.destinations.iceberg.model import LakeTable


def files_named(table: LakeTable, snapshots: Collection[int]) -> dict[int, dict[str, int]]:
    """By snapshot, the data and delete files that it names: path → bytes. Each manifest is read
    once."""
    read: dict[str, dict[str, int]] = {}
    found: dict[int, dict[str, int]] = {}
    for number in snapshots:
        snapshot, named = table.snapshot_by_id(number), dict[str, int]()
        for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
            if manifest.manifest_path not in read:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                files = {e.data_file.file_path: e.data_file.file_size_in_bytes for e in entries}
                read[manifest.manifest_path] = files
            named |= read[manifest.manifest_path]
        found[number] = named
    return found
