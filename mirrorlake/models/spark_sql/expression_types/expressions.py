"""The type, nullability and origins of an expression of Spark SQL.

The rules are those of Spark's analyser (ANSI mode), which is asked nothing here: the tests hold
each beside it. A query's own shape, its sources and its columns, is elsewhere
(`mirrorlake.models.spark_sql.binding.binder`).

Source: Spark SQL Guide, "ANSI Compliance"; Spark's ``AnsiTypeCoercion``, ``DecimalPrecision`` and
``Cast.forceNullable``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import functions, types
from mirrorlake.models.spark_sql.casts import is_castable, may_lose, written_type
from mirrorlake.models.spark_sql.clauses import refuse_maps
from mirrorlake.models.spark_sql.columns import Typed, joined
from mirrorlake.models.spark_sql.expression_types.arithmetic import ARITHMETIC
from mirrorlake.models.spark_sql.expression_types.conditions import CONDITIONS, as_condition
from mirrorlake.models.spark_sql.expression_types.expression_context import Names, NodeRule
from mirrorlake.models.spark_sql.node_places import at


def type_of(node: exp.Expr, names: Names) -> Typed:
    """What an expression gives.

    Raises:
        ModelError: a name, a function or a type in it is wrong, with its line and column.
    """
    found = _RULES.get(type(node))
    if found is not None:
        return found(node, names)
    raise ModelError(f"{node.sql('spark')[:80]} can't be analysed", place=at(node))


# --- names and casts ------------------------------------------------------------------------------


def _column(node: exp.Expr, names: Names) -> Typed:
    assert isinstance(node, exp.Column)  # noqa: S101
    return names.column(node)


def _cast(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    kind = _castable(value, node)
    nullable = value.nullable or bool(node.args.get("safe")) or may_lose(value.type, kind)
    # `3L` is read as a cast, and is a literal to Spark.
    literal = value.literal if {value.type, kind} <= set(types.INTEGERS) else None
    return Typed(kind, nullable, value.origins, literal)


def _castable(value: Typed, node: exp.Expr) -> str:
    """The type that a value is cast to."""
    kind = written_type(node.args["to"])
    if not is_castable(value.type, kind):
        raise ModelError(f"{value.type} can't be cast to {kind}", place=at(node))
    return kind


def _literal_cast(node: exp.Expr, names: Names) -> Typed:
    """``date'2020-01-01'``, and what the parser writes as it: ``date(x)``."""
    value = names.typed(node.this)
    kind = _castable(value, node)
    if isinstance(node.this, exp.Literal):
        return Typed(kind, False)
    return Typed(kind, value.nullable or may_lose(value.type, kind), value.origins)


# --- functions ------------------------------------------------------------------------------------


def _call(node: exp.Expr, names: Names) -> Typed:
    name, arguments = str(node.this).lower(), list(node.expressions)
    if name == "date_part" and len(arguments) == 2:
        return _part_of(str(arguments[0].this), names.typed(arguments[1]), node)
    if name == "named_struct":
        for one in arguments[::2]:
            if not one.is_string:
                raise ModelError("named_struct takes names as texts", place=at(node))
        pairs = zip(arguments[::2], arguments[1::2], strict=True)
        return _struct_of([(str(k.this), names.typed(v)) for k, v in pairs])
    if name == "struct":
        named = enumerate(arguments, 1)
        return _struct_of([(_field_name(one, n), names.typed(one.unalias())) for n, one in named])
    return _called(name, arguments, node, names)


def _field_name(node: exp.Expr, number: int) -> str:
    """What Spark calls an argument of ``struct``.

    Source: ``CreateStruct.create`` in Spark's "complexTypeCreator.scala"; 4.1.4's analyser.
    """
    node = node.unnest()
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp):
        # Written with brackets it has no name of its own; the parser does not say how it was.
        words = f"{node.sql('spark').lower()} in a struct needs a name"
        raise ModelError(words, place=at(node), next_step="Name it by AS")
    if isinstance(node, exp.Alias | exp.Column | exp.Dot):
        return node.alias_or_name
    if isinstance(node, exp.Bracket) and node.expressions[0].is_string:
        return node.expressions[0].name
    return f"col{number}"


def _called(name: str, arguments: Sequence[exp.Expr], node: exp.Expr, names: Names) -> Typed:
    parts: list[exp.Expr] = []
    for one in arguments:
        if isinstance(one, exp.Star):
            # `count(*)` alone counts rows.
            parts += [exp.Literal.number(1)] if name == "count" else [one]
        else:
            parts += one.expressions if isinstance(one, exp.Distinct) else [one]
    values = [names.typed(one) for one in parts]
    declared = names.declared(name)
    try:
        found = (
            declared.result(values)
            if declared is not None
            else functions.call(name, values, [_is_literal(one) for one in parts])
        )
    except KeyError:
        raise ModelError(
            f"there is no function {name}",
            place=at(node),
            next_step="See Spark's for its right name, or declare one of your own in "
            "models/functions.py",
        ) from None
    if found is None or (name in _FORMATS and not _is_format(values[0], parts[1])):
        kinds = ", ".join(v.type for v in values)
        step = f"It is {declared.shown}: CAST the argument" if declared is not None else ""
        raise ModelError(f"{name} does not take ({kinds})", place=at(node), next_step=step)
    return Typed(found[0], found[1], joined(values))


_FORMATS = ("to_char", "to_varchar")


def _is_literal(node: exp.Expr) -> bool:
    while isinstance(node, exp.Paren | exp.Neg | exp.Cast | exp.TryCast):
        node = node.this
    return isinstance(node, exp.Literal | exp.Boolean)


def _is_format(value: Typed, node: exp.Expr) -> bool:
    """Whether a text says how a number is written; of dates Spark looks when it runs."""
    text = str(node.this) if isinstance(node, exp.Literal) else ""
    return not types.is_number(value.type) or bool(re.fullmatch(r"[09]+([.D][09]*)?", text))


def _named_call(name: str, *keys: str) -> Callable[[exp.Expr, Names], Typed]:
    """A call that the parser has a node of its own for."""

    def rule(node: exp.Expr, names: Names) -> Typed:
        found: list[exp.Expr] = []
        for key in keys:
            value = node.args.get(key)
            found += value if isinstance(value, list) else [value] if value is not None else []
        return _called(name, found, node, names)

    return rule


def _window(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    parts = [*(node.args.get("partition_by") or [])]
    order = node.args.get("order")
    parts += [one.this for one in order.expressions] if order is not None else []
    # Their types must hold, and what they name must be there.
    for part in parts:
        refuse_maps([names.typed(part)], part, "a window")
    return value


def _filtered(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    condition = node.expression.this
    as_condition(names.typed(condition), condition, "FILTER", null=False)
    return value


def _within(node: exp.Expr, names: Names) -> Typed:
    ordered = [one.this for one in node.expression.expressions]
    call = node.this
    if isinstance(call, exp.Anonymous) and str(call.this).lower().startswith("percentile_"):
        return _called(str(call.this).lower(), ordered, node, names)
    return names.typed(call)


def _bracket(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    pair, inner = types.map_of(value.type), types.element(value.type)
    for index in node.expressions:
        kind = names.typed(index).type
        fits = kind == pair[0] if pair is not None else kind in types.INTEGERS
        if inner is not None and not fits:
            raise ModelError(f"{value.type} has no element by {kind}", place=at(node))
    if inner is None:
        raise ModelError(f"{value.type} has no elements", place=at(node))
    return Typed(inner, True, value.origins)


def _dot(node: exp.Expr, names: Names) -> Typed:
    value = names.typed(node.this)
    return field_of(value, node.expression.name, node)


def field_of(value: Typed, name: str, node: exp.Expr) -> Typed:
    """A field of a struct.

    Raises:
        ModelError: it has none of that name.
    """
    fields = types.fields_of(value.type) or {}
    found = next((kind for field, kind in fields.items() if field.lower() == name.lower()), None)
    if found is None:
        raise ModelError(f"{value.type} has no field {name}", place=at(node))
    return Typed(found, True, value.origins)


def _struct_of(pairs: Sequence[tuple[str, Typed]]) -> Typed:
    parts = ",".join(f"{name}:{value.type}" for name, value in pairs)
    return Typed(f"struct<{parts}>", False, joined(value for _, value in pairs))


_DATE_PARTS = frozenset(
    {
        *(
            "YEAR",
            "Y",
            "YEARS",
            "YR",
            "YRS",
            "YEAROFWEEK",
            "QUARTER",
            "QTR",
            "MONTH",
            "MON",
            "MONS",
        ),
        *("MONTHS", "WEEK", "W", "WEEKS", "DAY", "D", "DAYS", "DAYOFWEEK", "DOW", "DAYOFWEEK_ISO"),
        *("DOW_ISO", "DOY", "HOUR", "H", "HOURS", "HR", "HRS", "MINUTE", "M", "MIN", "MINS"),
        *("MINUTES", "SECOND", "S", "SEC", "SECONDS", "SECS"),
    }
)


def _extract(node: exp.Expr, names: Names) -> Typed:
    return _part_of(str(node.this), names.typed(node.expression), node)


def _part_of(name: str, value: Typed, node: exp.Expr) -> Typed:
    part = name.upper()
    fits = value.type in (*types.MOMENTS, "string", types.VOID)
    days = value.type.startswith("interval day") and part in ("DAY", "DAYS", "D")
    if part not in _DATE_PARTS or not (fits or days):
        raise ModelError(f"there is no {name} of {value.type}", place=at(node))
    kind = "decimal(8,6)" if part in ("SECOND", "SECONDS", "S") else "int"
    return Typed(kind, value.nullable or value.type == "string", value.origins)


_RULES: dict[type[exp.Expr], NodeRule] = {
    **ARITHMETIC,
    **CONDITIONS,
    exp.Column: _column,
    exp.TryCast: _cast,
    exp.Cast: _literal_cast,
    exp.Anonymous: _call,
    exp.Window: _window,
    exp.Filter: _filtered,
    exp.WithinGroup: _within,
    exp.Bracket: _bracket,
    exp.Dot: _dot,
    exp.Extract: _extract,
    exp.Trim: _named_call("trim", "this", "expression"),
    exp.Substring: _named_call("substring", "this", "start", "length"),
    exp.Initcap: _named_call("initcap", "this"),
    exp.StrPosition: _named_call("position", "substr", "this"),
    exp.Chr: _named_call("chr", "expressions"),
    exp.Decode: _named_call("decode", "this", "charset"),
    exp.Ceil: _named_call("ceil", "this", "decimals"),
    exp.Floor: _named_call("floor", "this", "decimals"),
    exp.ArgMax: _named_call("max_by", "this", "expression"),
    exp.ArgMin: _named_call("min_by", "this", "expression"),
    exp.Quantile: _named_call("percentile", "this", "quantile"),
    exp.ApproxQuantile: _named_call("percentile_approx", "this", "quantile"),
    exp.Any: _named_call("any", "this"),
    exp.GroupConcat: _named_call("listagg", "this", "separator"),
}
