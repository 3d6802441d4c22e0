"""The lake's tables of tenants: rows of many databases in one table, found by their tenant.

They are partitioned by a hash of the database's name and sorted by it: a query of one tenant opens
its bucket's files, and of these the row groups that may hold it.

Source: Iceberg specification, "Partition Transforms" (``bucket``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import NestedField, StringType

from mirrorlake.config.settings import WriteMode
from mirrorlake.destinations.base import Condition, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.metadata.expressions import expression
from mirrorlake.destinations.iceberg.tables.schemas import ascending, raw_schema
from mirrorlake.destinations.iceberg.tables.tables import (
    add_missing,
    create_table,
    current_properties,
    ensure_current_table,
    raw_properties,
    refuse_edited,
)
from mirrorlake.schema.own_columns import DATABASE, OF_EVENTS, ORIGINAL, SOURCE
from mirrorlake.schema.versions import Exact, SchemaVersion

BUCKETS: Final = 32
"""Measured: of 2,000 tenants one is found in a second in 32 buckets; a load of them writes as many
files."""
PARTITION: Final = f"{DATABASE}_bucket"
"""The name of the partition."""


def bucket_of(database: str) -> int:
    """The number of the bucket that a tenant's rows are in.

    >>> 0 <= bucket_of("shop_17") < BUCKETS
    True
    """
    bucket = BucketTransform(BUCKETS).transform(StringType())(database)
    assert bucket is not None  # noqa: S101 - of a text that is there
    return bucket


def bucket_in(path: str) -> int | None:
    """The number of the bucket that a raw file is of, by its path; None where that does not say.

    >>> bucket_in("data/_mirror_database_bucket=7/a.parquet"), bucket_in("data/a.parquet")
    (7, None)
    """
    found = re.search(rf"(^|/){PARTITION}=(\d+)/", path)
    return int(found[2]) if found else None


def ensure_raw_tenants(
    lake: Connection,
    identifier: Identifier,
    columns: Sequence[Exact],
    of: str,
    version: SchemaVersion,
    *,
    with_events: bool = False,
) -> Table:
    """The raw table of one schema version of all tenants, made if it isn't there; with a column of
    original texts, if these columns need one and it has none.

    Args:
        with_events: whether it is to have what is known of a log's rows, too.
    """
    schema = _with_tenant(raw_schema(columns, with_key=False, with_events=with_events))
    table = create_table(lake, identifier, schema, _spec(schema), raw_properties(of, version))
    refuse_edited(table, version)
    return add_missing(lake, identifier, table, schema, (ORIGINAL, *OF_EVENTS))


def ensure_current_tenants(
    lake: Connection,
    identifier: Identifier,
    schema: Schema,
    key: Sequence[str],
    mode: WriteMode,
    location: str | None = None,
) -> Table:
    """The deduped table of all tenants, made if it isn't there, sorted by tenant and key; columns
    that it lacks are added, and columns become wider.

    Args:
        location: where a new table's files go; by its name if not given.

    Raises:
        LakeError: a column of it has a type that can't become the one requested.
    """
    order = SortOrder(*(ascending(schema, name) for name in (DATABASE, SOURCE, *key)))
    properties = current_properties(mode)
    create_table(lake, identifier, schema, _spec(schema), properties, order, location)
    return ensure_current_table(lake, identifier, schema, mode=mode)


def _with_tenant(schema: Schema) -> Schema:
    top = schema.highest_field_id
    added = [
        NestedField(top + number, name, StringType(), required=False)
        for number, name in enumerate((SOURCE, DATABASE), 1)
    ]
    return Schema(*schema.fields, *added)


def _spec(schema: Schema) -> PartitionSpec:
    field = schema.find_field(DATABASE)
    return PartitionSpec(PartitionField(field.field_id, 1000, BucketTransform(BUCKETS), PARTITION))


def count_opened(lake: Connection, identifier: Identifier, database: str) -> tuple[int, int] | None:
    """How many of a table's data files a query of one tenant opens, and how many it has; None where
    there is no table.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    table = lake.load(identifier)
    if table is None:
        return None
    with lake.translated(identifier):
        chosen = expression(Condition(DATABASE, database, database))
        opened = table.scan(chosen).plan_files()
        return len(list(opened)), len(list(table.scan().plan_files()))
