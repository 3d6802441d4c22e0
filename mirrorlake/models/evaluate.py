"""Expressions over constants, evaluated here: what a scope binds, and the bounds of a predicate.

Values are Python's: int, Decimal, str, bool, date, datetime (UTC, aware: Spark's ``timestamp``) and
None for NULL. Only what has one meaning whatever the session is evaluated; anything else is left to
Spark, and says nothing here (`Unknown`).

Source: Spark SQL Reference, "Date and Timestamp Functions".
"""

from __future__ import annotations

import calendar
import operator
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

from sqlglot import exp

from mirrorlake.models.casts import written_type

Constant: TypeAlias = "int | Decimal | str | bool | date | datetime | None"


DayOrMoment = TypeVar("DayOrMoment", date, datetime)


class Unknown(Exception):
    """An expression that is not evaluated here."""


def evaluate(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    """The value of an expression.

    Args:
        names: the constants that it may name, in lower case.

    Raises:
        Unknown: it names something else, or has no sure value here.
    """
    rule = _RULES.get(type(node))
    if rule is None:
        raise Unknown(node.sql("spark"))
    return rule(node, names)


def _literal(node: exp.Expr, _: Mapping[str, Constant]) -> Constant:
    text = str(node.this)
    if node.args.get("is_string"):
        return text
    if "e" in text.lower():
        raise Unknown(text)
    return Decimal(text) if "." in text else int(text)


def _column(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    assert isinstance(node, exp.Column)  # noqa: S101
    if node.table or node.name.lower() not in names:
        raise Unknown(node.sql("spark"))
    return names[node.name.lower()]


def _negative(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    value = evaluate(node.this, names)
    if value is None or (isinstance(value, int | Decimal) and not isinstance(value, bool)):
        return None if value is None else -value
    raise Unknown(node.sql("spark"))


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
    except (KeyError, ValueError, TypeError):
        raise Unknown(f"{value!r} as {kind}") from None


def _to_date(value: Constant) -> date:
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    if isinstance(value, date):
        return value
    return date.fromisoformat(_text(value))


def _to_timestamp(value: Constant) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    found = datetime.fromisoformat(_text(value))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _to_int(value: Constant) -> int:
    if isinstance(value, bool | date):
        raise TypeError(value)
    number = Decimal(value) if isinstance(value, str) else value
    if number is None or number != int(number):
        raise ValueError(value)
    return int(number)


def _to_string(value: Constant) -> str:
    if isinstance(value, datetime | bool | Decimal):
        raise TypeError(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _text(value: Constant) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value.strip()


_CASTS: dict[str, Callable[[Constant], Constant]] = {
    "date": _to_date,
    "timestamp": _to_timestamp,
    "int": _to_int,
    "bigint": _to_int,
    "smallint": _to_int,
    "tinyint": _to_int,
    "string": _to_string,
}


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
        if type(left) is date and _is_int(right) and work is not operator.mul:
            return left + work(timedelta(), timedelta(days=_to_int(right)))
        if _is_int(left) and _is_int(right):
            return work(left, right)
        raise Unknown(node.sql("spark"))

    return rule


def _is_int(value: Constant) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _moved_by(
    value: Constant, interval: exp.Interval, sign: int, names: Mapping[str, Constant]
) -> Constant:
    unit = str(interval.args.get("unit") or "").upper().rstrip("S")
    count = evaluate(interval.this, names)
    try:
        number = sign * _to_int(count)
    except (TypeError, ValueError):
        raise Unknown(interval.sql("spark")) from None
    if value is None:
        return None
    if not isinstance(value, date):
        raise Unknown(interval.sql("spark"))
    if unit in ("MONTH", "YEAR", "QUARTER"):
        return add_months(value, number * {"MONTH": 1, "YEAR": 12, "QUARTER": 3}[unit])
    lengths = {"DAY": timedelta(days=1), "WEEK": timedelta(weeks=1)}
    if isinstance(value, datetime):
        lengths |= {"HOUR": timedelta(hours=1), "MINUTE": timedelta(minutes=1)}
    if unit not in lengths:
        raise Unknown(interval.sql("spark"))
    return value + number * lengths[unit]


def add_months(value: DayOrMoment, number: int) -> DayOrMoment:
    """A date, or a moment, so many calendar months later; the month's last day where it has no such
    day.

    >>> add_months(date(2024, 1, 31), 1)
    datetime.date(2024, 2, 29)
    """
    months = value.year * 12 + value.month - 1 + number
    year, month = divmod(months, 12)
    day = min(value.day, calendar.monthrange(year, month + 1)[1])
    return value.replace(year=year, month=month + 1, day=day)


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


def _and(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    left, right = evaluate(node.this, names), evaluate(node.expression, names)
    if left is False or right is False:
        return False
    return None if left is None or right is None else bool(left and right)


def _or(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    left, right = evaluate(node.this, names), evaluate(node.expression, names)
    if left is True or right is True:
        return True
    return None if left is None or right is None else bool(left or right)


def _not(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    value = evaluate(node.this, names)
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
        raise Unknown(node.sql("spark"))
    value = evaluate(node.this, names)
    found = [compare(operator.eq, value, evaluate(one, names)) for one in node.expressions]
    return True if True in found else (None if None in found else False)


def _is(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    value = evaluate(node.this, names)
    if isinstance(node.expression, exp.Null):
        return value is None
    return value is evaluate(node.expression, names)


def _case(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    if node.this is not None:
        raise Unknown(node.sql("spark"))
    for one in node.args.get("ifs") or []:
        if evaluate(one.this, names) is True:
            return evaluate(one.args["true"], names)
    default = node.args.get("default")
    return None if default is None else evaluate(default, names)


def _if(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    other = node.args.get("false")
    if evaluate(node.this, names) is True:
        return evaluate(node.args["true"], names)
    return None if other is None else evaluate(other, names)


# --- functions ------------------------------------------------------------------------------------


def _call(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    work = _FUNCTIONS.get(str(node.this).lower())
    if work is None:
        raise Unknown(node.sql("spark"))
    values = [evaluate(one, names) for one in node.expressions]
    if None in values:
        return None
    try:
        return work(*values)
    except (TypeError, ValueError, KeyError):
        raise Unknown(node.sql("spark")) from None


def _days(sign: int) -> Callable[..., Constant]:
    return lambda day, number: _to_date(day) + timedelta(days=sign * _to_int(number))


def truncated(unit: str, value: date) -> date:
    """The first day of the unit that a date is in.

    Raises:
        KeyError: there is no such unit.
    """
    day = date(value.year, value.month, value.day)
    unit = _UNITS[unit.upper()]
    if unit == "WEEK":
        return day - timedelta(days=day.weekday())
    if unit == "QUARTER":
        return day.replace(month=day.month - (day.month - 1) % 3, day=1)
    return {"DAY": day, "MONTH": day.replace(day=1), "YEAR": day.replace(month=1, day=1)}[unit]


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


def _last_day(value: Constant) -> Constant:
    day = _to_date(value)
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


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
    "add_months": lambda v, n: add_months(_to_date(v), _to_int(n)),
    "datediff": lambda a, b: (_to_date(a) - _to_date(b)).days,
    "date_diff": lambda a, b: (_to_date(a) - _to_date(b)).days,
    "trunc": lambda v, unit: truncated(_text(unit), _to_date(v)),
    "date_trunc": _date_trunc,
    "last_day": _last_day,
    "upper": lambda v: _text(v).upper(),
    "lower": lambda v: _text(v).lower(),
    "concat": lambda *parts: "".join(_to_string(part) for part in parts),
    "make_date": lambda y, m, d: date(_to_int(y), _to_int(m), _to_int(d)),
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
