"""Whether a source is at rest: its figures against the contract's ``back_off``, before each chunk.

Source: MySQL 8.0 manual, 5.1.10 "Server Status Variables", 28.4.21 "INNODB_METRICS"; MariaDB
knowledge base, ``Innodb_history_list_length``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.fields import format_duration
from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceBusy, SourceError
from mirrorlake.sources.mysql.changes.replica import read_lag
from mirrorlake.sources.mysql.sessions.connect import rows_of

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
LOG_SECONDS = 30.0


def wait_while_busy(
    connection: Connection[Any], source: SourceConfig, table: str, load_id: str
) -> None:
    """Return when no figure of the server is over its limit; waits as long as ``back_off.wait``.

    Raises:
        SourceBusy: it did not come to rest.
        SourceError: the server could not be queried.
    """
    began = time.monotonic()
    logged = began - LOG_SECONDS
    while (busy := _find_unrest(connection, source)) is not None:
        now = time.monotonic()
        if now - began >= source.back_off.wait.total_seconds():
            raise SourceBusy(
                f"source {source.name} did not come to rest within "
                f"{format_duration(source.back_off.wait)}: {busy}",
                source=source.name,
                table=table,
                next_step="It was left alone, and nothing of this load is visible: sync again "
                "later, or change the source's `back_off`",
                retryable=True,
            )
        if now - logged >= LOG_SECONDS:
            logged = now
            logger.warning("table %s load %s waits: %s", table, load_id, busy)
        time.sleep(min(LOOK_SECONDS, max(source.back_off.wait.total_seconds() / 4, 0.05)))


def _find_unrest(connection: Connection[Any], source: SourceConfig) -> str | None:
    """The first figure that is over its limit, in words; None where the server is at rest, or does
    not let us see."""
    return next(_unrest(connection, source), None)


def _unrest(connection: Connection[Any], source: SourceConfig) -> Iterator[str]:
    limits = source.back_off
    status = _status(connection)
    running = int(status.get("threads_running", 0))
    if limits.threads_running is not None and running > limits.threads_running:
        yield f"{running} threads are running (back_off.threads_running: {limits.threads_running})"
    if limits.history_list is not None:
        length = status.get("innodb_history_list_length")
        length = _history_list(connection) if length is None else int(length)
        if length is not None and length > limits.history_list:
            yield (
                f"the history list is {length} long (back_off.history_list: {limits.history_list})"
            )
    if limits.replica_lag is not None:
        lag = _lag(connection)
        if lag is not None and lag > limits.replica_lag:
            yield (
                f"the replica is {format_duration(lag)} behind "
                f"(back_off.replica_lag: {format_duration(limits.replica_lag)})"
            )


def _status(connection: Connection[Any]) -> dict[str, str]:
    """Both figures by one statement; only MariaDB has the second."""
    sql = (
        "SHOW GLOBAL STATUS WHERE Variable_name IN "
        "('Threads_running', 'Innodb_history_list_length')"
    )
    return {str(name).lower(): str(value) for name, value in rows_of(connection, sql)}


def _history_list(connection: Connection[Any]) -> int | None:
    """None where the account may not see it: MySQL asks for PROCESS."""
    sql = (
        "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
    )
    try:
        found = rows_of(connection, sql)
    except SourceError as error:
        if error.retryable:
            raise
        return None
    return int(found[0][0]) if found else None


def _lag(connection: Connection[Any]) -> timedelta | None:
    """None where the server replicates nothing, or does not let us see."""
    try:
        lag = read_lag(connection)
    except SourceError as error:
        if error.retryable:
            raise
        return None
    return lag.seconds if lag else None
