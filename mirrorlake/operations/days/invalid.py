"""Days of mirrored tables that were declared invalid: what of them is still to be read again.

A mark is answered by loads that began after it and that every layer holds: reloads of its days, or
a load of the whole table. Whoever made them counts, so nothing is to be written when one succeeds,
and a death between two steps leaves no doubt.

What belongs here: what answers a mark of a mirrored table. What doesn't: partitions of models
(`mirrorlake.models.partition_states.invalid_marks`), and loading
(`mirrorlake.operations.planning.backfill`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias

from mirrorlake.ledger import MOVING, Ledger, Load
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.table.meaning import recorded_meaning
from mirrorlake.table.windows import days_of

DayPeriod: TypeAlias = "tuple[date | None, date | None]"
"""Days from one to another, both included; None: without an end there."""
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class InvalidRange:
    """What is left of one mark of a mirrored table.

    Attributes:
        unread: days that no load has read again since; empty where all were, and the layers do not
            hold these loads yet.
    """

    mark: DirtyMark
    unread: tuple[DayPeriod, ...]

    @property
    def words(self) -> str:
        """The table and the days that were declared invalid."""
        return f"{self.mark.target} {period_words((self.mark.first, self.mark.last))}".strip()


def invalid_ranges(ledger: Ledger, marks: Iterable[DirtyMark]) -> list[InvalidRange]:
    """The marks of mirrored tables among these that are not answered yet, in their order.

    Raises:
        LedgerError: the ledger can't be read.
    """
    by_table: dict[str, list[DirtyMark]] = {}
    for mark in marks:
        if mark.key is None:
            by_table.setdefault(mark.target, []).append(mark)
    found: list[InvalidRange] = []
    for table, mine in by_table.items():
        loads = ledger.successful_loads(table, after_seq=min(one.seq for one in mine), ever=True)
        held = _held(ledger, table) if loads else set[int]()
        days = _days_of_loads(ledger, table)
        for mark in mine:
            since = [load for load in loads if load.seq > mark.seq]
            in_layers = [load for load in since if load.seq in held]
            if unread_days(mark, in_layers, days):
                found.append(InvalidRange(mark, unread_days(mark, since, days)))
    return found


def _days_of_loads(ledger: Ledger, table: str) -> set[date] | None:
    """The days on which a table was loaded, where those are the days of its rows: no column tells
    them. Else None."""
    meaning = recorded_meaning(ledger.newest_receipt(table))
    if meaning is None or meaning.copies or meaning.by_time or meaning.created:
        return None
    return {x.window.day for x in ledger.successful_loads(table) if x.window.kind in MOVING}


def _held(ledger: Ledger, table: str) -> set[int]:
    """The loads that every layer of a table that is folded into holds."""
    deduped, clean = (ledger.folded_loads(table, layer) for layer in ("deduped", "clean"))
    return deduped & clean if clean else deduped


def unread_days(
    mark: DirtyMark, loads: Sequence[Load], days: Collection[date] | None = None
) -> tuple[DayPeriod, ...]:
    """Those days of a mark that none of these loads read as a whole, in order.

    A copy that wrote what changed alone took the rest from the one before: it does not count.

    Args:
        days: all that the table has; None: any day may have rows.
    """
    left: list[DayPeriod] = [(mark.first, mark.last)]
    for load in loads:
        window, receipt = load.window, load.receipt
        if window.kind in ("initial", "full") and (receipt is None or not receipt.stands_on):
            return ()
        if window.kind == "reload":
            first, last = days_of(window)
            left = [part for period in left for part in _without(period, first, last)]
    if days is not None:
        return tuple((day, day) for day in sorted(days) if any(_holds(p, day) for p in left))
    return tuple(left)


def _holds(period: DayPeriod, day: date) -> bool:
    return (period[0] or date.min) <= day <= (period[1] or date.max)


def _without(period: DayPeriod, first: date, last: date) -> Iterable[DayPeriod]:
    low, high = period
    if (high is not None and high < first) or (low is not None and low > last):
        yield period
        return
    if low is None or low < first:
        yield low, first - _DAY
    if high is None or high > last:
        yield last + _DAY, high


def answered_marks(marks: Sequence[DirtyMark], standing: Collection[InvalidRange]) -> list[str]:
    """The ids of those marks of mirrored tables that are answered."""
    open_ = {one.mark.mark_id for one in standing}
    return [mark.mark_id for mark in marks if mark.key is None and mark.mark_id not in open_]


def period_words(period: DayPeriod) -> str:
    """Days for people; empty of all days.

    >>> period_words((date(2024, 5, 1), date(2024, 5, 3))), period_words((None, None))
    ('2024-05-01 to 2024-05-03', '')
    """
    first, last = period
    if first is None or last is None:
        return f"from {first}" if first else f"until {last}" if last else ""
    return f"{first}" if first == last else f"{first} to {last}"
