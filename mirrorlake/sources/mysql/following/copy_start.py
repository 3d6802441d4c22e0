"""From where on a log is followed by a table that is copied now.

What belongs here: that place. What doesn't: the copy (`mirrorlake.operations.loading.load_by_log`).

Source: MariaDB knowledge base, "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT"; MySQL
8.0 manual, 17.1.3 "Replication with Global Transaction Identifiers".
"""

from __future__ import annotations

import time
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceBusy, SourceError
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.changes.open_writes import NO_CONNECTION, read_open_writes
from mirrorlake.sources.mysql.following.executed_sets import read_executed, set_before
from mirrorlake.sources.mysql.following.log_state import LogPlace, read_end, without_log
from mirrorlake.sources.mysql.following.log_walk import made_of
from mirrorlake.sources.mysql.following.same_place import gtids_at
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of

_COMMITTING_SECONDS: Final = 30.0
_PAUSE: Final = 0.1


def read_copy_start(connection: Connection[Any], source: SourceConfig, server: str) -> LogPlace:
    """A place in the log before which all is visible to whatever is read from now on.

    A transaction is in the log a moment before others see its rows: a copy that began in between
    would lack them, and so would what follows. MariaDB says where its log was when a snapshot was
    taken. MySQL does not: every transaction that may be in that moment is waited for.

    Raises:
        SourceBusy: one does not end.
        SourceError: the log, or what is being committed, can't be seen.
    """
    if is_mariadb(connection):
        try:
            position = begin_snapshot(connection, source)
        finally:
            rows_of(connection, "ROLLBACK")
        gtids = gtids_at(connection, source, server, position)
    else:
        sets = read_executed(connection)  # what is executed by now stands before the end
        position = read_end(connection, source).position
        wait_for_commits(connection, source)
        known = sets.executed if sets is not None else None
        gtids = set_before(connection, source, server, position, known) if sets else None
    made = made_of(connection, source, server, position.file)
    return LogPlace(StreamPosition(position, gtids), made)


def begin_snapshot(connection: Connection[Any], source: SourceConfig) -> LogPosition:
    """Begin a transaction of MariaDB that sees what stands before a place of its log, and nothing
    else; that place.

    Raises:
        SourceError: the server keeps no log.
    """
    rows_of(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    said = dict(rows_of(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
    found = {str(name).lower(): str(value) for name, value in said.items()}
    if not found.get("binlog_snapshot_file"):
        raise without_log(source)
    return LogPosition(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))


def wait_for_commits(connection: Connection[Any], source: SourceConfig) -> None:
    """Return once no transaction is left that may be between its place in the log and its end: one
    that is open, and whose session is not asleep, since before this was called."""
    deadline, first = time.monotonic() + _COMMITTING_SECONDS, None
    while True:
        found = read_open_writes(connection)
        if found is None:
            raise SourceError(
                f"source {source.name}: this account can't see which transactions are being "
                "committed, and what is copied must begin between two",
                source=source.name,
                next_step="Grant it PROCESS",
            )
        asleep = {
            int(row[0])
            for row in rows_of(
                connection,
                "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Sleep'",
            )
        }
        now = {
            (thread, began)
            for thread, began in found.transactions.items()
            if thread != NO_CONNECTION and thread not in asleep
        }
        first = now if first is None else first & now
        if not first:
            return
        if time.monotonic() > deadline:
            thread, began = min(first, key=lambda one: one[1])
            raise SourceBusy(
                f"source {source.name}: the transaction of connection {thread} runs since {began} "
                "UTC, and may be about to be committed: no copy can begin that the log continues",
                source=source.name,
                next_step="Sync again once its statement ended",
                retryable=True,
            )
        time.sleep(_PAUSE)
