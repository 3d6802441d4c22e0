"""What a lake table is made of: names and lookups for the rest of the engine.

Nobody outside this package imports PyIceberg: what is read of a table, its snapshots and its files
goes by these names, and by the other modules here.

Source: Iceberg specification, "Table Metadata", "Manifests", "Snapshots".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import CreateTableTransaction, Table
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from mirrorlake.destinations.iceberg.manifests import entries_of, manifests_of

LakeTable: TypeAlias = Table
NewTable: TypeAlias = CreateTableTransaction
"""A table to be made by the commit of its first rows."""
LakeSchema: TypeAlias = Schema
LakeSnapshot: TypeAlias = Snapshot
LakeFile: TypeAlias = DataFile
Storage: TypeAlias = FileIO

__all__ = [
    "LakeFile",
    "LakeSchema",
    "LakeSnapshot",
    "LakeTable",
    "NewTable",
    "Storage",
    "added_files",
    "arrow_schema",
    "changed_files",
    "chosen_columns",
    "has_rows",
    "history",
    "is_rewrite",
    "open_storage",
    "removed_files",
    "shown_columns",
    "snapshot_property",
    "spark_types",
    "table_at",
]


def open_storage(properties: Mapping[str, str], location: str) -> Storage:
    """The storage at a location, by the properties that a table's own storage has."""
    return load_file_io(dict(properties), location)


def arrow_schema(schema: LakeSchema, *, field_ids: bool = True) -> pa.Schema:
    """The Arrow types of a table's columns; with the table's field ids as metadata, as a data file
    is written."""
    return schema_to_pyarrow(schema, include_field_ids=field_ids)


def column_names(schema: LakeSchema) -> list[str]:
    """The names of a table's columns, in order; PyIceberg's own list has what is inside of them
    too."""
    return [field.name for field in schema.fields]


def spark_types(schema: LakeSchema) -> list[tuple[str, str, bool]]:
    """The columns of a table as Spark has them: name, type, and whether it may be NULL.

    Source: Iceberg documentation, "Spark Writes", "Iceberg type to Spark type".
    """
    return [
        (field.name, _spark_type(field.field_type), not field.required) for field in schema.fields
    ]


def _spark_type(kind: IcebergType) -> str:
    if isinstance(kind, StructType):
        inner = (f"{field.name}:{_spark_type(field.field_type)}" for field in kind.fields)
        return f"struct<{','.join(inner)}>"
    if isinstance(kind, ListType):
        return f"array<{_spark_type(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{_spark_type(kind.key_type)},{_spark_type(kind.value_type)}>"
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK_NAMES.get(type(kind), str(kind))


_SPARK_NAMES: dict[type[IcebergType], str] = {
    LongType: "bigint",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    UUIDType: "string",
    BinaryType: "binary",
    FixedType: "binary",
}


def chosen_columns(schema: LakeSchema, names: Sequence[str]) -> LakeSchema:
    """Some columns of a table, in the order of their names."""
    fields = {field.name: field for field in schema.fields}
    return Schema(*(fields[name] for name in names))


def table_at(table: LakeTable, snapshot: int) -> LakeTable | None:
    """A table as it was at one of its versions, with the columns of then, to be read; None where it
    has that version no more."""
    shown = table.snapshot_by_id(snapshot)
    if shown is None:
        return None
    changed: dict[str, object] = {"current_snapshot_id": snapshot}
    if shown.schema_id is not None:
        changed["current_schema_id"] = shown.schema_id
    metadata = table.metadata.model_copy(update=changed)
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def shown_columns(table: LakeTable) -> LakeSchema:
    """The columns of what main shows: new ones are the table's before its next version has them."""
    head = table.current_snapshot()
    then = table_at(table, head.snapshot_id) if head is not None else None
    return (then or table).schema()


def history(table: LakeTable, head: int | None = None) -> list[LakeSnapshot]:
    """The snapshots that main showed, or those that led to ``head``; newest first.

    A snapshot that expired ends it.
    """
    start = table.current_snapshot() if head is None else table.snapshot_by_id(head)
    return list(ancestors_of(start, table.metadata))


def is_rewrite(snapshot: LakeSnapshot) -> bool:
    """Whether a snapshot wrote files again and changed no row, as a compaction does."""
    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE


def snapshot_property(snapshot: LakeSnapshot, name: str) -> str | None:
    """A property of a snapshot's summary, or None."""
    return snapshot.summary.additional_properties.get(name) if snapshot.summary else None


def added_files(table: LakeTable, snapshot: LakeSnapshot) -> Iterator[str]:
    """The paths of the files that a snapshot added."""
    return (file.file_path for added, file in changed_files(table, snapshot) if added)


def removed_files(table: LakeTable, snapshot: LakeSnapshot) -> Iterator[str]:
    """The paths of the files that a snapshot took out."""
    return (file.file_path for added, file in changed_files(table, snapshot) if not added)


def changed_files(table: LakeTable, snapshot: LakeSnapshot) -> Iterator[tuple[bool, LakeFile]]:
    """The files, of rows and of deletes, that a snapshot added (True) or took out (False)."""
    for manifest in manifests_of(table.io, snapshot):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in entries_of(table.io, manifest, live=False):
                if entry.status != ManifestEntryStatus.EXISTING:
                    yield entry.status == ManifestEntryStatus.ADDED, entry.data_file


def has_rows(file: LakeFile) -> bool:
    """Whether a file holds rows, and not deletes of others."""
    return file.content == DataFileContent.DATA
