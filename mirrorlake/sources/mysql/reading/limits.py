"""What one process demands of one server at once, and how fast: counted over all its threads.

A read that runs as a task of Spark is counted by the thread that waits for it. Other processes
count for themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mirrorlake.config.server import SourceConfig

# Seconds' worth of rows that may come at once after a rest: less would cost more turns than it
# smooths.
BURST_SECONDS = 0.25


class _Server:
    """One server as this process uses it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.reads = 0
        self.paid_until = 0.0
        """Until when (monotonic) the rows that were granted take the server's whole rate."""


_servers: dict[tuple[str, int], _Server] = {}
_servers_lock = threading.Lock()


def _server_of(source: SourceConfig) -> _Server:
    with _servers_lock:
        return _servers.setdefault((source.host.casefold(), source.port), _Server())


@contextmanager
def reading(source: SourceConfig) -> Iterator[None]:
    """One of the source's ``connections`` for reading while the block runs; waits for a free
    one."""
    server = _server_of(source)
    with server.changed:
        server.changed.wait_for(lambda: server.reads < source.connections)
        server.reads += 1
    try:
        yield
    finally:
        with server.changed:
            server.reads -= 1
            server.changed.notify_all()


@contextmanager
def also_reading(source: SourceConfig, most: int) -> Iterator[int]:
    """How many more of the source's ``connections`` this reading has while the block runs: as many
    as are free now, and at most so many. Nothing is waited for."""
    server = _server_of(source)
    with server.changed:
        taken = max(0, min(most, source.connections - server.reads))
        server.reads += taken
    try:
        yield taken
    finally:
        with server.changed:
            server.reads -= taken
            server.changed.notify_all()


def reserve_rows(source: SourceConfig, rows: int) -> float:
    """Take rows out of the source's ``rows_per_second``: in how many seconds they may be
    read. 0 where there is no limit."""
    if source.rows_per_second is None:
        return 0.0
    server = _server_of(source)
    with server.changed:
        now = time.monotonic()
        begins = max(server.paid_until, now - BURST_SECONDS)
        server.paid_until = begins + rows / source.rows_per_second
        return max(server.paid_until - now, 0.0)


def share_of(source: SourceConfig) -> SourceConfig:
    """The source with the part of its rate that one of its ``connections`` may use by itself: for a
    task in another process, which can't see what the others take."""
    if source.rows_per_second is None:
        return source
    part = max(source.rows_per_second // source.connections, 1)
    return source.model_copy(update={"rows_per_second": part})
