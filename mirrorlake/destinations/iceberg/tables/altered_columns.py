"""Columns that other hands took away from a lake table, renamed, or gave another type.

Such a change makes no version: main shows the same rows, without the values, or with them under
another name. Data files name columns by their ids, so the schema of before shows every value again,
as long as no file was written since. Columns that were added take nothing away: alone they stay,
but for those of raw, where a table holds one schema version as it was read.

Source: Iceberg specification, "Schema Evolution" and "Column Projection".
"""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from pyiceberg.types import IcebergType

from mirrorlake.destinations.base import MAIN, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.metadata_read import metadata_read
from mirrorlake.errors import CommitConflict, LakeDamaged
from mirrorlake.ledger.lake.lake_heads import LakeHead

_MAPPING = "schema.name-mapping.default"


def has_other_columns(table: Table, head: LakeHead, *, exactly: bool) -> bool:
    """Whether a table has not every column that our last commit left, as it was. False where the
    metadata file of that commit is gone.

    Args:
        exactly: whether it may have no others either.

    Raises:
        OSError: the storage failed.
    """
    then = _read_left(table, head)
    if then is None:
        return False
    there, left = _columns(table.schema()), _columns(then.schema())
    return there != left if exactly else not left.items() <= there.items()


def set_columns_back(lake: Connection, identifier: Identifier, head: LakeHead) -> None:
    """Give a table that shows the version of our last commit the columns that this commit left, and
    no others.

    Raises:
        CommitConflict: another writer was faster; nothing was changed.
        LakeError: the catalog or the storage failed.
    """
    with lake.translated(identifier):
        table = lake.catalog.load_table(identifier.path)
        then = _read_left(table, head)
    if then is None or _columns(table.schema()) == _columns(then.schema()):
        return
    left = then.schema()
    updates: list[TableUpdate] = []
    known = next((one.schema_id for one in table.metadata.schemas if one == left), None)
    if known is None:
        known = max(one.schema_id for one in table.metadata.schemas) + 1
        schema = left.model_copy(update={"schema_id": known})
        updates.append(AddSchemaUpdate(schema=schema))
    updates.append(SetCurrentSchemaUpdate(schema_id=known))  # type: ignore[call-arg]
    if mapping := then.properties.get(_MAPPING):  # by which files without ids are read
        updates.append(SetPropertiesUpdate(updates={_MAPPING: mapping}))
    requirements: Any = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),  # type: ignore[call-arg]
        AssertRefSnapshotId(ref=MAIN, snapshot_id=head.snapshot_id),  # type: ignore[call-arg]
    )

    def are_there() -> bool:
        return _columns(lake.catalog.load_table(identifier.path).schema()) == _columns(left)

    with lake.committing(identifier, are_there, lambda: _conflict(identifier)):
        table.catalog.commit_table(table, requirements, tuple(updates))


def _columns(schema: Schema) -> dict[int, tuple[str, IcebergType]]:
    return {field.field_id: (field.name, field.field_type) for field in schema.fields}


def _read_left(table: Table, head: LakeHead) -> TableMetadata | None:
    """What the catalog named after our last commit; None where it is named now, or is gone."""
    at = head.metadata_location
    if at == table.metadata_location:
        return None
    try:
        with metadata_read(Identifier(*head.name)):
            return FromInputFile.table_metadata(table.io.new_input(at))
    except LakeDamaged:
        return None


def _conflict(identifier: Identifier) -> CommitConflict:
    return CommitConflict(
        f"another writer was faster at lake table {identifier}: its columns were not set back",
        table=str(identifier),
        next_step="Nothing was changed: try again",
        retryable=True,
    )
