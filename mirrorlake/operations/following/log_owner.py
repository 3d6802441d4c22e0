"""Which process follows a source's log, and how another one gets it for a while.

What belongs here: the lease, and who waits for it. What doesn't: following
(`mirrorlake.operations.following.follower`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from mirrorlake.ledger import Ledger

WANTED_FOR: Final = timedelta(minutes=2)
"""For how long a process waits for a log: its follower ends the round that runs."""
_WANTED: Final = "log wanted "


def follower_lease(source: str) -> str:
    """The name of the lease that a process which follows a source's log has."""
    return f"the log of {source}"


def is_followed(ledger: Ledger, source: str) -> bool:
    """Whether a process follows a source's log now: nobody else need read on."""
    return ledger.is_held(follower_lease(source))


def want_log(ledger: Ledger, source: str) -> None:
    """Have the process that follows a source's log leave it for a while, once its round ends."""
    ledger.record_definition(_WANTED + source, datetime.now(UTC).isoformat())


def is_log_wanted(ledger: Ledger, source: str) -> bool:
    """Whether another process waits for a source's log; one that died waits no longer."""
    said = ledger.definition(_WANTED + source)
    return said is not None and datetime.now(UTC) - datetime.fromisoformat(said) < WANTED_FOR


def has_log(ledger: Ledger, source: str) -> None:
    """Nobody waits for a source's log any more."""
    ledger.forget_definition(_WANTED + source)
