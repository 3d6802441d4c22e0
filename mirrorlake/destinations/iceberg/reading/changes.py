"""What a version of a table has that an earlier one had not, found by its files.

A data file never changes: one that both versions name, with the same files of deletes, holds the
same rows in both and is not opened.

Source: Iceberg specification, "Scan Planning", "Position Delete Files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.table import FileScanTask, Table

from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.metadata.row_counts import positions_deleted
from mirrorlake.destinations.iceberg.reading.stream import read_tasks


@dataclass(frozen=True)
class VersionChanges:
    """The files in which two versions differ.

    Attributes:
        added: files all of whose rows may be new.
        before: files of the earlier version that the later one has not, or with other deletes.
        after: those of the later one, the added ones among them.
    """

    table: Table
    added: tuple[FileScanTask, ...]
    before: tuple[FileScanTask, ...]
    after: tuple[FileScanTask, ...]

    @property
    def added_rows(self) -> int:
        """How many rows the added files have, at most: deletes are not looked at."""
        return sum(task.file.record_count for task in self.added)

    def read_added(self, lake: Connection, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of the added files: all rows that are new or changed, and perhaps others.

        Raises:
            LakeError: the storage failed.
        """
        return read_tasks(lake, self.table, self.added, columns)

    def find_gone(self, lake: Connection, key: Sequence[str]) -> pa.Table:
        """The keys that the earlier version had and the later one has not.

        Raises:
            LakeError: the storage failed.
        """
        before, after = (self._keys(lake, tasks, key) for tasks in (self.before, self.after))
        return before.join(after, list(key), join_type="left anti")

    def find_left(self, lake: Connection, key: Sequence[str], column: str) -> pa.ChunkedArray:
        """A column's values in the rows of the earlier version that changed or are gone, and in
        others perhaps.

        Raises:
            LakeError: the storage failed.
        """
        added = {task.file.file_path for task in self.added}
        still = [task for task in self.after if task.file.file_path not in added]
        names = list(dict.fromkeys((*key, column)))
        before = self._keys(lake, self.before, names)
        return before.join(self._keys(lake, still, key), list(key), join_type="left anti")[column]

    def may_be_unset(self, columns: Sequence[str]) -> bool:
        """Whether one of these columns may be NULL in a row of these files."""
        fields = [self.table.schema().find_field(name).field_id for name in columns]
        counts = [task.file.null_value_counts or {} for task in (*self.before, *self.after)]
        return any(of_file.get(field) != 0 for of_file in counts for field in fields)

    def _keys(
        self, lake: Connection, tasks: Sequence[FileScanTask], key: Sequence[str]
    ) -> pa.Table:
        schema = self.table.schema().select(*key).as_arrow()
        wanted = pa.schema([schema.field(name).remove_metadata() for name in key])
        batches = [
            pa.RecordBatch.from_arrays([batch.column(name) for name in key], schema=wanted)
            for batch in read_tasks(lake, self.table, tasks, key)
        ]
        return pa.Table.from_batches(batches, schema=wanted)


def changes_since(lake: Connection, table: Table, since: int) -> VersionChanges | None:
    """The files in which the version that ``table`` was loaded at differs from an earlier one; None
    where that one has expired.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    if table.snapshot_by_id(since) is None:
        return None
    with lake.translated(".".join(table.name())):
        before = {t.file.file_path: t for t in table.scan(snapshot_id=since).plan_files()}
        after = {t.file.file_path: t for t in table.scan().plan_files()}
        moved = [t for path, t in after.items() if not _same(before.get(path), t)]
        added = [t for t in moved if _adds(table, before.get(t.file.file_path), t)]
    return VersionChanges(
        table=table,
        added=tuple(added),
        before=tuple(t for path, t in before.items() if not _same(after.get(path), t)),
        after=tuple(moved),
    )


def _same(other: FileScanTask | None, task: FileScanTask) -> bool:
    """Whether a file shows the same rows in both versions."""
    return other is not None and _deletes(other) == _deletes(task)


def _adds(table: Table, before: FileScanTask | None, after: FileScanTask) -> bool:
    """Whether a file may show rows that it did not show before: it is new, or deletes were taken
    away, as in a version that was set back. An engine that deletes more rows of a file writes those
    that were deleted before into the same new file of deletes."""
    if before is None:
        return True
    if _deletes(before) <= _deletes(after):
        return False
    gone = positions_deleted(table.io, before)
    still = positions_deleted(table.io, after)
    return gone is None or still is None or not np.isin(gone, still).all()


def _deletes(task: FileScanTask) -> frozenset[str]:
    return frozenset(file.file_path for file in task.delete_files)
