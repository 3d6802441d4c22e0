"""The ledger's database: opened, checked for its version, and its errors in our words."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from mirrorlake.config.database_url import with_driver
from mirrorlake.config.fields import hide_url
from mirrorlake.errors import LedgerError
from mirrorlake.ledger.migrations import LEDGER_VERSION, migrate
from mirrorlake.ledger.servers import READS, alone, clock, kind_of, may_pass, open_engine, words_of
from mirrorlake.ledger.tables import META, METADATA


class Database:
    """A connection to the ledger's database; safe to share between threads.

    Raises:
        LedgerError: the database can't be opened, is locked for longer than ``wait``, or was
            written by a newer Mirrorlake.
    """

    def __init__(self, url: str, wait: timedelta = timedelta(seconds=30)) -> None:
        self._shown = hide_url(url)
        self._wait = wait
        read = with_driver(url)
        self._kind = kind_of(read)
        self._engine = open_engine(read, wait)
        self._reader = self._engine.execution_options(**{READS: True})
        # A server counts open connections: they are closed with the last reference to this.
        weakref.finalize(self, self._engine.dispose)
        with self.begin() as connection, alone(connection, self._kind, wait):
            METADATA.create_all(connection)
            self._check_version(connection)

    def _check_version(self, connection: sa.Connection) -> None:
        rows = connection.execute(META.select().where(META.c.name.in_(("version", "identity"))))
        recorded = {row.name: row.value for row in rows}
        found = recorded.get("version")
        if "identity" not in recorded:
            # Which ledger this is, for who remembers numbers of it.
            connection.execute(META.insert().values(name="identity", value=uuid.uuid4().hex))
        if found is None:
            connection.execute(META.insert().values(name="version", value=str(LEDGER_VERSION)))
        elif int(found) > LEDGER_VERSION:
            raise LedgerError(
                f"the ledger has version {found}; this Mirrorlake knows {LEDGER_VERSION}",
                next_step="Install the Mirrorlake that wrote it, or a newer one",
            )
        elif int(found) < LEDGER_VERSION:
            migrate(connection, int(found))
            here = META.update().where(META.c.name == "version")
            connection.execute(here.values(value=str(LEDGER_VERSION)))

    def begin(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that writes: whole or not at all."""
        return self._transaction(self._engine)

    def read(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that only reads, and sees one state of the ledger."""
        return self._transaction(self._reader)

    def now(self, connection: sa.Connection) -> datetime:
        """Now in UTC by the ledger's own clock, as the ledger stores it."""
        return clock(connection, self._kind)

    def count_on(self, connection: sa.Connection, column: sa.Column[int]) -> None:
        """A counting column continues after its highest value: Postgres alone does not see values
        that were given."""
        if self._kind == "postgresql":
            highest = sa.select(sa.func.max(column)).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(column.table.name, column.name)
            connection.execute(sa.select(sa.func.setval(sequence, highest)))

    @contextmanager
    def _transaction(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise self._translated(error) from error
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger {self._shown} is not usable: {error}".split("\n", 1)[0],
                next_step="See that ledger.url names a database that runs",
                retryable=isinstance(error, PoolTimeout),
            ) from error

    def _translated(self, error: DBAPIError) -> LedgerError:
        """The driver's error as ours: what may pass by itself, and what a person must repair."""
        words, local = words_of(error), self._kind == "sqlite"
        if isinstance(error, OperationalError) or error.connection_invalidated:
            return LedgerError(
                f"the ledger {self._shown} could not be used: {words} "
                f"(waited up to {self._wait.total_seconds():g} s)",
                next_step="See that no other program holds it, and that the disk has room"
                if local
                else "See that the server runs and lets this user in (ledger.url)",
                retryable=may_pass(error),
            )
        return LedgerError(
            f"the ledger {self._shown} is not usable: {words}",
            next_step="If the file is damaged, move it away: loads are found again in the lake"
            if local
            else "See that ledger.url names a database of which this user may make tables",
        )


def utc_now() -> datetime:
    """Now in UTC, as the ledger stores it."""
    # Stored without a zone: not every database keeps one; every time in the ledger is UTC.
    return datetime.now(UTC).replace(tzinfo=None)
