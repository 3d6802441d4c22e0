"""Copies and partitions that capabilities keep records of: what landed, what was computed.

What belongs here: the question, and the form of its answer. What doesn't: loads of tables, which
the ledger itself knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from mirrorlake.capabilities import Seam

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger


@dataclass(frozen=True)
class RecordedCopy:
    """A complete copy of a table, or a partition that was computed.

    Attributes:
        name: which: a snapshot's id, a partition's key.
        at: when (UTC) readers got it, or what became of it instead.
        state: one word for it.
        failed: whether somebody should look at it.
        shown: whether readers have, or had, it.
        rows, bytes, seconds: None where nobody counted.
        words: what else there is to say; no values of rows.
    """

    name: str
    at: datetime
    state: str
    failed: bool = False
    shown: bool = True
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    words: str = ""


COPIES: Final[Seam[Callable[[Ledger, datetime], Mapping[str, Sequence[RecordedCopy]]]]] = Seam(
    "recorded copies"
)
"""What became of copies since a moment (UTC): by table, or ``model dataset.name``; oldest first."""
