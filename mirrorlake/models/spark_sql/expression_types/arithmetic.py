"""Literals, and arithmetic: numbers, texts and moments.

Source: Spark's ``AnsiTypeCoercion`` and ``DecimalPrecision``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import functions, types
from mirrorlake.models.spark_sql.columns import Typed, joined
from mirrorlake.models.spark_sql.expression_types.expression_context import Names, NodeRule
from mirrorlake.models.spark_sql.node_places import at

_BIG, _INT = 2**63, 2**31


# --- literals and names ---------------------------------------------------------------------------


def _literal(node: exp.Expr, _: Names) -> Typed:
    text = str(node.this)
    if node.args.get("is_string"):
        return Typed("string", False)
    if "e" in text.lower():
        return Typed("double", False)
    number = Decimal(text)
    if "." in text:
        return Typed(types.decimal(*types.digits(number)), False, literal=number)
    size = int(number)
    kind = (
        "int" if size < _INT else "bigint" if size < _BIG else types.decimal(*types.digits(number))
    )
    return Typed(kind, False, literal=number)


def _nothing(_: exp.Expr, __: Names) -> Typed:
    return Typed(types.VOID, True)


def _fixed(kind: str) -> Callable[[exp.Expr, Names], Typed]:
    return lambda _, __: Typed(kind, False)


def _same(node: exp.Expr, names: Names) -> Typed:
    return names.typed(node.this)


def _negative(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    if not types.is_number(value.type) and not value.type.startswith("interval"):
        raise ModelError(f"- takes a number, not {value.type}", place=at(node), next_step="CAST it")
    literal = None if value.literal is None else -value.literal
    return Typed(value.type, value.nullable, value.origins, literal)


def _interval(node: exp.Expr, names: Names) -> Typed:
    unit = str(node.args.get("unit") or "").upper().rstrip("S")
    value = node.this
    found = Typed("", False) if isinstance(value, exp.Literal) else names.typed(value)
    if unit in ("YEAR", "MONTH"):
        return Typed(f"interval {unit.lower()}", found.nullable, found.origins)
    return Typed(f"interval {unit.lower() or 'day'}", found.nullable, found.origins)


# --- operators ------------------------------------------------------------------------------------


def operands(node: exp.Expr, names: Names) -> tuple[Typed, Typed]:
    return names.typed(node.this), names.typed(node.expression)


def _as_decimal(value: Typed) -> tuple[str, bool]:
    """The decimal that an operand becomes beside another decimal, and whether the cast may fail: a
    literal integer becomes one of its own digits."""
    if value.literal is not None and not types.is_decimal(value.type):
        precision, _ = types.digits(value.literal)
        return types.decimal(precision, 0), True
    found = types.digits_of(value.type)
    return (types.decimal(*found) if found else value.type), False


def _arithmetic(
    whole: Callable[[str, str], str], *, fails: bool = False
) -> Callable[[exp.Expr, Names], Typed]:
    """``+``, ``-``, ``*`` and ``%`` of numbers.

    Args:
        whole: the type where one operand is a decimal and none is floating.
        fails: whether the result may be NULL whatever the operands are.
    """

    def rule(node: exp.Expr, names: Names) -> Typed:
        left, right = operands(node, names)
        origins = joined((left, right))
        moment = _moved(node, left, right)
        if moment is not None:
            kind, nullable = moment
            return Typed(kind, nullable or left.nullable or right.nullable, origins)
        nullable = fails or left.nullable or right.nullable or "string" in (left.type, right.type)
        kind, forced = _number(node, left, right, whole)
        return Typed(kind, nullable or forced, origins)

    return rule


def _number(
    node: exp.Expr, left: Typed, right: Typed, whole: Callable[[str, str], str]
) -> tuple[str, bool]:
    kinds = (left.type, right.type)
    if "string" in kinds:
        other = kinds[0] if kinds[1] == "string" else kinds[1]
        if not types.is_number(other):
            raise clash(node, left, right)
        return ("bigint" if other in types.INTEGERS else "double"), True
    if any(types.is_decimal(k) for k in kinds) and not set(kinds) & set(types.FRACTIONS):
        (a, one), (b, two) = _as_decimal(left), _as_decimal(right)
        if types.digits_of(a) and types.digits_of(b):
            return whole(a, b), one or two
    wide = types.wider(*kinds) if types.VOID not in kinds else None
    if wide is None or not types.is_number(wide):
        raise clash(node, left, right)
    return wide, False


def _moved(node: exp.Expr, left: Typed, right: Typed) -> tuple[str, bool] | None:
    """A date or a moment that is moved, or the time between two; None of other operands."""
    a, b = left.type, right.type
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    if isinstance(node, exp.Sub) and a in types.MOMENTS and b in types.MOMENTS:
        return ("interval day" if a == b == "date" else "interval day to second"), False
    for kind, other in ((a, b), (b, a)) if isinstance(node, exp.Add) else ((a, b),):
        if kind == "date" and other in ("tinyint", "smallint", "int"):
            return "date", False
        if kind in types.MOMENTS and other.startswith("interval"):
            short = other in ("interval day", "interval month", "interval year", "interval week")
            return (kind if kind != "date" or short else "timestamp"), False
    return None


def _divided(node: exp.Expr, names: Names) -> Typed:
    left, right = operands(node, names)
    kinds = {left.type, right.type}
    origins = joined((left, right))
    if any(types.is_decimal(k) for k in kinds) and not kinds & {*types.FRACTIONS, "string"}:
        (a, _), (b, _) = _as_decimal(left), _as_decimal(right)
        if types.digits_of(a) and types.digits_of(b):
            return Typed(types.quotient(a, b), True, origins)
    if not all(types.is_number(k) or k == "string" for k in kinds) or kinds == {"string"}:
        raise clash(node, left, right)
    return Typed("double", True, origins)


def _int_divided(node: exp.Expr, names: Names) -> Typed:
    values = operands(node, names)
    if not all(types.is_number(v.type) and v.type not in types.FRACTIONS for v in values):
        raise clash(node, *values)
    return Typed("bigint", True, joined(values))


def _bits(node: exp.Expr, names: Names) -> Typed:
    left, right = operands(node, names)
    wide = types.wider(left.type, right.type)
    if wide is None or not {left.type, right.type} <= set(types.INTEGERS):
        raise clash(node, left, right)
    return Typed(wide, left.nullable or right.nullable, joined((left, right)))


def _inverted(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    if value.type not in types.INTEGERS:
        raise ModelError(f"~ takes a whole number, not {value.type}", place=at(node))
    return value


def _text_joined(node: exp.Expr, names: Names) -> Typed:
    values = operands(node, names)
    found = functions.call("concat", values, (False, False))
    if found is None:
        raise clash(node, *values)
    return Typed(found[0], found[1], joined(values))


def clash(node: exp.Expr, left: Typed, right: Typed) -> ModelError:
    return ModelError(
        f"{node.sql('spark')[:80]}: {left.type} and {right.type} have no type in common",
        place=at(node),
        next_step="Cast one of them",
    )


ARITHMETIC: dict[type[exp.Expr], NodeRule] = {
    exp.Literal: _literal,
    exp.Null: _nothing,
    exp.Boolean: _fixed("boolean"),
    exp.HexString: _fixed("binary"),
    exp.CurrentDate: _fixed("date"),
    exp.CurrentTimestamp: _fixed("timestamp"),
    exp.Neg: _negative,
    exp.Interval: _interval,
    exp.Add: _arithmetic(types.sum_of_two),
    exp.Sub: _arithmetic(types.sum_of_two),
    exp.Mul: _arithmetic(types.product),
    exp.Mod: _arithmetic(types.remainder, fails=True),
    exp.Div: _divided,
    exp.IntDiv: _int_divided,
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _bits),
    exp.DPipe: _text_joined,
    exp.Paren: _same,
    exp.Alias: _same,
    exp.BitwiseNot: _inverted,
    exp.IgnoreNulls: _same,
    exp.RespectNulls: _same,
}
