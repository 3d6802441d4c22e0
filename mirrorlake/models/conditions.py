"""Conditions, and values that depend on one.

Source: Spark's ``AnsiTypeCoercion``.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models import types
from mirrorlake.models.arithmetic import clash, operands
from mirrorlake.models.casts import may_lose
from mirrorlake.models.columns import Typed, joined
from mirrorlake.models.names import Names, NodeRule
from mirrorlake.models.place import at

# --- conditions -----------------------------------------------------------------------------------


def _compared(node: exp.Expr, names: Names) -> Typed:
    left, right = operands(node, names)
    return Typed("boolean", _null_compared(node, (left, right)), joined((left, right)))


def _null_compared(node: exp.Expr, values: Sequence[Typed]) -> bool:
    """Whether a comparison may be NULL: a text that is turned into a number may be none."""
    first = values[0]
    for value in values[1:]:
        if types.wider(first.type, value.type) is None:
            raise clash(node, first, value)
    kinds = {v.type for v in values} - {types.VOID}
    turned = "string" in kinds and bool(kinds - {"string", "binary"})
    return turned or any(v.nullable for v in values)


def _never_null(node: exp.Expr, names: Names) -> Typed:
    return Typed("boolean", False, joined(operands(node, names)))


def _matched(node: exp.Expr, names: Names) -> Typed:
    values = operands(node, names)
    return Typed("boolean", any(v.nullable for v in values), joined(values))


def _between(node: exp.Expr, names: Names) -> Typed:
    values = [names.typed(node.args[key]) for key in ("this", "low", "high")]
    return Typed("boolean", _null_compared(node, values), joined(values))


def _among(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    query = node.args.get("query")
    if query is not None:
        others = list(names.query(query))
        if len(others) != 1:
            raise ModelError("IN takes a query of one column", place=at(node))
        return Typed("boolean", value.nullable or others[0].nullable, joined([value, *others]))
    values = [value, *(names.typed(one) for one in node.expressions)]
    return Typed("boolean", _null_compared(node, values), joined(values))


def _negated(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    return Typed("boolean", value.nullable, value.origins)


def _exists(node: exp.Expr, names: Names) -> Typed:
    names.query(node.this)
    return Typed("boolean", False)


def _subquery(node: exp.Expr, names: Names) -> Typed:
    found = names.query(node)
    if len(found) != 1:
        raise ModelError("a subquery in an expression has one column", place=at(node))
    return Typed(found[0].type, True, found[0].origins)


def _case(node: exp.Expr, names: Names) -> Typed:
    whens = node.args.get("ifs") or []
    conditions = [names.typed(one.this) for one in whens]
    if node.this is not None:
        conditions.append(names.typed(node.this))
    values = [names.typed(one.args["true"]) for one in whens]
    default = node.args.get("default")
    values.append(names.typed(default) if default is not None else Typed(types.VOID, True))
    # What decides which value is shown is told by it, too.
    return _one_of(node, values, conditions)


def _if(node: exp.Expr, names: Names) -> Typed:
    condition = names.typed(node.this)
    other = node.args.get("false")
    values = [
        names.typed(node.args["true"]),
        names.typed(other) if other is not None else Typed(types.VOID, True),
    ]
    return _one_of(node, values, [condition])


def _one_of(node: exp.Expr, values: Sequence[Typed], deciding: Sequence[Typed]) -> Typed:
    wide = types.common(v.type for v in values)
    if wide is None:
        kinds = ", ".join(dict.fromkeys(v.type for v in values))
        raise ModelError(
            f"{node.sql('spark')[:80]}: {kinds} have no type in common",
            place=at(node),
            next_step="Cast them to one",
        )
    forced = any(v.type != wide and may_lose(v.type, wide) for v in values)
    nullable = forced or any(v.nullable for v in values)
    return Typed(wide, nullable, joined([*values, *deciding]))


CONDITIONS: dict[type[exp.Expr], NodeRule] = {
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _compared),
    exp.NullSafeEQ: _never_null,
    exp.Is: _never_null,
    **dict.fromkeys((exp.Like, exp.ILike, exp.RegexpLike, exp.And, exp.Or), _matched),
    exp.Between: _between,
    exp.In: _among,
    exp.Not: _negated,
    exp.Exists: _exists,
    exp.Subquery: _subquery,
    exp.Select: _subquery,
    exp.Case: _case,
    exp.If: _if,
}
