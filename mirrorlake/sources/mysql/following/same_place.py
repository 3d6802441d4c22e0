"""A place in one server's log, found in another's by its GTIDs: after a failover nothing has to be
read again.

Of MariaDB: a domain's transactions stand in each server's log in the order of their numbers, so one
number says what is before. MySQL's sets say no order, and its servers don't say which transactions
are before an offset.

Source: MariaDB knowledge base, "Global Transaction ID", "gtid_binlog_state", "BINLOG_GTID_POS".
"""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import Framing, read_rotate
from mirrorlake.sources.mysql.binlog.events.gtid_events import read_start
from mirrorlake.sources.mysql.binlog.gtid_lists import GtidList, MariadbGtid
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition, has_gtid
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.following.log_state import (
    LogFiles,
    LogPlace,
    new_server_id,
    read_end,
)
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of


def gtids_at(connection: Connection[Any], position: LogPosition) -> GtidList | None:
    """The transactions before a place between two, in this server's own log; None where it does not
    say.

    Raises:
        SourceError: the server could not be queried.
    """
    if not is_mariadb(connection):
        return None
    parts = (position.file, position.offset)
    [(text,)] = rows_of(connection, "SELECT BINLOG_GTID_POS(%s, %s)", parts)
    return None if text is None else GtidList.parse(str(text))


def find_same_place(
    connection: Connection[Any], source: SourceConfig, server: str, place: LogPlace
) -> LogPlace:
    """The place in the log of the server that answers now before which all is that is before a
    place of another server's log, and nothing else.

    Args:
        server: the identity of the one that answers.

    Raises:
        SourceError: there is none, or that can't be told; why.
    """
    last = _only_gtid(source, place)
    [(state,)] = rows_of(connection, "SELECT @@gtid_binlog_state")
    known = [MariadbGtid.parse(part) for part in str(state or "").split(",") if part.strip()]
    mine = [one for one in known if (one.domain, one.server) == (last.domain, last.server)]
    if not mine or mine[0].sequence < last.sequence:
        raise SourceError(
            f"server {server} does not have transaction {last}: it lags behind, or has another "
            "history",
            source=source.name,
        )
    gtids = GtidList({last.domain: last})
    end, number = read_end(connection, source), new_server_id(connection)
    start = StreamPosition(None, gtids)
    with LogTransport(source, start, number, follow=False, server=server) as transport:
        files, framing, file = LogFiles(transport), Framing(transport.checksums), ""
        for packet in files.packets():
            event = framing.read(packet)
            if event.kind == kinds.ROTATE:
                file = read_rotate(event)[0]
            elif event.kind == kinds.MARIADB_GTID:
                found = read_start(event).gtid
                if has_gtid(gtids, found):
                    raise SourceError(
                        f"server {server} has {found} after {last} in its log", source=source.name
                    )
                position = LogPosition(file, event.end - event.size)
                return LogPlace(StreamPosition(position, gtids), files.made.get(file, 0))
    position = end.position
    return LogPlace(StreamPosition(position, gtids), files.made.get(position.file, 0))


def _only_gtid(source: SourceConfig, place: LogPlace) -> MariadbGtid:
    why, gtids = "", place.position.gtids
    if place.position.since is not None:
        why = "an XA transaction was prepared there, and is open"
    elif not isinstance(gtids, GtidList):
        why = "its transactions have no GTIDs of MariaDB's"
    elif len(gtids.last) != 1:
        why = f"its transactions are of {len(gtids.last)} domains"
    else:
        return next(iter(gtids.last.values()))
    raise SourceError(
        f"place {place.log} can't be found in another server's log: {why}", source=source.name
    )
