"""Which values of a column a condition leaves: a set that has every value of every row for which
the condition may be true.

Where a condition can't be analysed it leaves all. Functions of a column are turned round where they
only move it, or only ever grow with it: ``DATE_TRUNC('MONTH', day) = '2024-05-01'`` leaves May.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import exp

from mirrorlake.models.row_filters.value_sets import ALL, NONE, Interval, ValueSet
from mirrorlake.models.spark_sql.casts import written_type
from mirrorlake.models.spark_sql.constants.evaluate import compare, evaluate
from mirrorlake.models.spark_sql.constants.functions import add_months, truncated
from mirrorlake.models.spark_sql.constants.values import Constant, Unknown, cast_to
from mirrorlake.models.spark_sql.types import INTEGERS, is_decimal

Constants = Mapping[str, Constant]
IsColumn = Callable[[exp.Expr], bool]
"""Whether a node is the column that is asked about."""
Turned = Callable[[ValueSet], ValueSet]
"""From what a function of the column is, to what the column may be."""

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_WORK: dict[str, Callable[[Any, Any], bool]] = {
    "=": operators.eq,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
_UNSURE = (Unknown, ArithmeticError, TypeError, ValueError, KeyError)
_OPPOSITE: dict[type[exp.Expr], str] = {exp.LT: ">=", exp.LTE: ">", exp.GT: "<=", exp.GTE: "<"}


def left_by(node: exp.Expr, column: IsColumn, kind: str, names: Constants) -> ValueSet:
    """The values of a column for which a condition may be true.

    Args:
        kind: the column's type.
        names: the constants of the scope, in lower case.
    """
    if isinstance(node, exp.Paren):
        return left_by(node.this, column, kind, names)
    if isinstance(node, exp.And):
        parts = (node.this, node.expression)
        left, right = (left_by(one, column, kind, names) for one in parts)
        return left & right
    if isinstance(node, exp.Or):
        parts = (node.this, node.expression)
        left, right = (left_by(one, column, kind, names) for one in parts)
        return left | right
    if isinstance(node, exp.Between):
        low = _compared(">=", node.this, node.args["low"], column, kind, names)
        return low & _compared("<=", node.this, node.args["high"], column, kind, names)
    if isinstance(node, exp.In) and node.args.get("query") is None:
        found = NONE
        for one in node.expressions:
            found |= _compared("=", node.this, one, column, kind, names)
        return found
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        if isinstance(node, exp.NullSafeEQ) and _may_be_null(node, names):
            return ALL
        return _compared(operator, node.this, node.expression, column, kind, names)
    if isinstance(node, exp.Not):
        return _left_by_not(node.this, column, kind, names)
    return _by_constant(node, names)


def _may_be_null(node: exp.Expr, names: Constants) -> bool:
    for side in (node.this, node.expression):
        try:
            if evaluate(side, names) is not None:
                return False
        except Unknown:
            continue
    return True


def _left_by_not(node: exp.Expr, column: IsColumn, kind: str, names: Constants) -> ValueSet:
    if isinstance(node, exp.Paren):
        return _left_by_not(node.this, column, kind, names)
    if isinstance(node, exp.Not):
        return left_by(node.this, column, kind, names)
    operator = _OPPOSITE.get(type(node))
    if operator is not None:
        return _compared(operator, node.this, node.expression, column, kind, names)
    return ALL


def _by_constant(node: exp.Expr, names: Constants) -> ValueSet:
    """A condition that names no column: it leaves all, or none."""
    try:
        return ALL if evaluate(node, names) is True else NONE
    except Unknown:
        return ALL


def _compared(
    operator: str,
    left: exp.Expr,
    right: exp.Expr,
    column: IsColumn,
    kind: str,
    names: Constants,
) -> ValueSet:
    for one, other, way in ((left, right, operator), (right, left, _FLIPPED[operator])):
        turned = turned_round(one, column, kind, names)
        if turned is None:
            continue
        try:
            value = evaluate(other, names)
            return turned(ValueSet.of(way, value))
        except _UNSURE:
            # Past the year 9999 there are no bounds.
            return ALL
    try:
        # Of two constants: always, or never.
        found = compare(_WORK[operator], evaluate(left, names), evaluate(right, names))
    except _UNSURE:
        return ALL
    return ALL if found is True else NONE


# --- functions of a column, turned round ----------------------------------------------------------


def turned_round(node: exp.Expr, column: IsColumn, kind: str, names: Constants) -> Turned | None:
    """What the column may be, from what an expression of it is; None where it is no such
    expression."""
    if column(node):
        return lambda span: _as(span, kind)
    if isinstance(node, exp.Paren):
        return turned_round(node.this, column, kind, names)
    if isinstance(node, exp.Cast | exp.TryCast):
        to = written_type(node.args["to"])
        return _of_cast(node, "timestamp" if to == "timestamp_ntz" else to, column, kind, names)
    if isinstance(node, exp.Add | exp.Sub):
        return _of_sum(node, column, kind, names)
    if isinstance(node, exp.Anonymous):
        return _of_call(node, column, kind, names)
    return None


def _as(span: ValueSet, kind: str) -> ValueSet:
    """Bounds as the column has them: a text beside a date is one."""
    if kind not in ("date", "timestamp"):
        return span.moved(lambda v: _bound(v, kind), lambda v: _bound(v, kind))
    if kind == "date":
        # A moment within a day is after its midnight: the day itself may be meant by either bound.
        return _days(span)
    return span.moved(_moment, _moment)


def _bound(value: Constant, kind: str) -> Constant:
    """A bound of the column's own kind: those of others are in another order, as ``'10'`` and
    ``'9'`` are. A text beside integers is one; beside a number or a day every text is turned into
    it, and many mean the same.

    Raises:
        Unknown: it is of another kind.
    """
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if kind in INTEGERS:
        if number:
            return value
        if isinstance(value, str):
            return cast_to(value, "bigint")
    if (
        (kind == "string" and isinstance(value, str))
        or (kind == "boolean" and isinstance(value, bool))
        or (is_decimal(kind) and number)
    ):
        return value
    raise Unknown(f"{value!r} beside {kind}")


def _days(span: ValueSet) -> ValueSet:
    exact = all(_is_day(one.low) and _is_day(one.high) for one in span.parts)
    return span.moved(_day, _day) if exact else span.widened(_day, _day)


def _is_day(value: Constant) -> bool:
    if value is None:
        return True
    moment = cast_to(value, "timestamp")
    assert isinstance(moment, datetime)  # noqa: S101
    return moment == moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _moment(value: Constant) -> datetime:
    found = cast_to(value, "timestamp")
    assert isinstance(found, datetime)  # noqa: S101
    return found


def _day(value: Constant) -> date:
    found = cast_to(value, "date")
    assert isinstance(found, date)  # noqa: S101
    return found


def _of_cast(
    node: exp.Expr, to: str, column: IsColumn, kind: str, names: Constants
) -> Turned | None:
    inner = turned_round(node.this, column, kind, names)
    if inner is None:
        return None
    if to == kind or (to == "timestamp" and kind == "date"):
        return inner
    if to == "date" and kind == "timestamp":
        return lambda span: inner(_whole_days(span))
    if {to, kind} <= {"tinyint", "smallint", "int", "bigint"}:
        return inner
    return None


def _whole_days(span: ValueSet) -> ValueSet:
    """The moments whose days are in a set."""
    return span.under(lambda v: _moment(_day(v)), lambda v: _moment(_day(v) + timedelta(days=1)))


def _of_sum(node: exp.Expr, column: IsColumn, kind: str, names: Constants) -> Turned | None:
    """``column + 3``, ``column - INTERVAL 1 MONTH``, ``3 + column``."""
    sides = [(node.this, node.expression)]
    if isinstance(node, exp.Add):
        sides.append((node.expression, node.this))
    for one, other in sides:
        inner = turned_round(one, column, kind, names)
        if inner is None:
            continue
        back = exp.Sub if isinstance(node, exp.Add) else exp.Add
        return _moved_back(inner, other, back, names)
    return None


def _moved_back(inner: Turned, by: exp.Expr, back: type[exp.Binary], names: Constants) -> Turned:
    months = isinstance(by, exp.Interval) and str(by.args.get("unit") or "").upper().rstrip(
        "S"
    ) in ("MONTH", "YEAR", "QUARTER")

    moved = back(this=exp.column("_bound"), expression=by.copy())

    def move(value: Constant) -> Any:
        return evaluate(moved, {**names, "_bound": _plain(value)})

    if months:
        # Several days may become one: a month before the 31st of March and before its 29th.
        return lambda span: inner(
            span.widened(lambda v: move(v) - _SLACK, lambda v: move(v) + _SLACK)
        )
    return lambda span: inner(span.moved(move, move))


_SLACK = timedelta(days=3)


def _plain(value: Constant) -> Constant:
    """A text that is moved is a date or a moment."""
    if not isinstance(value, str):
        return value
    try:
        return cast_to(value, "date")
    except Unknown:
        return cast_to(value, "timestamp")


def _of_call(node: exp.Anonymous, column: IsColumn, kind: str, names: Constants) -> Turned | None:
    name, arguments = str(node.this).lower(), node.expressions
    if name in ("date", "to_date") and len(arguments) == 1:
        return _of_cast(exp.Paren(this=arguments[0]), "date", column, kind, names)
    if name in ("date_add", "dateadd", "date_sub") and len(arguments) == 2:
        sum_of = exp.Sub if name == "date_sub" else exp.Add
        inner = turned_round(arguments[0], column, kind, names)
        if inner is None or kind != "date":
            return None
        back = exp.Add if sum_of is exp.Sub else exp.Sub
        return _moved_back(inner, arguments[1], back, names)
    if kind not in ("date", "timestamp"):
        return None
    if name == "add_months" and len(arguments) == 2 and kind == "date":
        return _of_months(arguments, column, kind, names)
    if name in ("trunc", "date_trunc") and len(arguments) == 2:
        return _of_truncation(name, arguments, column, kind, names)
    if name in ("year", "last_day") and len(arguments) == 1:
        inner = turned_round(arguments[0], column, kind, names)
        if inner is None:
            return None
        turn = _of_year if name == "year" else _of_last_day
        return lambda span: inner(turn(span))
    return None


def _of_months(
    arguments: list[exp.Expr], column: IsColumn, kind: str, names: Constants
) -> Turned | None:
    inner = turned_round(arguments[0], column, kind, names)
    try:
        number = evaluate(arguments[1], names)
    except Unknown:
        return None
    if inner is None or not isinstance(number, int):
        return None

    def back(value: Constant) -> date:
        return add_months(_day(value), -number)

    return lambda span: inner(span.widened(lambda v: back(v) - _SLACK, lambda v: back(v) + _SLACK))


def _of_truncation(
    name: str, arguments: list[exp.Expr], column: IsColumn, kind: str, names: Constants
) -> Turned | None:
    """A truncation is no later than the column, and in the same unit."""
    of, unit = (arguments[0], arguments[1]) if name == "trunc" else (arguments[1], arguments[0])
    inner = turned_round(of, column, kind, names)
    if inner is None:
        return None
    try:
        text = str(evaluate(unit, names))
        truncated(text, date(2000, 1, 1))
    except (Unknown, KeyError):
        return None

    def begun(value: Constant) -> Any:
        first = truncated(text, _day(value))
        return first if kind == "date" else _moment(first)

    def after(value: Constant) -> Any:
        first = truncated(text, _day(value))
        days = (first + timedelta(days=n) for n in range(1, 367))
        later = next(day for day in days if truncated(text, day) != first)
        return later if kind == "date" else _moment(later)

    return lambda span: inner(span.under(begun, after))


def _of_year(span: ValueSet) -> ValueSet:
    def number(value: Constant) -> int:
        found = cast_to(value, "int")
        assert isinstance(found, int)  # noqa: S101
        return found

    low = span.moved(number, number)
    parts = [
        Interval(
            None if one.low is None else _first_of(one.low + (not one.from_low)),
            None if one.high is None else _first_of(one.high + one.to_high),
            True,
            one.high is None,
        )
        for one in low.parts
    ]
    return ValueSet(tuple(parts))


def _first_of(year: int) -> date:
    if not 1 <= year <= 9999:
        raise Unknown(str(year))
    return date(year, 1, 1)


def _of_last_day(span: ValueSet) -> ValueSet:
    """A month's last day is no earlier than the column, and in its month."""

    def end(value: Constant) -> Any:
        return _moment(_day(value) + timedelta(days=1)).astimezone(UTC)

    return span.widened(lambda v: truncated("MONTH", _day(v)), end)
