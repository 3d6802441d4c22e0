"""Days in UTC: which of them can be loaded, and how few loads take them."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from mirrorlake.config import TableContract


def today(now: datetime | None = None) -> date:
    """The open day (UTC)."""
    return (now or datetime.now(UTC)).astimezone(UTC).date()


def refused_days(
    contract: TableContract, days: Iterable[date], loaded: Iterable[date], open_day: date
) -> dict[date, str]:
    """The days that can't be loaded whatever MySQL holds, each with the reason.

    ``loaded`` are the days that raw holds: a copy that was made on a past day is still there.
    """
    kept = set(loaded)
    refused: dict[date, str] = {}
    for day in days:
        if contract.start is not None and day < contract.start:
            refused[day] = f"it is before the table's start ({contract.start}) and is not loaded"
        elif contract.copies and day < open_day and day not in kept:
            refused[day] = (
                "mode full copies the table as it is now: a past day's copy can't be made"
            )
    return refused


def spans(days: Iterable[date]) -> list[tuple[date, date]]:
    """The days as ranges without gaps, both ends included.

    >>> [str(last - first) for first, last in spans([date(2024, 2, 29), date(2024, 3, 1)])]
    ['1 day, 0:00:00']
    """
    found: list[tuple[date, date]] = []
    for day in sorted(set(days)):
        if found and day - found[-1][1] == timedelta(days=1):
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
    return found
