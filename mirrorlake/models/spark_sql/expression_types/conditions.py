"""Conditions, and values that depend on one.

Source: Spark's ``AnsiTypeCoercion``.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.casts import is_single, may_lose
from mirrorlake.models.spark_sql.columns import Typed, joined
from mirrorlake.models.spark_sql.expression_types.arithmetic import clash, operands
from mirrorlake.models.spark_sql.expression_types.expression_context import Names, NodeRule
from mirrorlake.models.spark_sql.node_places import at

# --- conditions -----------------------------------------------------------------------------------


def _compared(node: exp.Expr, names: Names) -> Typed:
    left, right = operands(node, names)
    return Typed("boolean", _null_compared(node, (left, right)), joined((left, right)))


def _refuse_clash(node: exp.Expr, values: Sequence[Typed]) -> None:
    """See that values can be compared with the first of them: Spark compares no maps."""
    first = values[0]
    for value in values[1:]:
        maps = "map<" in first.type or "map<" in value.type
        if maps or types.wider(first.type, value.type) is None:
            raise clash(node, first, value)


def _null_compared(node: exp.Expr, values: Sequence[Typed]) -> bool:
    """Whether a comparison may be NULL: a text that is turned into a number may be none."""
    _refuse_clash(node, values)
    kinds = {v.type for v in values} - {types.VOID}
    turned = "string" in kinds and bool(kinds - {"string", "binary"})
    return turned or any(v.nullable for v in values)


def _same_or_null(node: exp.Expr, names: Names) -> Typed:
    values = operands(node, names)
    _refuse_clash(node, values)
    return Typed("boolean", False, joined(values))


def _is(node: exp.Expr, names: Names) -> Typed:
    """``IS NULL``, ``IS TRUE``."""
    value = names.typed(node.this)
    if not isinstance(node.expression, exp.Null):
        as_condition(value, node.this, "IS TRUE")
    return Typed("boolean", False, value.origins)


def _matched(node: exp.Expr, names: Names) -> Typed:
    values = operands(node, names)
    if not all(is_single(value.type) for value in values):
        raise clash(node, *values)
    return Typed("boolean", any(v.nullable for v in values), joined(values))


def _both(node: exp.Expr, names: Names) -> Typed:
    values = operands(node, names)
    for value, part in zip(values, (node.this, node.expression), strict=True):
        as_condition(value, part, node.key.upper())
    return Typed("boolean", any(v.nullable for v in values), joined(values))


def as_condition(value: Typed, node: exp.Expr, clause: str, *, null: bool = True) -> Typed:
    """A value where a condition is meant.

    Args:
        null: whether a bare NULL may stand there.

    Raises:
        ModelError: it is none, with its place.
    """
    if value.type != "boolean" and not (null and value.type == types.VOID):
        raise ModelError(f"{clause} takes a condition, not {value.type}", place=at(node))
    return value


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
        _refuse_clash(node, [value, *others])
        return Typed("boolean", value.nullable or others[0].nullable, joined([value, *others]))
    values = [value, *(names.typed(one) for one in node.expressions)]
    return Typed("boolean", _null_compared(node, values), joined(values))


def _negated(node: exp.Expr, names: Names) -> Typed:
    value = as_condition(names.typed(node.this), node.this, "NOT")
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
        conditions.insert(0, names.typed(node.this))
        _refuse_clash(node, conditions)
    else:
        for value, one in zip(conditions, whens, strict=True):
            as_condition(value, one.this, "WHEN", null=False)
    values = [names.typed(one.args["true"]) for one in whens]
    default = node.args.get("default")
    values.append(names.typed(default) if default is not None else Typed(types.VOID, True))
    # The value that is shown reveals the conditions that chose it, too.
    return _one_of(node, values, conditions)


def _if(node: exp.Expr, names: Names) -> Typed:
    condition = as_condition(names.typed(node.this), node.this, "IF")
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
    exp.NullSafeEQ: _same_or_null,
    exp.Is: _is,
    **dict.fromkeys((exp.Like, exp.ILike, exp.RegexpLike), _matched),
    **dict.fromkeys((exp.And, exp.Or), _both),
    exp.Between: _between,
    exp.In: _among,
    exp.Not: _negated,
    exp.Exists: _exists,
    exp.Subquery: _subquery,
    exp.Select: _subquery,
    exp.Case: _case,
    exp.If: _if,
}
