"""What the manifests of a raw table say of its files: of which load each is, and in how many rows a
column is NULL.

Source: Iceberg specification, "Manifests", ``null_value_counts`` of ``data_file``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.types import LongType

from mirrorlake.destinations.iceberg.catalog import Connection
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.schema.own_columns import SEQ


@dataclass(frozen=True)
class CountedFile:
    """One file of raw.

    Attributes:
        seq: the number of the load whose rows it has; None where it does not say.
        rows: how many it has.
        nulls: in how many of them a column is NULL: in all where the table had no such column yet;
            None where the file does not say it.
    """

    seq: int | None
    rows: int
    nulls: Mapping[str, int | None]


def raw_files(lake: Connection, table: LakeTable, columns: Sequence[str]) -> list[CountedFile]:
    """The files that a raw table shows.

    Args:
        columns: whose NULLs are counted; one that the table has not is NULL in every row.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    ids = {field.name: field.field_id for field in table.schema().fields}
    number = table.schema().find_field(SEQ).field_id
    with lake.translated(".".join(table.name())):
        files = [task.file for task in table.scan().plan_files()]
    return [
        CountedFile(
            _number(file, number),
            file.record_count,
            {
                name: _nulls(file, ids[name]) if name in ids else file.record_count
                for name in columns
            },
        )
        for file in files
    ]


def _nulls(file: DataFile, field: int) -> int | None:
    counted = (file.null_value_counts or {}).get(field)
    if counted is None and field not in (file.value_counts or {field: 0}):
        return file.record_count  # the column came later than the file
    return counted


def _number(file: DataFile, field: int) -> int | None:
    lower = (file.lower_bounds or {}).get(field)
    upper = (file.upper_bounds or {}).get(field)
    if lower is None or lower != upper:
        return None
    return int(from_bytes(LongType(), lower))
