"""UNION, INTERSECT and EXCEPT: the columns that they give.

What belongs here: what becomes of the columns of both sides. What doesn't: the sides themselves
(`mirrorlake.models.spark_sql.binding.binder`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.columns import NamedValue, Typed, joined
from mirrorlake.models.spark_sql.node_places import at


def united(
    node: exp.SetOperation, left: Sequence[NamedValue], right: Sequence[NamedValue]
) -> list[NamedValue]:
    """The columns of a set operation, by those of its sides.

    Raises:
        ModelError: the sides have not as many, or two have no common type.
    """
    if len(left) != len(right):
        raise ModelError(
            f"both sides of a {node.key.upper()} must have as many columns: {len(left)} and "
            f"{len(right)}",
            place=at(node.right) or at(node),
        )
    found: list[NamedValue] = []
    for one, other in zip(left, right, strict=True):
        wide = types.common((one.value.type, other.value.type))
        if wide is None:
            raise ModelError(
                f"column {one.name} is {one.value.type} on one side of the {node.key.upper()} "
                f"and {other.value.type} on the other",
                place=at(node.right) or at(node),
                next_step="Cast one of them",
            )
        nullable = _null_of_both(node, one.value, other.value)
        origins = joined((one.value, other.value))
        found.append(NamedValue(one.name, Typed(wide, nullable, origins)))
    return found


def _null_of_both(node: exp.SetOperation, left: Typed, right: Typed) -> bool:
    if isinstance(node, exp.Intersect):
        return left.nullable and right.nullable
    if isinstance(node, exp.Except):
        return left.nullable
    return left.nullable or right.nullable
