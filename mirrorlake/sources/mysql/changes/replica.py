"""How far a replica's rows reach: what a window that was read from it may say that it has seen.

A replica shows the past of its primary. Its reach is found in one of two ways, both before the
first row is read; a replica only moves forward, so every later read shows as much:

- *By position.* The primary's clock is read, then its oldest open transaction, then its GTID
  position. Once the replica has applied that position, it shows all that was committed until that
  clock, and the oldest open transaction bounds the rest.
- *By lag*, where the primary can't be queried, or the replica is more than a moment behind: the
  replica's clock, less what it says that it is behind, less the delay that it is set to keep,
  less the time after which it notices a primary that fell silent.

A replica may apply transactions side by side, and commit them in another order than its primary.
A position is reached once all that is in it was applied. MySQL's lag is that of the first
transaction that is not (seen: 8.0.12 with ``preserve_commit_order`` off). MariaDB keeps the order
within a domain, and says how far the domain is behind that is furthest ahead (seen: 11.4, 1 s where
the other one was 7 s behind), so there the lag is not taken.

Source: MySQL 8.0 manual, 13.7.7.35 "SHOW REPLICA STATUS", 12.19 "GTID functions"; MariaDB knowledge
base, "SHOW REPLICA STATUS", "MASTER_GTID_WAIT".
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceBusy, SourceError
from mirrorlake.sources.mysql.changes.open_writes import OpenWrites, read_open_writes
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, read_clock, rows_of, session

logger = logging.getLogger(__name__)

CATCH_UP_SECONDS = 5
_UNKNOWN_STATEMENT = "[1064]"


@dataclass(frozen=True)
class Lag:
    """How far a replica is behind, by its own word.

    Attributes:
        seconds: behind the primary; None while replication stands still (stopped, or unconnected).
        delay: how far it is set to stay behind.
        silence: after how long it notices that the primary is gone: until then it may say 0.
    """

    seconds: timedelta | None
    delay: timedelta
    silence: timedelta


@dataclass(frozen=True)
class Reach:
    """How far a source's reads from now on reach.

    Attributes:
        shown: up to where (UTC) they show everything that was committed.
        open: what was open then; None where nobody let us see.
        ahead: how far the server's clock is ahead of this machine's.
    """

    shown: datetime
    open: OpenWrites | None
    ahead: timedelta

    @property
    def oldest_open(self) -> datetime | None:
        """From when (UTC) rows may be stamped that were not committed then."""
        return self.open.oldest if self.open else None


def read_reach(connection: Connection[Any], source: SourceConfig) -> Reach:
    """How far what is read from now on reaches.

    Raises:
        SourceBusy: the replica does not replicate at the moment.
        SourceError: the server could not be queried, or does not say how far it is behind.
    """
    if source.primary is None:
        clock, ahead = _clock(connection)
        return Reach(clock, read_open_writes(connection), ahead)
    lag = _lag_of(connection, source)
    if lag is None or (lag.seconds is not None and _near(lag)):
        found = _by_position(connection, source.primary)
        if found is not None:
            return found
    if lag is None:
        raise SourceError(
            f"the replica of source {source.name} ({source.host}:{source.port}) does not say how "
            "far it is behind its primary",
            source=source.name,
            next_step="Grant REPLICATION CLIENT (MySQL) or SLAVE MONITOR (MariaDB) on it, or let "
            "it replicate by GTID and be sure that the primary can be reached",
        )
    return _by_lag(connection, source, lag)


def _clock(connection: Connection[Any]) -> tuple[datetime, timedelta]:
    """The server's clock (UTC), and how far it is ahead of this machine's."""
    clock = read_clock(connection)
    return clock, clock - datetime.now(UTC).replace(tzinfo=None)


def _near(lag: Lag) -> bool:
    behind = (lag.seconds or timedelta()) + lag.delay
    return behind <= timedelta(seconds=CATCH_UP_SECONDS)


def _lag_of(connection: Connection[Any], source: SourceConfig) -> Lag | None:
    try:
        return read_lag(connection)
    except SourceError as error:
        if error.retryable:
            raise
        logger.info("source %s: its replica's lag can't be seen: %s", source.name, error)
        return None


def _by_lag(connection: Connection[Any], source: SourceConfig, lag: Lag) -> Reach:
    if lag.seconds is None:
        raise SourceBusy(
            f"the replica of source {source.name} ({source.host}:{source.port}) does not replicate "
            "at the moment: what it shows is not known",
            source=source.name,
            next_step="Start its replication (see SHOW REPLICA STATUS), then sync again",
            retryable=True,
        )
    _refuse_hidden_lag(connection, source)
    clock, ahead = _clock(connection)
    shown = clock - lag.seconds - lag.delay - lag.silence
    found = None
    if source.primary is not None:
        try:
            with session(source.primary) as primary:
                found = read_open_writes(primary)
        except SourceError as error:
            _log_failure(source, error)
    return Reach(shown, found, ahead)


def _refuse_hidden_lag(connection: Connection[Any], source: SourceConfig) -> None:
    """See that a lag is that of all that is to be applied.

    Raises:
        SourceBusy: several domains are applied side by side, and one of them is behind.
    """
    if not is_mariadb(connection):
        return
    received = [_positions(row.get("gtid_io_pos")) for row in _status(connection)]
    sql = "SELECT @@global.slave_parallel_threads, @@global.gtid_slave_pos"
    threads, position = rows_of(connection, sql)[0]
    applied = _positions(position)
    behind = {
        domain
        for channel in received
        for domain, number in channel.items()
        if number > applied.get(domain, 0)
    }
    if int(threads) and len(applied.keys() | behind) > 1 and behind:
        raise SourceBusy(
            f"the replica of source {source.name} ({source.host}:{source.port}) applies several "
            f"replication domains side by side, and is behind in {', '.join(sorted(behind))}: the "
            "lag that it reports is that of the one that is furthest ahead",
            source=source.name,
            next_step="Sync again once it has caught up; let its primary be reached, so that its "
            "position is compared; or set its slave_parallel_threads to 0",
            retryable=True,
        )


def _positions(text: object) -> dict[str, int]:
    """Of MariaDB's GTID position, by domain the number of the last transaction."""
    parts = (one.strip().split("-") for one in str(text or "").split(",") if one.strip())
    return {domain: int(number) for domain, _, number in parts}


def _by_position(connection: Connection[Any], primary: SourceConfig) -> Reach | None:
    """None where the primary can't be queried, keeps no GTIDs, or is not reached in a moment."""
    try:
        with session(primary) as server:
            # In this order: what opens after the clock was read writes with later clocks, and what
            # was open then and is not any more is in the position.
            clock, ahead = _clock(server)
            found = read_open_writes(server)
            mariadb = is_mariadb(server)
            known = "@@gtid_binlog_pos" if mariadb else "@@global.gtid_executed"
            (position,) = rows_of(server, f"SELECT {known}")[0]
    except SourceError as error:
        _log_failure(primary, error)
        return None
    if not position or not _is_applied(connection, str(position), mariadb=mariadb):
        return None
    return Reach(clock, found, ahead)


def _log_failure(source: SourceConfig, error: SourceError) -> None:
    logger.info(
        "source %s: its primary can't be queried, so the overlap alone holds what commits late: %s",
        *(source.name, error),
    )


def _is_applied(connection: Connection[Any], position: str, *, mariadb: bool) -> bool:
    """Whether the replica has applied a position, now or a moment later."""
    wait = "MASTER_GTID_WAIT" if mariadb else "WAIT_FOR_EXECUTED_GTID_SET"
    try:
        (waited,) = rows_of(connection, f"SELECT {wait}(%s, {CATCH_UP_SECONDS})", (position,))[0]
    except SourceError as error:
        if error.retryable:
            raise
        logger.info("the replica can't be queried for a position: %s", error)
        return False
    return waited == 0


def read_lag(connection: Connection[Any]) -> Lag | None:
    """How far the server is behind what it replicates, the furthest of its channels; None where it
    replicates nothing.

    Raises:
        SourceError: the account may not see (REPLICATION CLIENT; in MariaDB SLAVE MONITOR).
    """
    found = _status(connection)
    if not found:
        return None
    behind = [row.get("seconds_behind_source") for row in found]
    names = "('slave_net_timeout', 'replica_net_timeout')"
    sql = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {names}"
    silence = max((int(value) for _, value in rows_of(connection, sql)), default=60)
    return Lag(
        None if None in behind else timedelta(seconds=max(int(b) for b in behind if b is not None)),
        timedelta(seconds=max(int(row.get("sql_delay") or 0) for row in found)),
        timedelta(seconds=silence),
    )


def replicates(connection: Connection[Any]) -> bool:
    """Whether the server applies what another one logs, or is set to.

    Raises:
        SourceError: the account may not see (REPLICATION CLIENT; in MariaDB SLAVE MONITOR).
    """
    return bool(_status(connection))


def _status(connection: Connection[Any]) -> list[dict[str, Any]]:
    """One mapping a channel, by the new names in lower case."""
    if is_mariadb(connection):
        return _named(connection, "SHOW ALL SLAVES STATUS")
    try:
        return _named(connection, "SHOW REPLICA STATUS")
    except SourceError as error:
        if _UNKNOWN_STATEMENT not in str(error):
            raise
        return _named(connection, "SHOW SLAVE STATUS")  # before MySQL 8.0.22


def _named(connection: Connection[Any], sql: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        rows = rows_of(connection, sql, cursor=cursor)
        names = [_new_name(str(column[0])) for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _new_name(name: str) -> str:
    return name.lower().replace("master", "source").replace("slave", "replica")
