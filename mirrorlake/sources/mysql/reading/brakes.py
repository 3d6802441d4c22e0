"""How far a reader's bytes go ahead of it, in the process that carries them (`proxy`).

A brake is one of two. At a *rate*, it counts the rows of each answer to a prepared statement, lets
through as many as it was allowed, and the carrier reads no further from the server meanwhile.
*Near*, it counts bytes alone, which costs next to nothing: a fixed number goes ahead of a reader
that has rows, and more once it has waited for a moment, which says that it has taken all that went
before.

Only the standard library: the carrier's start is waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

END = "end"
RATE, NEAR = "rate", "near"
AHEAD = 64 * 2**20
"""Bytes that go to a reader before it must have stood waiting again."""
_STANDS_SECONDS = 0.003
"""A reader that has rows ready is done with asking for them in far less."""


class RowBrake:
    """How many rows are allowed so far; carrying waits here for more."""

    def __init__(self, say: Callable[[object], None]) -> None:
        self._say = say
        self._changed = threading.Condition()
        self._allowed = self._through = 0

    def update(self, number: int) -> None:
        """Allow this many rows in all."""
        with self._changed:
            self._allowed = number
            self._changed.notify_all()

    def room(self) -> int:
        """How many rows may go through now; waits until one may."""
        with self._changed:
            self._changed.wait_for(lambda: self._through < self._allowed)
            return self._allowed - self._through

    def passed(self, rows: int) -> None:
        with self._changed:
            self._through += rows
            if rows:
                self._say(self._through)

    def end(self) -> None:
        self._say(END)


class ByteBrake:
    """How many bytes are ahead of the reader; carrying waits here until it has taken them."""

    def __init__(self, _say: Callable[[object], None]) -> None:
        self._changed = threading.Condition()
        self._ahead = 0
        self._waits_since: float | None = time.monotonic()

    def update(self, number: int) -> None:
        """Whether the reader waits for rows now."""
        with self._changed:
            self._waits_since = time.monotonic() if number else None
            self._changed.notify_all()

    def passed(self, size: int) -> None:
        """Note the bytes that went through; return when more may."""
        with self._changed:
            self._ahead += size
            while self._ahead >= AHEAD:
                left = None
                if self._waits_since is not None:
                    left = self._waits_since + _STANDS_SECONDS - time.monotonic()
                    if left <= 0:
                        self._ahead = 0
                        return
                self._changed.wait(left)


Brake = RowBrake | ByteBrake
