"""What a catalog names, and naming it elsewhere: the rows of a SQL database at one moment and in
one transaction, the tables of a REST server one by one.

A REST server keeps views as it likes, so they are not among what it names: the next sync makes
them again.

Source: Apache Iceberg, "JDBC catalog", schema version V1; Iceberg REST catalog specification,
"Register a table".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError

from mirrorlake.config.fields import hide_url
from mirrorlake.destinations.base import CATALOG, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.errors import LakeError

_TABLES = sa.table(
    "iceberg_tables",
    *map(sa.column, ("catalog_name", "table_namespace", "table_name", "metadata_location")),
    *map(sa.column, ("previous_metadata_location", "iceberg_type")),
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


def is_server(lake: Connection) -> bool:
    """Whether a REST server keeps the catalog: it can't be read at one moment."""
    return isinstance(lake.catalog, RestCatalog)


def refuse_unreadable(lake: Connection, what: str) -> None:
    """See that a catalog is of a kind of which all that it names can be read.

    Raises:
        LakeError: it is neither a SQL database nor a REST server.
    """
    if not is_server(lake):
        _sql_catalog(lake, what)


def read_entries(lake: Connection, namespaces: Collection[str]) -> list[CatalogEntry]:
    """What the catalog names: of a SQL database all of it, at one moment; of a REST server the
    tables of these namespaces, one after the other.

    Raises:
        LakeError: it failed, or is of another kind.
        LakeDamaged: a REST server names metadata that can't be read.
    """
    if is_server(lake):
        return list(_served_entries(lake, namespaces))
    catalog = _sql_catalog(lake, "this")
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


def served_names(lake: Connection, namespaces: Collection[str]) -> list[Identifier]:
    """The tables of these namespaces that a REST server has, whether they can be read or not.

    Raises:
        LakeError: it failed.
    """
    found: list[Identifier] = []
    for namespace in sorted(namespaces):
        with lake.translated(namespace):
            try:
                names = lake.catalog.list_tables((namespace,))
            except NoSuchNamespaceError:
                continue
        found += (Identifier(namespace, name[-1]) for name in sorted(names))
    return found


def _served_entries(lake: Connection, namespaces: Collection[str]) -> Iterator[CatalogEntry]:
    for name in served_names(lake, namespaces):
        table = lake.load(name)
        if table is not None:
            yield CatalogEntry(*name.path, "TABLE", table.metadata_location)


def write_entries(lake: Connection, entries: Sequence[CatalogEntry]) -> None:
    """Name these tables and views, in place of what has their names; others stay. A SQL database
    does it in one transaction, a REST server table by table, and gets no views.

    Raises:
        LakeError: the catalog failed; a database is as it was, and a server has a part of them:
            doing it again has them all.
    """
    for namespace in sorted({entry.namespace for entry in entries}):
        lake.make_namespace(namespace)
    if is_server(lake):
        for entry in entries:
            if entry.kind == "TABLE":
                lake.name_metadata(Identifier(entry.namespace, entry.name), entry.metadata)
        return
    catalog = _sql_catalog(lake, "this")
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


def _sql_catalog(lake: Connection, what: str) -> SqlCatalog:
    if isinstance(lake.catalog, SqlCatalog):
        return lake.catalog
    raise LakeError(
        f"{what} needs a catalog that is a SQL database or a REST server; "
        f"{hide_url(lake.catalog_uri())} is a {type(lake.catalog).__name__}",
        next_step="Back it up by its own means, between ledger and lake: docs/backup.md has the "
        "order",
    )


def name_elsewhere(
    entries: Iterable[CatalogEntry], moved: Callable[[str], str]
) -> list[CatalogEntry]:
    """These entries with the paths of another place."""
    return [CatalogEntry(e.namespace, e.name, e.kind, moved(e.metadata)) for e in entries]
