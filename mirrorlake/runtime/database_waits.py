"""Databases that hold what is ours (the ledger, a SQL catalog): no wait for them is without end.

A server that is gone is found by TCP keepalive. One behind something that passes nothing and closes
nothing is looked at by a second connection: where it is at work on the statement it is waited for,
else the connection is closed, its transaction with it.

Source: PostgreSQL 16 manual, 34.1.2 "Parameter Key Words", 28.2.3 "pg_stat_activity".
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

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


def bound_waits(engine: sa.Engine, seconds: float) -> sa.Engine:
    """The engine, whose new connections wait no longer than that for a server which does nothing.

    SQLite has a limit of its own (``timeout``).
    """
    kind = engine.dialect.name
    if kind == "postgresql":

        @event.listens_for(engine, "do_connect")
        def _postgres(_: Any, __: Any, given: Any, named: dict[str, Any]) -> Any:
            named.setdefault("connect_timeout", max(2, round(seconds)))
            named = _KEEPALIVE | named  # what a URL says itself stays
            return _bounded().connect(*given, **named, mirrorlake_seconds=seconds)

    elif kind in ("mysql", "mariadb"):

        @event.listens_for(engine, "do_connect")
        def _mysql(_: Any, __: Any, ___: Any, named: dict[str, Any]) -> None:
            named.setdefault("connect_timeout", max(1, round(seconds)))
            named.setdefault("read_timeout", max(_MYSQL_SECONDS, 2 * seconds))
            named.setdefault("write_timeout", max(_MYSQL_SECONDS, 2 * seconds))

    return engine


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
