"""Spark's functions of days and texts over constants; each raises where no result is sure."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from mirrorlake.models.spark_sql.constants.moving_days import hold_within, seen
from mirrorlake.models.spark_sql.constants.values import (
    Constant,
    int_of,
    text_in,
    to_date,
    to_string,
    to_timestamp,
)

DayOrMoment = TypeVar("DayOrMoment", date, datetime)


def add_months(value: DayOrMoment, number: int) -> DayOrMoment:
    """A date, or a moment, so many calendar months later; the month's last day where it has no such
    day.

    >>> add_months(date(2024, 1, 31), 1)
    datetime.date(2024, 2, 29)
    """
    year, month = divmod(value.year * 12 + value.month - 1 + number, 12)
    begins = value.replace(day=1)
    wanted = begins.replace(year=year, month=month + 1)
    found = value + (wanted - begins)
    last = wanted.replace(day=_days_of(year, month + 1))
    return found if found <= last else last


def _days(sign: int) -> Callable[..., Constant]:
    return lambda day, number: to_date(day) + timedelta(days=sign * int_of(number))


def truncated(unit: str, value: date) -> date:
    """The first day of the unit that a date is in.

    Raises:
        KeyError: there is no such unit.
    """
    unit = _UNITS[unit.upper()]
    if unit == "DAY":
        return value.date() if isinstance(value, datetime) else value
    day = seen(value)
    day = date(day.year, day.month, day.day)
    if unit == "WEEK":
        first = day - timedelta(days=day.weekday())
        hold_within(value, first, first + min(timedelta(days=6), date.max - first))
        return first
    months = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
    first = day.replace(month=day.month - (day.month - 1) % months, day=1)
    last = first.month + months - 1
    hold_within(value, first, first.replace(month=last, day=_days_of(first.year, last)))
    return first


def _days_of(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(("MONTH", "MM", "MON"), "MONTH"),
    "QUARTER": "QUARTER",
    "WEEK": "WEEK",
    **dict.fromkeys(("DAY", "DD"), "DAY"),
}


def _date_trunc(unit: Constant, value: Constant) -> Constant:
    moment = to_timestamp(value)
    if text_in(unit).upper() == "HOUR":
        return moment.replace(minute=0, second=0, microsecond=0)
    return to_timestamp(truncated(text_in(unit), moment.astimezone(UTC)))


def _trunc(value: Constant, unit: Constant) -> Constant:
    text = text_in(unit)
    if _UNITS[text.upper()] == "DAY":
        raise ValueError(unit)  # NULL to Spark
    return truncated(text, to_date(value))


def _ascii(value: Constant) -> str:
    """A text whose capitals every version of Unicode agrees on."""
    text = text_in(value)
    if not text.isascii():
        raise ValueError(value)
    return text


def _last_day(value: Constant) -> Constant:
    day = to_date(value)
    return day.replace(day=_days_of(day.year, day.month))


FUNCTIONS: dict[str, Callable[..., Constant]] = {
    "date": to_date,
    "to_date": to_date,
    "year": lambda v: to_date(v).year,
    "month": lambda v: to_date(v).month,
    "quarter": lambda v: (to_date(v).month + 2) // 3,
    **dict.fromkeys(("day", "dayofmonth"), lambda v: to_date(v).day),
    "hour": lambda v: to_timestamp(v).astimezone(UTC).hour,
    "dayofweek": lambda v: to_date(v).isoweekday() % 7 + 1,
    "weekday": lambda v: to_date(v).weekday(),
    "date_add": _days(1),
    "dateadd": _days(1),
    "date_sub": _days(-1),
    "add_months": lambda v, n: add_months(to_date(v), int_of(n)),
    "datediff": lambda a, b: (to_date(a) - to_date(b)).days,
    "date_diff": lambda a, b: (to_date(a) - to_date(b)).days,
    "trunc": _trunc,
    "date_trunc": _date_trunc,
    "last_day": _last_day,
    "upper": lambda v: _ascii(v).upper(),
    "lower": lambda v: _ascii(v).lower(),
    "concat": lambda *parts: "".join(to_string(part) for part in parts),
    "make_date": lambda y, m, d: date(int_of(y), int_of(m), int_of(d)),
}
