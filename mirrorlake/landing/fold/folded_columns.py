"""The columns that a snapshot was folded under, where the contract has others by now.

A version remembers of each snapshot only a hash of them. The lake table's older schemas say what
they can have been: if one of these has that hash, the snapshot is read so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable
from mirrorlake.destinations.iceberg.tables.schemas import iceberg_type
from mirrorlake.landing.fold.shape import SnapshotTable
from mirrorlake.landing.fold.state import columns_hash
from mirrorlake.merge.row_sql.conversions import spark_type
from mirrorlake.schema.own_columns import ORIGINAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def tables_as_folded(rows: LakeTable, table: SnapshotTable) -> dict[str, SnapshotTable]:
    """The table as the contract has it now and as it can have been before, by the hash that a
    version remembers. The key and the compared columns that are left have to be the same."""
    found = {columns_hash(table): table}
    for schema in rows.schemas().values():
        before = _before(schema, table)
        if before is not None:
            found.setdefault(columns_hash(before), before)
    return found


def _before(schema: LakeSchema, table: SnapshotTable) -> SnapshotTable | None:
    types = {field.name: field.field_type for field in schema.fields}
    columns: list[tuple[str, str]] = []
    for name, kind in table.columns:
        if name not in types:
            continue
        there = types[name]
        if name == ORIGINAL or there == iceberg_type(kind):
            columns.append((name, kind))
        else:
            columns.append((name, str(there).replace(" ", "")))
    names = {name for name, _ in columns}
    if not {*table.key, *([table.day] if table.day else [])} <= names:
        return None
    uncompared = tuple(name for name in table.uncompared if name in names)
    return replace(table, columns=tuple(columns), uncompared=uncompared)


def as_columns_of(frame: DataFrame, before: SnapshotTable, table: SnapshotTable) -> DataFrame:
    """Rows as they were folded then, as the table shows them now: columns that came since are NULL,
    and narrower types are widened."""
    if before.columns == table.columns:
        return frame
    there = {name for name, _ in before.columns}
    return frame.selectExpr(
        *(
            f"CAST({as_sql_identifier(name) if name in there else 'NULL'} AS {spark_type(kind)}) "
            f"AS {as_sql_identifier(name)}"
            for name, kind in table.columns
        )
    )
