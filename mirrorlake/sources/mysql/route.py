"""The way from the Arrow reader to MySQL: straight, or through `carrier`, a process of ours.

The carrier is between them where TLS is required (the reader speaks none), and where the reader
must not run ahead. The reader takes what the server sends as fast as it can, queues it without a
bound, and holds the interpreter's lock while it waits for a row. So a limit of rows a second, and
any other brake, can only be put where the bytes come from. At a rate, the carrier lets through as
many rows as it was allowed, and reads no further from the server; we wait for a whole batch to be
there, with the lock released, before we ask the reader for it. Without one, the carrier keeps the
reader near the files: it learns when we ask for a batch and when we have it. And where a question
is to be answered from the very state that is then read, the carrier asks it in the session that it
hands on.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote as percent

import pymysql

from mirrorlake.config.server import SourceConfig
from mirrorlake.sources.mysql import proxy
from mirrorlake.sources.mysql.connect import refused_plugins, source_error
from mirrorlake.sources.mysql.limits import BURST_SECONDS, reserve_rows

# The reader takes rows from its connection 32 at a time before it looks at the first.
_AHEAD = 64
_LOOK_SECONDS = 0.5
# The reader prepares a statement to learn its columns, before it sets the session, and would then
# execute that one: MariaDB has fixed by then which moment of a versioned table it reads, by the
# server's own time zone and `system_versioning_asof`. Kept by none, it is prepared again.
_PREPARED = "stmt_cache_size=0"

Heed = Callable[[], None]
"""Called while a read waits; raises to give it up."""


@dataclass(frozen=True)
class Route:
    """How the reader reaches the server; ``url`` may hold the password: never log or raise it."""

    url: str
    brake: Gate | Valve | None
    session: int | None = None
    answer: tuple[int | None, ...] | None = None
    """Of a route with a question: the server's id of the session that ran it, and what the server
    answered; rows of another session are of another state."""


class Gate:
    """The brake of a read at a rate: how many rows may come, and how many are through."""

    def __init__(self, child: subprocess.Popen[bytes], source: SourceConfig, rate: int) -> None:
        self._child, self._source, self._rate = child, source, rate
        self._allowed = self._through = 0
        self._ended = False
        self._unread = b""

    @contextmanager
    def awaited(self, rows: int, heed: Heed) -> Iterator[None]:
        """The block runs when this many rows in all, or all there are, have been let through;
        other threads run meanwhile."""
        wanted = rows + _AHEAD
        while not self._ended and self._through < wanted:
            if self._through >= self._allowed:
                self._allow(wanted - self._allowed, heed)
            heed()
            self._listen(_LOOK_SECONDS)
        yield

    def _allow(self, step: int, heed: Heed) -> None:
        step = min(step, max(int(self._rate * BURST_SECONDS), 1))
        until = time.monotonic() + reserve_rows(self._source, step)
        while (left := until - time.monotonic()) > 0:
            heed()
            time.sleep(min(left, _LOOK_SECONDS))
        self._allowed += step
        # The carrier may have ended: the reader will say how.
        self._ended = not _send(self._child, self._allowed) or self._ended

    def _listen(self, seconds: float) -> None:
        """Take in what the carrier says: the number of rows that are through, or its end."""
        assert self._child.stdout is not None  # noqa: S101
        descriptor = self._child.stdout.fileno()
        if not select.select([descriptor], [], [], seconds)[0]:
            return
        said = os.read(descriptor, 65_536)
        *lines, self._unread = (self._unread + said).split(b"\n")
        for line in lines:
            if line == proxy.END.encode():
                self._ended = True
            else:
                self._through = int(line)
        self._ended = self._ended or not said


class Valve:
    """The brake of a read without a rate: the carrier learns whether the reader waits for rows."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child

    @contextmanager
    def awaited(self, _rows: int, _heed: Heed) -> Iterator[None]:
        """The reader waits for rows inside the block, and has some after it."""
        _send(self._child, 1)
        try:
            yield
        finally:
            _send(self._child, 0)


def _send(child: subprocess.Popen[bytes], number: int) -> bool:
    """Send the carrier a number; whether it is still there."""
    assert child.stdin is not None  # noqa: S101 (it has a pipe)
    try:
        child.stdin.write(b"%d\n" % number)
    except OSError:
        return False
    return True


@contextmanager
def open_route(
    source: SourceConfig, database: str, *, near: bool = False, before: Sequence[str] = ()
) -> Iterator[Route]:
    """A way for the reader while the block runs.

    Args:
        near: whether the reader must be kept near the files, where the source has no rate too.
        before: settings of a session, and last a question of one row of numbers: run in the
            consistent snapshot that the reader's one session then reads.

    Raises:
        SourceError: no TLS, or a certificate that does not stand its check.
    """
    name = percent(database, safe="")
    brake = proxy.RATE if source.rows_per_second else proxy.NEAR if near else None
    if source.tls == "off" and brake is None and not before:
        user = percent(source.user, safe="")
        secret = percent(source.password.get_secret_value(), safe="")
        # Else the reader asks a server on this machine for its socket's path, and goes there
        # instead: at the end of a tunnel that is another server's path, which may exist here too.
        login = f"{user}:{secret}@{source.host}:{source.port}"
        yield Route(f"mysql://{login}/{name}?prefer_socket=false&{_PREPARED}", None)
        return
    usual = tempfile.gettempdir()
    # A socket's path can't be long.
    short = None if len(os.fsencode(usual)) < 60 else "/tmp"  # noqa: S108 (mkdtemp inside it)
    with tempfile.TemporaryDirectory(prefix="ml-", dir=short) as folder:
        path = f"{folder}/s"
        # Its standard input closes with us, however we end: so does the carrier.
        child = subprocess.Popen(
            [sys.executable, "-P", proxy.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        try:
            opened = _start_carrier(child, source, database, path, brake, before)
            login = f"carried:x@localhost/{name}?prefer_socket=false&{_PREPARED}"
            url = f"mysql://{login}&socket={percent(path)}"
            answer = tuple(opened["answer"]) if before else None
            session = int(opened["session"]) if before else None
            yield Route(url, _brake_of(child, source, near=near), session, answer)
        finally:
            child.kill()
            child.communicate()


def _brake_of(
    child: subprocess.Popen[bytes], source: SourceConfig, *, near: bool
) -> Gate | Valve | None:
    if source.rows_per_second:
        return Gate(child, source, source.rows_per_second)
    return Valve(child) if near else None


def _start_carrier(
    child: subprocess.Popen[bytes],
    source: SourceConfig,
    database: str,
    path: str,
    brake: str | None,
    before: Sequence[str],
) -> dict[str, Any]:
    assert child.stdin is not None  # noqa: S101 (it has pipes)
    assert child.stdout is not None  # noqa: S101
    settings = {
        **login_of(source),
        "socket": path,
        "database": database,
        "brake": brake,
        "before": list(before),
    }
    child.stdin.write(json.dumps(settings).encode() + b"\n")
    answer = child.stdout.readline()
    ended = {"wrong": [0, "the process that carries the rows ended at once"]}
    found: dict[str, Any] = json.loads(answer) if answer else ended
    if "wrong" in found:
        raise source_error(pymysql.OperationalError(*found["wrong"]), source)
    return found


def login_of(source: SourceConfig) -> dict[str, Any]:
    """How a process of ours reaches a server, for its standard input."""
    return {
        "host": source.host,
        "port": source.port,
        "user": source.user,
        "password": source.password.get_secret_value(),
        "tls": source.tls != "off",
        "refused": refused_plugins(source),
        "ca": None if isinstance(source.tls, str) else str(source.tls.ca),
    }
