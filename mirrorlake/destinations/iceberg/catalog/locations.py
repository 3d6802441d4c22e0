"""Which version of each lake table the catalog names, in one query and without PyIceberg.

PyIceberg takes seconds to import, and one round a table to load. Where the catalog is a SQL
database, its table `iceberg_tables` shows at once which tables have moved.

Source: Apache Iceberg, "JDBC catalog", schema version V1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from mirrorlake.config.database_url import with_driver
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.base import CATALOG, Destination, Identifier
from mirrorlake.runtime.database_waits import bound_waits
from mirrorlake.runtime.replaced_file import file_of

_SECONDS = 30.0
"""After how long a catalog's server that sends nothing is looked at."""

_TABLES = sa.table(
    "iceberg_tables",
    sa.column("catalog_name"),
    sa.column("table_namespace"),
    sa.column("table_name"),
    sa.column("metadata_location"),
)


_NAMESPACES = sa.table(
    "iceberg_namespace_properties",
    *map(sa.column, ("catalog_name", "namespace", "property_key", "property_value")),
)
LAKE = "mirrorlake.lake"
"""The property of a namespace that says of which lake it is."""


def metadata_locations(
    config: LakeConfig, places: Collection[tuple[str, str]] | None = None
) -> Mapping[tuple[str, str], str] | None:
    """The current metadata file of every table and view, or at least of those in some places, by
    namespace and name.

    None where only the catalog itself can say: it is no SQL database, or could not be queried. Who
    opens it then gets the error in words. Of a database in which no catalog was made: nothing.
    """
    uri = _database_of(config)
    if uri is None:
        return None
    file = file_of(sa.make_url(uri))
    if file is not None and not file.is_file():
        return {}  # connecting would make it
    try:
        with _engine(uri).connect() as connection:
            query = sa.select(_TABLES).where(_TABLES.c.catalog_name == CATALOG)
            if places is not None:
                # By the catalog's key, of which the namespace comes first.
                query = query.where(
                    _TABLES.c.table_namespace.in_({space for space, _ in places}),
                    _TABLES.c.table_name.in_({name for _, name in places}),
                )
            rows = connection.execute(query).all()
    except SQLAlchemyError:
        return {} if _is_empty(uri) else None
    return {(r.table_namespace, r.table_name): r.metadata_location for r in rows}


def lakes_named(config: LakeConfig) -> Mapping[str, str] | None:
    """Of which lake each namespace is, as the catalog says it; those that say nothing are left out.
    None where only the catalog itself can say."""
    if (uri := _database_of(config)) is None:
        return None
    query = sa.select(_NAMESPACES.c.namespace, _NAMESPACES.c.property_value).where(
        _NAMESPACES.c.catalog_name == CATALOG, _NAMESPACES.c.property_key == LAKE
    )
    try:
        with _engine(uri).connect() as connection:
            return {row.namespace: row.property_value for row in connection.execute(query)}
    except SQLAlchemyError:
        return None


class SeenHeads:
    """The versions that lake tables show, for looks that are repeated: a table is loaded again only
    when the catalog names another metadata file of it. Such a file never changes."""

    def __init__(self) -> None:
        self._seen: dict[str, int | None] = {}

    def look(self, config: LakeConfig, lake: Destination) -> Callable[[Identifier], int | None]:
        """What tells a table's version, as `Destination.head` does; of now, for one look.

        Raises:
            LakeError: (what it returns) the table can't be read.
        """
        locations = metadata_locations(config)
        if locations is None:
            return lake.head
        current = {*locations.values()}
        self._seen = {at: head for at, head in self._seen.items() if at in current}

        def head(identifier: Identifier) -> int | None:
            at = locations.get((identifier.namespace, identifier.name))
            if at is None:
                return None
            if at not in self._seen:
                # A commit since the query: what is kept then is of a file that is named no more.
                self._seen[at] = lake.head(identifier)
            return self._seen[at]

        return head


def _is_empty(uri: str) -> bool:
    """Whether the database is there, and no catalog was made in it yet: a new one, or one that was
    lost with its server."""
    try:
        with _engine(uri).connect() as connection:
            return not sa.inspect(connection).has_table(_TABLES.name)
    except SQLAlchemyError:
        return False


def _database_of(config: LakeConfig) -> str | None:
    """The address of the SQL database that keeps the catalog; None where none does."""
    elsewhere = {"type", "uri", "py-catalog-impl"} & set(config.catalog.properties)
    if config.catalog.is_rest or elsewhere:
        return None
    return config.catalog.uri or _default_uri(config.warehouse)


@functools.lru_cache(maxsize=8)
def _engine(uri: str) -> sa.Engine:
    """Without connections that are kept: a process may fork."""
    return bound_waits(sa.create_engine(with_driver(uri), poolclass=sa.NullPool), _SECONDS)


def _default_uri(warehouse: str) -> str | None:
    """The SQLite file in a local warehouse; None where there is none yet (opening makes it)."""
    folder = warehouse.removeprefix("file://")
    if "://" in folder or not (Path(folder) / "catalog.db").is_file():
        return None
    return f"sqlite:///{folder.rstrip('/')}/catalog.db"
