"""Windows: which range of a table's cursor is read next, and its bounds as SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from mirrorlake.ledger import Load, Window
from mirrorlake.mysql.connect import quote
from mirrorlake.mysql.introspect import Column
from mirrorlake.plan import INTEGERS, TablePlan, by_time

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock without a zone, like DATETIME


def plan_window(plan: TablePlan, last: Load | None, clock: datetime) -> Window:
    """The window that comes next: from the last success's end, less the overlap; open above.

    ``clock`` is the source's, in UTC. It decides the day of rows that have none of their own, and
    nothing else: a window has no upper bound, so a row dated in the future is read, not left out.
    """
    day = clock.date()
    if plan.contract.mode == "full" or plan.cursor is None:
        return Window("full", None, None, day)
    if last is None or last.window.hi is None:
        start = plan.contract.start if by_time(plan) else None
        return Window("initial", _start_text(start), None, day)
    if not by_time(plan):
        return Window("live", str(int(last.window.hi) - plan.contract.overlap_keys), None, day)
    hi = datetime.fromisoformat(last.window.hi).replace(tzinfo=UTC)
    back = hi - plan.contract.overlap
    if plan.contract.start is not None:
        back = max(back, _first_moment(plan, plan.contract.start))
    return Window("live", back.replace(tzinfo=None).isoformat(sep=" "), None, day)


def _first_moment(plan: TablePlan, start: date) -> datetime:
    """When (UTC) the contract's first day begins in the calendar of the cursor."""
    first = datetime.combine(start, time(), UTC)
    if plan.cursor is None or plan.cursor.data_type == "timestamp":
        return first
    return first - _lowest_offset(plan.source.zone, first.replace(tzinfo=None))


def _start_text(start: date | None) -> str | None:
    if start is None:
        return None
    return datetime.combine(start, time()).isoformat(sep=" ")


def lower_bound(plan: TablePlan, window: Window) -> str:
    """The window's lower bound as a condition in SQL, '' without one.

    The bound is UTC; a DATETIME cursor is compared in the zone in which the application writes it.
    A zone that turns its clocks back writes an hour twice: the lower of its offsets is taken, which
    reads an hour more and loses nothing.
    """
    cursor = plan.cursor
    if window.lo is None or cursor is None:
        return ""
    name = quote(cursor.name)
    if cursor.data_type in INTEGERS:
        return f"{name} >= {int(window.lo)}"
    if not plan.key:
        return _day_bound(cursor, replaced_from(plan, window))
    at = datetime.fromisoformat(window.lo)
    if window.kind == "initial":
        # The contract's first day, in the calendar in which the raw day of a row is told.
        return _day_bound(cursor, at.date())
    # A row written just after a moment carries it cut to the column's digits: so is the bound.
    step = 10 ** (6 - (cursor.fraction or 0))
    at -= timedelta(microseconds=at.microsecond % step)
    return time_bound(cursor, at, plan.source.zone)


def replaced_from(plan: TablePlan, window: Window) -> date:
    """The first raw day that a window of a table without a key reads again, and replaces, whole:
    there a repeated row can't be told from a second one."""
    at = datetime.fromisoformat(str(window.lo))
    if plan.cursor is None or plan.cursor.data_type == "timestamp":
        return at.date()
    return (at + _lowest_offset(plan.source.zone, at)).date()


def _day_bound(cursor: Column, day: date) -> str:
    """``cursor >= day``, in the calendar in which the raw day of a row is told."""
    if cursor.data_type == "timestamp":
        return time_bound(cursor, datetime.combine(day, time()), ZoneInfo("UTC"))
    return f"{quote(cursor.name)} >= '{day.isoformat()}'"


def time_bound(cursor: Column, at: datetime, zone: ZoneInfo, operator: str = ">=") -> str:
    """``cursor >= at`` (or ``<``) as SQL that any session evaluates alike; ``at`` is UTC without a
    zone."""
    name = quote(cursor.name)
    if cursor.data_type == "timestamp":
        seconds = (at - _EPOCH) / timedelta(microseconds=1) / 1e6
        exact = f"UNIX_TIMESTAMP({name}) {operator} {_decimal_seconds(at)}"
        # FROM_UNIXTIME is ambiguous where the server's zone turns back: the index range is wider
        # by a
        # day, and the instant itself decides.
        edge = int(seconds) + (-86_400 if operator == ">=" else 86_400)
        return f"({name} {operator} FROM_UNIXTIME({max(edge, 1)}) AND {exact})"
    wall = at + _lowest_offset(zone, at)
    if cursor.data_type == "date":
        return f"{name} {operator} '{wall.date().isoformat()}'"
    return f"{name} {operator} '{wall.isoformat(sep=' ', timespec='microseconds')}'"


def _decimal_seconds(at: datetime) -> str:
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"


def _lowest_offset(zone: ZoneInfo, at: datetime) -> timedelta:
    """The smallest UTC offset of the zone within a year around ``at``."""
    around = (at + timedelta(days=d) for d in range(-366, 367, 7))
    return min(zone.utcoffset(t.replace(tzinfo=zone)) or timedelta() for t in around)
