"""The rows of a catalog that is a SQL database: all it names, in one look, and naming it elsewhere.

Source: Apache Iceberg, "JDBC catalog", schema version V1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog

from mirrorlake.destinations.base import CATALOG
from mirrorlake.destinations.iceberg.catalog import Connection
from mirrorlake.errors import LakeError

_TABLES = sa.table(
    "iceberg_tables",
    *map(sa.column, ("catalog_name", "table_namespace", "table_name", "metadata_location")),
    *map(sa.column, ("previous_metadata_location", "iceberg_type")),
)
_NAMESPACES = sa.table(
    "iceberg_namespace_properties",
    *map(sa.column, ("catalog_name", "namespace", "property_key", "property_value")),
)


@dataclass(frozen=True)
class CatalogEntry:
    """A table or view that a catalog names.

    Attributes:
        kind: ``TABLE`` or ``VIEW``.
        metadata: its metadata file, as the catalog names it.
    """

    namespace: str
    name: str
    kind: str
    metadata: str

    @property
    def shown(self) -> str:
        return f"{self.namespace}.{self.name}"


def sql_catalog(lake: Connection, what: str) -> SqlCatalog:
    """The catalog, which is a SQL database.

    Raises:
        LakeError: it is a server's.
    """
    if isinstance(lake.catalog, SqlCatalog):
        return lake.catalog
    raise LakeError(
        f"{what} needs a catalog that is a SQL database; {lake.catalog_uri()} is a server's",
        next_step="Back up the server by its own means, between ledger and lake: docs/backup.md "
        "has the order",
    )


def read_entries(lake: Connection) -> list[CatalogEntry]:
    """What the catalog names, at one moment.

    Raises:
        LakeError: it failed, or is no SQL database.
    """
    catalog = sql_catalog(lake, "this")
    with lake.translated("catalog"), catalog.engine.connect() as connection:
        rows = connection.execute(
            sa.select(_TABLES)
            .where(_TABLES.c.catalog_name == CATALOG)
            .order_by(_TABLES.c.table_namespace, _TABLES.c.table_name)
        ).all()
    return [
        CatalogEntry(
            r.table_namespace, r.table_name, r.iceberg_type or "TABLE", r.metadata_location or ""
        )
        for r in rows
    ]


def write_entries(lake: Connection, entries: Sequence[CatalogEntry]) -> None:
    """Name these tables and views, in place of what has their names; others stay. One transaction.

    Raises:
        LakeError: the catalog failed; it is as it was.
    """
    catalog = sql_catalog(lake, "this")
    for namespace in sorted({entry.namespace for entry in entries}):
        lake.make_namespace(namespace)
    with lake.translated("catalog"), catalog.engine.begin() as connection:
        for entry in entries:
            mine = sa.and_(
                _TABLES.c.catalog_name == CATALOG,
                _TABLES.c.table_namespace == entry.namespace,
                _TABLES.c.table_name == entry.name,
            )
            connection.execute(sa.delete(_TABLES).where(mine))
            connection.execute(
                sa.insert(_TABLES).values(
                    catalog_name=CATALOG,
                    table_namespace=entry.namespace,
                    table_name=entry.name,
                    metadata_location=entry.metadata,
                    iceberg_type=entry.kind,
                )
            )


def name_elsewhere(
    entries: Iterable[CatalogEntry], moved: Callable[[str], str]
) -> list[CatalogEntry]:
    """These entries with the paths of another place."""
    return [CatalogEntry(e.namespace, e.name, e.kind, moved(e.metadata)) for e in entries]
