"""At which place of a log the state is that a snapshot shows of one table.

MariaDB says where a snapshot is. MySQL does not, so it is found between two looks. All that was
executed before the snapshot was opened is in it, and nothing that came into the log after it: what
stands between the two may be in it, or not. Where no row of the table stands there, its state is
that of the log's end. Else the snapshot is opened again: of a table with 100 transactions a second
one in a few is still enough.

What belongs here: that place. What doesn't: the first place of a copy whose rows have a key, of
which the log wins (`mirrorlake.sources.mysql.following.copy_start`).

Source: MariaDB knowledge base, "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT"; MySQL
source, ``MYSQL_BIN_LOG::process_commit_stage_queue``, which adds to ``gtid_executed`` what the
engine has committed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceBusy, SourceError
from mirrorlake.sources.mysql.binlog.charsets import read_server_forms
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits, LogBatch
from mirrorlake.sources.mysql.binlog.log_reader import LogReader
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.statements import may_define
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.following.copy_start import wait_for_commits
from mirrorlake.sources.mysql.following.executed_sets import read_executed
from mirrorlake.sources.mysql.following.log_state import LogPlace, new_server_id, read_end
from mirrorlake.sources.mysql.following.log_walk import made_of
from mirrorlake.sources.mysql.following.same_place import gtids_at
from mirrorlake.sources.mysql.reading.reader import InSnapshot
from mirrorlake.sources.mysql.sessions.connect import is_mariadb

TRIES: Final = 50
"""How often a snapshot is opened."""
_PAUSE: Final = 0.02
_PATIENCE: Final = 30.0
"""Seconds in which the log is given that is said to be there."""
_HEARTBEAT: Final = 0.1
_AGAIN: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_STATUS: Final = (
    "(SELECT {} FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'BINLOG_SNAPSHOT_{}')"
)
_WHERE_IT_IS: Final = "SELECT {}, {}".format(
    _STATUS.format("SUBSTRING_INDEX(VARIABLE_VALUE, '.', -1)", "FILE"),
    _STATUS.format("VARIABLE_VALUE", "POSITION"),
)


def place_of_snapshot(
    connection: Connection[Any],
    source: SourceConfig,
    server: str,
    table: tuple[str, str],
    snapshot: InSnapshot,
) -> LogPlace:
    """The place before which is all that a snapshot shows of a table, and nothing else of it.

    Args:
        connection: another session with the server.
        table: database and table, as the log spells them.
        snapshot: runs a statement in the session of the snapshot, which may be opened again.

    Raises:
        SourceBusy: the table is written to all the time, on a server that does not say it.
        SourceError: the server was lost, or what is being committed can't be seen.
    """
    if is_mariadb(connection):
        position = _as_it_says(connection, source, snapshot)
        gtids = gtids_at(connection, source, server, position)
        made = made_of(connection, source, server, position.file)
        return LogPlace(StreamPosition(position, gtids), made)
    for number in range(TRIES):
        time.sleep(number * _PAUSE * random.random())  # noqa: S311 - not in step with a writer
        seen = _all_before(connection, source)
        snapshot(_AGAIN)
        end = read_end(connection, source).position
        found = _untouched(connection, source, server, table, (seen, end))
        if found is not None:
            file = found.log.file if found.log is not None else end.file
            return LogPlace(found, made_of(connection, source, server, file))
    raise SourceBusy(
        f"table {source.name}.{'.'.join(table)} has no key, and is written to all the time: in "
        f"{TRIES} tries no snapshot could be placed in the binary log",
        source=source.name,
        next_step="Sync when less is written to it, or give it a key, or use mode full",
        retryable=True,
    )


def _as_it_says(
    connection: Connection[Any], source: SourceConfig, snapshot: InSnapshot
) -> LogPosition:
    number, offset = snapshot(_WHERE_IT_IS)
    files = read_end(connection, source).files
    named = [name for name in files if int(name.rpartition(".")[2]) == number]
    if len(named) != 1 or offset is None:
        raise SourceError(
            f"source {source.name} does not say where a snapshot is in its binary log",
            source=source.name,
            retryable=True,
        )
    return LogPosition(named[0], offset)


def _all_before(connection: Connection[Any], source: SourceConfig) -> StreamPosition:
    """What whoever looks from now on sees: transactions by their GTIDs; where these have none, all
    before a place, once those that were about to be committed are."""
    sets = read_executed(connection)
    if sets is not None:
        return StreamPosition(None, sets.executed)
    position = read_end(connection, source).position
    wait_for_commits(connection, source)
    return StreamPosition(position)


def _untouched(
    connection: Connection[Any],
    source: SourceConfig,
    server: str,
    table: tuple[str, str],
    between: tuple[StreamPosition, LogPosition],
) -> StreamPosition | None:
    """The place at the end of a part of the log in which nothing is of a table, and nothing that
    may be; None where something is."""
    start, end = between
    if start.log == end:
        return start
    number = new_server_id(connection)
    with LogTransport(
        source, start, number, follow=True, heartbeat=_HEARTBEAT, server=server
    ) as transport:
        reader = LogReader(
            transport.start,
            {table: FollowedTable()},
            read_server_forms(connection),
            checksums=transport.checksums,
            limits=BatchLimits(rows=1),
        )
        packets = _patient(transport.packets(), source)
        with closing(packets):
            for batch in reader.batches(packets, end):
                if _touches(batch, table):
                    return None
        # A transaction that the end lay within was read to its own.
        return replace(reader.position, log=reader.reached)


def _patient(packets: Iterable[bytes], source: SourceConfig) -> Generator[bytes]:
    deadline = time.monotonic() + _PATIENCE
    for packet in packets:
        if time.monotonic() > deadline:
            break
        yield packet
    raise SourceError(
        f"source {source.name} does not give its binary log to where it says that it goes",
        source=source.name,
        retryable=True,
    )


def _touches(batch: LogBatch, table: tuple[str, str]) -> bool:
    statements = (s.rows_unknown or may_define(s.text, [table]) for s in batch.statements)
    return bool(batch.rows or batch.stopped) or any(statements)
