"""Iceberg views as the catalog has them. Only Spark can query them; anyone can read what they say,
and write it.

PyIceberg's SQL catalog knows no views: there they are written as Spark's catalog writes them, a
file of metadata and a row of ``iceberg_tables``, without a session of Spark's.

Source: Iceberg view specification, "View Metadata"; Iceberg's JDBC catalog, schema version V1;
Iceberg's Spark catalog, ``spark.query-column-names``.
"""

from __future__ import annotations

import gzip
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchViewError
from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema
from pyiceberg.view.metadata import ViewMetadata
from sqlalchemy.exc import IntegrityError

from mirrorlake.destinations.base import CATALOG, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.metadata_read import metadata_read
from mirrorlake.errors import CommitConflict

_GZIP = b"\x1f\x8b"
_FIND = sa.text(
    "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name AND iceberg_type = 'VIEW'"
)

_FORGET = sa.text(
    "DELETE FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name AND iceberg_type = 'VIEW'"
)


_INSERT = sa.text(
    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location,"
    " previous_metadata_location, iceberg_type)"
    " VALUES (:catalog, :namespace, :name, :location, NULL, 'VIEW')"
)
_REPLACE = sa.text(
    "UPDATE iceberg_tables SET metadata_location = :location,"
    " previous_metadata_location = :before WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name AND iceberg_type = 'VIEW'"
    " AND metadata_location = :before"
)


@dataclass(frozen=True)
class LakeView:
    """A view's newest version: the SQL that a query of it runs, and the columns it gives out."""

    sql: str
    schema: Schema


def read_view(lake: Connection, identifier: Identifier) -> LakeView | None:
    """The view as the catalog has it now, or None.

    Raises:
        LakeDamaged: the catalog names metadata that can't be read.
        LakeError: the catalog or the storage failed.
    """
    with lake.translated(identifier), metadata_read(identifier):
        metadata = _metadata(lake, identifier)
    if metadata is None:
        return None
    version = next(v for v in metadata.versions if v.version_id == metadata.current_version_id)
    schema = next(s for s in metadata.schemas if s.schema_id == version.schema_id)
    texts = [representation.root for representation in version.representations]
    # One for each engine that made it: Spark runs its own.
    ours = next((text for text in texts if text.dialect.lower() == "spark"), texts[0])
    return LakeView(ours.sql, schema)


def shown_schema(lake: Connection, identifier: Identifier) -> Schema | None:
    """The columns that readers of a name see, a table or a view; None where neither is there.

    Raises:
        LakeDamaged: the catalog names metadata that can't be read.
        LakeError: the catalog or the storage failed.
    """
    if (table := lake.load(identifier)) is not None:
        return table.schema()
    view = read_view(lake, identifier)
    return None if view is None else view.schema


_FREE = sa.text(
    "DELETE FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name"
    " AND (iceberg_type IS NULL OR iceberg_type <> 'VIEW')"
)


def write_view(
    lake: Connection, identifier: Identifier, view: LakeView, *, over_table: bool = False
) -> bool:
    """Make a view, or replace it, so that readers see the old one or the new; False where only
    Spark can: the catalog is no SQL database, or a column's name has a comma.

    Args:
        over_table: whether a table of that name leaves the catalog in the same step.

    Raises:
        CommitConflict: somebody else made or replaced it at this moment.
        LakeError: the catalog or the storage failed.
    """
    catalog = lake.catalog
    names = [field.name for field in view.schema.fields]
    if not isinstance(catalog, SqlCatalog) or any("," in name for name in names):
        return False
    folder = lake.location(identifier)
    location = f"{folder}/metadata/{0:05d}-{uuid.uuid4()}.metadata.json"
    metadata = _new_metadata(folder, view, ",".join(names))
    values = {
        **{"catalog": CATALOG, "namespace": identifier.namespace, "name": identifier.name},
        "location": location,
    }
    with lake.translated(identifier):
        with load_file_io(catalog.properties, location).new_output(location).create() as stream:
            stream.write(metadata.model_dump_json().encode())
        with catalog.engine.begin() as connection:
            before = connection.scalar(_FIND, values)
            values["before"] = before
            if over_table:
                connection.execute(_FREE, values)
            try:
                done = connection.execute(_INSERT if before is None else _REPLACE, values).rowcount
            except IntegrityError:
                done = 0
    if done != 1:
        raise CommitConflict(
            f"lake view {identifier}: somebody else made or replaced it at this moment",
            table=str(identifier),
            next_step="Sync again",
            retryable=True,
        )
    return True


def _new_metadata(folder: str, view: LakeView, names: str) -> ViewMetadata:
    at = int(time.time() * 1000)
    version: dict[str, Any] = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": at,
        "summary": {"engine-name": "mirrorlake"},
        "representations": [{"type": "sql", "sql": view.sql, "dialect": "spark"}],
        # What the SQL names is named in full.
        "default-catalog": CATALOG,
        "default-namespace": ["default"],
    }
    return ViewMetadata.model_validate(
        {
            "view-uuid": str(uuid.uuid4()),
            "format-version": 1,
            "location": folder,
            "schemas": [Schema(*view.schema.fields, schema_id=0)],
            "current-version-id": 1,
            "versions": [version],
            "version-log": [{"timestamp-ms": at, "version-id": 1}],
            # Spark pairs the query's columns with the view's by these.
            "properties": {"spark.query-column-names": names},
        }
    )


def _metadata(lake: Connection, identifier: Identifier) -> ViewMetadata | None:
    catalog = lake.catalog
    if not isinstance(catalog, SqlCatalog):
        try:
            return catalog.load_view(identifier.path).metadata
        except NoSuchViewError:
            return None
    # PyIceberg's SQL catalog knows no views: Spark writes them into the same table.
    wanted = {
        "catalog": CATALOG,
        "namespace": identifier.namespace,
        "name": identifier.name,
    }
    with catalog.engine.connect() as connection:
        location = connection.scalar(_FIND, wanted)
    if location is None:
        return None
    with load_file_io(catalog.properties, location).new_input(location).open() as stream:
        text = stream.read()
    # Spark compresses it by default; only its first bytes say so for sure.
    return ViewMetadata.model_validate_json(gzip.decompress(text) if text[:2] == _GZIP else text)


def forget_view(lake: Connection, identifier: Identifier) -> None:
    """Take a view out of the catalog, whether its metadata can be read or not. Spark can't where
    they are cut, and tries for minutes.

    Raises:
        LakeError: the catalog failed.
    """
    catalog = lake.catalog
    with lake.translated(identifier):
        if not isinstance(catalog, SqlCatalog):
            with suppress(NoSuchViewError):
                catalog.drop_view(identifier.path)
            return
        wanted = {"catalog": CATALOG, "namespace": identifier.namespace, "name": identifier.name}
        with catalog.engine.begin() as connection:
            connection.execute(_FORGET, wanted)
