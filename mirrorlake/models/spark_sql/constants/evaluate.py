"""Expressions over constants, evaluated here: what a scope binds, and the bounds of a predicate.

Values are Python's: int, Decimal, str, bool, date, datetime (UTC, aware: Spark's ``timestamp``) and
None for NULL. Only what has one meaning whatever the session is evaluated; anything else is left to
Spark, and says nothing here (`Unknown`).

Source: Spark SQL Reference, "Date and Timestamp Functions".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import exp

from mirrorlake.models.spark_sql.casts import written_type
from mirrorlake.models.spark_sql.constants.functions import FUNCTIONS, add_months
from mirrorlake.models.spark_sql.constants.moving_days import kind_of_value
from mirrorlake.models.spark_sql.constants.values import (
    Constant,
    Unknown,
    cast_to,
    held_in,
    int_of,
    to_int,
)


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
    return Decimal(text) if "." in text else held_in(int(text), 64)


def _computed(number: int, *operands: int) -> int:
    """What Spark computes of integers, or fails to: of two that may be `int` it makes an `int`."""
    long = any(not -(2**31) <= one < 2**31 for one in operands)
    return held_in(number, 64 if long else 32)


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
        return _computed(-int_of(value), int_of(value))
    raise Unknown(node)


def _cast(node: exp.Expr, names: Mapping[str, Constant]) -> Constant:
    return cast_to(evaluate(node.this, names), written_type(node.args["to"]))


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
            return left + work(timedelta(), timedelta(days=int_of(right)))
        if _is_int(left) and _is_int(right):
            return _computed(work(left, right), int_of(left), int_of(right))
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
        number = sign * (to_int(count) if isinstance(count, str) else int_of(count))
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
    work = FUNCTIONS.get(str(node.this).lower())
    if work is None:
        raise Unknown(node)
    values = [evaluate(one, names) for one in node.expressions]
    if None in values:
        return None
    try:
        return work(*values)
    except (TypeError, ValueError, KeyError):
        raise Unknown(node) from None


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
