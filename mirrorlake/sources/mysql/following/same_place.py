"""A place in one server's log, found in another's by its GTIDs: after a failover nothing has to be
read again.

Of MariaDB a domain's transactions stand in each server's log in the order of their numbers, so one
number says what is before. Of MySQL the set says it, where the other log has just these first.

Source: MariaDB knowledge base, "Global Transaction ID", "gtid_binlog_state", "BINLOG_GTID_POS".
"""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.binlog.gtid_lists import GtidList, MariadbGtid
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet
from mirrorlake.sources.mysql.binlog.positions import Gtids, LogPosition, has_gtid
from mirrorlake.sources.mysql.following.executed_sets import find_after, set_before, why_lacking
from mirrorlake.sources.mysql.following.log_state import LogPlace, read_end
from mirrorlake.sources.mysql.following.log_walk import first_beyond
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of


def gtids_at(
    connection: Connection[Any], source: SourceConfig, server: str, position: LogPosition
) -> Gtids | None:
    """The transactions before a place between two, in this server's own log; None where it does not
    say.

    Raises:
        SourceError: the server could not be queried.
    """
    if not is_mariadb(connection):
        return set_before(connection, source, server, position)
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
    if words := why_not_there(connection, server, place):
        raise SourceError(words, source=source.name)
    gtids = place.position.gtids
    if isinstance(gtids, GtidSet):
        return find_after(connection, source, server, gtids)
    assert isinstance(gtids, GtidList)  # noqa: S101 (a place without is none)
    return _find_after_last(connection, source, server, gtids)


def why_not_there(connection: Connection[Any], server: str, place: LogPlace) -> str:
    """Why a place of another server's log is not in that of the server that answers now, as far as
    one query tells; '' where it may be.

    Raises:
        SourceError: the server was lost.
    """
    gtids, kind = place.position.gtids, "MariaDB" if is_mariadb(connection) else "MySQL"
    lost = f"place {place.log} can't be found in another server's log: "
    if place.position.since is not None:
        return f"{lost}an XA transaction was prepared there, and is open"
    if gtids is None or isinstance(gtids, GtidList) != is_mariadb(connection):
        return f"{lost}its transactions have no GTIDs of {kind}'s"
    if isinstance(gtids, GtidSet):
        return why_lacking(connection, server, gtids)
    if len(gtids.last) != 1:
        return f"{lost}its transactions are of {len(gtids.last)} domains"
    [last] = gtids.last.values()
    [(state,)] = rows_of(connection, "SELECT @@gtid_binlog_state")
    known = [MariadbGtid.parse(part) for part in str(state or "").split(",") if part.strip()]
    mine = [one for one in known if (one.domain, one.server) == (last.domain, last.server)]
    if not mine or mine[0].sequence < last.sequence:
        return (
            f"server {server} does not have transaction {last}: it lags behind, or has another "
            "history"
        )
    return ""


def _find_after_last(
    connection: Connection[Any], source: SourceConfig, server: str, gtids: GtidList
) -> LogPlace:
    end = read_end(connection, source).position
    place, found = first_beyond(connection, source, server, gtids, end)
    if has_gtid(gtids, found):
        raise SourceError(
            f"server {server} has {found} after {gtids} in its log", source=source.name
        )
    return place
