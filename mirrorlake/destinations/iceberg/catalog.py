"""A connection to the Iceberg catalog: one database that PyIceberg and Spark open alike."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pydantic
from pyiceberg.catalog import PY_CATALOG_IMPL, Catalog, load_catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationError,
)
from pyiceberg.table import Table
from sqlalchemy import make_url
from sqlalchemy.exc import IntegrityError, OperationalError

from mirrorlake.config.database_url import with_driver
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.base import CATALOG, Identifier
from mirrorlake.destinations.iceberg.durable import IMPLEMENTATION
from mirrorlake.destinations.iceberg.folders import table_uri, warehouse_uri
from mirrorlake.destinations.iceberg.row_counts import count_shown
from mirrorlake.destinations.iceberg.sql_catalog import LakeCatalog
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.runtime.permissions import held


class Connection:
    """An open catalog and the storage under it.

    Raises:
        LakeError: the warehouse can't be made or written, or the catalog can't be opened.
    """

    def __init__(self, config: LakeConfig) -> None:
        self.config = config
        self._namespaces: set[str] = set()
        self.warehouse = warehouse_uri(config.warehouse)
        with held(config.permissions), self.translated("catalog"):
            if self.warehouse.startswith("file://"):
                _make_folder(Path(self.warehouse.removeprefix("file://")))
            self.catalog: Catalog = _open(self.catalog_properties())

    def catalog_properties(self) -> dict[str, str]:
        """What PyIceberg is given; the configured properties win."""
        uri = self.catalog_uri()
        wait = _seconds(self.config.catalog.wait)
        properties = {"type": "sql", "uri": uri, "warehouse": self.warehouse}
        if self.warehouse.startswith("file://"):
            properties["py-io-impl"] = IMPLEMENTATION
        url = make_url(uri) if uri.startswith("sqlite:") else None
        if url is not None:
            waiting = url.update_query_dict({"timeout": str(wait)})
            properties["uri"] = waiting.render_as_string(hide_password=False)
        elif not uri.startswith(("http:", "https:")):
            properties["uri"] = with_driver(uri).render_as_string(hide_password=False)
        return {**properties, **self.config.catalog.properties}

    def catalog_uri(self) -> str:
        """The catalog's SQLAlchemy URL; by default a SQLite file in the warehouse."""
        if self.config.catalog.uri:
            return self.config.catalog.uri
        if not self.warehouse.startswith("file://"):
            raise LakeError(
                f"the warehouse {self.warehouse} is not a local folder, so it can't hold "
                "the catalog",
                next_step="Set lake.catalog.uri to a database",
            )
        return f"sqlite:///{self.warehouse.removeprefix('file://')}/catalog.db"

    @contextmanager
    def translated(self, what: object) -> Iterator[None]:
        """Turn what the catalog's database and the file system raise into LakeErrors."""
        try:
            yield
        except OperationalError as error:
            locked = "locked" in str(error.orig)
            waited = f" (waited {_seconds(self.config.catalog.wait)} s)" if locked else ""
            raise LakeError(
                f"the lake's catalog {self.warehouse} is "
                + (f"locked by another writer{waited}" if locked else f"not usable: {error.orig}"),
                next_step="Try again when the other writer is done; nothing was written"
                if locked
                else "Check the catalog's place and rights",
                table=str(what),
                retryable=locked,
            ) from error
        except (PermissionError, OSError) as error:
            raise LakeError(
                f"the lake can't be written at {self.warehouse}: {error}",
                next_step="Check the folder's rights and free space",
                table=str(what),
            ) from error

    def load(self, identifier: Identifier) -> Table | None:
        """The table as the catalog has it now, or None.

        Raises:
            LakeDamaged: the catalog names metadata that can't be read.
            LakeError: the catalog or the storage failed.
        """
        with self.translated(identifier), metadata_read(identifier):
            try:
                return self.catalog.load_table(identifier.path)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def count_rows(self, identifier: Identifier) -> int | None:
        """The rows of a table as its main shows them, from metadata and delete files; None if it
        is not there.

        Raises:
            LakeError: the catalog or the storage failed.
        """
        table = self.load(identifier)
        if table is None:
            return None
        with self.translated(identifier):
            return count_shown(table)

    def counted(self, identifier: Identifier) -> tuple[str, int] | None:
        """Which version of a table the catalog names, by its metadata file, and the rows of it, as
        `count_rows`.

        Raises:
            LakeError: the catalog or the storage failed.
        """
        table = self.load(identifier)
        if table is None:
            return None
        with self.translated(identifier):
            return table.metadata_location, count_shown(table)

    def drop(self, identifier: Identifier) -> bool:
        """Take a table out of the catalog; whether it was there. Its files stay."""
        with self.translated(identifier):
            try:
                self.catalog.drop_table(identifier.path)
            except NoSuchTableError:
                return False
        return True

    def rename(self, old: Identifier, new: Identifier) -> None:
        """Give a table another name; its files stay where they are."""
        with self.translated(old):
            self.catalog.rename_table(old.path, new.path)

    def make_namespace(self, namespace: str) -> None:
        """See that a namespace is there; a lake takes none away."""
        if namespace in self._namespaces:
            return
        with self.translated(namespace):
            try:
                self.catalog.create_namespace((namespace,))
            except NamespaceAlreadyExistsError:
                pass
            except IntegrityError:
                # PyIceberg looks, then inserts: another table's first load was between the two.
                if not self.catalog.namespace_exists((namespace,)):
                    raise
        self._namespaces.add(namespace)

    def location(self, identifier: Identifier) -> str:
        """Where a table's files live: names are escaped where a file system would take them
        apart."""
        return table_uri(self.warehouse, identifier.path)


def _open(properties: dict[str, str]) -> Catalog:
    if properties.get("type") == "sql" and PY_CATALOG_IMPL not in properties:
        return LakeCatalog(CATALOG, **properties)
    return load_catalog(CATALOG, **properties)


_NO_METADATA = (
    *(ValidationError, pydantic.ValidationError, UnicodeDecodeError),
    *(EOFError, zlib.error, gzip.BadGzipFile),
)
"""What a reader of metadata says of bytes that are cut, or of another kind."""


@contextmanager
def metadata_read(identifier: Identifier) -> Iterator[None]:
    """Turn what metadata make a reader raise that are not there, or are cut, into LakeDamaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise _damaged(identifier, "is not there") from error
    except _NO_METADATA as error:
        raise _damaged(identifier, "is cut, or is no metadata") from error


def _damaged(identifier: Identifier, reason: str) -> LakeDamaged:
    return LakeDamaged(
        f"lake table {identifier} can't be read: the metadata that the catalog names {reason}",
        table=str(identifier),
        reason=reason,
        next_step="`mirrorlake refold` makes deduped and clean again from raw; raw itself comes "
        "from a backup alone",
    )


def _make_folder(folder: Path) -> None:
    probe = folder / ".mirrorlake-can-write"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink(missing_ok=True)  # another run that starts now tries the same file
    except OSError as error:
        raise LakeError(
            f"the lake's folder {folder} can't be written: {error.strerror}",
            next_step="Make it writable, or set lake.warehouse to another place",
        ) from error


def _seconds(wait: timedelta) -> int:
    return max(1, round(wait.total_seconds()))
