"""Data files of a version that any reader of Parquet reads as the table has them: nothing has to be
renamed, converted or left out on the way.

Source: Iceberg specification, "Column Projection", "Row-level Deletes".
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from mirrorlake.destinations.base import LocalFiles
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.schema.own_columns import ORIGINAL

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
    fields, schema = scan.projection().fields, schema_to_pyarrow(scan.projection())
    filled, paths = {field.name for field in fields}, list[str]()
    with lake.translated(".".join(table.name())):
        for task in scan.plan_files():
            path = local_path(task.file.file_path)
            if path is None or task.delete_files:
                return None
            file = pq.read_schema(path)
            if not has_columns(file, schema) or not has_types(file, schema, schema.names):
                return None
            nulls = task.file.null_value_counts or {}
            filled = {f.name for f in fields if f.name in filled and nulls.get(f.field_id) == 0}
            paths.append(str(path))
    return LocalFiles(tuple(paths), frozenset(filled))


def has_columns(file: pa.Schema, table: pa.Schema, names: Sequence[str] | None = None) -> bool:
    """Whether a file has columns of a table under their names and the table's own field ids.

    Args:
        names: which; None: all.
    """

    def ids(schema: pa.Schema) -> dict[str, bytes | None]:
        return {f.name: (f.metadata or {}).get(b"PARQUET:field_id") for f in schema}

    theirs, ours = ids(file), ids(table)
    return all(n in theirs and theirs[n] == ours[n] for n in (names or ours))


def has_types(file: pa.Schema, table: pa.Schema, names: Sequence[str]) -> bool:
    """Whether a file that has these columns has them in the table's own types: then no value is
    converted when it is read. What is in original texts is not compared."""

    def kind(schema: pa.Schema, name: str) -> pa.DataType:
        found = schema.field(name).type
        return _SAME.get(found, found)

    return all(kind(file, name) == kind(table, name) for name in names if name != ORIGINAL)
