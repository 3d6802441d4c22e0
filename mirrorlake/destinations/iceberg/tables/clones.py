"""Clones: a table over the same files, whose metadata is a copy that knows one snapshot alone.

What a clone adds goes into a folder of its own; what it shares stays the original's. A tag on the
original keeps that snapshot from expiring, and ``gc.enabled = false`` keeps Iceberg from deleting
files by way of the clone.

Source: the Iceberg specification, "Table Metadata", "Snapshot References", "Table Properties".
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import SnapshotLogEntry

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.tables.tags import tag_version, untag

CLONE = "mirror_clone_"
"""What the tags begin with that keep a clone's files."""
OF = "mirrorlake.clone-of"
"""A property of a clone: ``namespace.table`` and the tag there."""
LEFT = "mirrorlake.tagged."
"""What the names of properties begin with that are about tags: a clone has none of these."""


def register_clone(
    lake: Connection, identifier: Identifier, table: LakeTable, snapshot: int, name: Identifier
) -> bool:
    """Tag a table's current snapshot, and register a clone of it; False where there is a table of
    that name already.

    Raises:
        LakeError: the catalog or the storage failed; there is no clone and no tag.
    """
    tag = f"{CLONE}{uuid.uuid4().hex[:12]}"
    tag_version(lake, identifier, snapshot, tag)
    try:
        with lake.translated(name):
            path = write_copy(lake, table.refresh(), snapshot, name, tag)
            lake.catalog.register_table(name.path, path)
    except TableAlreadyExistsError:
        untag(lake, identifier, tag)
        return False
    except BaseException:
        untag(lake, identifier, tag)
        raise
    return True


def write_copy(
    lake: Connection,
    table: LakeTable,
    snapshot: int | None,
    name: Identifier,
    tag: str,
    there: LakeTable | None = None,
) -> str:
    """Write a copy of a table's metadata that knows one of its snapshots alone, with the columns
    that it had then; where. Nobody names it yet.

    Args:
        snapshot: None: the copy has no row.
        name: of the clone that it is for.
        tag: which keeps that snapshot.
        there: the clone, where it is to show this from now on; it stays the same table.

    Raises:
        LakeError: the storage failed.
    """
    location, number = f"{lake.location(name)}-{uuid.uuid4().hex[:8]}", 0
    if there is not None:
        location = there.location()
        before = re.search(r"/(\d+)-[^/]*$", there.metadata_location)
        number = int(before[1]) + 1 if before else 0
    original = table.metadata
    shown = table.snapshot_by_id(snapshot) if snapshot is not None else None
    changed: dict[str, Any] = {
        "table_uuid": there.metadata.table_uuid if there is not None else uuid.uuid4(),
        "location": location,
        "last_updated_ms": int(time.time() * 1000),
        "current_snapshot_id": snapshot,
        "snapshots": [],
        "snapshot_log": [],
        "metadata_log": [],
        "statistics": [],
        "partition_statistics": [],
        "refs": {},
        "properties": {
            **{n: v for n, v in original.properties.items() if not n.startswith(LEFT)},
            "gc.enabled": "false",
            OF: f"{'.'.join(table.name())} {tag}",
        },
    }
    if shown is not None:
        changed["snapshots"] = [shown.model_copy(update={"parent_snapshot_id": None})]
        ids = {"snapshot-id": shown.snapshot_id}
        entry = SnapshotLogEntry.model_validate(ids | {"timestamp-ms": shown.timestamp_ms})
        changed["snapshot_log"] = [entry]
        changed["refs"] = {MAIN_BRANCH: SnapshotRef.model_validate(ids | {"type": "branch"})}
        if shown.schema_id is not None:
            changed["current_schema_id"] = shown.schema_id
    path = f"{location}/metadata/{number:05d}-{uuid.uuid4()}.metadata.json"
    with lake.translated(name):
        ToOutputFile.table_metadata(
            original.model_copy(update=changed), table.io.new_output(path), overwrite=False
        )
    return path
