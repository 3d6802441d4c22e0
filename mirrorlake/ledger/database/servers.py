"""What each database needs so that the ledger means the same on all of them.

Writes are READ COMMITTED everywhere: a transaction that waited for a row sees what the other made
of it, and MySQL takes no gap locks, with which two writers of different tables would end in a
deadlock. Reads are snapshots: their statements see one state.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, NoSuchModuleError

from mirrorlake.errors import LedgerError
from mirrorlake.runtime.database_waits import bound_waits
from mirrorlake.runtime.extras import install_command
from mirrorlake.runtime.replaced_file import reopen_replaced

READS = "mirrorlake_reads"
"""The execution option of a connection that only reads."""

# Any number, as long as every Mirrorlake takes the same one.
_SETUP_KEY = 7_202_611_210
_SNAPSHOT = {
    "postgresql": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "mysql": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
}
_CLOCK = {
    "postgresql": "SELECT clock_timestamp() AT TIME ZONE 'UTC'",
    "mysql": "SELECT UTC_TIMESTAMP(6)",
}
# Access denied, unknown database, no right to do this: waiting does not help.
_REFUSED_CODES = {1044, 1045, 1049, 1142, 1698}
_REFUSED_STATES = ("28", "3D", "42")
_LOCK_CODES = {1205}
_LOCK_STATE = "55P03"
_FILE_STEPS = {
    "SQLITE_READONLY": "Make the file and its folder writable for this user",
    "SQLITE_FULL": "Make room on its disk",
    "SQLITE_CANTOPEN": "See that it is a file that this user may read and write, in such a folder",
    # Another file took its place while it was open, or it never was a ledger.
    "SQLITE_ERROR": "Run it again: an older ledger is brought to this version when it is opened; "
    "where that does not help, move it away: loads are found again in the lake",
}
# Code points that no text has.
_SURROGATES, _AFTER_SURROGATES = 0xD800, 0xE000
# libpq gives no state for what it met while it connected.
_REFUSED_WORDS = ("does not exist", "authentication failed", "no pg_hba.conf entry")


def kind_of(url: sa.URL) -> str:
    """``sqlite``, ``postgresql`` or ``mysql`` (MariaDB too)."""
    name = url.get_backend_name()
    return "mysql" if name == "mariadb" else name


def open_engine(url: sa.URL, wait: timedelta) -> sa.Engine:
    """An engine whose transactions behave as this module promises; nothing is connected yet.

    Raises:
        LedgerError: there is no such database, no driver for it, or no place for its file.
    """
    kind = kind_of(url)
    if kind == "sqlite":
        return _open_sqlite(url, wait)
    if kind not in _SNAPSHOT:
        raise LedgerError(
            f"the ledger can't be kept in {kind!r}",
            next_step="Set ledger.url to sqlite:///…, postgresql://… or mysql://…",
        )
    try:
        return _open_server(url, kind, max(1, math.ceil(wait.total_seconds())))
    except (ImportError, NoSuchModuleError) as error:
        raise LedgerError(
            f"the driver of {url.drivername} is not installed: {error}",
            next_step=f"Install it; for Postgres by {install_command('postgres')}",
        ) from error


def _open_sqlite(url: sa.URL, wait: timedelta) -> sa.Engine:
    if url.database and url.database != ":memory:":
        folder = Path(url.database).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(
                f"the ledger's folder {folder} can't be made: {error.strerror}",
                next_step="Make it writable, or set ledger.url to another place",
            ) from error
    engine = sa.create_engine(url, connect_args={"timeout": wait.total_seconds()})

    # sqlite3 begins transactions late by itself: two readers that both go on to write would fail.
    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get(READS):
            # Past SQLAlchemy, which takes longer for it than SQLite: it takes no lock yet, so it
            # can't fail.
            driver: Any = connection.connection.driver_connection
            driver.execute("BEGIN")
        else:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return reopen_replaced(engine)


def _open_server(url: sa.URL, kind: str, seconds: int) -> sa.Engine:
    arguments: dict[str, Any] = {"connect_timeout": seconds}
    if kind == "mysql":
        # PyMySQL sends a password that is text as latin1, which is another password.
        arguments |= {"charset": "utf8mb4", "password": (url.password or "").encode()}
    engine = sa.create_engine(
        url,
        connect_args=arguments,
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        pool_timeout=seconds,
    )
    bound_waits(engine, seconds)
    settings = {
        "postgresql": f"SET lock_timeout = '{seconds}s'",
        # Without a strict mode a text that is too long is cut, silently; the server's own limit of
        # rows would leave windows out, and a chained transaction would see none that come later.
        "mysql": "SET SESSION sql_mode = 'TRADITIONAL', sql_select_limit = 18446744073709551615, "
        "sql_big_selects = 1, sql_auto_is_null = 0, completion_type = 'NO_CHAIN', "
        f"innodb_lock_wait_timeout = {seconds}",
    }

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(settings[kind])
        connection.commit()

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get(READS):
            connection.exec_driver_sql(_SNAPSHOT[kind])

    return engine


def begins_with(
    connection: sa.Connection, column: sa.Column[str], prefix: str
) -> sa.ColumnElement[bool]:
    """Whether a text begins so, found by the column's index where that can be.

    Source: "The SQLite Query Optimizer Overview", 5: a LIKE with an ESCAPE uses none.
    """
    like = column.startswith(prefix, autoescape=True)
    if connection.dialect.name != "sqlite" or not prefix:
        return like
    # SQLite compares texts by their bytes; servers by a collation, in which a range is another.
    begins, after = sa.and_(like, column >= prefix), _text_after(prefix)
    return begins if after is None else sa.and_(begins, column < after)


def _text_after(prefix: str) -> str | None:
    """The first text after all that begin so; None where none is."""
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return None
    after = ord(kept[-1]) + 1
    return kept[:-1] + chr(_AFTER_SURROGATES if after == _SURROGATES else after)


@contextmanager
def alone(connection: sa.Connection, kind: str, wait: timedelta) -> Iterator[None]:
    """Nobody else sets this ledger up meanwhile: two that make one table would both fail."""
    if kind == "postgresql":
        if connection.scalar(sa.text("SHOW server_encoding")) != "UTF8":
            raise LedgerError(
                "the ledger's Postgres database is not in UTF8, which names of tables need",
                next_step="Make it with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
            )
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _SETUP_KEY})
        yield
        return
    if kind == "sqlite":
        yield  # its transaction is alone already
        return
    # DDL ends a transaction in MySQL, so that the lock is the session's, per database.
    name = sa.func.left(sa.func.concat("mirrorlake_", sa.func.database()), 64)
    seconds = max(1, math.ceil(wait.total_seconds()))
    if connection.scalar(sa.select(sa.func.get_lock(name, seconds))) != 1:
        raise LedgerError(
            f"the ledger is being set up by another run (waited {seconds} s)",
            next_step="Try again when it is done",
            retryable=True,
        )
    try:
        yield
        connection.commit()  # else who waits sees nothing of it yet
    finally:
        connection.execute(sa.select(sa.func.release_lock(name)))


def clock(connection: sa.Connection, kind: str) -> datetime:
    """Now in UTC by the ledger's own clock, without a zone.

    Machines that share a server's ledger share its clock: by theirs, one that is late would see its
    leases run out before their time.
    """
    if kind == "sqlite":
        return datetime.now(UTC).replace(tzinfo=None)
    return connection.execute(sa.text(_CLOCK[kind])).scalar_one()


def words_of(error: DBAPIError) -> str:
    """What the driver said, on one line."""
    said = error.orig
    parts: tuple[Any, ...] = said.args if said else ()
    if len(parts) == 2 and isinstance(parts[0], int):
        return f"{parts[1]} [{parts[0]}]"
    return " ".join(str(said).split())


def may_pass(error: DBAPIError) -> bool:
    """Whether the same call may succeed later: not where the server refused us."""
    parts: tuple[Any, ...] = error.orig.args if error.orig else ()
    if parts and parts[0] in _REFUSED_CODES:
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return not any(words in str(error.orig) for words in _REFUSED_WORDS)
    return not str(state).startswith(_REFUSED_STATES)


def file_step(error: DBAPIError) -> str | None:
    """What to do about a SQLite file that can't be used, however long it is waited for."""
    name = str(getattr(error.orig, "sqlite_errorname", ""))
    return _FILE_STEPS.get("_".join(name.split("_")[:2]))


def waited_for_lock(error: DBAPIError) -> bool:
    """Whether another transaction held what was wanted for too long: the connection is well."""
    parts: tuple[Any, ...] = error.orig.args if error.orig else ()
    state = getattr(error.orig, "sqlstate", None)
    return state == _LOCK_STATE or bool(parts and parts[0] in _LOCK_CODES)
