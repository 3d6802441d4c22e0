"""The values that a binding of a scope has: series of days and moments, ranges of numbers, or one.

What belongs here: one expression, and the values that it gives. What doesn't: how bindings make
scopes (`mirrorlake.models.scope_values.comprehension`).

Source: ISO 8601-1, 5.5.2 "Duration" (periods); ISO/IEC 9075-2 has no such thing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

from sqlglot import exp

from mirrorlake.config.fields import zone_of
from mirrorlake.models.scope_values.on_demand import DayRange
from mirrorlake.models.spark_sql.constants.evaluate import evaluate
from mirrorlake.models.spark_sql.constants.functions import add_months
from mirrorlake.models.spark_sql.constants.values import Constant, Unknown, cast_to
from mirrorlake.models.spark_sql.parser import parse_expression

MOST_VALUES = 1_000_000
"""More partitions than that are a mistake: a day a partition lasts for 2,700 years."""
_PERIOD = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?)?"
)
_NOW = "current_timestamp"
_TODAY = "current_date"


class NoValues(Exception):
    """An expression gives no values; the words say why."""


@dataclass(frozen=True)
class BoundExpression:
    """An expression under ``for``, or the one under ``if``.

    Attributes:
        names: what it names, in lower case.
        clock: the finest that it asks of the clock: ``moment``, ``day`` or nothing.
    """

    node: exp.Expr
    names: frozenset[str]
    clock: str

    def evaluated(self, names: Mapping[str, Constant], now: datetime) -> Constant:
        """Its value.

        Raises:
            Unknown: it has no sure one.
        """
        return evaluate(self.node, {**names, **_clock(now)})

    def values(self, names: Mapping[str, Constant], now: datetime) -> Sequence[Constant]:
        """Its value, or those of the series or range that it is.

        Raises:
            NoValues: it can't be evaluated, or is wrong.
        """
        node = self.node
        name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
        try:
            if name in ("TIMESERIES", "RANGE"):
                clock = {**names, **_clock(now)}
                arguments = [evaluate(one, clock) for one in node.expressions]
                return _series(arguments) if name == "TIMESERIES" else _range(arguments)
            return (self.evaluated(names, now),)
        except Unknown as error:
            raise NoValues(f"can't be evaluated: {error}") from None


def _clock(now: datetime) -> dict[str, Constant]:
    return {_NOW: now.astimezone(UTC), _TODAY: now.astimezone(UTC).date()}


@lru_cache(maxsize=10_000)
def bound_expression(text: str) -> BoundExpression:
    """The expression that a text is.

    Raises:
        ModelError: it can't be read.
    """
    node = parse_expression(text)
    asked = {type(one) for one in node.find_all(exp.CurrentDate, exp.CurrentTimestamp)}
    named = frozenset(one.name.lower() for one in node.find_all(exp.Column))
    clock = "moment" if exp.CurrentTimestamp in asked else "day" if asked else ""
    return BoundExpression(node.transform(_with_clock), named, clock)


def _with_clock(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.CurrentDate):
        return exp.column(_TODAY)
    return exp.column(_NOW) if isinstance(node, exp.CurrentTimestamp) else node


def independent_values(text: str, now: datetime) -> Sequence[Constant]:
    """The values of an expression that names nothing; those of one text are found once.

    Raises:
        ModelError: it can't be read.
        NoValues: it can't be evaluated, or is wrong.
    """
    clock = bound_expression(text).clock
    if clock != "moment":
        now = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return _independent(text, now if clock else datetime.min.replace(tzinfo=UTC))


@lru_cache(maxsize=1_000)
def _independent(text: str, now: datetime) -> Sequence[Constant]:
    return bound_expression(text).values({}, now)


def _range(arguments: Sequence[Constant]) -> range:
    numbers = [n for n in arguments if isinstance(n, int) and not isinstance(n, bool)]
    if len(numbers) != len(arguments) or len(numbers) not in (2, 3):
        raise NoValues("RANGE takes a first number, one past the last, and perhaps a step")
    if len(numbers) == 3 and numbers[2] <= 0:
        raise NoValues("the step of a RANGE is a number above 0")
    if numbers[1] - numbers[0] > sys.maxsize:
        raise NoValues("a RANGE of more numbers than can be counted")
    return range(*numbers)


def _series(arguments: Sequence[Constant]) -> Sequence[Constant]:
    """``TIMESERIES(from, to, period[, zone])``: ``to`` is not in it."""
    if len(arguments) not in (3, 4) or not isinstance(arguments[2], str):
        raise NoValues("TIMESERIES takes a start, an end, and a period like 'P1D'")
    zone: tzinfo = UTC
    if len(arguments) == 4:
        try:
            zone = zone_of(str(arguments[3]))
        except ValueError as error:
            raise NoValues(str(error)) from None
    months, days, clock = period_of(arguments[2])
    start, end = (_moment(one, zone) for one in arguments[:2])
    by_day = _is_day(arguments[0]) and not clock
    if by_day and zone is UTC and not months and start > datetime.min:  # noqa: DTZ901 - a wall clock
        # The day of the end is one of them if it is later than its own midnight.
        ends = end.date().toordinal() + (end.time() != datetime.min.time())
        return DayRange(range(start.date().toordinal(), ends, days.days))
    return tuple(_stepped(start, end, zone, months, days, clock, by_day=by_day))


def _stepped(
    start: datetime,
    end: datetime,
    zone: tzinfo,
    months: int,
    days: timedelta,
    clock: timedelta,
    *,
    by_day: bool,
) -> Iterator[Constant]:
    try:
        until = end.replace(tzinfo=zone).astimezone(UTC)
        last = start.replace(tzinfo=zone).astimezone(UTC) - timedelta.resolution
    except OverflowError:
        raise NoValues("a time before the year 1, or past 9999, in UTC") from None
    for number in range(MOST_VALUES + 1):
        # From the start each time: a month after the 31st is its last day, and two are the 31st
        # again. Months and days are the calendar's, hours and minutes the clock's: an hour that
        # comes twice in autumn is two.
        try:
            wall = add_months(start, number * months) + number * days
            at = wall.replace(tzinfo=zone).astimezone(UTC) + number * clock
        except (OverflowError, ValueError):
            return  # past the year 9999, in which the end is
        if at >= until:
            return
        if at <= last:
            continue  # a day that a zone left out, as Samoa did on 30 December 2011
        last = at
        yield wall.date() if by_day else at


def period_of(text: str) -> tuple[int, timedelta, timedelta]:
    """Months, days, and time by the clock, of a period of ISO 8601.

    Raises:
        NoValues: it is none, or of no length.
    """
    found = _PERIOD.fullmatch(text)
    years, months, weeks, days, hours, minutes = (
        (int(part or 0) for part in found.groups()) if found else (0,) * 6
    )
    try:
        clock = timedelta(hours=hours, minutes=minutes)
        length = timedelta(weeks=weeks, days=days)
    except OverflowError:
        raise NoValues(f"{text!r} is longer than time is") from None
    if not found or not (years or months or weeks or days or clock):
        raise NoValues(
            f"{text!r} is no period: write it like P1D, P1M or PT1H, of whole minutes and of some "
            "length"
        )
    return years * 12 + months, length, clock


def _moment(value: Constant, zone: tzinfo) -> datetime:
    """A bound by the wall clock of the series' zone."""
    if isinstance(value, str):
        try:
            cast_to(value, "timestamp")  # what Python takes besides, Spark does not
            value = datetime.fromisoformat(value)
        except (Unknown, ValueError):
            raise NoValues(f"{value!r} is no date or time") from None
    if isinstance(value, datetime):
        return value.astimezone(zone).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a wall clock
    raise NoValues(f"{value!r} is no date or time")


def _is_day(value: Constant) -> bool:
    """Whether a series begins with a day, and not with a moment."""
    if isinstance(value, str):
        return re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) is not None
    return isinstance(value, date) and not isinstance(value, datetime)
