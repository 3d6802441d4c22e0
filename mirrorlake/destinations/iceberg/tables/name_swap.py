"""A table takes the name of a view, or of another table: readers of that name see the one or the
other.

In a catalog that is a SQL database (the default) it is one transaction. A REST catalog is asked to
register the new table's metadata over the old table, which is one request where the server takes
it. One that does not take it, and any where a view has the name, drops the old one and renames the
new one, one request after the other: a reader who asks between the two finds nothing.

Source: Iceberg's JDBC catalog, schema version V1; Iceberg's REST catalog specification,
``/v1/{prefix}/namespaces/{namespace}/register`` (``overwrite``), ``/v1/{prefix}/tables/rename``.
"""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from mirrorlake.destinations.base import CATALOG, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.tables.views import forget_view
from mirrorlake.errors import LakeError

_FREE = sa.text(
    "DELETE FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name"
)
_RENAME = sa.text(
    "UPDATE iceberg_tables SET table_namespace = :namespace, table_name = :name"
    " WHERE catalog_name = :catalog AND table_namespace = :old_namespace AND table_name = :old_name"
    " AND (iceberg_type IS NULL OR iceberg_type <> 'VIEW')"
)


def take_name(lake: Connection, table: Identifier, name: Identifier) -> None:
    """Give a table a name, whatever has it now; that one's files stay.

    Raises:
        LakeError: there is no such table, or the catalog failed; the name is as it was.
    """
    catalog = lake.catalog
    if not isinstance(catalog, SqlCatalog):
        if not _registered_over(lake, table, name):
            forget_view(lake, name)
            lake.drop(name)
            lake.rename(table, name)
        return
    values = {
        **{"catalog": CATALOG, "namespace": name.namespace, "name": name.name},
        **{"old_namespace": table.namespace, "old_name": table.name},
    }
    # Before: what a run that dies in between leaves is retired again by the next.
    lake.retire(name, successor=table)
    with lake.translated(name), catalog.engine.begin() as connection:
        connection.execute(_FREE, values)
        if connection.execute(_RENAME, values).rowcount != 1:
            raise LakeError(
                f"lake table {table} is not there: {name} is as it was",
                table=str(name),
                next_step="Sync again",
                retryable=True,
            )


def _registered_over(lake: Connection, table: Identifier, name: Identifier) -> bool:
    """Give a table the name of another table in one request; False where that is not to be had.

    Raises:
        LakeError: the catalog failed; the name has the one or the other.
    """
    new = lake.load(table)
    if new is None or lake.load(name) is None:
        return False
    # Before: what a run that dies in between leaves is retired again by the next.
    lake.retire(name, successor=table)
    if not lake.register_over(name, new.metadata_location):
        return False
    with lake.translated(table), suppress(NoSuchTableError):
        lake.catalog.drop_table(table.path)
    return True
