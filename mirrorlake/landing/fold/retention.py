"""The retention window of a snapshot: the day that it is counted from, and its first day.

Counted from the snapshots, never from today: a mirror whose source stopped loses nothing.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from mirrorlake.landing.fold.shape import SnapshotTable, before_sql
from mirrorlake.landing.fold.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _day_of_number(number: int) -> date | None:
    """The day that a snapshot's number begins with, if it is YYYYMMDD or YYYYMMDDhhmmss.

    >>> _day_of_number(20260102030405), _day_of_number(17)
    (datetime.date(2026, 1, 2), None)
    """
    text = str(number)
    if len(text) not in (8, 12, 14):
        return None
    try:
        return datetime.strptime(text[:8], "%Y%m%d").date()  # noqa: DTZ007
    except ValueError:
        return None


def window_day(
    table: SnapshotTable, number: int, frame: DataFrame, as_of: date | None, state: State
) -> date | None:
    """The day that a snapshot's window is counted from: never before an older one's, nor after a
    newer one's; None without a window."""
    if table.retention_days is None:
        return None
    known = state.find(number)
    if known is not None:
        return known.day
    day = as_of or _day_of_number(number)
    if day is None:
        day = frame.selectExpr(f"max({table.day_sql()})").collect()[0][0]
    older = [t.day for t in state.taken if t.id < number and t.day is not None]
    newer = [t.day for t in state.taken if t.id > number and t.day is not None]
    days = [*older, *([day] if day else [])]
    found = max(days, default=None)
    return min([*newer, found]) if found is not None else None


def floor_of(table: SnapshotTable, day: date | None) -> date | None:
    """The first day of the window that is counted from ``day``; None without one."""
    if day is None or table.retention_days is None:
        return None
    return day - timedelta(days=table.retention_days)


def inside(table: SnapshotTable, frame: DataFrame, day: date | None) -> DataFrame:
    """The rows of a snapshot that lie in its window; rows without a day stay."""
    floor = floor_of(table, day)
    if floor is None:
        return frame
    return frame.where(f"coalesce(NOT ({before_sql(table, floor)}), TRUE)")


def passes(before: date | None, floor: date | None) -> bool:
    """Whether the window's first day has moved on."""
    return floor is not None and (before is None or floor > before)
