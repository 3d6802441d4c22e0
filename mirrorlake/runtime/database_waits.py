"""Databases that hold what is ours (the ledger, a SQL catalog): no wait for them is without end.

A server that is gone is found by TCP keepalive. One behind something that passes nothing and closes
nothing is looked at by a second connection: where it is at work on the statement it is waited for,
else the connection is closed, its transaction with it.

A server that has as many connections as it takes is waited for too. Runs that end give theirs back;
and who waits gives back what it does not use, else all runs of a full server would hold a
connection to their ledger while they wait for one to their catalog.

Source: PostgreSQL 16 manual, 34.1.2 "Parameter Key Words", 28.2.3 "pg_stat_activity", "Appendix A.
PostgreSQL Error Codes" (53300); MySQL 8.0 manual, "Error Message Reference" (1040, 1203).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import weakref
from collections.abc import Callable, Generator
from functools import lru_cache, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

logger = logging.getLogger(__name__)
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 60,
    "keepalives_interval": 15,
    "keepalives_count": 6,
}
"""What libpq is given: a server that is gone is noticed within some two minutes."""
_MYSQL_SECONDS = 300
"""How long one read of a MySQL server that holds what is ours may wait at least: longer than any
statement of ours there takes."""


_TAKEN_CODES = (1040, 1203)
# libpq gives no state for what it met while it connected.
_TAKEN_WORDS = ("too many clients", "remaining connection slots", "too many connections for")
_MORE = "Let the server take more connections (max_connections), or have fewer runs at once"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
_ENGINES: weakref.WeakKeyDictionary[sa.Engine, int] = weakref.WeakKeyDictionary()
"""Every engine whose waits are bounded → the process that made it: in one that was forked from that
its connections are not to be closed."""


def _all_taken(error: BaseException | None) -> bool:
    """Whether a server refused a connection because it has as many as it takes."""
    if error is None:
        return False
    if any(code in error.args[:1] for code in _TAKEN_CODES):
        return True
    return any(words in str(error) for words in _TAKEN_WORDS)


def step_for(error: BaseException | None, otherwise: str) -> str:
    """The next step of a connection that failed: another one where all were taken."""
    return _MORE if _all_taken(error) else otherwise


def bound_waits(engine: sa.Engine, seconds: float) -> sa.Engine:
    """The engine, whose new connections wait no longer than that for a server which does nothing.

    SQLite has a limit of its own (``timeout``).
    """
    kind = engine.dialect.name
    _ENGINES[engine] = os.getpid()
    waiting = weakref.ref(engine)
    if kind == "postgresql":

        @event.listens_for(engine, "do_connect")
        def _postgres(_: Any, __: Any, given: Any, named: dict[str, Any]) -> Any:
            named.setdefault("connect_timeout", max(2, round(seconds)))
            named = _KEEPALIVE | named  # what a URL says itself stays
            connect = partial(_bounded().connect, *given, **named, mirrorlake_seconds=seconds)
            return _once_one_is_free(connect, seconds, waiting)

    elif kind in ("mysql", "mariadb"):

        @event.listens_for(engine, "do_connect")
        def _mysql(dialect: Any, _: Any, given: Any, named: dict[str, Any]) -> Any:
            named.setdefault("connect_timeout", max(1, round(seconds)))
            named.setdefault("read_timeout", max(_MYSQL_SECONDS, 2 * seconds))
            named.setdefault("write_timeout", max(_MYSQL_SECONDS, 2 * seconds))
            connect = partial(dialect.connect, *given, **named)
            return _once_one_is_free(connect, seconds, waiting)

    return engine


def _once_one_is_free(
    connect: Callable[[], Any], seconds: float, waiting: weakref.ref[sa.Engine]
) -> Any:
    """A connection. While all are taken, one is waited for, and no longer than that."""
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while True:
        try:
            return connect()
        except Exception as error:
            left = until - time.monotonic()
            if not _all_taken(error) or left <= 0:
                raise
            level = logging.INFO if pause == _FIRST_PAUSE else logging.DEBUG
            logger.log(level, "all connections are taken: waiting for one, %.0f s at most", left)
            _give_back_idle(waiting())
        time.sleep(min(pause, max(left, 0.0)))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _give_back_idle(waiting: sa.Engine | None) -> None:
    """Close the connections of this process's other engines that nobody uses now."""
    for engine, process in list(_ENGINES.items()):
        if engine is not waiting and process == os.getpid():
            engine.dispose()


@lru_cache(maxsize=1)
def _bounded() -> Any:
    """The class of such connections; psycopg is an extra, and takes a moment to import."""
    import psycopg

    class Bounded(psycopg.Connection[Any]):
        """A connection that looks by another at a server which sent nothing for some time."""

        seconds = 30.0
        login: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

        @classmethod
        def connect(cls, *given: Any, mirrorlake_seconds: float = 30.0, **named: Any) -> Any:
            found = super().connect(*given, **named)
            found.seconds, found.login = mirrorlake_seconds, (given, named)
            return found

        def wait(self, gen: Any, *rest: Any, **named: Any) -> Any:
            return super().wait(_watched(gen, self.seconds, self._look), *rest, **named)

        def _look(self, waited: float) -> None:
            given, named = self.login
            pid = self.info.backend_pid
            try:
                with psycopg.Connection.connect(*given, **{**named, "autocommit": True}) as second:
                    doing = _doing(second, pid)
                    if doing is None:
                        return
            except psycopg.OperationalError as error:
                doing = f"a second connection got no answer either: {' '.join(str(error).split())}"
            self.close()
            raise psycopg.OperationalError(f"no byte came for {waited:.0f} s, and {doing}")

    return Bounded


def _doing(second: Any, pid: int) -> str | None:
    """Why nothing of a server's session is to be expected; None where it is at work."""
    # A second time, a moment later: it may just have answered.
    for _ in range(2):
        query = "SELECT state, wait_event FROM pg_stat_activity WHERE pid = %s"
        row = second.execute(query, (pid,)).fetchone()
        if row is not None and row[0] == "active" and row[1] not in ("ClientWrite", "ClientRead"):
            return None
        time.sleep(0.5)
    with contextlib.suppress(Exception):
        # Else it would keep its locks for as long as it hears nothing.
        second.execute("SELECT pg_terminate_backend(%s)", (pid,))
    return "the server is not at work for this connection"


def _watched(
    gen: Generator[Any, Any, Any], seconds: float, look: Callable[[float], None]
) -> Generator[Any, Any, Any]:
    """The steps of a wait; ``look`` is called each time that nothing was ready for so long."""
    heard = looked = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            now = time.monotonic()
            if ready:
                heard = looked = now
            elif now - looked >= seconds:
                look(now - heard)
                looked = time.monotonic()
            wanted = gen.send(ready)
    except StopIteration as ended:
        return ended.value
