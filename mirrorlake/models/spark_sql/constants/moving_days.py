"""Days that move with a scope: one evaluation that holds for many scopes.

A scope's day is given to an evaluation as a `MovingDay`: it is the scope's own day, and comparing
it, or taking its month, gives the answer for that day. Each such look narrows the *ground*: the
days for which the answer would have been the same. So the result holds for every day of the ground,
moved by as many days: ``day - 6`` of the 7th is the 1st, of the 9th the 3rd.

Where nothing is known of other days, the ground is that one day: slow, and never wrong.
Every method of ``date`` and ``datetime`` either keeps the ground, or is one of these; a test lists
them all.

What belongs here: the values. What doesn't: what is evaluated with them
(`mirrorlake.models.spark_sql.constants.evaluate`), and what becomes of it
(`mirrorlake.models.cache.scope_rules`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final, Self, SupportsIndex, TypeVar

DAY: Final = timedelta(days=1)
_TICK: Final = timedelta.resolution
_DAY_TICKS: Final = DAY // _TICK
_LAST: Final = date.max.toordinal()
_FIRST_MIDNIGHT: Final = datetime(1, 1, 1, tzinfo=UTC)
_Order = Callable[[Any, Any], bool]
DayOrTime = TypeVar("DayOrTime", date, datetime)


class Ground:
    """The days, around the one that was looked at, for which an evaluation holds.

    Attributes:
        at: the day that was looked at, counted as ``date.toordinal`` does.
        first, last: of the days for which it holds, both included.
    """

    def __init__(self, day: date) -> None:
        self.at = day.toordinal()
        self.first, self.last = 1, _LAST

    def narrow(self, first: int, last: int) -> None:
        """It holds from ``first`` to ``last`` at most."""
        self.first, self.last = max(self.first, first), min(self.last, last)

    def only_here(self) -> None:
        self.first = self.last = self.at

    def below(self, limit: int) -> bool:
        """Whether the day is before a limit, and on its side of it from now on."""
        below = self.at < limit
        self.narrow(*((self.first, limit - 1) if below else (limit, self.last)))
        return below

    def compares(self, order: _Order, ticks: int) -> bool:
        """Whether the day's midnight stands so to a moment, in ticks since the first midnight;
        here, and for all days that are left of the ground."""
        # Day n's midnight is at (n - 1) · _DAY_TICKS.
        first_not_before = -(-ticks // _DAY_TICKS) + 1
        first_after = ticks // _DAY_TICKS + 1 + 1
        if order is operator.lt:
            return self.below(first_not_before)
        if order is operator.ge:
            return not self.below(first_not_before)
        if order is operator.le:
            return self.below(first_after)
        if order is operator.gt:
            return not self.below(first_after)
        same = not self.below(first_not_before) and self.below(first_after)
        return same if order is operator.eq else not same

    def within_month(self, day: date, by: int) -> None:
        """It holds where the day, so many days later, is in the month that ``day`` is in."""
        begun = day.replace(day=1).toordinal()
        # Of December 9999 there is no month after: 31 days are no fewer than it has.
        ended = (date.fromordinal(min(begun + 31, _LAST))).replace(day=1).toordinal() - 1
        self.narrow(begun - by, ended - by if ended >= begun else _LAST)

    def within_year(self, year: int, by: int) -> None:
        """It holds where the day, so many days later, is in a year."""
        self.narrow(date(year, 1, 1).toordinal() - by, date(year, 12, 31).toordinal() - by)


def _ordered(order: _Order) -> Callable[[Any, object], bool]:
    def compare(self: _Moving, other: object) -> bool:
        return self.compares(order, other)

    return compare


def _looked_at(name: str) -> Callable[..., Any]:
    """A method that tells the day itself."""

    def look(self: _Moving, *arguments: Any, **named: Any) -> Any:
        self.ground.only_here()
        return getattr(self.seen, name)(*arguments, **named)

    return look


class _Moving:
    """What a day and a moment that move have in common: what tells the day itself, and how they
    are compared."""

    ground: Ground
    seen: Any

    def compares(self, order: _Order, other: object) -> bool:
        """How it stands to another value of its kind; NotImplemented of any other."""
        raise NotImplementedError

    __lt__ = _ordered(operator.lt)
    __le__ = _ordered(operator.le)
    __gt__ = _ordered(operator.gt)
    __ge__ = _ordered(operator.ge)
    __eq__ = _ordered(operator.eq)
    __ne__ = _ordered(operator.ne)

    @property
    def day(self) -> int:
        self.ground.only_here()
        return self.seen.day

    def __rsub__(self, other: Any) -> Any:
        self.ground.only_here()
        return other - self.seen

    def __repr__(self) -> str:
        """For messages alone: nobody decides by it."""
        return repr(self.seen)

    __hash__ = _looked_at("__hash__")
    __str__ = _looked_at("__str__")
    __format__ = _looked_at("__format__")
    __reduce__ = _looked_at("__reduce__")
    ctime = _looked_at("ctime")
    isocalendar = _looked_at("isocalendar")
    isoformat = _looked_at("isoformat")
    isoweekday = _looked_at("isoweekday")
    strftime = _looked_at("strftime")
    timetuple = _looked_at("timetuple")
    toordinal = _looked_at("toordinal")
    weekday = _looked_at("weekday")

    def __reduce_ex__(self, _: SupportsIndex, /) -> Any:
        return self.__reduce__()


class MovingDay(_Moving, date):
    """A day so many days after the ground's.

    Attributes:
        by: how many.
        seen: the day itself, for the scope that is looked at.
    """

    by: int
    seen: date

    def __new__(cls, ground: Ground, by: int) -> Self:
        """
        Raises:
            OverflowError: before the year 1, or past 9999.
        """
        seen = date.fromordinal(_within(ground, by))
        self = super().__new__(cls, seen.year, seen.month, seen.day)
        self.ground, self.by, self.seen = ground, by, seen
        return self

    @property
    def midnight(self) -> MovingMoment:
        """Where the day begins, in UTC."""
        return MovingMoment(self.ground, self.by * DAY)

    @property
    def year(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.ground.within_year(self.seen.year, self.by)
        return self.seen.year

    @property
    def month(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.ground.within_month(self.seen, self.by)
        return self.seen.month

    def replace(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, year: int | None = None, month: int | None = None, day: int | None = None
    ) -> date:
        _look_at_kept(self.ground, self.seen, self.by, (year, month, day))
        return _replaced(self.seen, {"year": year, "month": month, "day": day})

    def compares(self, order: _Order, other: object) -> bool:
        if isinstance(other, MovingDay) and other.ground is self.ground:
            return order(self.by, other.by)
        if not isinstance(other, date) or isinstance(other, datetime):
            return NotImplemented
        if isinstance(other, MovingDay):
            self.ground.only_here()
            other.ground.only_here()
            other = other.seen
        return self.ground.compares(order, (other.toordinal() - 1 - self.by) * _DAY_TICKS)

    def __add__(self, other: timedelta, /) -> Self:
        if not isinstance(other, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        # Of a day whole days are counted, as `date` does.
        return type(self)(self.ground, self.by + other.days)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, timedelta):
            return self + timedelta(-other.days)
        if isinstance(other, MovingDay) and other.ground is self.ground:
            return timedelta(days=self.by - other.by)
        self.ground.only_here()
        return self.seen - other


class MovingMoment(_Moving, datetime):
    """A moment so long after the midnight (UTC) of the ground's day.

    Attributes:
        by: how long. Its time of day is the same for all days of the ground.
        seen: the moment itself, for the scope that is looked at.
    """

    by: timedelta
    seen: datetime

    def __new__(cls, ground: Ground, by: timedelta) -> Self:
        """
        Raises:
            OverflowError: before the year 1, or past 9999.
        """
        number = _within(ground, by // DAY)
        seen = _FIRST_MIDNIGHT + timedelta(days=number - 1) + by % DAY
        parts = (seen.year, seen.month, seen.day, seen.hour, seen.minute, seen.second)
        self = super().__new__(cls, *parts, seen.microsecond, UTC)
        self.ground, self.by, self.seen = ground, by, seen
        return self

    @property
    def year(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.ground.within_year(self.seen.year, self.by // DAY)
        return self.seen.year

    @property
    def month(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.ground.within_month(self.seen.date(), self.by // DAY)
        return self.seen.month

    def date(self) -> MovingDay:
        return MovingDay(self.ground, self.by // DAY)

    def astimezone(self, tz: tzinfo | None = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
        if tz is UTC:
            return self
        self.ground.only_here()
        return self.seen.astimezone(tz)

    def replace(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        year: int | None = None,
        month: int | None = None,
        day: int | None = None,
        **clock: Any,
    ) -> datetime:
        if (year, month, day) == (None, None, None) and not clock.keys() & {"tzinfo", "fold"}:
            # Only its time of day is another.
            changed = self.seen.replace(**clock)
            return self + (changed - self.seen)
        _look_at_kept(self.ground, self.seen.date(), self.by // DAY, (year, month, day))
        return _replaced(self.seen, {"year": year, "month": month, "day": day, **clock})

    def compares(self, order: _Order, other: object) -> bool:
        if isinstance(other, MovingMoment) and other.ground is self.ground:
            return order(self.by, other.by)
        if not isinstance(other, datetime) or other.tzinfo is None:
            return NotImplemented
        if isinstance(other, MovingMoment):
            self.ground.only_here()
            other.ground.only_here()
            other = other.seen
        ticks = (other - _FIRST_MIDNIGHT - self.by) // _TICK
        return self.ground.compares(order, ticks)

    def __add__(self, other: timedelta, /) -> Self:
        if not isinstance(other, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return type(self)(self.ground, self.by + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, timedelta):
            return MovingMoment(self.ground, self.by - other)
        if isinstance(other, MovingMoment) and other.ground is self.ground:
            return self.by - other.by
        self.ground.only_here()
        return self.seen - other

    timestamp = _looked_at("timestamp")
    utctimetuple = _looked_at("utctimetuple")


def _within(ground: Ground, by: int) -> int:
    """The ground's day so many days later, which is one that Python has.

    Raises:
        OverflowError: it is none.
    """
    number = ground.at + by
    if not 1 <= number <= _LAST:
        ground.only_here()
        raise OverflowError("date value out of range")
    ground.narrow(1 - by, _LAST - by)
    return number


def _look_at_kept(ground: Ground, day: date, by: int, parts: tuple[int | None, ...]) -> None:
    """Year, month and day that are not replaced are looked at."""
    if parts[2] is None:
        ground.only_here()
    elif parts[1] is None:
        ground.within_month(day, by)
    elif parts[0] is None:
        ground.within_year(day.year, by)


def _replaced(value: DayOrTime, parts: dict[str, Any]) -> DayOrTime:
    return value.replace(**{name: part for name, part in parts.items() if part is not None})


# --- what an evaluation does with days that may move ----------------------------------------------


def midnight(day: date) -> datetime:
    """Where a day begins, in UTC."""
    if isinstance(day, MovingDay):
        return day.midnight
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def seen(value: DayOrTime) -> DayOrTime:
    """A value itself, without a look at it. For what holds of a whole period: say so by
    `hold_within`."""
    return value.seen if isinstance(value, MovingDay | MovingMoment) else value


def hold_within(value: date, first: date, last: date) -> None:
    """What is made of a value is the same from the first of two days to the last."""
    if isinstance(value, MovingDay | MovingMoment):
        by = value.by if isinstance(value, MovingDay) else value.by // DAY
        value.ground.narrow(first.toordinal() - by, last.toordinal() - by)


def kind_of_value(value: object) -> type:
    """The class of a value, of one that moves that of the value itself."""
    return type(value.seen) if isinstance(value, MovingDay | MovingMoment) else type(value)
