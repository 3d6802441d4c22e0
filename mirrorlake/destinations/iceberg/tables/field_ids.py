"""Field ids that two tables have in common, so that a data file of one can be one of the other.

A data file names its columns by ids alone. A layer that is made from raw takes raw's ids, and ids
of raw's own columns, which it lacks, are never given to a column of its own.

Source: Iceberg specification, "Column Projection", "Schema Evolution".
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import CreateTableTransaction, Table
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import ListType

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection


def shares_ids(source: Table, target: Table) -> bool:
    """Whether every file of one table can be read as rows of another: a column that both have has
    one id and type in both, and no id of the source's is, or will be, another column's."""
    theirs, ours = source.schema(), target.schema()
    if target.metadata.last_column_id < source.metadata.last_column_id:
        return False
    by_name, taken = {f.name: f for f in theirs.fields}, set(index_by_id(theirs))
    for field in ours.fields:
        same = by_name.get(field.name)
        if same is None:
            if not taken.isdisjoint(index_by_id(Schema(field))):
                return False
        elif (same.field_id, same.field_type) != (field.field_id, field.field_type):
            return False
    return True


def has_types_of(schema: Schema, other: Schema) -> bool:
    """Whether the columns that both have are of one type; what is inside of lists is not compared,
    whose ids are each schema's own."""
    types = {field.name: field.field_type for field in other.fields}
    return all(
        isinstance(field.field_type, ListType)
        or types.get(field.name, field.field_type) == field.field_type
        for field in schema.fields
    )


def stage_with_ids_of(
    lake: Connection,
    identifier: Identifier,
    source: Schema,
    schema: Schema,
    order: SortOrder,
    properties: Mapping[str, str],
    location: str,
) -> CreateTableTransaction:
    """An unpartitioned table of columns that another may have too, under the ids that they have
    there, to be made.

    Args:
        source: the other table's schema, which counts its ids as a new table does.
        schema: the columns, in their order; those that the source lacks get ids after all of its.
        order: by this schema's ids.
    """
    # What is sorted by is named: the ids are the source's from here on.
    order = SortOrder(
        *(
            one.model_copy(update={"source_id": source.find_field(name).field_id})
            for one in order.fields
            for name in [str(schema.find_column_name(one.source_id))]
        )
    )
    wanted = [field.name for field in schema.fields]
    there = {field.name for field in source.fields}
    with lake.translated(identifier):
        creation = lake.catalog.create_table_transaction(
            identifier.path,
            source,
            location=location,
            partition_spec=UNPARTITIONED_PARTITION_SPEC,
            sort_order=order,
            properties=dict(properties),
        )
        with creation.update_schema() as update:
            for name in there - set(wanted):
                update.delete_column((name,))
            for field in schema.fields:
                if field.name not in there:
                    update.add_column((field.name,), field.field_type)
            for before, name in pairwise(wanted):
                if before not in there or name not in there:
                    update.move_after((name,), before)
    return creation
