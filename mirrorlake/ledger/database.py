"""The ledger's database: opened, checked for its version, and its errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from mirrorlake.errors import LedgerError
from mirrorlake.ledger.tables import META, METADATA

LEDGER_VERSION = 1


class Database:
    """A connection to the ledger's database; safe to share between threads.

    Raises:
        LedgerError: the database can't be opened, is locked for longer than ``wait``, or was
            written by a newer Mirrorlake.
    """

    def __init__(self, url: str, wait: timedelta = timedelta(seconds=30)) -> None:
        self._url = sa.make_url(url)
        self._wait = wait
        if self._url.get_backend_name() == "sqlite":
            self._engine = self._open_sqlite()
        else:
            self._engine = sa.create_engine(self._url, pool_pre_ping=True)
        with self.begin() as connection:
            METADATA.create_all(connection)
            self._check_version(connection)

    def _open_sqlite(self) -> sa.Engine:
        if self._url.database and self._url.database != ":memory:":
            folder = Path(self._url.database).parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LedgerError(
                    f"the ledger's folder {folder} can't be made: {error.strerror}",
                    next_step="Make it writable, or set ledger.url to another place",
                ) from error
        engine = sa.create_engine(self._url, connect_args={"timeout": self._wait.total_seconds()})

        # sqlite3 begins transactions late by itself: two readers that both go on to write would
        # fail.
        @event.listens_for(engine, "connect")
        def _connect(connection: Any, _: Any) -> None:
            connection.isolation_level = None

        @event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    def _check_version(self, connection: sa.Connection) -> None:
        found = connection.scalar(sa.select(META.c.value).where(META.c.name == "version"))
        if found is None:
            connection.execute(META.insert().values(name="version", value=str(LEDGER_VERSION)))
        elif int(found) > LEDGER_VERSION:
            raise LedgerError(
                f"the ledger has version {found}; this Mirrorlake knows {LEDGER_VERSION}",
                next_step="Install the Mirrorlake that wrote it, or a newer one",
            )

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        where = self._url.render_as_string(hide_password=True)
        try:
            with self._engine.begin() as connection:
                yield connection
        except OperationalError as error:
            raise LedgerError(
                f"the ledger {where} could not be used: {error.orig} "
                f"(waited up to {self._wait.total_seconds():g} s)",
                next_step="See that no other program holds it, and that the disk has room",
                retryable=True,
            ) from error
        except IntegrityError:
            raise
        except (DBAPIError, SQLAlchemyError) as error:
            raise LedgerError(
                f"the ledger {where} is not usable: {error}".split("\n", 1)[0],
                next_step="If the file is damaged, move it away: loads are found again in the lake",
            ) from error


def utc_now() -> datetime:
    """Now in UTC, as the ledger stores it."""
    # Stored without a zone: not every database keeps one; every time in the ledger is UTC.
    return datetime.now(UTC).replace(tzinfo=None)
