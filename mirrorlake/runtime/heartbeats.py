"""Signs of life that go on while this process can't give any.

A reader in another language holds the interpreter's lock for as long as it waits for a row, and
keeps every thread of ours from running. What must be said meanwhile is registered here, as a
function that any process can call. It is handed on to the process that carries such a reader's
rows, which has it called.

What belongs here: what is to be called. What doesn't: when
(`mirrorlake.sources.mysql.reading.proxy`), and what it says (`mirrorlake.ledger.lake.leases`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Heartbeat:
    """One sign of life.

    Attributes:
        module, function: what is called, in a process that has nothing of this one.
        given: its arguments by name, as JSON can hold them; they may be secret.
        seconds: how long it may be silent.
    """

    module: str
    function: str
    given: dict[str, Any]
    seconds: float

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"module": self.module, "function": self.function, "given": self.given}


_LOCK = threading.Lock()
_BEATING: list[Heartbeat] = []


@contextmanager
def beating(beat: Heartbeat) -> Iterator[None]:
    """Have it called while a read of this process waits in silence, until the block ends."""
    with _LOCK:
        _BEATING.append(beat)
    try:
        yield
    finally:
        with _LOCK:
            _BEATING.remove(beat)


def heartbeats() -> list[Heartbeat]:
    """What is to be called now."""
    with _LOCK:
        return [*_BEATING]
