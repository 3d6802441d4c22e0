"""What a backfill was requested to do, and which windows it reads: the days of a range that need
loading; pure.

What belongs here: windows. What doesn't: reading them (`mirrorlake.operations.planning.backfill`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, TypeAlias

from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.operations.days.gaps import STATES, Stretch

WANTED = {
    "missing": ("not asked", "errored", "unproved", "unknown"),
    "errored": ("errored",),
    "all": STATES,
}
WhichWork: TypeAlias = Literal["missing", "errored", "all", "invalid"]


@dataclass(frozen=True)
class WorkRequest:
    """What somebody wants to be done.

    Attributes:
        tables, models: what is named; models by their names.
        which: ``missing`` (days without a load, or whose load failed; partitions that are missing
            or stale), ``errored`` (days alone), ``all``, or ``invalid``: what was declared so, of
            what is named, or of everything where nothing is.
        first, last: days, both included; None: without an end there.
        limit: how many partitions at most; of a table a day is one, and so is a full copy.
        named: whether somebody named them, rather than all that there are.
    """

    tables: tuple[TableContract, ...]
    models: tuple[str, ...]
    which: WhichWork
    first: date | None = None
    last: date | None = None
    days_per_window: int = 31
    limit: int | None = None
    named: bool = True


@dataclass(frozen=True)
class BackfillWindow:
    """One window of a backfill: raw days, both included; ``live`` reads on to now instead.

    Attributes:
        complete: whether a full copy writes every row, whatever the one before did.
    """

    contract: TableContract
    first: date
    last: date
    live: bool
    complete: bool = False


def plan_backfill(
    contract: TableContract,
    stretches: Sequence[Stretch],
    first: date,
    last: date,
    which: str,
    days_per_window: int,
) -> list[BackfillWindow]:
    """The windows that a backfill of ``first`` to ``last`` reads, in order; pure.

    Args:
        stretches: of the table up to today, as `find_stretches` gives them.
        which: ``missing`` (never requested, or failed), ``errored`` or ``all``.
        days_per_window: the most days of one window: what is lost when one fails.

    Raises:
        ConfigError: the range ends before it begins, or ``days_per_window`` is not positive.
    """
    if first > last or days_per_window < 1:
        raise ConfigError(
            f"table {contract.name}: {first} to {last} in windows of {days_per_window} days is no "
            "range to fill",
            table=contract.name,
            next_step="Give the earlier day first, and at least one day a window",
        )
    pieces: list[BackfillWindow] = []
    for stretch in stretches:
        begin, end = max(stretch.first or first, first), min(stretch.last, last)
        if stretch.state not in WANTED[which] or begin > end:
            continue
        if _is_ahead(stretch, stretches):
            pieces.append(BackfillWindow(contract, begin, end, live=True))
            continue
        while begin <= end:
            until = min(end, begin + timedelta(days=days_per_window - 1))
            pieces.append(BackfillWindow(contract, begin, until, live=False))
            begin = until + timedelta(days=1)
    if contract.copies:
        # MySQL has no older copy: one load today is all that any day of the range can get.
        today = stretches[-1].last if stretches else last
        return (
            [BackfillWindow(contract, today, today, live=True)] if pieces and last >= today else []
        )
    live = [p for p in pieces if p.live]
    if live:  # one window reads on to now, whatever number of stretches are ahead
        whole = BackfillWindow(contract, live[0].first, live[-1].last, live=True)
        pieces = [*(p for p in pieces if not p.live), whole]
    return pieces


def _is_ahead(stretch: Stretch, stretches: Sequence[Stretch]) -> bool:
    """Whether nothing was loaded from this stretch on: what comes next is a moving window's. Of an
    unproved table that window is the whole table."""
    rest = stretches[list(stretches).index(stretch) :]
    return all(s.state in WANTED["missing"] for s in rest)
