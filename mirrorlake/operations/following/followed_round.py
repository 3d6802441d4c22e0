"""What one round of a process that follows a log did, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.loading.results import SyncResult


@dataclass(frozen=True)
class FollowedRound:
    """What one round did.

    Attributes:
        at: the source's clock (UTC, no zone) at its end.
        lag_seconds: since when the source has what is not in clean; None where no table is
            followed.
        lag_bytes: of the log that were not read at its end; None as well.
        rows: row versions that raw got, by table.
        tenants: of how many tenants, by table of tenants.
        changed: what became of tables that were not merely followed, in words.
        failed: errors by table.
        seconds: how long it took; ``load_seconds`` of these until raw had it.
        place: how far the log was read, as file:offset.
        reached: whether it read to where the log ended when it began.
        shown: how readers got to see what it folded: ``together``, ``one by one`` where the catalog
            can't, or empty where it was no more than one table.
        left_out: the tables that are not of this place of the log, but of an earlier one: they
            failed, are held, or are to be copied.
    """

    at: datetime
    lag_seconds: float | None
    lag_bytes: int | None
    rows: Mapping[str, int]
    changed: Mapping[str, str]
    failed: Mapping[str, MirrorlakeError]
    seconds: float
    load_seconds: float
    place: str
    reached: bool
    shown: str = ""
    left_out: tuple[str, ...] = ()
    tenants: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_busy(self) -> bool:
        """Whether it did, or tried, anything."""
        return bool(self.rows or self.changed or self.failed)


def words_of(result: SyncResult) -> str:
    """What became of a table that was not merely followed; '' of one that was."""
    first = "the whole table was read" if result.window not in ("log", "unchanged") else ""
    return "; ".join(filter(None, (result.changed or first, *result.put_right, result.held_back)))
