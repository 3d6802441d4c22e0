"""The ledger's database: opened, checked for its version, and its errors in our words."""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from mirrorlake.capabilities import Seam
from mirrorlake.config.database_url import with_driver
from mirrorlake.config.fields import hide_url
from mirrorlake.errors import LedgerError, LedgerLost
from mirrorlake.ledger.database.commits import (
    CommitMark,
    forget_marks,
    has_old_marks,
    is_there,
    is_under_way,
    keep_mark,
    leave_mark,
)
from mirrorlake.ledger.database.migrations import LEDGER_VERSION, migrate
from mirrorlake.ledger.database.servers import (
    READS,
    alone,
    clock,
    file_step,
    kind_of,
    may_pass,
    open_engine,
    waited_for_lock,
    words_of,
)
from mirrorlake.ledger.tables import META, METADATA
from mirrorlake.runtime.database_waits import step_for

logger = logging.getLogger(__name__)
T = TypeVar("T")
TABLES: Final[Seam[sa.Table]] = Seam("ledger.tables")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class Database:
    """A connection to the ledger's database; safe to share between threads.

    A server that does not answer when it is opened is an error at once. One that is lost later is
    waited for, for ``wait``: nothing is applied twice, as a commit that was not answered is looked
    up in the server.

    Raises:
        LedgerError: the database can't be opened, is locked for longer than ``wait``, or was
            written by a newer Mirrorlake.
    """

    def __init__(self, url: str, wait: timedelta = timedelta(seconds=30)) -> None:
        self.url = url
        """Where it is; it may hold a password: never log or raise it."""
        self._shown = hide_url(url)
        self._wait = wait
        self._there_before = False
        self._local = threading.local()
        read = with_driver(url)
        self._kind = kind_of(read)
        self._engine = open_engine(read, wait)
        self._reader = self._engine.execution_options(**{READS: True})
        # A server counts open connections: they are closed with the last reference to this.
        weakref.finalize(self, self._engine.dispose)
        list(TABLES)  # known to METADATA once they are imported
        with self.read() as connection:
            set_up = _is_set_up(connection)
            marked = set_up and has_old_marks(connection, utc_now())
        # One that is set up is not locked: runs that begin at once would wait for one another, each
        # with a connection that another one needs to end.
        if not set_up:
            with self.begin() as connection, alone(connection, self._kind, wait):
                # Who waited here finds it set up: under the lock nobody looks at each table again.
                if not _is_set_up(connection):
                    METADATA.create_all(connection)
                    self._check_version(connection)
        # Who may only read leaves them to the next one that may write.
        if marked:
            with suppress(LedgerError), self.begin() as connection:
                forget_marks(connection, utc_now())

    def _check_version(self, connection: sa.Connection) -> None:
        recorded = _recorded(connection)
        found = recorded.get("version")
        if "identity" not in recorded:
            # Which ledger this is, for who remembers numbers of it.
            connection.execute(META.insert().values(name="identity", value=uuid.uuid4().hex))
        if found is None:
            connection.execute(META.insert().values(name="version", value=str(LEDGER_VERSION)))
        elif not found.isdecimal():
            raise LedgerError(
                f"the ledger {self._shown} says that its version is {found!r}",
                next_step="Put a backup of it in its place, or move it away: loads are found again "
                "in the lake",
            )
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

    @contextmanager
    def joined(self) -> Iterator[None]:
        """What this thread writes in the block is one transaction: whole or not at all."""
        if self._joined() is not None:
            yield
            return
        with self._transaction(self._engine) as connection:
            self._local.joined = connection
            try:
                yield
            finally:
                self._local.joined = None

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

    def again(self, act: Callable[[], T]) -> T:
        """What ``act`` gives; it is done again where the connection was lost before any of its
        transactions was committed.

        Raises:
            LedgerError: it was lost again and again, for longer than ``wait``.
        """
        if self._joined() is not None:
            return act()  # all of that transaction is to be done again
        until, before = None, self._committed()
        while True:
            try:
                return act()
            except LedgerLost as error:
                now = time.monotonic()
                until = until or now + self._wait.total_seconds()
                if self._committed() != before or now >= until:
                    raise
                logger.warning("%s: it is done again", error.message)

    def _joined(self) -> sa.Connection | None:
        """The transaction that this thread's calls are part of, if they are joined."""
        return getattr(self._local, "joined", None)

    def _committed(self) -> int:
        """How many transactions of this thread wrote, or may have."""
        return getattr(self._local, "committed", 0)

    @contextmanager
    def _transaction(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        if (joined := self._joined()) is not None:
            yield joined
            return
        began = time.monotonic()
        try:
            with closing(self._opened(engine)) as connection:
                yield connection
                self._commit(connection, writes=engine is not self._reader)
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise self._translated(error, time.monotonic() - began) from error
        except SQLAlchemyError as error:
            raise LedgerError(
                f"the ledger {self._shown} is not usable: {error}".split("\n", 1)[0],
                next_step="See that ledger.url names a database that runs",
                retryable=isinstance(error, PoolTimeout),
            ) from error

    def _opened(self, engine: sa.Engine) -> sa.Connection:
        """A connection with its transaction begun. A server that was there before and is not now
        (it restarts) is waited for."""
        began, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            connection: sa.Connection | None = None
            try:
                connection = engine.connect()
                connection.begin()
            except DBAPIError as error:
                if connection is not None:
                    connection.close()
                left = began + self._wait.total_seconds() - time.monotonic()
                if not self._there_before or not self._may_return(error) or left <= 0:
                    raise
                logger.log(
                    logging.WARNING if pause == _FIRST_PAUSE else logging.DEBUG,
                    "the ledger %s can't be reached (%s): waiting for it for %.0f s at most",
                    *(self._shown, words_of(error), left),
                )
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._there_before = True
                return connection

    def _may_return(self, error: DBAPIError) -> bool:
        return self._kind != "sqlite" and may_pass(error) and not waited_for_lock(error)

    def _commit(self, connection: sa.Connection, *, writes: bool) -> None:
        """Commit; where no answer comes, look whether it was made.

        Raises:
            LedgerLost: it was not.
            LedgerError: nobody knows.
        """
        if not writes or self._kind == "sqlite":
            connection.commit()
            return
        mark = leave_mark(connection, self._kind, utc_now())
        try:
            connection.commit()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            self._local.committed = self._committed() + 1
            connection.close()
            if not self._did_commit(mark, error):
                raise self._unknown(error) from error
        else:
            keep_mark(connection, mark)
            self._local.committed = self._committed() + 1

    def _did_commit(self, mark: CommitMark, error: DBAPIError) -> bool:
        """Whether a transaction was committed; False where nobody knows.

        Raises:
            LedgerLost: it was not.
        """
        until = time.monotonic() + self._wait.total_seconds()
        while True:
            with closing(self._opened(self._engine)) as connection:
                under_way = is_under_way(connection, mark)
            # Afterwards: what was under way may be done.
            with closing(self._opened(self._engine)) as connection:
                there = is_there(connection, mark)
            if there:
                return True
            if under_way is False:
                self._local.committed = self._committed() - 1
                raise self._lost(error, 0) from error
            if time.monotonic() >= until:
                return False
            time.sleep(0.2)

    def _unknown(self, error: DBAPIError) -> LedgerError:
        return LedgerError(
            f"the ledger {self._shown} did not answer a commit, and can't say whether it was made: "
            f"{words_of(error)}",
            next_step="Sync again: it finds out what was done, and continues",
            retryable=True,
        )

    def _lost(self, error: DBAPIError, seconds: float) -> LedgerLost:
        waited = f" (waited {seconds:.1f} s for a connection)" if seconds >= 1 else ""
        step = "See that the server runs and lets this user in (ledger.url)"
        return LedgerLost(
            f"the ledger {self._shown} could not be used: {words_of(error)}{waited}",
            next_step=step_for(error.orig, step),
            retryable=may_pass(error),
        )

    def _translated(self, error: DBAPIError, seconds: float) -> LedgerError:
        """The driver's error as ours: what may pass by itself, and what a person must repair."""
        local = self._kind == "sqlite"
        if not local and error.connection_invalidated:
            return self._lost(error, seconds)
        if isinstance(error, OperationalError):
            if not local and not waited_for_lock(error):
                return self._unusable(error, seconds)
            if step := file_step(error):
                return LedgerError(
                    f"the ledger {self._shown} could not be used: {words_of(error)}",
                    next_step=step,
                    retryable=may_pass(error),
                )
            return LedgerError(
                f"the ledger {self._shown} could not be used: {words_of(error)} "
                f"(waited up to {self._wait.total_seconds():g} s)",
                next_step="See that no other program holds it, and that the disk has room"
                if local
                else "See what else writes to the ledger, and for how long",
                retryable=may_pass(error),
            )
        return LedgerError(
            f"the ledger {self._shown} is not usable: {words_of(error)}",
            next_step="If the file is damaged, move it away: loads are found again in the lake"
            if local
            else "See that ledger.url names a database of which this user may make tables",
        )

    def _unusable(self, error: DBAPIError, seconds: float) -> LedgerError:
        """Not connected, or refused: as `_lost`, but not to be done again."""
        lost = self._lost(error, seconds)
        return LedgerError(lost.message, next_step=lost.next_step, retryable=lost.retryable)


def waits_for_server(ledger: type[T]) -> type[T]:
    """Have every public method of a ledger done again where its connection was lost (`again`).

    Not those that give their answer bit by bit, and no call that was given an iterator: it would be
    empty the second time.
    """
    for name in dir(ledger):
        method = inspect.getattr_static(ledger, name)
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        if not inspect.isgeneratorfunction(inspect.unwrap(method)):
            setattr(ledger, name, _done_again(method))
    return ledger


def _done_again(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        if any(isinstance(value, Iterator) for value in (*given, *named.values())):
            return method(self, *given, **named)
        return self._database.again(lambda: method(self, *given, **named))

    return call


def _is_set_up(connection: sa.Connection) -> bool:
    """Whether all tables are there, and of this version."""
    there = {*sa.inspect(connection).get_table_names()}
    recorded = _recorded(connection) if META.name in there else {}
    current = recorded.get("version") == str(LEDGER_VERSION) and "identity" in recorded
    return current and there.issuperset(METADATA.tables)


def _recorded(connection: sa.Connection) -> dict[str, str]:
    """What the ledger says of itself: its version, and which one it is."""
    rows = connection.execute(META.select().where(META.c.name.in_(("version", "identity"))))
    return {row.name: row.value for row in rows}


def utc_now() -> datetime:
    """Now in UTC, as the ledger stores it."""
    # Stored without a zone: not every database keeps one; every time in the ledger is UTC.
    return datetime.now(UTC).replace(tzinfo=None)
