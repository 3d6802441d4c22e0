"""What removing versions of a table leaves in its metadata, where PyIceberg does it.

Source: Iceberg 1.10, `TableMetadata.Builder`: "any invalid entry causes the history before it to be
removed"; the Iceberg specification, "Snapshots" (``parent-snapshot-id``).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import (
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

_OF_REFS = (RemoveSnapshotRefUpdate, SetSnapshotRefUpdate)


def as_removed(
    before: TableMetadata | None, updates: Sequence[TableUpdate], after: TableMetadata
) -> TableMetadata:
    """Metadata without some versions, as Iceberg's Java library leaves it.

    PyIceberg lets a version whose parent is gone begin the table, by which nobody can tell any more
    that there were rows before; and keeps the log of what main showed before a gap, by which a
    reader as of a moment in the gap is given what main had shown earlier.

    Raises:
        CommitFailedException: a branch or a tag names one of them by now; both would go.
    """
    removed = {
        number
        for update in updates
        if isinstance(update, RemoveSnapshotsUpdate)
        for number in update.snapshot_ids
    }
    if before is None or not removed:
        return after
    moved = {one.ref_name for one in updates if isinstance(one, _OF_REFS)}
    for name, ref in before.refs.items():
        if ref.snapshot_id in removed and name not in moved:
            raise CommitFailedException(f"{name} names a version that was to be removed")
    parents = {one.snapshot_id: one.parent_snapshot_id for one in before.snapshots}
    snapshots = [
        one.model_copy(update={"parent_snapshot_id": parents.get(one.snapshot_id)})
        for one in after.snapshots
    ]
    log: list[SnapshotLogEntry] = []
    known = {(entry.snapshot_id, entry.timestamp_ms) for entry in before.snapshot_log}
    new = [one for one in after.snapshot_log if (one.snapshot_id, one.timestamp_ms) not in known]
    for entry in (*before.snapshot_log, *new):
        if entry.snapshot_id in removed:
            log.clear()
        else:
            log.append(entry)
    return after.model_copy(update={"snapshots": snapshots, "snapshot_log": log})
