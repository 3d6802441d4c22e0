"""The clauses of a query that give no column: what it is grouped and ordered by, and how many rows.

What belongs here: a clause by itself. What doesn't: what may stand beside it
(`mirrorlake.models.spark_sql.binding.grouping`), and names
(`mirrorlake.models.spark_sql.binding.name_lookup`).

Source: Spark SQL Reference, "SELECT"; Spark's ``CheckAnalysis``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.columns import Typed
from mirrorlake.models.spark_sql.node_places import at


def sometimes_grouped(node: exp.Select) -> frozenset[str]:
    """Expressions by which some rows are grouped and others not: NULL in those that are not."""
    _, sets = grouped_by(node)
    return frozenset(one.sql("spark").lower() for one in sets)


def grouped_by(node: exp.Select) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """What all rows are grouped by, and what is in a ROLLUP, a CUBE or GROUPING SETS."""
    group = node.args.get("group")
    if group is None:
        return [], []
    plain: list[exp.Expr] = []
    sets: list[exp.Expr] = []
    clauses = [
        one for key in ("rollup", "cube", "grouping_sets") for one in group.args.get(key) or []
    ]
    for one in (*group.expressions, *clauses):
        if isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets):
            sets += _members(one)
        else:
            plain.append(one)
    if clauses and not any(_members(one) for one in clauses):
        return [], plain  # `GROUP BY a, b WITH ROLLUP`
    return plain, sets


def _members(clause: exp.Expr) -> list[exp.Expr]:
    """The expressions of a ROLLUP, CUBE or GROUPING SETS, out of their brackets."""
    found: list[exp.Expr] = []
    for one in clause.expressions:
        if isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            found += _members(one)
        elif isinstance(one, exp.Paren):
            found.append(one.this)
        else:
            found.append(one)
    return found


def output_columns(
    order: Sequence[exp.Expr], names: Sequence[str], clause: str = "ORDER BY"
) -> None:
    """See that a union, or a query in brackets, is ordered by its own columns.

    Raises:
        ModelError: it is not, with the place.
    """
    known = [name.lower() for name in names]
    for one in order:
        node = one.this
        if position(node, len(known), clause) is not None:
            continue
        plain = isinstance(node, exp.Column) and not node.table
        if not plain or known.count(node.name.lower()) != 1:
            words = f"{clause} is by the query's own columns here, each by its name"
            raise ModelError(words, place=at(node))


def position(node: exp.Expr, count: int, clause: str) -> int | None:
    """Which column of a query a number means, from 0; None of what is no number.

    Raises:
        ModelError: there is none at this position.
    """
    if not isinstance(node, exp.Literal) or node.args.get("is_string"):
        return None
    text = str(node.this)
    if not text.isdecimal():
        return None
    if not 1 <= int(text) <= count:
        raise ModelError(f"{clause} {text}: there are {count} columns", place=at(node))
    return int(text) - 1


def refuse_uncountable(node: exp.Expr, constants: Mapping[str, Typed]) -> None:
    """See that LIMIT and OFFSET are numbers that are known before any row is.

    Raises:
        ModelError: one is not, with its place.
    """
    for key in ("limit", "offset"):
        clause = node.args.get(key)
        if clause is None:
            continue
        value = clause.expression
        is_number = (
            isinstance(value, exp.Literal)
            and not value.args.get("is_string")
            and str(value.this).isdecimal()
            and int(str(value.this)) < 2**31
        )
        constant = constants.get(value.name.lower()) if isinstance(value, exp.Column) else None
        is_all = isinstance(value, exp.Var) and key == "limit"
        if not is_number and not is_all and (constant is None or constant.type != "int"):
            words = f"{key.upper()} takes a whole number that is written there"
            raise ModelError(words, place=at(value) or at(node))


def refuse_maps(values: Sequence[Typed], node: exp.Expr, clause: str) -> None:
    """See that values can be compared: Spark compares no maps.

    Raises:
        ModelError: one is a map, or has one in it.
    """
    kind = next((one.type for one in values if "map<" in one.type), None)
    if kind is not None:
        raise ModelError(f"{clause} can't compare {kind}", place=at(node))


def refuse_no_condition(value: Typed, node: exp.Expr, clause: str) -> None:
    """See that a clause has a condition.

    Raises:
        ModelError: it has something else, with its place.
    """
    if value.type != "boolean":
        raise ModelError(f"{clause} takes a condition, not {value.type}", place=at(node))
