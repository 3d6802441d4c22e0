"""What is found with a day that moves holds for all days of its ground."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.models.spark_sql.constants.functions import add_months, truncated
from mirrorlake.models.spark_sql.constants.moving_days import (
    Ground,
    MovingDay,
    MovingMoment,
    kind_of_value,
    midnight,
)

# The same for all days, or made by Python of operations that are ours.
OF_NO_DAY = {
    *("__class__", "__delattr__", "__dict__", "__dir__", "__doc__", "__getattribute__", "__getstate__"),
    *("__init__", "__init_subclass__", "__setattr__", "__sizeof__", "__subclasshook__", "__new__"),
    *("fromisocalendar", "fromisoformat", "fromordinal", "fromtimestamp", "max", "min", "resolution"),
    *("today", "now", "utcnow", "utcfromtimestamp", "combine", "strptime"),
}  # fmt: skip
# Of a moment: its time of day and its zone, which are the same for all days.
OF_THE_CLOCK = {
    *("hour", "minute", "second", "microsecond", "fold", "tzinfo", "time", "timetz"),
    *("utcoffset", "tzname", "dst"),
}


@pytest.mark.parametrize(
    ("plain", "moving", "same"),
    [(date, MovingDay, OF_NO_DAY), (datetime, MovingMoment, OF_NO_DAY | OF_THE_CLOCK)],
)
def test_every_method_of_a_day_is_one_of_ours(
    plain: type[date], moving: type[date], same: set[str]
) -> None:
    ours = {name for cls in moving.__mro__[: moving.__mro__.index(date)] for name in vars(cls)}
    assert {name for name in dir(plain) if name not in same} <= ours


DAYS = st.dates(date(2023, 12, 20), date(2024, 3, 10)) | st.sampled_from(
    [date(1, 1, 1), date(1, 1, 9), date(9999, 12, 31), date(9999, 12, 22), date(2024, 2, 29)]
)
CLOCKS = st.sampled_from([timedelta(), timedelta(hours=1), timedelta(hours=23, microseconds=7)])
NUMBERS = st.integers(-40, 40)
Step = tuple[str, Callable[[Any], Any]]


def steps(other: date, number: int) -> list[Step]:
    """What can be done with a day or a moment; what it gives may be another one."""
    days = timedelta(days=number)
    at = midnight(other) + timedelta(hours=number % 24)
    orders = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
    return [
        ("add", lambda v: v + days),
        ("add half a day", lambda v: v + days / 2),
        ("to the left", lambda v: days + v),
        ("take off", lambda v: v - days),
        ("months", lambda v: add_months(v, number)),
        ("distance", lambda v: v - (at if isinstance(v, datetime) else other)),
        ("distance to", lambda v: (at if isinstance(v, datetime) else other) - v),
        *((one.__name__, _compared(one, other, at)) for one in orders),
        *((f"{one.__name__} from the left", _compared_back(one, other, at)) for one in orders),
        *((unit, _truncated(unit)) for unit in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")),
        ("year", lambda v: v.year),
        ("month", lambda v: v.month),
        ("day", lambda v: v.day),
        ("weekday", lambda v: v.weekday()),
        ("isoformat", lambda v: v.isoformat()),
        ("text", str),
        ("format", lambda v: f"{v:%d.%m.%Y}"),
        ("hash", hash),
        ("calendar", lambda v: v.isocalendar()),
        ("number", lambda v: v.toordinal()),
        ("replace the day", lambda v: v.replace(day=1)),
        ("replace month and day", lambda v: v.replace(month=3, day=1)),
        ("replace the year", lambda v: v.replace(year=2024)),
        ("copy", copy.deepcopy),
        ("pickle", lambda v: pickle.loads(pickle.dumps(v))),  # noqa: S301 - our own
        ("midnight", midnight),
        ("date", lambda v: v.date() if isinstance(v, datetime) else v),
        ("zone", lambda v: v.astimezone(UTC) if isinstance(v, datetime) else v),
        ("east", lambda v: v.astimezone(timezone(timedelta(hours=9))) if isinstance(v, datetime) else v),
        ("clock", lambda v: v.replace(hour=3, minute=1) if isinstance(v, datetime) else v),
        ("largest", lambda v: max(v, at if isinstance(v, datetime) else other)),
        ("kind", lambda v: kind_of_value(v).__name__),
        ("none", lambda v: v == None),  # noqa: E711 - asked of the value
    ]  # fmt: skip


def _compared(order: Callable[[Any, Any], Any], other: date, at: datetime) -> Callable[[Any], Any]:
    return lambda v: order(v, at if isinstance(v, datetime) else other)


def _compared_back(
    order: Callable[[Any, Any], Any], other: date, at: datetime
) -> Callable[[Any], Any]:
    return lambda v: order(at if isinstance(v, datetime) else other, v)


def _truncated(unit: str) -> Callable[[Any], Any]:
    return lambda v: truncated(unit, v)


def result(value: Any, chosen: list[Callable[[Any], Any]]) -> Any:
    """What becomes of a value; an exception by its class."""
    for step in chosen:
        if not isinstance(value, date):
            break
        try:
            value = step(value)
        except (OverflowError, ValueError) as error:
            return type(error)
    return value


def settled(value: Any, by: int) -> Any:
    """A result as it is for a day so many days later."""
    if isinstance(value, MovingDay):
        return value.seen + timedelta(days=by)
    return value.seen + timedelta(days=by) if isinstance(value, MovingMoment) else value


def assert_it_holds_on_the_ground(
    day: date, clock: timedelta | None, chosen: list[Callable[[Any], Any]]
) -> None:
    ground = Ground(day)
    value: date = MovingDay(ground, 0) if clock is None else MovingMoment(ground, clock)
    found = result(value, chosen)
    assert ground.first <= ground.at <= ground.last
    near = range(max(ground.first, ground.at - 45), min(ground.last, ground.at + 45) + 1)
    for number in {*near, ground.first, ground.last}:
        other = date.fromordinal(number)
        plain = other if clock is None else midnight(other) + clock
        expected, seen = result(plain, chosen), settled(found, number - ground.at)
        assert (expected, type(expected)) == (seen, type(seen)), other


@pytest.mark.parametrize("clock", [None, timedelta(), timedelta(hours=23, microseconds=7)], ids=str)
@pytest.mark.parametrize("step", [name for name, _ in steps(date(2024, 3, 1), 5)])
def test_each_step_holds_for_all_days_of_its_ground(step: str, clock: timedelta | None) -> None:
    for day in (date(2024, 2, 29), date(2024, 1, 31), date(2023, 12, 25), date(1, 1, 1)):
        for number in (0, 1, -1, 5, 31):
            chosen = dict(steps(date(2024, 2, 29), number))[step]
            assert_it_holds_on_the_ground(day, clock, [chosen])


@st.composite
def several_steps(draw: st.DrawFn) -> list[Callable[[Any], Any]]:
    found: list[Callable[[Any], Any]] = []
    for _ in range(draw(st.integers(1, 4))):
        found.append(draw(st.sampled_from(steps(draw(DAYS), draw(NUMBERS))))[1])
    return found


@settings(max_examples=150)
@given(day=DAYS, clock=st.none() | CLOCKS, chosen=several_steps())
def test_a_result_holds_for_all_days_of_the_ground(
    day: date, clock: timedelta | None, chosen: list[Callable[[Any], Any]]
) -> None:
    assert_it_holds_on_the_ground(day, clock, chosen)


@pytest.mark.full
@settings(max_examples=20_000)
@given(day=DAYS, clock=st.none() | CLOCKS, chosen=several_steps())
def test_many_results_hold_for_all_days_of_the_ground(
    day: date, clock: timedelta | None, chosen: list[Callable[[Any], Any]]
) -> None:
    assert_it_holds_on_the_ground(day, clock, chosen)


def test_days_of_two_grounds_hold_for_one_day() -> None:
    one, two = Ground(date(2024, 3, 1)), Ground(date(2024, 3, 2))
    assert MovingDay(one, 1) == MovingDay(two, 0)
    assert (one.first, one.last) == (one.at, one.at)
    assert (two.first, two.last) == (two.at, two.at)
