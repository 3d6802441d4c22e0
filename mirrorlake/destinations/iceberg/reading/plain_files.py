"""Data files of a version that any reader of Parquet reads as the table has them: nothing has to be
renamed, converted or left out on the way.

Source: Iceberg specification, "Column Projection", "Row-level Deletes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from mirrorlake.destinations.base import LocalFiles
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.storage.durable import local_path

_SAME = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""Types of one kind of value."""


def local_files(
    lake: Connection, table: Table, columns: Sequence[str], version: int
) -> LocalFiles | None:
    """See `mirrorlake.destinations.base.Destination.local_files`.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    scan = table.scan(selected_fields=tuple(columns), snapshot_id=version)
    fields = scan.projection().fields
    types = {f.name: f.type for f in schema_to_pyarrow(scan.projection(), include_field_ids=False)}
    filled, paths = {field.name for field in fields}, list[str]()
    with lake.translated(".".join(table.name())):
        for task in scan.plan_files():
            path = local_path(task.file.file_path)
            if path is None or task.delete_files:
                return None
            if not _has_columns(pq.read_schema(path), fields, types):
                return None
            nulls = task.file.null_value_counts or {}
            filled = {f.name for f in fields if f.name in filled and nulls.get(f.field_id) == 0}
            paths.append(str(path))
    return LocalFiles(tuple(paths), frozenset(filled))


def _has_columns(
    file: pa.Schema, fields: Sequence[NestedField], types: Mapping[str, pa.DataType]
) -> bool:
    """Whether a file has these columns under their names and field ids, and in their types; what is
    in a list is not compared."""
    found = {field.name: field for field in file}
    for field in fields:
        one, wanted = found.get(field.name), types[field.name]
        if (
            one is None
            or int((one.metadata or {}).get(b"PARQUET:field_id", b"-1")) != field.field_id
        ):
            return False
        listed = pa.types.is_list(one.type) or pa.types.is_large_list(one.type)
        if not listed and _SAME.get(one.type, one.type) != _SAME.get(wanted, wanted):
            return False
    return True
