"""Holds: sources that a person asked us to leave alone."""

from __future__ import annotations

from shlex import quote

from mirrorlake.errors import SourceHeld
from mirrorlake.ledger import Hold, Ledger


def refuse_held(ledger: Ledger, source: str) -> None:
    """See that nobody asked us to leave a source alone.

    Raises:
        SourceHeld: somebody did, and until when.
    """
    held = ledger.held(source)
    if held is not None:
        raise SourceHeld(
            hold_words(held),
            source=source,
            next_step="What it changes is read afterwards; "
            f"`mirrorlake hold {quote(source)} --release` ends it",
        )


def hold_words(held: Hold) -> str:
    """A hold in words: which source, until when, and why where somebody said so."""
    why = f" ({held.reason})" if held.reason else ""
    return f"source {held.source} is held until {held.until:%Y-%m-%d %H:%M} UTC{why}"
