"""The way from the Arrow reader to MySQL: through a carrier, a process of ours (`proxy`).

The reader speaks no TLS, takes what the server sends as fast as it can, queues it without a bound,
holds the interpreter's lock while it waits for a row, and waits without end. So TLS, a limit of
rows a second, any other brake, and the end of a wait for a server that fell silent can only be put
where the bytes come from. At a rate, the carrier lets through as
many rows as it was allowed, and reads no further from the server; we wait for a whole batch to be
there, with the lock released, before we ask the reader for it. Without one, the carrier keeps the
reader near the files: it learns when we ask for a batch and when we have it. And where a question
is to be answered from the very state that is then read, the carrier asks it in the session that it
hands on.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote as percent

import pymysql

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import MirrorlakeError, SourceError
from mirrorlake.runtime.heartbeats import heartbeats
from mirrorlake.sources.mysql.reading import brakes, proxy
from mirrorlake.sources.mysql.reading.helper_processes import (
    HelperProcess,
    new_carrier,
    settings_of,
)
from mirrorlake.sources.mysql.reading.limits import BURST_SECONDS, reserve_rows
from mirrorlake.sources.mysql.sessions.connect import refused_plugins, source_error

# The reader takes rows from its connection 32 at a time before it looks at the first.
_AHEAD = 64
_LOOK_SECONDS = 0.5
# The reader prepares a statement to learn its columns, before it sets the session, and would then
# execute that one: MariaDB has fixed by then which moment of a versioned table it reads, by the
# server's own time zone and `system_versioning_asof`. Kept by none, it is prepared again.
_PREPARED = "stmt_cache_size=0"

logger = logging.getLogger(__name__)

Heed = Callable[[], None]
"""Called while a read waits; raises to give it up."""


@dataclass(frozen=True)
class Route:
    """How the reader reaches the server; ``url`` may hold the password: never log or raise it."""

    url: str
    brake: Gate | Valve | None
    told: _Told
    session: int | None = None
    """Of a route with a snapshot: the server's id of its session; rows of another session are of
    another state."""
    answer: tuple[int | None, ...] | None = None
    """What the server answered in it, before any row."""

    def ask(self, question: str, heed: Heed) -> tuple[int | None, ...]:
        """What the server answers in the snapshot, once its session has no reader any more.

        Raises:
            SourceError: it refused that, or the session was lost.
        """
        return self.told.ask(question, heed)


class _Told:
    """What a carrier says: rows that are through, its end, and words about its server."""

    def __init__(self, carrier: HelperProcess, source: SourceConfig) -> None:
        self._carrier, self._source = carrier, source
        self.through = 0
        self.statements = 0
        """How many statements' rows are through, all of them, at a rate."""
        self.ended = False
        self.silent: str | None = None
        self._words: list[dict[str, Any]] = []

    def next_words(self, heed: Heed) -> dict[str, Any]:
        """What it says next of its session, waiting for it.

        Raises:
            SourceError: there is none, or it was lost.
        """
        while not self._words and not self.ended:
            heed()
            self.listen(_LOOK_SECONDS)
        if not self._words:
            raise SourceError(
                f"source {self._source.name}: the process that carries its rows was ended",
                source=self._source.name,
                next_step="See what on this machine ends processes (memory, a person). Nothing of "
                "this load is visible: it is tried again by itself, and by the next sync",
                retryable=True,
            )
        words = self._words.pop(0)
        if "wrong" in words:
            raise source_error(pymysql.OperationalError(*words["wrong"]), self._source)
        return words

    def ask(self, question: str, heed: Heed) -> tuple[int | None, ...]:
        """Have it answer a question; see `Route.ask`."""
        self._carrier.tell(question)
        return tuple(self.next_words(heed)["answer"])

    def listen(self, seconds: float) -> None:
        """Take in what it says within some time."""
        if not self.ended and self._carrier.has_said(seconds):
            self._take_in()

    def given_up(self) -> str | None:
        """Why it gave its server up, if it has."""
        while not self.ended and self._carrier.has_said():
            self._take_in()
        return self.silent

    def _take_in(self) -> None:
        lines = self._carrier.lines()
        self.ended = self.ended or lines is None
        for line in lines or ():
            if line == brakes.END.encode():
                self.statements += 1
            elif not line.startswith(b"{"):
                self.through = int(line)
            else:
                self._hear(settings_of(line))

    def _hear(self, words: dict[str, Any]) -> None:
        if proxy.NOTE in words:
            logger.warning("source %s: %s", self._source.name, words[proxy.NOTE])
        elif proxy.SILENT in words:
            self.silent = words[proxy.SILENT]
        else:
            self._words.append(words)


_OWN = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)


class Gate:
    """The brake of a read at a rate: how many rows may come, and how many are through."""

    def __init__(
        self, carrier: HelperProcess, told: _Told, source: SourceConfig, rate: int
    ) -> None:
        self._carrier, self._told, self._source, self._rate = carrier, told, source, rate
        self._allowed = self._before = self._statements = 0
        self._ended = False

    def begin(self) -> None:
        """A statement begins, after the end of the one before."""
        while not self._all_through():
            self._told.listen(_LOOK_SECONDS)
        self._before = self._told.through
        self._statements += 1

    def _all_through(self) -> bool:
        told = self._told
        return self._ended or told.ended or told.statements >= self._statements

    @contextmanager
    def awaited(self, rows: int, heed: Heed) -> Iterator[None]:
        """The block runs when this many rows of the statement, or all there are, have been let
        through; other threads run meanwhile."""
        wanted = self._before + rows + _AHEAD
        while not self._all_through() and self._told.through < wanted:
            if self._told.through >= self._allowed:
                self._allow(wanted - self._allowed, heed)
            heed()
            self._told.listen(_LOOK_SECONDS)
        yield

    def _allow(self, step: int, heed: Heed) -> None:
        step = min(step, max(int(self._rate * BURST_SECONDS), 1))
        until = time.monotonic() + reserve_rows(self._source, step)
        while (left := until - time.monotonic()) > 0:
            heed()
            time.sleep(min(left, _LOOK_SECONDS))
        self._allowed += step
        # The carrier may have ended: the reader will say how.
        self._ended = not self._carrier.tell(self._allowed)


class Valve:
    """The brake of a read without a rate: the carrier learns whether the reader waits for rows."""

    def __init__(self, carrier: HelperProcess) -> None:
        self._carrier = carrier

    def begin(self) -> None:
        """A statement begins."""

    @contextmanager
    def awaited(self, _rows: int, _heed: Heed) -> Iterator[None]:
        """The reader waits for rows inside the block, and has some after it."""
        self._carrier.tell(1)
        try:
            yield
        finally:
            self._carrier.tell(0)


@contextmanager
def open_route(
    source: SourceConfig,
    database: str,
    *,
    near: bool = False,
    before: Sequence[str] | None = None,
    question: str | None = None,
) -> Iterator[Route]:
    """A way for the reader while the block runs.

    Args:
        near: whether the reader must be kept near the files, where the source has no rate too.
        before: settings of a session in which a consistent snapshot is opened, that the reader's
            sessions then read, one after the other: to the server they are one. None: no snapshot.
        question: of one row of numbers, answered in the snapshot before that.

    Raises:
        SourceError: no TLS, or a certificate that does not stand its check.
    """
    name = percent(database, safe="")
    brake = brakes.RATE if source.rows_per_second else brakes.NEAR if near else None
    usual = tempfile.gettempdir()
    # A socket's path can't be long.
    short = None if len(os.fsencode(usual)) < 60 else "/tmp"  # noqa: S108 (mkdtemp inside it)
    with tempfile.TemporaryDirectory(prefix="ml-", dir=short) as folder:
        path = f"{folder}/s"
        # Its input closes with us, however we end: so does the carrier.
        carrier = new_carrier()
        told = _Told(carrier, source)
        try:
            settings = {"socket": path, "database": database, "brake": brake}
            settings |= {"before": None if before is None else [*before], "question": question}
            carrier.tell(login_of(source) | settings | _signs_of_life())
            opened = told.next_words(_heedless)
            login = f"carried:x@localhost/{name}?prefer_socket=false&{_PREPARED}"
            url = f"mysql://{login}&socket={percent(path)}"
            answer = tuple(opened["answer"]) if question else None
            session = int(opened["session"]) if before is not None else None
            rate = source.rows_per_second
            gate = Gate(carrier, told, source, rate) if rate else Valve(carrier) if near else None
            yield Route(url, gate, told, session, answer)
            told.listen(0)
        except MirrorlakeError:
            raise
        except BaseException as error:
            # The reader raises RuntimeError, and its Rust panics are BaseExceptions.
            silent = None if isinstance(error, _OWN) else told.given_up()
            if silent is None:
                raise
            raise _given_up(source, database, silent) from None
        finally:
            carrier.end()


def _heedless() -> None:
    pass


def _given_up(source: SourceConfig, database: str, silent: str) -> SourceError:
    return SourceError(
        f"reading database {database} of source {source.name} was given up: {silent}",
        source=source.name,
        next_step="Nothing of this load is visible: it is tried again by itself, and by the next "
        "sync. See what is between here and the server",
        retryable=True,
    )


def _signs_of_life() -> dict[str, Any]:
    """What a carrier calls while its reader waits, and how often."""
    beats = heartbeats()
    seconds = min((beat.seconds for beat in beats), default=0.0)
    plain = [beat.to_plain() for beat in beats]
    return {"beats": plain, "beat_seconds": seconds, "pid": os.getpid()}


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
        "silence": source.silence.total_seconds(),
        "most": source.statement_seconds,
    }
