"""A short walk along a server's log: what its events are and where, until whoever walks has enough.

A server gives its log a moment after it says that it goes on to there, and leaves out what a reader
by transactions has. So a walk waits at the log's end, and is told how far that is.

Source: MySQL internals, "COM_BINLOG_DUMP_GTID", "Heartbeat Event".
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import Any, Final, NamedTuple

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import Framing, LogEvent
from mirrorlake.sources.mysql.binlog.events.gtid_events import read_start
from mirrorlake.sources.mysql.binlog.log_offsets import LogOffsets
from mirrorlake.sources.mysql.binlog.positions import Gtid, Gtids, LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.following.log_state import LogFiles, LogPlace, new_server_id

_HEARTBEAT: Final = 1.0
"""Where it is shorter, MySQL sends one for each event that it leaves out."""
_PATIENCE: Final = 30.0
"""Seconds without an event that moves on."""
NUMBERED: Final = frozenset({kinds.GTID, kinds.GTID_TAGGED, kinds.MARIADB_GTID})
"""The events with which a transaction begins that has a GTID."""


class WalkedEvent(NamedTuple):
    """An event, and its place.

    Attributes:
        begin: of an event that says nothing of its place, that of the last one that did.
        end: up to where the log was read, or left out by the server, with this event.
        made: when the log's file was begun; 0: that is not known.
    """

    event: LogEvent
    begin: LogPosition
    end: LogPosition
    made: int


def walk_log(
    connection: Connection[Any], source: SourceConfig, server: str, start: StreamPosition
) -> Generator[WalkedEvent]:
    """The events from a place on, heartbeats among them; close it to end the walk.

    Raises:
        LogPurged: the server has not what follows.
        SourceError: it was lost, is another one than ``server``, or goes no further for long.
    """
    number = new_server_id(connection)
    with LogTransport(
        source, start, number, follow=True, heartbeat=_HEARTBEAT, server=server
    ) as transport:
        files, framing, at = LogFiles(transport), Framing(transport.checksums), LogOffsets()
        deadline = time.monotonic() + _PATIENCE
        for packet in files.packets():
            event = framing.read(packet)
            before = at.offset
            at.note(event)
            if at.offset != before or event.kind == kinds.ROTATE:
                deadline = time.monotonic() + _PATIENCE
            elif time.monotonic() > deadline:
                break
            begin = at.offset if event.kind == kinds.HEARTBEAT else at.began
            places = (LogPosition(at.file, begin), LogPosition(at.file, at.offset))
            yield WalkedEvent(event, *places, files.made.get(at.file, 0))
    raise SourceError(
        f"source {source.name} does not give its binary log beyond {at.file}:{at.offset}, though "
        "it says that there is more",
        source=source.name,
        retryable=True,
    )


def first_beyond(
    connection: Connection[Any],
    source: SourceConfig,
    server: str,
    gtids: Gtids,
    end: LogPosition,
) -> tuple[LogPlace, Gtid | None]:
    """Where the first transaction begins that the server gives to who has these, and its GTID;
    where the log ended, if there is none.

    Raises:
        LogPurged: the server has not what follows.
        SourceError: it was lost.
    """
    with closing(walk_log(connection, source, server, StreamPosition(None, gtids))) as walk:
        for one in walk:
            if one.event.kind in NUMBERED:
                place = LogPlace(StreamPosition(one.begin, gtids), one.made)
                return place, read_start(one.event).gtid
            if not one.end < end:
                break
    made = made_of(connection, source, server, end.file)
    return LogPlace(StreamPosition(end, gtids), made), None


def made_of(connection: Connection[Any], source: SourceConfig, server: str, file: str) -> int:
    """When a file of a server's log was begun (`LogPlace.made`).

    Raises:
        LogPurged: there is no such file.
        SourceError: the server was lost.
    """
    start = StreamPosition(LogPosition(file, 4))
    with closing(walk_log(connection, source, server, start)) as walk:
        return next(one.made for one in walk if one.end.file == file and one.made)


def is_begun_again(
    connection: Connection[Any], source: SourceConfig, server: str, places: Iterable[LogPlace]
) -> bool:
    """Whether the file of these places, which are of one name, is another one now: after RESET
    MASTER, as many bytes or more may have come again.

    Raises:
        LogPurged: there is no such file.
        SourceError: the server was lost.
    """
    known = {(place.log.file, place.made) for place in places if place.made}
    return any(made != made_of(connection, source, server, file) for file, made in known)
