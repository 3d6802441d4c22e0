"""Schemas of the lake's tables: the columns of raw and deduped, and which types may become which.

What belongs here: schemas. What doesn't: making tables of them
(`mirrorlake.destinations.iceberg.tables.tables`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from mirrorlake.schema.lattice import StoredType, is_promoted
from mirrorlake.schema.own_columns import (
    COMMITTED_AT,
    DAY,
    DELETED,
    EVENT,
    KEY,
    LOAD,
    LOADED_AT,
    OP,
    ORIGINAL,
    POSITION,
    SEQ,
    TOKEN,
)
from mirrorlake.schema.own_columns import DELETED_AT as DELETED_AT  # checks/ takes it from here
from mirrorlake.schema.versions import Exact

OF = "mirrorlake.table"
COLUMNS = "mirrorlake.columns"
"""Properties of raw tables: the source table, and its columns' names and types as JSON."""
_PRIMITIVES: dict[str, IcebergType] = {
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
}


def iceberg_type(text: str) -> IcebergType:
    """A type in the specification's words: ``long``, ``decimal(12,2)``…"""
    if text.startswith("decimal("):
        precision, scale = text[8:-1].split(",")
        return DecimalType(int(precision), int(scale))
    return _PRIMITIVES[text]


def raw_schema(
    columns: Sequence[Exact], with_key: bool, with_token: bool = False, *, with_events: bool = False
) -> Schema:
    """The source's columns, then Mirrorlake's; every field is optional, ids count from 1."""
    fields = [(e.name, iceberg_type(e.iceberg)) for e in columns]
    fields += [
        (LOAD, StringType()),
        (SEQ, LongType()),
        (POSITION, StringType()),
        (LOADED_AT, TimestamptzType()),
        (DELETED, BooleanType()),
        (DAY, DateType()),
    ]
    if with_key:
        fields.append((KEY, BinaryType()))
    if with_token:
        fields.append((TOKEN, BinaryType()))
    if with_events:
        fields += [(EVENT, LongType()), (OP, StringType()), (COMMITTED_AT, TimestamptzType())]
    return _schema(fields, has_original(columns))


def current_schema(columns: Sequence[tuple[str, str]], with_original: bool) -> Schema:
    """The schema of a deduped or clean table: (name, Iceberg type) pairs, and the originals."""
    return _schema([(n, iceberg_type(t)) for n, t in columns], with_original)


def has_original(columns: Sequence[Exact]) -> bool:
    """Whether any value of these columns may have no place in its typed column."""
    return any(e.has_original for e in columns)


def _schema(fields: Sequence[tuple[str, IcebergType]], with_original: bool) -> Schema:
    nested = [NestedField(i, n, t, required=False) for i, (n, t) in enumerate(fields, 1)]
    if with_original:
        top = len(nested) + 1
        entry = StructType(
            NestedField(top + 2, "column", StringType(), required=False),
            NestedField(top + 3, "text", StringType(), required=False),
        )
        originals = ListType(top + 1, entry, element_required=False)
        nested.append(NestedField(top, ORIGINAL, originals, required=False))
    return Schema(*nested)


def stored_types(table: Table | None) -> dict[str, StoredType]:
    """The source's columns as a raw table stores them, in its order; none of no table."""
    if table is None:
        return {}
    mysql = dict(json.loads(table.properties.get(COLUMNS, "[]")))
    return {
        field.name: StoredType(str(field.field_type).replace(" ", ""), mysql.get(field.name, ""))
        for field in table.schema().fields
        if not field.name.startswith("_mirror_")
    }


def partitioned_by_day(schema: Schema, column: str | None) -> PartitionSpec:
    """The layout of a table by the days of a date or a time; None: in one part."""
    if column is None:
        return UNPARTITIONED_PARTITION_SPEC
    field = schema.find_field(column)
    if isinstance(field.field_type, DateType):
        return PartitionSpec(PartitionField(field.field_id, 1000, IdentityTransform(), column))
    return PartitionSpec(PartitionField(field.field_id, 1000, DayTransform(), f"{column}_day"))


def can_hold(held: IcebergType, wanted: IcebergType) -> bool:
    """Whether a column of one type may become one of another: the same, or a wider one."""
    return held == wanted or can_widen(held, wanted)


def can_widen(old: IcebergType, new: IcebergType) -> bool:
    """Whether every value of a type has a place in another, by Iceberg's rules.

    >>> can_widen(IntegerType(), LongType()), can_widen(LongType(), IntegerType())
    (True, False)
    """
    return is_promoted(str(old), str(new))


def ascending(schema: Schema, name: str) -> SortField:
    """A table's order by one of its columns, NULLs first."""
    return SortField(
        source_id=schema.find_field(name).field_id,
        transform=IdentityTransform(),
        direction=SortDirection.ASC,
        null_order=NullOrder.NULLS_FIRST,
    )
