"""The backlog: past days of a table that are owed a reload, whatever kept it from them.

A day is read by small windows while it is open, and once more as a whole when it has ended
(DESIGN: the reload). Where that second reading did not come (its source was down or held, nobody
ran anything at 04:00, it failed), the day is due, and the next daily load reads it with the others,
oldest first.

The ledger knows; no source and no lake is queried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo

from mirrorlake.config import TableContract
from mirrorlake.ledger import MOVING, Ledger, Load
from mirrorlake.table.windows import days_of

REACH = timedelta(days=31)
"""How far back a day is owed its reload by itself; older ones are a person's `backfill`."""
_DAY = timedelta(days=1)


def find_due(contract: TableContract, ledger: Ledger, zone: tzinfo, today: date) -> list[date]:
    """The ended raw days, oldest first, that small windows read and no reload has read since.

    Args:
        zone: in which the application writes its DATETIME cursors.
        today: the open day (UTC).

    Raises:
        LedgerError: the ledger can't be read.
    """
    if not contract.loads.by_windows:
        return []  # MySQL has no older copy, and its log has each change once
    return due_of(contract, ledger.landmarks(contract.name), zone, today)


def due_of(contract: TableContract, loads: Sequence[Load], zone: tzinfo, today: date) -> list[date]:
    """`find_due` over what the ledger says; pure."""
    moving = [_calendar(load, zone) for load in loads if load.window.kind in MOVING]
    if not moving:
        return []
    # The day on which a first load read was open: what it saw of it was no whole day.
    first = max(min(moving), today - REACH, contract.start or date.min)
    read = set(_read_whole(loads, zone))
    days = (first + n * _DAY for n in range((min(max(moving) + _DAY, today) - first).days))
    return [day for day in days if day not in read]


def _read_whole(loads: Iterable[Load], zone: tzinfo) -> Iterable[date]:
    """The days that a reload read after they had ended."""
    for load in loads:
        if load.window.kind == "reload":
            first, last = days_of(load.window)
            until = min(last, _calendar(load, zone) - _DAY)
            yield from (first + n * _DAY for n in range((until - first).days + 1))


def _calendar(load: Load, zone: tzinfo) -> date:
    """The day on which a load read, by the calendar (UTC's or the zone's) that is behind."""
    at = load.started_at
    if load.receipt is not None:
        at = datetime.fromisoformat(load.receipt.moment).replace(tzinfo=UTC)
    return min(at.date(), at.astimezone(zone).date())
