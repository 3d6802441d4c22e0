"""A connection to the Iceberg catalog, which PyIceberg and Spark open alike: a database, or a REST
server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyiceberg.catalog import PY_CATALOG_IMPL, Catalog, load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from mirrorlake.config.database_url import with_driver
from mirrorlake.config.fields import bucket_of, hide_url
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.base import CATALOG, Identifier
from mirrorlake.destinations.iceberg.catalog.locations import LAKE
from mirrorlake.destinations.iceberg.catalog.metadata_read import metadata_read
from mirrorlake.destinations.iceberg.catalog.properties import (
    WAIT,
    GoogleCatalog,
    google_properties,
)
from mirrorlake.destinations.iceberg.catalog.sql import LakeCatalog, TablesNamed
from mirrorlake.destinations.iceberg.manifests import ManifestCut
from mirrorlake.destinations.iceberg.metadata.row_counts import count_shown
from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.destinations.iceberg.storage.cloud_client import SCHEME, in_cloud_storage
from mirrorlake.destinations.iceberg.storage.cloud_storage import check_writable, storage_error
from mirrorlake.destinations.iceberg.storage.durable import IMPLEMENTATION, make_warehouse
from mirrorlake.destinations.iceberg.storage.folder_metadata import (
    RETIRED,
    mark,
    read_folder,
    retire,
)
from mirrorlake.destinations.iceberg.storage.folders import table_uri, warehouse_uri
from mirrorlake.errors import CatalogFailed, CommitUnknown, LakeDamaged, LakeError
from mirrorlake.ledger.database.servers import may_pass, words_of
from mirrorlake.runtime.database_waits import step_for
from mirrorlake.runtime.permissions import held
from mirrorlake.runtime.replaced_file import FileMark, file_of, mark_of

_FILE_STEP = "See that this user may read and write the file and its folder"
_SERVER_STEP = "See that the server runs and lets this user in (lake.catalog.uri)"


class Connection:
    """An open catalog and the storage under it.

    Raises:
        LakeError: the warehouse can't be made or written, or the catalog can't be opened.
    """

    def __init__(self, config: LakeConfig) -> None:
        self.config = config
        self.identity = ""
        """The lake's id, once that is known; what `make_namespace` makes says it."""
        self._namespaces: set[tuple[str, FileMark | None]] = set()
        self.warehouse = warehouse_uri(config.warehouse)
        with held(config.permissions), self.translated("catalog"):
            if self.warehouse.startswith("file://"):
                make_warehouse(Path(self.warehouse.removeprefix("file://")))
            properties = self.catalog_properties()
            # A REST server may lend a login of its own for each table: there is none yet.
            if in_cloud_storage(self.warehouse) and not config.catalog.is_rest:
                check_writable(self.warehouse, properties)
            self.catalog: Catalog = _open(properties)
        self.is_rest = _is_rest(properties)
        """Whether a REST server keeps the catalog, and the client is ours (`RestLakeCatalog`)."""

    def catalog_properties(self) -> dict[str, Any]:
        """What PyIceberg is given; the configured properties win."""
        uri = self.catalog_uri()
        wait = _seconds(self.config.catalog.wait)
        properties: dict[str, Any] = {"uri": uri, WAIT: str(wait)}
        if self.config.catalog.is_rest:
            # What such a server calls a warehouse is a name that it gave out, not a place.
            properties |= {"type": "rest"}
            if self.config.catalog.auth == "google":
                properties |= google_properties(self.google)
        else:
            properties |= {"type": "sql", "warehouse": self.warehouse}
        if self.warehouse.startswith(("file://", SCHEME)):
            properties["py-io-impl"] = IMPLEMENTATION
        url = make_url(uri) if uri.startswith("sqlite:") else None
        if url is not None:
            waiting = url.update_query_dict({"timeout": str(wait)})
            properties["uri"] = waiting.render_as_string(hide_password=False)
        elif not self.config.catalog.is_rest:
            # Else a server that restarted is an error once more, for each connection that is kept.
            properties["pool_pre_ping"] = "true"
            properties["uri"] = with_driver(uri).render_as_string(hide_password=False)
        return {**properties, **self.config.catalog.properties}

    @property
    def google(self) -> GoogleCatalog:
        """The catalog, where ``auth`` says that it is Google's."""
        catalog = self.config.catalog
        return GoogleCatalog(catalog.project or "", catalog.name or "", bucket_of(self.warehouse))

    def catalog_uri(self) -> str:
        """The catalog's address: a REST server's, or a database's for SQLAlchemy; by default a
        SQLite file in the warehouse."""
        if self.config.catalog.uri:
            return self.config.catalog.uri
        if not self.warehouse.startswith("file://"):
            raise LakeError(
                f"the warehouse {self.warehouse} is not a local folder, so it can't hold "
                "the catalog",
                next_step="Set lake.catalog.uri to a database",
            )
        return f"sqlite:///{self.warehouse.removeprefix('file://')}/catalog.db"

    def catalog_mark(self) -> FileMark | None:
        """What tells the catalog's SQLite file from another one that took its place; None of a
        catalog that is a server's."""
        file = file_of(make_url(self.catalog_uri()))
        return mark_of(file) if file is not None else None

    def _rest_errors(self, what: object) -> AbstractContextManager[None]:
        catalog = self.config.catalog
        if not catalog.is_rest:
            return nullcontext()
        from mirrorlake.destinations.iceberg.catalog.rest import rest_errors

        return rest_errors(catalog.uri or "", what, catalog.project)

    @contextmanager
    def translated(self, what: object) -> Iterator[None]:
        """Turn what the catalog and the file system raise into LakeErrors."""
        try:
            with self._rest_errors(what):
                yield
        except OperationalError as error:
            if "locked" in str(error.orig):
                waited = _seconds(self.config.catalog.wait)
                raise LakeError(
                    f"the lake's catalog {self.warehouse} is locked by another writer "
                    f"(waited {waited} s)",
                    next_step="Try again when the other writer is done; nothing was written",
                    table=str(what),
                    retryable=True,
                ) from error
            uri = self.catalog_uri()
            local = uri.startswith("sqlite")
            raise CatalogFailed(
                f"the lake's catalog {hide_url(uri)} is not usable: {words_of(error)}",
                next_step=step_for(error.orig, _FILE_STEP if local else _SERVER_STEP),
                table=str(what),
                # A server that restarts, or a connection that was lost: the next one may do.
                retryable=not local and may_pass(error),
            ) from error
        except ManifestCut as error:
            raise _damaged(what, error.what, error.path) from error
        except FileNotFoundError as error:
            raise _damaged(what, "is not there", str(error)) from error
        except OSError as error:
            if in_cloud_storage(self.warehouse):
                raise storage_error(self.warehouse, error, what) from error
            raise LakeError(
                f"the lake can't be written at {self.warehouse}: {error}",
                next_step="Check the folder's rights and free space",
                table=str(what),
            ) from error

    @contextmanager
    def committing(
        self,
        identifier: Identifier,
        landed: Callable[[], bool],
        conflict: Callable[[], LakeError],
    ) -> Iterator[None]:
        """A commit. Where the catalog calls it failed, or does not say what became of it, the table
        is looked at: what has landed goes on as if it had said so.

        Raises:
            LakeError: ``conflict``'s, where it failed, and is not there.
            CommitUnknown: nobody said, and it is not there, or the table can't be looked at: it
                may be there later.
        """
        try:
            with self.translated(identifier):
                yield
        except CommitFailedException as error:
            if not landed():
                raise conflict() from error
        except CatalogFailed as error:
            try:
                if landed():
                    return
            except LakeError as unseen:
                raise _unknown(identifier, unseen) from error
            raise _unknown(identifier, error) from error

    def tables_named(self) -> TablesNamed | None:
        """All tables as the catalog has them now, for `load`, where it can be asked at once.

        Raises:
            LakeError: the catalog failed.
        """
        if not isinstance(self.catalog, LakeCatalog):
            return None
        with self.translated("catalog"):
            return self.catalog.tables_named()

    def load(self, identifier: Identifier, named: TablesNamed | None = None) -> Table | None:
        """The table as the catalog has it now, or had it as it was ``named``; None if it has not.

        Raises:
            LakeDamaged: the catalog names metadata that can't be read.
            LakeError: the catalog or the storage failed.
        """
        with self.translated(identifier), metadata_read(identifier):
            try:
                if named is not None and isinstance(self.catalog, LakeCatalog):
                    return self.catalog.load_named(identifier.path, named)
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
        """Take a table out of the catalog; whether it was there. Its files stay, until maintenance
        removes them: see `retire`."""
        self.retire(identifier)
        with self.translated(identifier):
            try:
                self.catalog.drop_table(identifier.path)
            except NoSuchTableError:
                return False
        return True

    def name_metadata(self, identifier: Identifier, path: str) -> None:
        """Have the catalog name a table by a metadata file, in place of what it names now: in one
        step, but for a REST catalog that can't."""
        with self.translated(identifier):
            if self.register_over(identifier, path):
                return
            with suppress(NoSuchTableError):
                self.catalog.drop_table(identifier.path)
            self.catalog.register_table(identifier.path, path)

    def register_over(self, identifier: Identifier, path: str) -> bool:
        """Have the catalog name a table that it has by another metadata file, in one step; False
        where it can't, or has no such table.

        Raises:
            LakeError: the catalog failed.
        """
        with self.translated(identifier):
            if isinstance(self.catalog, LakeCatalog):
                return self.catalog.name_metadata(identifier.path, path)
            if not self.is_rest:
                return False
            try:
                self.catalog.register_table(identifier.path, path, overwrite=True)
            except (TableAlreadyExistsError, BadRequestError, NotImplementedError):
                return False  # of an older specification: it takes no notice of `overwrite`
            return True

    def retire(self, identifier: Identifier, successor: Identifier | None = None) -> None:
        """Write down beside a table's metadata that the table is taken away on purpose, so that
        maintenance may remove what it leaves.

        Args:
            successor: a table in the same folder, which stays.
        """
        try:
            table = self.load(identifier)
        except LakeDamaged:
            self._retire_folder(identifier, successor and self.load(successor))
            return
        if table is not None:
            with self.translated(identifier):
                retire(table)

    def _retire_folder(self, identifier: Identifier, successor: Table | None) -> None:
        """Of a table whose metadata can't be read, what older files of it say is left."""
        at = self.location(identifier)
        with self.translated(identifier):
            io = open_storage(self.catalog.properties, at)
            left = read_folder(io, at, str(identifier))
            stays = str(successor.metadata.table_uuid) if successor is not None else ""
            mark(io, at, [one.uuid for one in left if one.uuid != stays], RETIRED)

    def rename(self, old: Identifier, new: Identifier) -> None:
        """Give a table another name; its files stay where they are."""
        with self.translated(old):
            self.catalog.rename_table(old.path, new.path)

    def make_namespace(self, namespace: str) -> None:
        """See that a namespace is there; a lake takes none away."""
        known = (namespace, self.catalog_mark())
        if known in self._namespaces:
            return
        with self.translated(namespace):
            try:
                self.catalog.create_namespace((namespace,), self._namespace_properties(namespace))
            except NamespaceAlreadyExistsError:
                pass
            except IntegrityError:
                # PyIceberg looks, then inserts: another table's first load was between the two.
                if not self.catalog.namespace_exists((namespace,)):
                    raise
        self._namespaces.add(known)

    def _namespace_properties(self, namespace: str) -> dict[str, str]:
        """Google's catalog accepts tables only inside their namespace's folder, so it needs its
        location. Others say of which lake the namespace is; a REST server, which may take no such
        property, says so later."""
        if self.config.catalog.auth is None:
            says = self.identity and not self.config.catalog.is_rest
            return {LAKE: self.identity} if says else {}
        return {"location": table_uri(self.warehouse, (namespace,))}

    def location(self, identifier: Identifier) -> str:
        """Where a table's files live: names are escaped where a file system would take them
        apart."""
        return table_uri(self.warehouse, identifier.path)


def _open(properties: dict[str, Any]) -> Catalog:
    if properties.get("type") == "sql" and PY_CATALOG_IMPL not in properties:
        try:
            return LakeCatalog(CATALOG, **properties)
        except DBAPIError as error:
            # Two first runs may both create the catalog's tables: one fails, and looks again.
            if "already exists" not in str(error.orig):
                raise
            return LakeCatalog(CATALOG, **properties)
    if _is_rest(properties):
        from mirrorlake.destinations.iceberg.catalog.rest import RestLakeCatalog

        return RestLakeCatalog(CATALOG, **properties)
    return load_catalog(CATALOG, **properties)


def _is_rest(properties: dict[str, Any]) -> bool:
    return properties.get("type") == "rest" and PY_CATALOG_IMPL not in properties


def _unknown(identifier: Identifier, error: LakeError) -> CommitUnknown:
    return CommitUnknown(
        f"lake table {identifier}: whether the commit was made is not known: {error.message}",
        next_step="Sync again: the next run looks for it, and does not make it twice",
        table=str(identifier),
        retryable=True,
    )


def _damaged(what: object, reason: str, file: str) -> LakeDamaged:
    return LakeDamaged(
        f"a file of {what} in the lake {reason}: {file}",
        table=str(what),
        reason=reason,
        next_step="`mirrorlake check` of that table says what it was and what to do",
    )


def _seconds(wait: timedelta) -> int:
    return max(1, round(wait.total_seconds()))
