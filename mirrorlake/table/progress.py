"""How far a load is, reported while it reads: to the caller, and to the log at intervals.

It is counted from batches as they are read here; where Spark's tasks read, from their chunks as
they finish: a driver hears from a task when it ends (through Spark Connect there is nothing else).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from mirrorlake.runtime.plural import plural

logger = logging.getLogger(__name__)

LOG_SECONDS = 10.0


@dataclass(frozen=True)
class Progress:
    """How far a load is.

    Attributes:
        rows: rows that are there, those of an interrupted run's chunks included.
        expected: rows that the load may bring by the server's statistics, never fewer than were
            read; None where unknown.
        bytes: bytes in memory of what this run has read.
        read: rows that this run has read.
        seconds: since this run began to read.
        ended: whether everything was read.
    """

    table: str
    load_id: str
    rows: int
    expected: int | None
    bytes: int
    read: int
    seconds: float
    ended: bool = False

    @property
    def mb_per_second(self) -> float:
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None where unknown."""
        if self.ended or self.expected is None or not self.read:
            return None
        return max(self.expected - self.rows, 0) * self.seconds / self.read

    @property
    def words(self) -> str:
        """One line for people."""
        rows = plural(self.rows, "row")
        if self.expected is not None and not self.ended:
            rows = f"{self.rows:,} of about {plural(self.expected, 'row')}"
        parts = [rows, f"{self.bytes / 1e6:,.0f} MB", f"{self.mb_per_second:.1f} MB/s"]
        if self.seconds_left is not None:
            parts.append(f"about {duration(self.seconds_left)} left")
        return ", ".join(parts)


OnProgress = Callable[[Progress], None]
"""Called as rows are read, from the thread that reads them, and once with ``ended``."""


def unwatched(_: object) -> AbstractContextManager[OnProgress]:
    """What nobody looks at."""
    return nullcontext(lambda _: None)


class Pace:
    """Counts one load's rows as they come.

    Args:
        expected: rows that the load may bring, by the server's statistics; None if unknown.
        there: rows of chunks that an interrupted run has read.
    """

    def __init__(
        self,
        table: str,
        load_id: str,
        expected: int | None,
        report: OnProgress | None,
        there: int = 0,
    ) -> None:
        self._table, self._load_id = table, load_id
        self._expected, self._report, self._there = expected, report, there
        self._lock = threading.Lock()
        self._started = self._logged = time.monotonic()
        self._rows = self._bytes = 0
        self.advance(0, 0)

    def advance(self, rows: int, size: int) -> None:
        """Note rows that were read, and their bytes in memory."""
        with self._lock:
            self._rows += rows
            self._bytes += size
            self._note_progress(ended=False)

    def finish(self) -> Progress:
        """Everything was read; the last report."""
        with self._lock:
            return self._note_progress(ended=True)

    def _note_progress(self, *, ended: bool) -> Progress:
        now, rows = time.monotonic(), self._there + self._rows
        # The statistics may say too little.
        expected = rows if ended else self._expected and max(self._expected, rows)
        seen = Progress(
            table=self._table,
            load_id=self._load_id,
            rows=rows,
            expected=expected,
            bytes=self._bytes,
            read=self._rows,
            seconds=now - self._started,
            ended=ended,
        )
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            logger.info("table %s load %s: %s", self._table, self._load_id, seen.words)
        if self._report is not None:
            self._report(seen)
        return seen


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(42), duration(150), duration(7300)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
