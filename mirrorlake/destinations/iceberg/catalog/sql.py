"""PyIceberg's SQL catalog, whose tables are looked at often: a metadata file is parsed once.

A sync looks at each of its tables some twenty times, before and after each step, to see what is
there now. The catalog's database is queried every time; the metadata file that it names is parsed
again only if it is another one, for a metadata file never changes.

Source: the Iceberg specification, "Optimistic Concurrency": a table's metadata file is replaced as
a whole.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.table import (
    CommitTableResponse,
    CreateTableTransaction,
    StagedTable,
    Table,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from sqlalchemy.exc import IntegrityError, OperationalError

from mirrorlake.destinations.iceberg.catalog.applied_updates import AppliedCreation, AppliedTable
from mirrorlake.destinations.iceberg.catalog.properties import WAIT
from mirrorlake.destinations.iceberg.metadata.log_times import in_order
from mirrorlake.destinations.iceberg.metadata.removed_versions import as_removed
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.runtime.database_waits import bound_waits
from mirrorlake.runtime.replaced_file import reopen_replaced

_KEPT = 16 * 1024**2
"""Bytes of the metadata files whose content is kept; parsed, they take some seven times as much."""
_LEAST = 8 * 1024
"""As how many bytes a small one counts: parsed, it takes ten kilobytes and more, whatever it has;
a sync of ten thousand small tables kept them all."""
_GUESS = 16 * 1024
"""Bytes of a metadata file in an object store, which is not asked for its size."""
_FIND = sa.text(
    "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name"
    " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
)
_SET = sa.text(
    "UPDATE iceberg_tables SET previous_metadata_location = metadata_location,"
    " metadata_location = :location WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name"
    " AND (iceberg_type IS NULL OR iceberg_type <> 'VIEW')"
)
_MOVE = sa.text(
    "UPDATE iceberg_tables SET previous_metadata_location = metadata_location,"
    " metadata_location = :after WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name AND metadata_location = :before"
)
_INSERT = sa.text(
    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location,"
    " previous_metadata_location, iceberg_type)"
    " VALUES (:catalog, :namespace, :name, :after, NULL, 'TABLE')"
)
_DELETE = sa.text(
    "DELETE FROM iceberg_tables WHERE catalog_name = :catalog"
    " AND table_namespace = :namespace AND table_name = :name AND metadata_location = :before"
)
_NAMED = sa.text(
    "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
    " WHERE catalog_name = :catalog AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
)

TablesNamed: TypeAlias = Mapping[tuple[str, str], str]
"""(namespace, table) → the metadata file that the catalog names."""


@dataclass(frozen=True)
class MetadataMove:
    """A table's metadata file that is written, and the one that it was made from, which the catalog
    must still name when it takes it.

    Attributes:
        before: None of a table that the catalog has not.
        after: None of one that it is to forget.
    """

    namespace: str
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class _Parsed:
    """A metadata file's content, and how the file was when it was read."""

    location: str
    seen: tuple[int, int] | None
    metadata: TableMetadata
    io: FileIO

    @property
    def size(self) -> int:
        return _GUESS if self.seen is None else max(_LEAST, self.seen[0])


class LakeCatalog(SqlCatalog):
    """The lake's SQL catalog; safe to share between threads."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._local = self.engine.dialect.name == "sqlite"
        self._parsed: dict[str, _Parsed] = {}
        """By the folder of the metadata files: of each table one; the last one kept comes last."""
        self._size = 0
        self._keeping = threading.Lock()

    def _init_catalog(self) -> None:
        """What the parent does first, before it connects."""
        bound_waits(self.engine, float(self.properties[WAIT]))
        reopen_replaced(self.engine)
        super()._init_catalog()

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        """The table as the catalog has it now.

        Raises:
            NoSuchTableError: it is not there.
            FileNotFoundError: the metadata file that the catalog names is gone.
        """
        if self._schema_version != "v1":
            return super().load_table(identifier)  # made by another tool, long ago
        namespace, name = _names_of(identifier)
        return self._open(namespace, name, self._find(namespace, name))

    def tables_named(self) -> TablesNamed | None:
        """All tables as the catalog has them now, looked up at once; None where each has to be
        looked up by itself."""
        if self._schema_version != "v1":
            return None
        with self.engine.connect() as connection:
            rows = connection.execute(_NAMED, {"catalog": self.name}).all()
        return {(namespace, name): location for namespace, name, location in rows}

    def load_named(self, identifier: tuple[str, ...], named: TablesNamed) -> Table:
        """A table as `tables_named` had it; raises as `load_table` does."""
        key = _names_of(identifier)
        return self._open(*key, named.get(key))

    def create_table(self, *given: Any, **named: Any) -> Table:
        """As the parent's, of a namespace that is there."""
        if self._schema_version != "v1":
            return super().create_table(*given, **named)
        staged = self._create_staged_table(*given, **named)
        self._move(self._written(staged, None))
        return self.load_table(staged.name())

    def create_table_transaction(self, *given: Any, **named: Any) -> CreateTableTransaction:
        """As the parent's."""
        return AppliedCreation(self._create_staged_table(*given, **named))

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """As the parent's, whose session of an ORM takes longer than the statement."""
        if self._schema_version != "v1":
            return super().commit_table(table, requirements, updates)
        names = _names_of(table.name())
        before = self._find(*names)
        now = self._open(*names, before) if before is not None else None
        staged = self._update_and_stage_table(now, table.name(), requirements, updates)
        if now is not None and staged.metadata == now.metadata:
            return _response(now.metadata, before)
        self._move(self._written(staged, before))
        return _response(staged.metadata, staged.metadata_location)

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: tuple[str, ...],
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        """As the parent's, with logs in order (`in_order`), and with versions removed as Iceberg
        removes them (`as_removed`)."""
        staged = super()._update_and_stage_table(
            current_table, table_identifier, requirements, updates
        )
        before = current_table.metadata if current_table is not None else None
        staged.metadata = in_order(as_removed(before, updates, staged.metadata))
        return staged

    @staticmethod
    def _empty_table_metadata() -> TableMetadata:
        """As the parent's, made once: it is only ever copied."""
        return _empty()

    def _move(self, move: MetadataMove) -> None:
        """Have the catalog name a table's metadata file that is written.

        Raises:
            CommitFailedException: it names another one by now than the one that this was made from.
            TableAlreadyExistsError: it has the table, and was to have none.
        """
        if self._moved([move]):
            return
        if move.before is None:
            raise TableAlreadyExistsError(f"Table {move.namespace}.{move.name} already exists")
        raise CommitFailedException(
            f"Table has been updated by another process: {move.namespace}.{move.name}"
        )

    def name_metadata(self, identifier: tuple[str, ...], location: str) -> bool:
        """Have the catalog name a table by another metadata file, in one statement; whether it has
        such a table."""
        if self._schema_version != "v1":
            return False
        namespace, name = _names_of(identifier)
        values = {"catalog": self.name, "namespace": namespace, "name": name}
        values["location"] = location
        with self.engine.begin() as connection:
            return connection.execute(_SET, values).rowcount == 1

    def stage_metadata(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> MetadataMove:
        """Write what `commit_table` would, but for the step by which the catalog names it.

        Raises:
            CommitFailedException: a requirement is not met.
        """
        staged = self._update_and_stage_table(table, table.name(), requirements, updates)
        return self._written(staged, table.metadata_location)

    def _written(self, staged: StagedTable, before: str | None) -> MetadataMove:
        """Write a table's next metadata file; the step by which the catalog names it."""
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        return MetadataMove(*_names_of(staged.name()), before, staged.metadata_location)

    def move_together(self, moves: Sequence[MetadataMove]) -> list[MetadataMove]:
        """Have the catalog name other metadata files of several tables, in one transaction. Those
        of them of which it names another one by now: where there are any, nothing was moved."""
        if self._moved(moves):
            return []
        named = self.tables_named() or {}
        others = [m for m in moves if named.get((m.namespace, m.name)) != m.before]
        return others or [*moves]

    def _moved(self, moves: Sequence[MetadataMove]) -> bool:
        """Whether the catalog names all of these now; none, where it named another one of some."""
        # In one order, so that no two wait for each other.
        ordered = sorted(moves, key=lambda move: (move.namespace, move.name))
        values = [{"catalog": self.name, **vars(move)} for move in ordered]
        gone = [one for one in values if one["after"] is None]
        moved = [one for one in values if None not in (one["before"], one["after"])]
        new = [one for one in values if one["before"] is None]
        with self.engine.connect() as connection:
            missed = False
            for statement, some in ((_DELETE, gone), (_MOVE, moved)):
                missed |= bool(some) and connection.execute(statement, some).rowcount != len(some)
            try:
                if new:
                    connection.execute(_INSERT, new)
            except IntegrityError:
                missed = True
            if missed:
                connection.rollback()
            else:
                connection.commit()
            return not missed

    def _find(self, namespace: str, name: str) -> str | None:
        """The metadata file that the catalog names now; None where it has no such table."""
        values = {"catalog": self.name, "namespace": namespace, "name": name}
        if not self._local:
            with self.engine.connect() as connection:
                return connection.scalar(_FIND, values)
        # Past SQLAlchemy, which takes longer than SQLite, and translates errors: see `_translated`.
        with closing(self.engine.raw_connection()) as connection, _translated():
            row = connection.cursor().execute(_FIND.text, values).fetchone()
            return row and str(row[0])

    def _open(self, namespace: str, name: str, location: str | None) -> Table:
        if location is None:
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
        parsed = self._parsed.get(_folder(location))
        if parsed is None or parsed.location != location or parsed.seen != _look(location):
            parsed = self._parse(location, namespace, name)
        path = (*Catalog.identifier_to_tuple(namespace), name)
        return AppliedTable(path, parsed.metadata, location, parsed.io, self)

    def _parse(self, location: str, namespace: str, name: str) -> _Parsed:
        seen = _look(location)  # before it is read: a change meanwhile is seen the next time
        row = {"table_namespace": namespace, "table_name": name, "metadata_location": location}
        table = self._convert_orm_to_iceberg(_Row(**row))  # pyright: ignore[reportArgumentType]
        return self._keep(_Parsed(location, seen, table.metadata, table.io))

    def _write_metadata(  # pyright: ignore[reportIncompatibleMethodOverride] (there it is static)
        self, metadata: TableMetadata, io: FileIO, metadata_path: str
    ) -> None:
        """As the parent's. What was written need not be read again by who wrote it."""
        super()._write_metadata(metadata, io, metadata_path)
        self._keep(_Parsed(metadata_path, _look(metadata_path), metadata, io))

    def _keep(self, parsed: _Parsed) -> _Parsed:
        folder = _folder(parsed.location)
        with self._keeping:
            self._size += parsed.size - self._forget(folder)
            self._parsed[folder] = parsed
            while self._size > _KEPT and len(self._parsed) > 1:
                self._size -= self._forget(next(iter(self._parsed)))
        return parsed

    def _forget(self, folder: str) -> int:
        """Keep a table's metadata no longer; as how many bytes its file counted."""
        known = self._parsed.pop(folder, None)
        return 0 if known is None else known.size


@cache
def _empty() -> TableMetadata:
    return SqlCatalog._empty_table_metadata()  # pyright: ignore[reportPrivateUsage]


def _response(metadata: TableMetadata, location: str | None) -> CommitTableResponse:
    return CommitTableResponse.model_validate({"metadata": metadata, "metadata_location": location})


@contextmanager
def _translated() -> Iterator[None]:
    """Turn what SQLite raises into what SQLAlchemy would."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OperationalError(_FIND.text, None, error) from error


@dataclass(frozen=True)
class _Row:
    """What PyIceberg takes of a row of ``iceberg_tables``."""

    table_namespace: str
    table_name: str
    metadata_location: str


def _names_of(identifier: str | tuple[str, ...]) -> tuple[str, str]:
    """A table's namespace and name, as the catalog's database has them."""
    namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
    return namespace, Catalog.table_name_from(identifier)


def _folder(location: str) -> str:
    return location.rpartition("/")[0]


def _look(location: str) -> tuple[int, int] | None:
    """Size and time of change of a local file, by which one that was damaged is read again, and
    said to be damaged; None for an object store's, which can't be changed in place.

    Raises:
        FileNotFoundError: it is gone.
    """
    path = local_path(location)
    if path is None:
        return None
    found = Path(path).stat()
    return found.st_size, found.st_mtime_ns
