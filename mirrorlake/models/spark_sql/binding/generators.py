"""Functions that make rows of a row: explode and its kin.

What belongs here: what they give, and where one may stand. What doesn't: LATERAL VIEW itself
(`mirrorlake.models.spark_sql.binding.binder`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.columns import NamedValue, Typed
from mirrorlake.models.spark_sql.expression_types.expression_context import Names
from mirrorlake.models.spark_sql.expression_types.expressions import type_of
from mirrorlake.models.spark_sql.node_places import at

GENERATORS = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "stack"}


def exploded(
    call: exp.Anonymous, names: Names, alias: str, columns: Sequence[str]
) -> list[NamedValue]:
    """The columns that a generator gives.

    Args:
        alias: the name of the only one, where the query gives it.
        columns: the names of all, where the query gives them.

    Raises:
        ModelError: it can't be analysed, or does not fit what it takes.
    """
    kind = str(call.this).lower()
    if kind in ("inline", "stack"):
        raise ModelError(f"{kind} can't be analysed", place=at(call), next_step="Write explode")
    if len(call.expressions) != 1:
        raise ModelError(f"{kind} takes one array or map", place=at(call))
    value = type_of(call.expressions[0], names)
    pair, outer = types.map_of(value.type), kind.endswith("_outer")
    inner = list(pair) if pair else [types.element(value.type) or ""]
    if not all(inner):
        raise ModelError(f"{kind} takes an array or a map, not {value.type}", place=at(call))
    named = list(columns) or ([alias] if alias else (["key", "value"] if pair else ["col"]))
    fields = [
        Typed(one, number > 0 or not pair or outer, value.origins)
        for number, one in enumerate(inner)
    ]
    if kind.startswith("pos"):
        fields = [Typed("int", outer, value.origins), *fields]
        named = named if len(named) == len(fields) else ["pos", *named]
    if len(named) != len(fields):
        raise ModelError(f"{kind} gives {len(fields)} columns, not {len(named)}", place=at(call))
    return [NamedValue(name, one) for name, one in zip(named, fields, strict=True)]


def refuse_several(node: exp.Select, call: exp.Anonymous) -> None:
    """See that rows are made of rows once, and not of groups."""
    others = [one.unalias() for one in node.expressions]
    several = sum(
        isinstance(one, exp.Anonymous) and str(one.this).lower() in GENERATORS for one in others
    )
    grouped = node.args.get("group") is not None or node.args.get("having") is not None
    if several > 1 or grouped:
        words = f"{call.this} stands once in a SELECT, and not beside GROUP BY or HAVING"
        raise ModelError(words, place=at(call), next_step="Write LATERAL VIEW")
