"""Expressions over constants, evaluated here: what a scope binds, and the bounds of a predicate.

Values are Python's: int, Decimal, str, bool, date, datetime (UTC, aware: Spark's ``timestamp``) and
None for NULL. Only what has one meaning whatever the session is evaluated; anything else is left to
Spark, and says nothing here (`Unknown`).

Source: Spark SQL Reference, "Date and Timestamp Functions".
"""

from __future__ import annotations

import calendar
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

from sqlglot import exp

from mirrorlake.models.spark_sql.casts import written_type
from mirrorlake.models.spark_sql.moving_days import hold_within, kind_of_value, midnight, seen

Constant: TypeAlias = "int | Decimal | str | bool | date | datetime | None"


DayOrMoment = TypeVar("DayOrMoment", date, datetime)


class Unknown(Exception):
    """An expression that is not evaluated here. Many are met, and few are shown: its text is made
    when somebody reads it."""

    def __init__(self, what: exp.Expr | str) -> None:
        super().__init__(what)
        self._what = what

    def __str__(self) -> str:
        return self._what if isinstance(self._what, str) else self._what.sql("spark")


def evaluate(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    """The value of an expression.

    Args:
        names: the constants that it may name, in lower case.

    Raises:
        Unknown: it names something else, or has no sure value here.
    """
    rule = _RULES.get(type(node))
    if rule is None:
        raise Unknown(node)
    try:
        return rule(node, names)
    except (ArithmeticError, TypeError, ValueError, KeyError):
        # Before the year 1 or past 9999, too: Spark has such days, Python has none.
        raise Unknown(node) from None


def _literal(node: exp.Expr, _: Mapping[str, Constant]) -> Constant:
    text = str(node.this)
    if node.args.get("is_string"):
        return text
    if "e" in text.lower():
        raise Unknown(text)
    return Decimal(text) if "." in text else _held(int(text), 64)


def _held(number: int, bits: int) -> int:
    """A number that fits into an integer of this many bits."""
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise Unknown(str(number))
    return number


def _computed(number: int, *operands: int) -> int:
    """What Spark computes of integers, or fails to: of two that may be `int` it makes an `int`."""
    long = any(not -(2**31) <= one < 2**31 for one in operands)
    return _held(number, 64 if long else 32)


def _column(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    assert isinstance(node, exp.Column)  # noqa: S101
    if node.table or node.name.lower() not in names:
        raise Unknown(node)
    return names[node.name.lower()]


def _negative(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    value = evaluate(node.this, names)
    if value is None or isinstance(value, Decimal):
        return None if value is None else -value
    if _is_int(value):
        return _computed(-_int_of(value), _int_of(value))
    raise Unknown(node)


def _cast(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    return cast_to(evaluate(node.this, names), written_type(node.args["to"]))


def cast_to(value: Constant, kind: str) -> Constant:
    """A value as another type.

    Raises:
        Unknown: it has no sure value there.
    """
    if value is None:
        return None
    try:
        return _CASTS[kind](value)
    except (ArithmeticError, KeyError, ValueError, TypeError):
        raise Unknown(f"{value!r} as {kind}") from None


# What Python takes besides (20240105, 2024-W01-5, other letters than T) Spark refuses; what Spark
# takes besides (2024, a day with anything behind it) has no sure value here.
_DAY = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_WHOLE = re.compile(r"[+-]?[0-9]+")


def _to_date(value: Constant) -> date:
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    if isinstance(value, date):
        return value
    found = _DAY.fullmatch(_trimmed(value))
    if found is None:
        raise ValueError(value)
    year, month, day = map(int, found.groups())
    return date(year, month, day)


def _to_timestamp(value: Constant) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return midnight(value)
    text = _trimmed(value)
    if _MOMENT.fullmatch(text) is None:
        return _to_timestamp(_to_date(value))
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _to_int(value: Constant) -> int:
    """An integer of a number or of a text that is one."""
    if isinstance(value, str):
        text = _trimmed(value)
        if _WHOLE.fullmatch(text) is None:
            raise ValueError(value)
        return int(text)
    if isinstance(value, Decimal) and value == int(value):
        return int(value)
    return _int_of(value)


def _int_of(value: Constant) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def _to_string(value: Constant) -> str:
    if isinstance(value, datetime | bool | Decimal):
        raise TypeError(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _text(value: Constant) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _trimmed(value: Constant) -> str:
    """A text as Spark casts it: without blanks around it; a no-break space stays."""
    return _text(value).strip(" \t\n\r")


_CASTS: dict[str, Callable[[Constant], Constant]] = {
    "date": _to_date,
    "timestamp": _to_timestamp,
    "int": lambda v: _held(_to_int(v), 32),
    "bigint": lambda v: _held(_to_int(v), 64),
    "string": _to_string,
}
"""None to `smallint` and `tinyint`: sums of them overflow early, and nothing here would say so."""


# --- operators ------------------------------------------------------------------------------------


def _arithmetic(
    work: Callable[[Any, Any], Any],
) -> Callable[[exp.Expr, Mapping[str, Constant]], Constant]:
    def rule(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
        if isinstance(node.expression, exp.Interval):
            sign = 1 if isinstance(node, exp.Add) else -1
            return _moved_by(evaluate(node.this, names), node.expression, sign, names)
        left, right = evaluate(node.this, names), evaluate(node.expression, names)
        if left is None or right is None:
            return None
        if kind_of_value(left) is date and _is_int(right) and work is not operator.mul:
            assert isinstance(left, date)  # noqa: S101
            return left + work(timedelta(), timedelta(days=_int_of(right)))
        if _is_int(left) and _is_int(right):
            return _computed(work(left, right), _int_of(left), _int_of(right))
        raise Unknown(node)

    return rule


def _is_int(value: Constant) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _moved_by(
    value: Constant, interval: exp.Interval, sign: int, names: Mapping[str, Constant]
) -> Constant:
    unit = str(interval.args.get("unit") or "").upper().rstrip("S")
    count = evaluate(interval.this, names)
    try:
        number = sign * (_to_int(count) if isinstance(count, str) else _int_of(count))
    except (TypeError, ValueError):
        raise Unknown(interval) from None
    if value is None:
        return None
    if not isinstance(value, date):
        raise Unknown(interval)
    if unit in ("MONTH", "YEAR"):
        return add_months(value, number * {"MONTH": 1, "YEAR": 12}[unit])
    lengths = {"DAY": timedelta(days=1), "WEEK": timedelta(weeks=1)}
    if isinstance(value, datetime):
        lengths |= {"HOUR": timedelta(hours=1), "MINUTE": timedelta(minutes=1)}
    if unit not in lengths:
        raise Unknown(interval)
    return value + number * lengths[unit]


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


def _compared(
    work: Callable[[Any, Any], bool],
) -> Callable[[exp.Expr, Mapping[str, Constant]], Constant]:
    def rule(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
        return compare(work, evaluate(node.this, names), evaluate(node.expression, names))

    return rule


def compare(work: Callable[[Any, Any], bool], left: Constant, right: Constant) -> bool | None:
    """A comparison as Spark makes it: a text beside a date is taken for one.

    Raises:
        Unknown: they are not of one kind.
    """
    if left is None or right is None:
        return None
    left, right = alike(left, right)
    return work(left, right)


def alike(left: Constant, right: Constant) -> tuple[Any, Any]:
    """Two values in the type that both have in common.

    Raises:
        Unknown: they have none.
    """
    for kind, cast in ((datetime, "timestamp"), (date, "date")):
        if isinstance(left, kind) or isinstance(right, kind):
            return cast_to(left, cast), cast_to(right, cast)
    if isinstance(left, str) != isinstance(right, str):
        raise Unknown(f"{left!r} beside {right!r}")
    if isinstance(left, bool) != isinstance(right, bool):
        raise Unknown(f"{left!r} beside {right!r}")
    return left, right


def _condition(node: exp.Expr, names: Mapping[str, Constant]) -> bool | None:
    value = evaluate(node, names)
    if value is not None and not isinstance(value, bool):
        raise Unknown(node)
    return value


def _and(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    left, right = _condition(node.this, names), _condition(node.expression, names)
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    left, right = _condition(node.this, names), _condition(node.expression, names)
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _not(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    value = _condition(node.this, names)
    return None if value is None else not value


def _between(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    value = evaluate(node.this, names)
    low = compare(operator.ge, value, evaluate(node.args["low"], names))
    high = compare(operator.le, value, evaluate(node.args["high"], names))
    if low is False or high is False:
        return False
    return None if low is None or high is None else True


def _among(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    if node.args.get("query") is not None:
        raise Unknown(node)
    value = evaluate(node.this, names)
    found = [compare(operator.eq, value, evaluate(one, names)) for one in node.expressions]
    return True if True in found else (None if None in found else False)


def _is(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    if isinstance(node.expression, exp.Null):
        return evaluate(node.this, names) is None
    return _condition(node.this, names) is _condition(node.expression, names)


def _case(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    if node.this is not None:
        raise Unknown(node)
    return _chosen(node.args.get("ifs") or [], node.args.get("default"), names)


def _if(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    return _chosen([node], node.args.get("false"), names)


def _chosen(
    ifs: Sequence[exp.Expr], default: exp.Expr | None, names: Mapping[str, Constant]
) -> Constant:
    """The value of the first condition that holds, where all values are of one type: otherwise
    Spark turns it into the type that they have in common."""
    conditions = [_condition(one.this, names) for one in ifs]
    values = [evaluate(one.args["true"], names) for one in ifs]
    values.append(None if default is None else evaluate(default, names))
    if len({kind_of_value(value) for value in values if value is not None}) > 1:
        raise Unknown("values of several types")
    return values[conditions.index(True) if True in conditions else -1]


# --- functions ------------------------------------------------------------------------------------


def _call(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    work = _FUNCTIONS.get(str(node.this).lower())
    if work is None:
        raise Unknown(node)
    values = [evaluate(one, names) for one in node.expressions]
    if None in values:
        return None
    try:
        return work(*values)
    except (TypeError, ValueError, KeyError):
        raise Unknown(node) from None


def _days(sign: int) -> Callable[..., Constant]:
    return lambda day, number: _to_date(day) + timedelta(days=sign * _int_of(number))


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
    moment = _to_timestamp(value)
    if _text(unit).upper() == "HOUR":
        return moment.replace(minute=0, second=0, microsecond=0)
    return _to_timestamp(truncated(_text(unit), moment.astimezone(UTC)))


def _trunc(value: Constant, unit: Constant) -> Constant:
    text = _text(unit)
    if _UNITS[text.upper()] == "DAY":
        raise ValueError(unit)  # NULL to Spark
    return truncated(text, _to_date(value))


def _ascii(value: Constant) -> str:
    """A text whose capitals every version of Unicode agrees on."""
    text = _text(value)
    if not text.isascii():
        raise ValueError(value)
    return text


def _last_day(value: Constant) -> Constant:
    day = _to_date(value)
    return day.replace(day=_days_of(day.year, day.month))


_FUNCTIONS: dict[str, Callable[..., Constant]] = {
    "date": _to_date,
    "to_date": _to_date,
    "year": lambda v: _to_date(v).year,
    "month": lambda v: _to_date(v).month,
    "quarter": lambda v: (_to_date(v).month + 2) // 3,
    **dict.fromkeys(("day", "dayofmonth"), lambda v: _to_date(v).day),
    "hour": lambda v: _to_timestamp(v).astimezone(UTC).hour,
    "dayofweek": lambda v: _to_date(v).isoweekday() % 7 + 1,
    "weekday": lambda v: _to_date(v).weekday(),
    "date_add": _days(1),
    "dateadd": _days(1),
    "date_sub": _days(-1),
    "add_months": lambda v, n: add_months(_to_date(v), _int_of(n)),
    "datediff": lambda a, b: (_to_date(a) - _to_date(b)).days,
    "date_diff": lambda a, b: (_to_date(a) - _to_date(b)).days,
    "trunc": _trunc,
    "date_trunc": _date_trunc,
    "last_day": _last_day,
    "upper": lambda v: _ascii(v).upper(),
    "lower": lambda v: _ascii(v).lower(),
    "concat": lambda *parts: "".join(_to_string(part) for part in parts),
    "make_date": lambda y, m, d: date(_int_of(y), _int_of(m), _int_of(d)),
}

_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Mapping[str, Constant]], Constant]] = {
    exp.Literal: _literal,
    exp.Column: _column,
    exp.Null: lambda _, __: None,
    exp.Boolean: lambda node, _: bool(node.this),
    exp.Paren: lambda node, names: evaluate(node.this, names),
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Add: _arithmetic(operator.add),
    exp.Sub: _arithmetic(operator.sub),
    exp.Mul: _arithmetic(operator.mul),
    exp.EQ: _compared(operator.eq),
    exp.NEQ: _compared(operator.ne),
    exp.LT: _compared(operator.lt),
    exp.LTE: _compared(operator.le),
    exp.GT: _compared(operator.gt),
    exp.GTE: _compared(operator.ge),
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Between: _between,
    exp.In: _among,
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    exp.Anonymous: _call,
}
