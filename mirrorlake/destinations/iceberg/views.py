"""Iceberg views as the catalog has them. Only Spark can query them; anyone can read what they say.

Source: Iceberg view specification, "View Metadata"; Iceberg's JDBC catalog, schema version V1.
"""

from __future__ import annotations

import gzip
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchViewError
from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema
from pyiceberg.view.metadata import ViewMetadata

from mirrorlake.destinations.iceberg.catalog import Identifier, Lake, metadata_read
from mirrorlake.destinations.iceberg.locations import CATALOG

_GZIP = b"\x1f\x8b"
_FIND = sa.text(
    "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name AND iceberg_type = 'VIEW'"
)

_FORGET = sa.text(
    "DELETE FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name AND iceberg_type = 'VIEW'"
)


@dataclass(frozen=True)
class LakeView:
    """A view's newest version: the SQL that a query of it runs, and the columns it gives out."""

    sql: str
    schema: Schema


def read_view(lake: Lake, identifier: Identifier) -> LakeView | None:
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


def _metadata(lake: Lake, identifier: Identifier) -> ViewMetadata | None:
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
    # Spark writes it compressed, unless told otherwise; only its first bytes say so for sure.
    return ViewMetadata.model_validate_json(gzip.decompress(text) if text[:2] == _GZIP else text)


def forget_view(lake: Lake, identifier: Identifier) -> None:
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
