"""One moment of a server: where its log ends, and a session that sees what is before that.

Source: MySQL 8.0 manual, 13.7.8.3 "FLUSH Statement" (``FLUSH TABLES WITH READ LOCK`` waits for
commits, and starting a transaction does not end it).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.following.copy_start import begin_snapshot
from mirrorlake.sources.mysql.following.log_state import LogEnd, read_end
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of, session


@dataclass(frozen=True)
class Moment:
    """One moment of a server.

    Attributes:
        end: where its log ended.
        connection: a session that sees what was committed before that, and nothing else; None
            where that was not asked for.
    """

    end: LogEnd
    connection: Connection[Any] | None = None


@contextmanager
def open_moment(source: SourceConfig, *, seen: bool, lock: bool) -> Iterator[Moment]:
    """A server's log as it ends now.

    Args:
        seen: whether its tables are to be read as they are there, while the block lasts.
        lock: whether writers may be held up for that, as long as MySQL needs to say where its log
            is: MariaDB never holds them up.

    Raises:
        SourceError: the server keeps no log, does not say where it was, or may not be locked.
    """
    with session(source) as connection:
        if not seen:
            yield Moment(read_end(connection, source))
            return
        if is_mariadb(connection):
            end = _open_snapshot(connection, source)
        elif lock:
            end = _open_locked(connection, source)
        else:
            raise SourceError(
                f"source {source.name}: MySQL says where its log is at a moment only while nobody "
                "commits",
                source=source.name,
                next_step="Allow it with --lock (in Dagster `lock: true`), which holds writers up "
                "for some milliseconds (and for as long as a statement runs that reads a table); "
                "or leave --prove out",
            )
        try:
            yield Moment(end, connection)
        finally:
            if connection.open:
                rows_of(connection, "ROLLBACK")


def _open_snapshot(connection: Connection[Any], source: SourceConfig) -> LogEnd:
    """Of MariaDB: its log as it was when this session's snapshot was taken."""
    before = read_end(connection, source)
    at = begin_snapshot(connection, source)
    # The clock was read before: what was committed until then is before that place.
    files = {**before.files, at.file: max(before.files.get(at.file, 0), at.offset)}
    return LogEnd(before.clock, at, files)


def _open_locked(connection: Connection[Any], source: SourceConfig) -> LogEnd:
    """Of MySQL: its log while nobody may commit, and a snapshot of that moment."""
    try:
        rows_of(connection, "FLUSH TABLES WITH READ LOCK")
    except SourceError as error:
        raise SourceError(
            error.message,
            source=source.name,
            next_step="Grant the account RELOAD, and try again; or leave --prove out",
            retryable=error.retryable,
        ) from error
    try:
        rows_of(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return read_end(connection, source)
    finally:
        rows_of(connection, "UNLOCK TABLES")
