"""Which transactions stand before a place of MySQL's log, by their GTIDs.

MySQL has no function that says so, and shows the set that is executed a moment after its log has a
transaction. What was executed before the log's end was looked at stands before that end; the rest
is counted in the log itself.

Source: MySQL 8.0 manual, 17.1.3 "Replication with Global Transaction Identifiers", 17.1.6.5 "Global
Transaction ID System Variables"; MySQL source, ``Previous_gtids_log_event``,
``MYSQL_BIN_LOG::ordered_commit``.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from shlex import quote
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import LogPurged, SourceError
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.gtid_events import read_start
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet
from mirrorlake.sources.mysql.binlog.positions import (
    LogPosition,
    StreamPosition,
    has_gtid,
    with_gtid,
)
from mirrorlake.sources.mysql.following.log_state import LogPlace, read_end
from mirrorlake.sources.mysql.following.log_walk import NUMBERED, first_beyond, made_of, walk_log
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of


@dataclass(frozen=True)
class ExecutedSets:
    """What a server that numbers every transaction has.

    Attributes:
        purged: of these, those that are in no file of its log.
    """

    executed: GtidSet
    purged: GtidSet


def read_executed(connection: Connection[Any]) -> ExecutedSets | None:
    """What a server has executed; None where it does not number every transaction.

    Raises:
        SourceError: the server was lost.
    """
    if is_mariadb(connection):
        return None
    names = "@@global.gtid_mode, @@global.gtid_executed, @@global.gtid_purged"
    [(mode, executed, purged)] = rows_of(connection, f"SELECT {names}")
    if str(mode).upper() != "ON":
        return None
    return ExecutedSets(GtidSet.parse(str(executed or "")), GtidSet.parse(str(purged or "")))


def set_before(
    connection: Connection[Any],
    source: SourceConfig,
    server: str,
    position: LogPosition,
    known: GtidSet | None = None,
) -> GtidSet | None:
    """All transactions before a place between two in this server's own log; None where it does not
    number each.

    Args:
        known: some that surely are; None: the place's file is read from its begin, once.

    Raises:
        SourceError: the server was lost, or has not the place.
    """
    sets = read_executed(connection)
    if sets is None:
        return None
    found, listed = (sets.purged if known is None else known), known is not None
    start = StreamPosition(None, known)
    if known is None:
        start = StreamPosition(LogPosition(position.file, 4), found)
    with closing(walk_log(connection, source, server, start)) as walk:
        for one in walk:
            if listed and not one.begin < position:
                return found
            if one.event.kind == kinds.PREVIOUS_GTIDS and not listed:
                found, listed = found.union(GtidSet.decode(one.event.body)), True
            elif one.event.kind == kinds.ANONYMOUS_GTID:
                return None
            elif one.event.kind in NUMBERED:
                next_one = with_gtid(found, read_start(one.event).gtid)
                assert isinstance(next_one, GtidSet)  # noqa: S101 (it was a set of MySQL's)
                found = next_one
            if listed and not one.end < position:
                return found
    return None


def refuse_gone_back(
    connection: Connection[Any], source: SourceConfig, server: str, place: LogPlace
) -> None:
    """See that a server still has all transactions that were followed in its own log.

    Raises:
        SourceError: it has not: it was restored from an older backup, or forgot what it had.
    """
    if words := gone_back(connection, source, server, place):
        raise SourceError(
            f"source {source.name} (server {server}): {words}",
            source=source.name,
            next_step="If this is what the source is to be from now on, run `mirrorlake accept "
            f"{quote(source.name)}`: what follows its log is read again as a whole",
        )


def gone_back(
    connection: Connection[Any], source: SourceConfig, server: str, place: LogPlace
) -> str:
    """Why a server is not the one any more whose log was followed up to a place, though it has its
    name; '' where it is.

    Raises:
        SourceError: the server was lost.
    """
    if not isinstance(place.position.gtids, GtidSet):
        return ""
    sets = read_executed(connection)
    lacking = place.position.gtids.minus(sets.executed) if sets is not None else GtidSet()
    if not lacking.intervals or _has_place(connection, source, server, place):
        return ""
    return (
        f"its set of GTIDs went backwards: it has no longer {lacking}, which was followed. It was "
        "restored from an older backup, or its log was reset (RESET MASTER)"
    )


def _has_place(
    connection: Connection[Any], source: SourceConfig, server: str, place: LogPlace
) -> bool:
    """Whether the log is the one in which a place is: a transaction is in it a moment before it
    counts as executed."""
    if read_end(connection, source).files.get(place.log.file, 0) < place.log.offset:
        return False
    try:
        return place.made in (0, made_of(connection, source, server, place.log.file))
    except LogPurged:
        return False


def find_after(
    connection: Connection[Any], source: SourceConfig, server: str, ours: GtidSet
) -> LogPlace:
    """The place in a server's log before which all of these transactions are, and no other.

    Raises:
        SourceError: there is none, and why.
    """
    sets = read_executed(connection)
    if sets is None:
        raise SourceError(f"server {server} does not number each transaction (gtid_mode is not ON)")
    if words := _why_not_after(sets, server, ours):
        raise SourceError(words, source=source.name)
    end = read_end(connection, source).position
    place, _ = first_beyond(connection, source, server, ours, end)
    if place.log < end:
        _refuse_later(connection, source, server, place, end)
    return place


def why_lacking(connection: Connection[Any], server: str, ours: GtidSet) -> str:
    """Why another server can't be followed on after these transactions, as far as its sets tell;
    '' where it may be.

    Raises:
        SourceError: the server was lost.
    """
    sets = read_executed(connection)
    if sets is None:
        return f"server {server} does not number each transaction (gtid_mode is not ON)"
    return _why_not_after(sets, server, ours)


def _why_not_after(sets: ExecutedSets, server: str, ours: GtidSet) -> str:
    if (lacking := ours.minus(sets.executed)).intervals:
        return (
            f"server {server} does not have transactions {lacking}, which were followed: it lags "
            "behind, has another history, or they were lost with the server that had them"
        )
    if (purged := sets.purged.minus(ours)).intervals:
        return (
            f"server {server} has transactions {purged}, which were not followed, and its log has "
            "them no longer (gtid_purged)"
        )
    return ""


def _refuse_later(
    connection: Connection[Any],
    source: SourceConfig,
    server: str,
    place: LogPlace,
    end: LogPosition,
) -> None:
    """See that none of a place's transactions stands behind it in the log: it is one for all rows.

    Raises:
        SourceError: one does.
    """
    ours, first = place.position.gtids, None
    with closing(walk_log(connection, source, server, StreamPosition(place.log))) as walk:
        for one in walk:
            if one.event.kind == kinds.ANONYMOUS_GTID:
                raise SourceError(
                    f"server {server} has transactions without a GTID behind {place.log}",
                    source=source.name,
                )
            if one.event.kind in NUMBERED:
                gtid = read_start(one.event).gtid
                first = first or gtid
                if has_gtid(ours, gtid):
                    raise SourceError(
                        f"server {server} has transaction {first}, which was not followed, before "
                        f"{gtid}, which was: it is that server's own (an errant one), or it keeps "
                        "no order (replica_preserve_commit_order)",
                        source=source.name,
                    )
            if not one.end < end:
                return
