"""Which values the columns of a query have, upwards: from its sources to what reads it.

What belongs here: what is true of each row that a source, or a query, gives. What doesn't: which of
those rows matter (`mirrorlake.models.row_filters.rows_read`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from mirrorlake.models.row_filters.joined_sources import JoinedSources, plain_query, sources_of
from mirrorlake.models.row_filters.joined_values import (
    Conditions,
    FactFinder,
    Facts,
    added,
    comparable,
)
from mirrorlake.models.row_filters.select_conditions import SelectConditions, has_grouping_sets
from mirrorlake.models.row_filters.value_sets import ALL, ValueSet
from mirrorlake.models.spark_sql.bound_query import InputColumn, Trace
from mirrorlake.models.spark_sql.constants.values import Unknown

WantedValues = Mapping[int, ValueSet]
"""Position of a column → the values that matter; rows with others are thrown away by the reader."""


class GivenValues:
    """What is true of the rows that parts of one query give."""

    def __init__(self, trace: Trace, facts: FactFinder, conditions: SelectConditions) -> None:
        self._trace, self._facts, self._conditions = trace, facts, conditions
        self._given: dict[int, Mapping[int, ValueSet]] = {}

    def up(
        self, sources: JoinedSources, number: int, conditions: Conditions, known: Facts
    ) -> tuple[Conditions, Facts]:
        """Conditions and facts, with those that are true of each row of the first joins."""
        if sources.first is None:
            return conditions, known
        if number == 0:
            return conditions, self.first_up(sources, known)
        join = sources.joins[number - 1]
        if join.kind == "FULL":
            return conditions, known
        if join.kind == "RIGHT":
            return conditions, added(known, self.of_source(join.key))
        conditions, known = self.up(sources, number - 1, conditions, known)
        if join.kind in ("INNER", "SEMI"):
            return conditions + join.on, added(known, self.of_source(join.key))
        return conditions, known

    def first_up(self, sources: JoinedSources, known: Facts) -> Facts:
        """Facts, with those that are true of each row of the first source."""
        return added(known, self.of_source(sources.first or 0))

    def of_source(self, key: int) -> Facts:
        """What a query in FROM, or a CTE, gives of its columns."""
        if key not in self._trace.queries:
            return {}
        inner, names = self._trace.queries[key]
        given = self._given_by(inner)
        return {(key, names[number]): values for number, values in given.items()}

    def in_queries(self, where: Conditions) -> Facts:
        """``x IN (SELECT …)``: x is one of what the query gives."""
        facts: Facts = {}
        for node in where.nodes:
            query = node.args.get("query") if isinstance(node, exp.In) else None
            if query is None:
                continue
            given = self._given_by(query).get(0, ALL)
            types = self._trace.types.get(id(plain_query(query)))
            turned = None if given.is_all else self._facts.turned(node.this, given)
            if turned is not None and types is not None:
                column, values = turned
                if comparable(types[0], self._trace.kinds.get(column, "")):
                    facts[column] = facts.get(column, ALL) & values
        return facts

    def of_branch(
        self, node: exp.SetOperation, side: exp.Expr, wanted: WantedValues
    ) -> WantedValues:
        """What is wanted of one side of a union: of columns that the union does not cast."""
        whole, part = self._trace.types.get(id(node)), self._trace.types.get(id(plain_query(side)))
        if whole is None or part is None:
            return {}
        return {
            number: values
            for number, values in wanted.items()
            if comparable(whole[number], part[number])
        }

    def _given_by(self, node: exp.Expr) -> Mapping[int, ValueSet]:
        """The values that columns of a query may have, by position; such a column is never NULL."""
        found = self._given.get(id(node))
        if found is None:
            self._given[id(node)] = {}  # a query that is asked about within itself says nothing
            found = self._given[id(node)] = self._gives(node)
        return found

    def _gives(self, node: exp.Expr) -> Mapping[int, ValueSet]:
        if isinstance(node, exp.Subquery | exp.Paren):
            return self._given_by(node.this)
        if isinstance(node, exp.SetOperation):
            return self._given_by_both(node)
        if not isinstance(node, exp.Select):
            return {}
        group = node.args.get("group")
        if group is not None and has_grouping_sets(group):
            return {}
        sources, where = sources_of(node, self._trace), self._conditions.of(node)
        known = self.in_queries(where)
        facts = self._facts.closure(*self.up(sources, len(sources.joins), where, known))
        given: dict[int, ValueSet] = {}
        for number, (_, output) in enumerate(self._trace.outputs.get(id(node), [])):
            values = self._given_of(output, facts)
            if not values.is_all:
                given[number] = values
        return given

    def _given_of(self, output: exp.Expr | InputColumn | None, facts: Facts) -> ValueSet:
        if output is None:
            return ALL
        if isinstance(output, tuple):
            return facts.get(output, ALL)
        try:
            value = self._facts.constant(output)
            return ALL if value is None else ValueSet.of("=", value)
        except Unknown:
            pass
        columns = self._facts.columns_in(output)
        if len(columns) != 1:
            return ALL
        return self._facts.image(output, columns[0], facts.get(columns[0], ALL))

    def _given_by_both(self, node: exp.SetOperation) -> Mapping[int, ValueSet]:
        left, right = (
            {
                number: values
                for number, values in self._given_by(side).items()
                if number in self.of_branch(node, side, {number: values})
            }
            for side in (node.left, node.right)
        )
        if isinstance(node, exp.Except):
            return left
        if isinstance(node, exp.Intersect):
            return {n: left.get(n, ALL) & right.get(n, ALL) for n in {*left, *right}}
        return {number: left[number] | right[number] for number in left if number in right}
