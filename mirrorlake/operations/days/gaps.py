"""Gaps: every raw day of a table was loaded, failed, or was never requested.

The ledger knows; no source and no lake is queried.

Days are those of the column that gives a row's raw day; where none does, the days of the loads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from mirrorlake.config import TableContract
from mirrorlake.ledger import MOVING, Ledger, Load, OpenWindow, Receipt
from mirrorlake.ledger.records import Unproved
from mirrorlake.table.meaning import edits_of
from mirrorlake.table.windows import days_of

if TYPE_CHECKING:
    from mirrorlake.destinations.iceberg.commits.heads import MovedTable

STATES = ("loaded", "reloaded", "unproved", "errored", "unknown", "not asked")
READ = ("loaded", "reloaded", "unproved")
"""The states of a day that was read."""
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Stretch:
    """Consecutive raw days of one table in one state.

    Attributes:
        table: ``source.db.table``.
        first: its first day, None for "from the beginning".
        last: its last day, included.
        state: ``loaded`` (by windows while the days were open, or by the first load), ``reloaded``
            (read again as a whole since), ``unproved`` (read, but not known any more to be the
            source's), ``errored`` (the newest attempt failed), ``unknown`` (loaded, and raw does
            not hold it any more, or may not) or ``not asked``.
        reason: why, where there is something to say.
    """

    table: str
    first: date | None
    last: date
    state: str
    reason: str = ""


def find_stretches(contract: TableContract, ledger: Ledger, today: date) -> list[Stretch]:
    """The days of a table up to ``today``, in order, each in one stretch.

    Raises:
        LedgerError: the ledger can't be read.
    """
    loads = ledger.landmarks(contract.name)
    unread = ledger.open_windows(contract.name)
    newest = ledger.newest_receipt(contract.name)
    why = why_unproved(contract, ledger.unproved(contract.name), newest)
    return stretches_of(contract, loads, unread, today, why)


def why_unproved(
    contract: TableContract, mark: Unproved | None, newest: Receipt | None
) -> str | None:
    """Why what was read of a table is not known any more to be the source's; None if it is.

    Args:
        mark: the table's, where it was not read again since.
        newest: the receipt of its newest successful load.
    """
    if mark is not None:
        return mark.reason
    edited = edits_of(newest, contract)
    return f"since it was loaded, {edited}" if edited else None


def stretches_of(
    contract: TableContract,
    loads: Sequence[Load],
    unread: Sequence[OpenWindow],
    today: date,
    unproved: str | None = None,
) -> list[Stretch]:
    """`find_stretches` over what the ledger says; pure. ``unproved``: why, if it is so marked."""
    known = _Known(contract, loads, unread, today, unproved)
    days = ((day, *known.state_of(day)) for day in known.days())
    found: list[Stretch] = []
    for day, state, reason in days:
        if found and (found[-1].state, found[-1].reason) == (state, reason):
            found[-1] = Stretch(contract.name, found[-1].first, day, state, reason)
        else:
            found.append(Stretch(contract.name, day, day, state, reason))
    if known.first is not None:
        unbounded = contract.start is None and known.moving
        if not unbounded or not found or found[0].first is None:
            return found
        # The contract has no start any more, and nothing before the old one was ever read.
        before = found[0].first - _DAY
        return [Stretch(contract.name, None, before, *known.state_of(before)), *found]
    # Nothing bounds the first load from below: it read, or would read, whatever is there.
    state, reason = known.read("loaded") if known.moving else known.state_of(date.min)
    if not found:
        # By its source's clock, which is ahead, the first load is of a day to come.
        return [Stretch(contract.name, None, today, state, reason)]
    if (found[0].state, found[0].reason) == (state, reason):
        return [replace(found[0], first=None), *found[1:]]
    before = found[0].last if found[0].first is None else found[0].first - _DAY
    return [Stretch(contract.name, None, before, state, reason), *found]


class _Known:
    """What the ledger knows of one table, day by day."""

    def __init__(
        self,
        contract: TableContract,
        loads: Sequence[Load],
        unread: Sequence[OpenWindow],
        today: date,
        unproved: str | None,
    ) -> None:
        self.contract, self.today, self.unproved = contract, today, unproved
        self.moving = [load for load in loads if load.window.kind in MOVING]
        self.reloads = [days_of(load.window) for load in loads if load.window.kind == "reload"]
        spans = (((last - first).days + 1, first) for first, last in self.reloads)
        self.reloaded = {first + n * _DAY for days, first in spans for n in range(days)}
        self.failed = [w for w in unread if w.state in ("errored", "unknown")]
        first = min((self._begin(load) or date.min for load in self.moving), default=None)
        self.first = contract.start if first is None else (None if first == date.min else first)
        self.until = max((_moment(load) for load in self.moving), default=None)

    @staticmethod
    def _begin(load: Load) -> date | None:
        """The first day that a first load read; None: everything. Later windows continue there."""
        if load.window.kind == "live":
            return date.max
        lo = load.window.lo
        return datetime.fromisoformat(lo).date() if lo and "-" in lo[1:] else None

    def days(self) -> Iterator[date]:
        starts = [self.first, self.contract.start, *(first for first, _ in self.reloads)]
        starts.append(self.until.date() if self.until else self.today)
        day = min((d for d in starts if d is not None), default=self.today)
        while day <= self.today:
            yield day
            day += _DAY

    def state_of(self, day: date) -> tuple[str, str]:
        for window in reversed(self.failed):
            if self._covers(window, day):
                return window.state, window.error or "the run died"
        if day in self.reloaded:
            return self.read("reloaded")
        if self.until is None:
            return "not asked", "never loaded"
        if day > self.until.date():
            return "not asked", f"last loaded at {self.until:%Y-%m-%d %H:%M} UTC"
        if self.first is not None and day < self.first:
            return "not asked", f"before the first load, which began with {self.first}"
        return self.read("loaded")

    def read(self, state: str) -> tuple[str, str]:
        """The state of days that were read."""
        return (state, "") if self.unproved is None else ("unproved", self.unproved)

    def _covers(self, unread: OpenWindow, day: date) -> bool:
        if unread.window.kind == "reload":
            first, last = days_of(unread.window)
            return first <= day <= last
        # A moving window would have read on from the last one's end.
        return self.until is None or day >= self.until.date()


def _moment(load: Load) -> datetime:
    if load.receipt is None:
        return load.started_at.replace(tzinfo=None)
    return datetime.fromisoformat(load.receipt.moment)


def unknown_stretches(
    stretches: Sequence[Stretch],
    moved: Sequence[MovedTable],
    layers: Collection[str] = ("raw",),
) -> list[Stretch]:
    """The days of a table: those that were loaded are unknown where one of these layers is not as
    our last commit left it."""
    reason = "; ".join(one.said for one in moved if one.layer in layers)
    if not reason:
        return list(stretches)
    return [
        replace(one, state="unknown", reason=reason) if one.state in READ else one
        for one in stretches
    ]
