"""The partitions in which a version of a table differs from an earlier one, found by its files.

A partition of which a file came, went, or shows other deletes has all of its rows read again: so
nothing has to tell one row from another. Of tables that are partitioned by columns as they are.

Source: Iceberg specification, "Partition Transforms", "Scan Planning".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType

from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.metadata.statistics import shown_value
from mirrorlake.destinations.iceberg.reading.changes import changes_since
from mirrorlake.destinations.iceberg.reading.stream import read_tasks

PartTexts = tuple[str | None, ...]
"""The values of a partition as texts; None: NULL."""


@dataclass(frozen=True)
class PartitionChanges:
    """The partitions in which two versions differ.

    Attributes:
        parts: their values, in order of their texts.
        added: the files of these partitions in the later version; none of one that went.
    """

    table: Table
    parts: tuple[PartTexts, ...]
    added: tuple[FileScanTask, ...]

    @property
    def added_rows(self) -> int:
        """How many rows these files have, at most: deletes are not looked at."""
        return sum(task.file.record_count for task in self.added)

    def read_added(self, lake: Connection, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows that these partitions have in the later version.

        Raises:
            LakeError: the storage failed.
        """
        return read_tasks(lake, self.table, self.added, columns)


def identity_columns(table: Table) -> dict[str, str]:
    """The columns by whose values as they are a table is partitioned, in order, each with its type
    as Iceberg writes it; none where it is partitioned otherwise, or was once."""
    fields = table.spec().fields
    if len(table.specs()) > 1 or any(f.transform != IdentityTransform() for f in fields):
        return {}
    columns = (table.schema().find_field(field.source_id) for field in fields)
    return {column.name: str(column.field_type) for column in columns}


def partitions_since(lake: Connection, table: Table, since: int) -> PartitionChanges | None:
    """The partitions in which the version that ``table`` was loaded at differs from an earlier one;
    None where that one has expired.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    changes = changes_since(lake, table, since)
    if changes is None:
        return None
    fields = table.spec().fields
    kinds = [table.schema().find_field(field.source_id).field_type for field in fields]
    touched = {_texts(kinds, task) for task in (*changes.before, *changes.after)}
    with lake.translated(".".join(table.name())):
        files = [*table.scan().plan_files()]
    added = tuple(task for task in files if _texts(kinds, task) in touched)
    return PartitionChanges(table, tuple(sorted(touched, key=str)), added)


def _texts(kinds: Sequence[IcebergType], task: FileScanTask) -> PartTexts:
    values = (shown_value(kind, task.file.partition[n]) for n, kind in enumerate(kinds))
    return tuple(None if value is None else _text(value) for value in values)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
