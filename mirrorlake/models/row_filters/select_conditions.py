"""Which conditions of a SELECT hold of each row before rows are grouped.

What belongs here: WHERE, and by which expressions rows may be left out early. What doesn't: what
conditions say of columns (`mirrorlake.models.row_filters.joined_values`).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from mirrorlake.models.row_filters.joined_values import Conditions, FactFinder, conjuncts
from mirrorlake.models.spark_sql.bound_query import Trace
from mirrorlake.models.spark_sql.nodes import is_aggregate


@dataclass(frozen=True)
class SharedExpressions:
    """The expressions by which rows may be left out: those in each of some sets."""

    sets: tuple[frozenset[object], ...]

    def holds(self, named: object) -> bool:
        """Whether an expression, as `SelectConditions.named` names it, is in each of them."""
        return all(named in one for one in self.sets)


class SelectConditions:
    """The conditions of one query's SELECTs."""

    def __init__(self, trace: Trace, facts: FactFinder) -> None:
        self._trace, self._facts = trace, facts

    def of(self, node: exp.Select) -> Conditions:
        """WHERE, and the conditions of HAVING on columns that the rows are grouped by."""
        where, having = node.args.get("where"), node.args.get("having")
        found = [*conjuncts(where.this)] if where is not None else []
        if having is not None and node.args.get("group") is not None:
            grouped = self.shared(node)
            found += [
                one
                for one in conjuncts(having.this)
                if self._facts.columns_in(one)
                and all(grouped.holds(("column", c)) for c in self._facts.columns_in(one))
                and not any(True for _ in one.find_all(exp.AggFunc, exp.Query, exp.Window))
                and not any(is_aggregate(call) for call in one.find_all(exp.Anonymous))
            ]
        return Conditions(tuple(found))

    def shared(self, node: exp.Select) -> SharedExpressions:
        """The expressions by which rows of the result can be left out before they are made: those
        that all rows of a group and of its windows share."""
        sets: list[frozenset[object]] = []
        group = node.args.get("group")
        if group is not None:
            members = group.expressions if not has_grouping_sets(group) else []
            sets.append(frozenset(self.named(self._grouped(node, one)) for one in members))
        elif self._trace.nodes.is_total(node):
            sets.append(frozenset())
        for window in self._trace.nodes.windows(node):
            by = window.args.get("partition_by") or []
            sets.append(frozenset(self.named(one) for one in by))
        return SharedExpressions(tuple(sets))

    def named(self, node: exp.Expr) -> object:
        """An expression as it can be compared with others of the same SELECT."""
        node = node.unnest()
        place = self._trace.columns.get(id(node))
        if place is not None:
            return "column", place
        return self._trace.nodes.text(node)

    def _grouped(self, node: exp.Select, member: exp.Expr) -> exp.Expr:
        """What a GROUP BY names: by position, or by the alias of a column."""
        if isinstance(member, exp.Literal) and not member.args.get("is_string"):
            number = int(member.this) - 1
            if 0 <= number < len(node.expressions):
                return node.expressions[number].unalias()
        if isinstance(member, exp.Column) and id(member) not in self._trace.columns:
            for one in node.expressions:
                if one.alias and one.alias.lower() == member.name.lower():
                    return one.unalias()
        return member


def has_grouping_sets(group: exp.Expr) -> bool:
    """Whether rows are grouped in several ways at once."""
    if any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets", "all", "totals")):
        return True
    sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
    return any(isinstance(one, sets) for one in group.expressions)
