"""What the ledger, and a look at the lake, say of all tables at once, by which each one's status is
made.

What belongs here: that, as values. What doesn't: reading it
(`mirrorlake.operations.status.status`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from mirrorlake.config import TableContract
from mirrorlake.ledger import Hold, Ledger, Load, Refusal, Stamp
from mirrorlake.ledger.records import Unproved
from mirrorlake.operations.publishers import PublicationStatus
from mirrorlake.proof.coverage.open_checks import OpenCheck

if TYPE_CHECKING:
    from mirrorlake.destinations.iceberg.commits.heads import MovedTable


@dataclass(frozen=True)
class KnownOfAll:
    """What the ledger says of all tables at once, by table but for what says otherwise.

    Attributes:
        last, good: the newest attempt, and the newest load that succeeded.
        holds: by source.
        moved: what other hands did to lake tables.
        rows_of: see `RowCounts.rows_of`.
    """

    ledger: Ledger
    last: Mapping[str, Load]
    good: Mapping[str, Load]
    behind: frozenset[str]
    unproved: Mapping[str, Unproved]
    refusals: Mapping[str, Refusal]
    holds: Mapping[str, Hold]
    chunked: frozenset[str]
    columns: Mapping[str, Sequence[str]]
    known_columns: Mapping[str, frozenset[str]]
    looks: Mapping[str, str]
    open_checks: Mapping[str, OpenCheck]
    proved: frozenset[str]
    marks: Mapping[str, tuple[datetime, str]]
    stamps: Mapping[str, Stamp]
    surplus: Mapping[str, str]
    left_out: Mapping[str, str]
    exchanged: Mapping[str, str]
    hidden: Mapping[str, str]
    published: Callable[[str], Mapping[str, PublicationStatus | None]]
    moved: Mapping[str, Sequence[MovedTable]]
    rows_of: Callable[[TableContract], tuple[int | None, str | None]]

    def moved_words(self, name: str) -> str:
        """What other hands did to a table's lake tables, in words; '' where they did nothing."""
        return "; ".join(one.said for one in self.moved.get(name, ()))
