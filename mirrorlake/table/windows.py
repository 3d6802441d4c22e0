"""Windows: which range of a table's cursor is read next, and its bounds as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from mirrorlake.errors import ConfigError
from mirrorlake.ledger.records import MOVING, Load, Window
from mirrorlake.sources.mysql.tables import Column
from mirrorlake.sources.mysql.types.registry import INTEGERS
from mirrorlake.table.resolve import ResolvedTable, by_time

_MARGIN = timedelta(minutes=1)
_LAST_SECOND = 2**31 - 1
"""The last that every server gives FROM_UNIXTIME; some have later ones."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock without a zone, like DATETIME
_BEGINNING = datetime(1000, 1, 1)  # noqa: DTZ001 - the first DATETIME that MySQL supports


def plan_window(
    plan: ResolvedTable, last: Load | None, clock: datetime, ahead: timedelta | None = None
) -> Window:
    """The window that comes next: from the last success's end, less the overlap; open above.

    A window has no upper bound, so a row dated in the future is read, not left out. Where the
    source's clock was set back since the last window, this one reaches back as far.

    Args:
        clock: the source's, in UTC; its day is that of rows that have none of their own.
        ahead: how far it is ahead of this machine's; None where that was not looked at.

    Raises:
        ConfigError: nothing reads a table of its mode.
    """
    day = clock.date()
    loaded = last is not None and last.window.hi is not None
    kind = plan.contract.loads.next_load(plan.name, loaded=loaded)
    if last is None or last.window.hi is None or kind in ("full", "log"):
        start = plan.contract.start if kind == "initial" and by_time(plan) else None
        return Window(kind, _start_text(start), None, day)
    if not by_time(plan):
        return Window("live", str(int(last.window.hi) - plan.contract.overlap_keys), None, day)
    hi = datetime.fromisoformat(last.window.hi).replace(tzinfo=UTC)
    at = min(hi - set_back(last, ahead), clock.replace(tzinfo=UTC))
    back = min(at - plan.contract.overlap, _oldest_open(last))
    if plan.contract.start is not None:
        back = max(back, _first_moment(plan, plan.contract.start))
    return Window("live", back.replace(tzinfo=None).isoformat(sep=" "), None, day)


def set_back(last: Load | None, ahead: timedelta | None) -> timedelta:
    """How far the source's clock was set back since a load: rows that were written since are
    stamped that much earlier than the load's end, whatever the clock shows now.

    Args:
        ahead: how far the clock is ahead of this machine's now; the load's receipt says how far it
            was then. What this machine's own clock was set forward counts too: it only reads more.
    """
    if last is None or last.receipt is None or ahead is None:
        return timedelta(0)
    if last.receipt.clock_ahead is not None:
        before = timedelta(seconds=last.receipt.clock_ahead)
    else:  # of an earlier release
        moment = datetime.fromisoformat(last.receipt.moment).replace(tzinfo=UTC)
        before = moment - last.started_at
    return max(before - ahead, timedelta(0))


def _oldest_open(last: Load) -> datetime:
    """When (UTC) the oldest transaction began whose rows the last window may not have seen yet.

    The margin: a statement's clock may be read just before its transaction is reported to begin.
    """
    oldest = last.receipt.oldest_open if last.receipt else None
    if oldest is None:
        return datetime.max.replace(tzinfo=UTC)
    return datetime.fromisoformat(oldest).replace(tzinfo=UTC) - _MARGIN


def settled_before(window: Window) -> datetime:
    """Before which moment (UTC, without a zone) no row was still to be committed when the load
    before this window looked: the window's own lower bound; the beginning of time without one."""
    if window.lo is None or window.kind != "live":
        return _BEGINNING
    return datetime.fromisoformat(window.lo)


def _first_moment(plan: ResolvedTable, start: date) -> datetime:
    """When (UTC) the contract's first day begins in the calendar of the cursor."""
    first = datetime.combine(start, time(), UTC)
    if plan.cursor is None or plan.cursor.data_type == "timestamp":
        return first
    return first - _lowest_offset(plan.source.zone, first.replace(tzinfo=None))


def _start_text(start: date | None) -> str | None:
    if start is None:
        return None
    return datetime.combine(start, time()).isoformat(sep=" ")


def plan_reload(
    plan: ResolvedTable, first: date, last: date, clock: datetime, loads: Sequence[Load]
) -> tuple[Window, ...]:
    """The windows that read the raw days ``first`` to ``last`` again, both included.

    One window where a column tells a row's day. Where none does, the day of a row is the day that
    loaded it, and the keys which the ledger's loads (``loads``) gave to a day are read again.

    Raises:
        ConfigError: these days can't be read again, with the reason.
    """
    _check_reload(plan, first, last, clock)
    if plan.day_column is not None:
        end = last + timedelta(days=1)
        return (Window("reload", first.isoformat(), end.isoformat(), clock.date()),)
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    found = [_keys_of(day, loads) for day in days]
    windows = tuple(window for window in found if window is not None)
    if not windows:
        raise ConfigError(
            f"table {plan.name}: no load gave {first} to {last} any key, and no column of it tells "
            "a row's day",
            table=plan.name,
            next_step="Choose days on which it was loaded, or name a time column as `created`",
        )
    return windows


def _check_reload(plan: ResolvedTable, first: date, last: date, clock: datetime) -> None:
    why = step = ""
    start = plan.contract.start
    if plan.contract.copies:
        why = "mode full keeps copies of the whole table: MySQL has no older one"
        step = "Sync it: a new copy is a partition of the day that reads it"
    elif plan.contract.by_log:
        why = "mode binlog has changes by the day of their commit, and the log has them once"
        step = "Check it: `mirrorlake check`, and `mirrorlake repair` reads single rows again"
    elif first > last:
        why, step = "the range ends before it begins", "Give the earlier day first"
    # A zone's calendar may be a day ahead of the source's clock, which is UTC.
    elif last > clock.date() + timedelta(days=1):
        why, step = f"{last} is in the future", f"Choose days up to {clock.date()}"
    elif start is not None and by_time(plan) and first < start:
        why = f"{first} is before the table's start, {start}"
        step = "Choose later days, or move `start` in the contract back"
    elif plan.day_column is not None and not plan.table.led_by(plan.day_column):
        why = f"no index begins with {plan.day_column}: a day would cost a read of the whole table"
        step = f"Add an index on {plan.table.column(plan.day_column).in_mysql} in MySQL"
    if why:
        days = f"{first}" if first == last else f"{first} to {last}"
        raise ConfigError(
            f"table {plan.name}: {days} can't be loaded again: {why}",
            table=plan.name,
            next_step=step,
        )


def _keys_of(day: date, loads: Sequence[Load]) -> Window | None:
    """The keys that moving loads of one day read, as one window; None if there was no load."""
    of_day = [
        load.window
        for load in loads
        if load.state == "success" and load.window.day == day and load.window.kind in MOVING
    ]
    highs = [int(window.hi) for window in of_day if window.hi is not None]
    if not highs:
        return None
    lows = [int(window.lo) for window in of_day if window.lo is not None]
    lo = str(min(lows)) if len(lows) == len(of_day) else None
    return Window("reload", lo, str(max(highs) + 1), day)


def days_of(window: Window) -> tuple[date, date]:
    """The first and last raw day that a reload reads."""
    if window.lo is None or window.hi is None or "-" not in window.hi[1:]:
        return window.day, window.day
    return date.fromisoformat(window.lo), date.fromisoformat(window.hi) - timedelta(days=1)


def condition_of(plan: ResolvedTable, window: Window) -> str:
    """The window as a condition in SQL, '' for the whole table."""
    if window.kind != "reload":
        return lower_bound(plan, window)
    if plan.day_column is None and plan.cursor is not None:
        name = plan.cursor.sql
        lower = f"{name} >= {int(window.lo)} AND " if window.lo is not None else ""
        return f"{lower}{name} < {int(str(window.hi))}"
    column = plan.table.column(str(plan.day_column))
    first, last = days_of(window)
    upper = _day_bound(column, last + timedelta(days=1), "<")
    return f"{_day_bound(column, first)} AND {upper}"


def lower_bound(plan: ResolvedTable, window: Window) -> str:
    """The lower bound of a moving window as a condition in SQL, '' without one.

    The bound is UTC; a DATETIME cursor is compared in the zone in which the application writes it.
    A zone that turns its clocks back writes an hour twice: the lower of its offsets is taken, which
    reads an hour more and loses nothing.
    """
    cursor = plan.cursor
    if window.lo is None or cursor is None:
        return ""
    name = cursor.sql
    if cursor.data_type in INTEGERS:
        return f"{name} >= {int(window.lo)}"
    if not plan.key:
        return _day_bound(cursor, replaced_from(plan, window))
    at = datetime.fromisoformat(window.lo)
    if window.kind == "initial":
        # The contract's first day, in the calendar that gives a row its raw day.
        return _day_bound(cursor, at.date())
    # A row written just after a moment carries it cut to the column's digits: so is the bound.
    step = 10 ** (6 - (cursor.fraction or 0))
    at -= timedelta(microseconds=at.microsecond % step)
    return time_bound(cursor, at, plan.source.zone)


def replaced_from(plan: ResolvedTable, window: Window) -> date:
    """The first raw day that a window of a table without a key reads again, and replaces, whole:
    there a repeated row can't be told from a second one."""
    at = datetime.fromisoformat(str(window.lo))
    if plan.cursor is None or plan.cursor.data_type == "timestamp":
        return at.date()
    return (at + _lowest_offset(plan.source.zone, at)).date()


def _day_bound(column: Column, day: date, operator: str = ">=") -> str:
    """``column >= day`` (or ``<``), in the calendar that gives a row its raw day."""
    if column.data_type == "timestamp":
        return time_bound(column, datetime.combine(day, time()), UTC, operator)
    return f"{column.sql} {operator} '{day.isoformat()}'"


def end_of_day(plan: ResolvedTable, day: date) -> datetime:
    """When (UTC) a raw day ends for the rows of a table."""
    column = plan.table.column(plan.day_column) if plan.day_column else None
    zone = UTC if column is None or column.data_type == "timestamp" else plan.source.zone
    midnight = datetime.combine(day + timedelta(days=1), time(), zone)
    return midnight.astimezone(UTC)


def time_bound(cursor: Column, at: datetime, zone: tzinfo, operator: str = ">=") -> str:
    """``cursor >= at`` (or ``<``) as SQL that any session evaluates alike; ``at`` is UTC without a
    zone."""
    name = cursor.sql
    if cursor.data_type == "timestamp":
        seconds = (at - _EPOCH) / timedelta(microseconds=1) / 1e6
        exact = f"UNIX_TIMESTAMP({name}) {operator} {_decimal_seconds(at)}"
        # FROM_UNIXTIME is ambiguous where the server's zone turns back: the index range is wider
        # by a
        # day, and the instant itself decides.
        edge = int(seconds) + (-86_400 if operator == ">=" else 86_400)
        if edge > _LAST_SECOND and operator == "<":
            return exact  # FROM_UNIXTIME is NULL there, and no row would be below it
        edge = min(max(edge, 1), _LAST_SECOND)
        return f"({name} {operator} FROM_UNIXTIME({edge}) AND {exact})"
    wall = at + _lowest_offset(zone, at)
    if cursor.data_type == "date":
        return f"{name} {operator} '{wall.date().isoformat()}'"
    return f"{name} {operator} '{wall.isoformat(sep=' ', timespec='microseconds')}'"


def _decimal_seconds(at: datetime) -> str:
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"


def _lowest_offset(zone: tzinfo, at: datetime) -> timedelta:
    """The smallest UTC offset of the zone within a year around ``at``."""
    around = (at + timedelta(days=d) for d in range(-366, 367, 7))
    return min(zone.utcoffset(t.replace(tzinfo=zone)) or timedelta() for t in around)
