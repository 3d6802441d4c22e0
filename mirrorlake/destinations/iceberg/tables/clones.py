"""Clones: a table over the same files, whose metadata is a copy that knows one snapshot alone.

What a clone adds goes into a folder of its own; what it shares stays the original's. A tag on the
original keeps that snapshot from expiring, and ``gc.enabled = false`` keeps Iceberg from deleting
files by way of the clone.

Source: the Iceberg specification, "Table Metadata", "Snapshot References", "Table Properties".
"""

from __future__ import annotations

import uuid

from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.refs import MAIN_BRANCH

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.model import LakeTable

CLONE = "mirror_clone_"
"""What the tags begin with that keep a clone's files."""
OF = "mirrorlake.clone-of"
"""A property of a clone: ``namespace.table`` and the tag there."""


def register_clone(
    lake: Connection, identifier: Identifier, table: LakeTable, snapshot: int, name: Identifier
) -> bool:
    """Tag a table's current snapshot, and register a clone of it; False where there is a table of
    that name already.

    Raises:
        LakeError: the catalog or the storage failed; there is no clone and no tag.
    """
    tag = f"{CLONE}{uuid.uuid4().hex[:12]}"
    with lake.translated(identifier):
        table.manage_snapshots().create_tag(snapshot, tag).commit()
    try:
        with lake.translated(name):
            lake.catalog.register_table(name.path, _copied(lake, table.refresh(), name, tag))
    except TableAlreadyExistsError:
        remove_tag(lake, identifier, tag)
        return False
    except BaseException:
        remove_tag(lake, identifier, tag)
        raise
    return True


def _copied(lake: Connection, table: LakeTable, name: Identifier, tag: str) -> str:
    """Write a copy of a table's metadata that knows its current snapshot alone; where."""
    location = f"{lake.location(name)}-{uuid.uuid4().hex[:8]}"
    shown = table.metadata.current_snapshot_id
    original = table.metadata
    changed = {
        "table_uuid": uuid.uuid4(),
        "location": location,
        "snapshots": [
            s.model_copy(update={"parent_snapshot_id": None})
            for s in original.snapshots
            if s.snapshot_id == shown
        ],
        "snapshot_log": [e for e in original.snapshot_log if e.snapshot_id == shown][-1:],
        "metadata_log": [],
        "statistics": [],
        "partition_statistics": [],
        "refs": {MAIN_BRANCH: original.refs[MAIN_BRANCH]},
        "properties": {
            **original.properties,
            "gc.enabled": "false",
            OF: f"{'.'.join(table.name())} {tag}",
        },
    }
    path = f"{location}/metadata/00000-{uuid.uuid4()}.metadata.json"
    ToOutputFile.table_metadata(
        original.model_copy(update=changed), table.io.new_output(path), overwrite=False
    )
    return path


def remove_tag(lake: Connection, identifier: Identifier, tag: str) -> None:
    """Let a tagged snapshot expire, where the table is there and has the tag."""
    table = lake.load(identifier)
    if table is not None and tag in table.metadata.refs:
        with lake.translated(identifier):
            table.manage_snapshots().remove_tag(tag).commit()
