"""Which days a load touched: those of its files, and the range that it read.

What belongs here: days and partitions, by load. What doesn't: which days raw holds
(`mirrorlake.operations.days.partitions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from mirrorlake.config import TableContract
from mirrorlake.config.partitions import hours_of, partition_of
from mirrorlake.ledger import Ledger, Load
from mirrorlake.operations.days.raw_days import RawFiles, moment_of
from mirrorlake.table.windows import days_of


@dataclass(frozen=True)
class TouchedDays:
    """What a load touched: the days of its files, and the range that it read, found empty or not.

    Attributes:
        days: of files that it wrote, or the like.
        since, until: the range, both included; None: it read none, and `since` None: from the first
            day on.
        hour: the first hour of which it can have read or written a row; None: any of these days.
    """

    days: frozenset[date]
    since: date | None = None
    until: date | None = None
    hour: datetime | None = None

    def among(self, held: Iterable[date]) -> set[date]:
        """Those of these days."""
        low = self.since or date.min
        return {
            day
            for day in held
            if day in self.days or (self.until is not None and low <= day <= self.until)
        }

    def partitions(self, contract: TableContract, held: Iterable[date]) -> set[date]:
        """The partitions that it touched of these days."""
        days = self.among(held)
        if contract.partition != "hour":
            return {partition_of(contract, day) for day in days}
        hours = (hour for day in days for hour in hours_of(day))
        # A row that has no hour is in the first one of its day.
        return {
            hour
            for hour in hours
            if self.hour is None
            or hour >= self.hour
            or (hour.hour == 0 and hour.date() in self.days)
        }


def touched_days(
    ledger: Ledger, contract: TableContract, loads: Mapping[int, Load], files: RawFiles
) -> dict[int, TouchedDays]:
    """By load: the days of the files it wrote, and of those it took the place of, which lie within
    the range that it read.

    Args:
        loads: successful loads of the table, by number.
        files: used for loads whose files the ledger did not record: of an older release, or of a
            ledger that was rebuilt.
    """
    written = ledger.days_written(contract.name, loads)
    found: dict[int, TouchedDays] = {}
    for seq, load in loads.items():
        days = written.get(seq)
        if days is None and (load.receipt is None or load.receipt.files):
            days = files.days_of_load(load.load_id)
        found[seq] = _touched(ledger, contract, load, frozenset(days or ()))
    return found


def _touched(
    ledger: Ledger, contract: TableContract, load: Load, days: frozenset[date]
) -> TouchedDays:
    window = load.window
    if window.kind == "reload":
        return TouchedDays(days, *days_of(window))
    if window.kind in ("full", "unknown"):
        return TouchedDays(days | {window.day})
    if window.kind == "log" and load.receipt is not None and load.receipt.since is not None:
        since = datetime.fromisoformat(load.receipt.since)
        return TouchedDays(days, hour=since.replace(minute=0, second=0, microsecond=0))
    if window.kind not in ("initial", "live"):
        return TouchedDays(days)
    until = moment_of(load)
    if window.lo is None:
        return TouchedDays(days, None, until)
    if "-" not in window.lo[1:]:  # a key: it read on from where the load before ended
        before = ledger.moving_before(load.table, load.seq)
        return TouchedDays(days, moment_of(before) if before else until, until)
    since = datetime.fromisoformat(window.lo)
    zone = (load.receipt.meaning or {}).get("time_zone") if load.receipt is not None else None
    if zone not in (None, "UTC") and since.date() > date.min:
        since -= timedelta(days=1)  # by the calendar of its zone
    # A time is the cursor, so it gives a row's hour; without a key whole days are written again.
    hour = since.replace(minute=0, second=0, microsecond=0) if contract.key else None
    return TouchedDays(days, since.date(), until, hour)
