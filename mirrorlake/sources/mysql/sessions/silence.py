"""Sessions whose server may fall silent: no byte comes, and the connection does not end.

A proxy, a firewall or a machine that stands still passes nothing and closes nothing, so a reader
would wait for as long as anybody looks on. After a stated time without a byte a second session
looks at the first one. A server that is at work on the statement is waited for, and looked at again
after the same time; otherwise the session is given up: it is killed where the server still has it,
and whoever waits gets a `Silent`.

Only the standard library and PyMySQL: programs of their own use it.

Source: MySQL 8.0 manual, 10.14.3 "General Thread States"; MariaDB knowledge base, "General Thread
States".
"""

from __future__ import annotations

import contextlib
import io
import select
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pymysql

LOGIN_SECONDS = 30.0
"""How long an answer is waited for while a session is opened, and in the second session."""
_CONNECT_SECONDS = 10
# A server that writes is not silent for long: unless what it writes does not arrive.
_WRITES = ("writing to net", "sending to client")
_ARRIVES_SECONDS = 2.0
# Client errors of PyMySQL: nobody answered. Anything else is the word of a server.
_UNANSWERED = range(2000, 3000)
# What says that a port is alive, soon after it stopped answering: the system's own 2 h are too
# long. macOS names the first one otherwise.
_KEEPALIVE = (
    ("TCP_KEEPIDLE", 60),
    ("TCP_KEEPALIVE", 60),
    ("TCP_KEEPINTVL", 15),
    ("TCP_KEEPCNT", 6),
)

Note = Callable[[str], None]
"""Called with one line each time a server was found at work."""


class Silent(OSError):
    """No byte came for the stated time, and the server is not at work for the session."""


def keep_alive(end: socket.socket) -> None:
    """Have the kernel find out that the other machine is gone (after some two minutes)."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if end.family == socket.AF_UNIX:
        return
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def connect(
    login: Mapping[str, Any], seconds: float, note: Note, undecided: float | None = None
) -> Any:
    """A session by PyMySQL whose silence ends: each read of it is watched over.

    Args:
        login: arguments of PyMySQL: server, user, password, TLS, database.
        seconds: how long no byte may come before a second session looks.
        undecided: how long a silence may last at most where no second session can tell.

    Raises:
        pymysql.Error: unreachable, refused, or silent while the session was opened.
    """
    connection = _log_in(login, seconds)
    try:
        keep_alive(connection._sock)
        watch = SessionWatch(connection, login, seconds, note, undecided)
        connection._rfile = io.BufferedReader(_Watched(connection._sock, watch))
        connection._read_timeout = connection._write_timeout = seconds
        connection.watch = watch
    except BaseException:
        connection.close()
        raise
    return connection


def _log_in(login: Mapping[str, Any], seconds: float) -> Any:
    limit = min(LOGIN_SECONDS, seconds)
    return pymysql.connect(
        **login,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=limit,
        write_timeout=limit,
    )


class _Watched(io.RawIOBase):
    """What is read of a session's socket, which has a timeout: where it runs out, somebody looks.

    Not `socket.makefile`: that is not to be read any more after a first timeout.
    """

    def __init__(self, end: socket.socket, watch: SessionWatch) -> None:
        self._end, self._watch = end, watch

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        began = time.monotonic()
        while True:
            try:
                return self._end.recv_into(buffer)
            except TimeoutError:
                self._watch.look(time.monotonic() - began)


@dataclass(frozen=True)
class _State:
    """A session in the server's list: ``seconds`` is how long it has been so."""

    command: str
    seconds: int
    state: str

    @property
    def sends_or_rests(self) -> bool:
        return self.state.lower() in _WRITES or self.command.lower() == "sleep"


class SessionWatch:
    """Knows one session, and looks at it by another."""

    def __init__(
        self,
        connection: Any,
        login: Mapping[str, Any],
        seconds: float,
        note: Note,
        undecided: float | None,
    ) -> None:
        self.seconds = seconds
        self._login, self._note = login, note
        self._undecided = undecided if undecided is not None else 3600.0
        self._end = connection._sock
        # Not the greeting's: by whatever is between, that may be another one's.
        self._session, *self._place = _asked(connection, "CONNECTION_ID(), ")

    def look(self, waited: float) -> None:
        """Return where the server is at work, or bytes have come; else end the session.

        Args:
            waited: for how many seconds no byte came.

        Raises:
            Silent: with the reason.
        """
        try:
            # The second session's own limit: longer than a short silence that was configured.
            second = _log_in(self._login, LOGIN_SECONDS)
        except (pymysql.Error, OSError) as error:
            self._not_looked(error, waited)
            return
        try:
            reason = self._reason(second, waited)
        except (pymysql.Error, OSError) as error:
            self._not_looked(error, waited)
            return
        finally:
            with contextlib.suppress(pymysql.Error, OSError):
                second.close()
        if reason is not None:
            raise self._silent(reason, waited)

    def _not_looked(self, error: Exception, waited: float) -> None:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 2003
        words = str(error.args[-1]) if error.args else str(error)
        if code in _UNANSWERED:
            raise self._silent(f"a second session got no answer either: {words}", waited)
        self._undecided_after(waited, f"the server refuses a second session: {words} [{code}]")

    def _reason(self, second: Any, waited: float) -> str | None:
        """Why the session is given up; None where it is not."""
        if _asked(second) != self._place:
            self._undecided_after(waited, "another server answers a second session")
            return None
        found = self._state(second)
        if found is None or found.sends_or_rests:
            # It may have begun to a moment ago.
            if select.select([self._end], [], [], _ARRIVES_SECONDS)[0]:
                return None
            found = self._state(second)
        if found is None:
            return "the server has no such session any more"
        if found.sends_or_rests:
            self._kill(second)
            if found.state.lower() in _WRITES:
                return f"what the server sends is stuck on its way ({found.state!r}): it was killed"
            return "the server is not at work on anything: its answer did not arrive"
        doing = found.state or found.command
        self._note(f"the server has worked on a statement for {found.seconds} s ({doing})")
        return None

    def _state(self, second: Any) -> _State | None:
        """The session as the server has it; None where it has not."""
        with second.cursor() as cursor:
            cursor.execute("SHOW PROCESSLIST")
            for row in cursor.fetchall():
                if row[0] == self._session:
                    return _State(str(row[4] or ""), int(row[5] or 0), str(row[6] or ""))
        return None

    def _kill(self, second: Any) -> None:
        with contextlib.suppress(pymysql.Error), second.cursor() as cursor:
            # The connection: a server that is blocked in sending looks at nothing less.
            cursor.execute(f"KILL {int(self._session)}")

    def _undecided_after(self, waited: float, words: str) -> None:
        if waited >= self._undecided:
            raise self._silent(words, waited)
        self._note(f"no byte came for {waited:.0f} s, and {words}")

    @staticmethod
    def _silent(reason: str, waited: float) -> Silent:
        return Silent(f"no byte came for {waited:.0f} s, and {reason}")


def _asked(connection: Any, more: str = "") -> list[Any]:
    """Which server a session is of, and ``more``."""
    with connection.cursor() as cursor:
        # Whatever `sql_select_limit` says there.
        cursor.execute(f"SELECT {more}@@hostname, @@port LIMIT 1")
        return list(cursor.fetchone())
