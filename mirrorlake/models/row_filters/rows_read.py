"""Which rows of each table a query can depend on: for each place where it reads the table, the
values that some of its columns may have.

All other rows could be taken away, or anything be added to them, and the query would give the same.
Where that can't be shown of a column it has no bound. Conditions are carried through joins,
subqueries, CTEs, unions, groups and windows, downwards (what is not wanted need not be read) and
upwards (a subquery of one day joined by its day).

What belongs here: the way down, from what is wanted of a query to its sources. What doesn't: what
those give (`mirrorlake.models.row_filters.given_values`), what conditions say of columns
(`mirrorlake.models.row_filters.joined_values`), and which partitions there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from mirrorlake.models.row_filters.given_values import GivenValues, WantedValues
from mirrorlake.models.row_filters.joined_sources import JoinedSources, sources_of
from mirrorlake.models.row_filters.joined_values import (
    NOWHERE,
    Conditions,
    FactFinder,
    Facts,
    added,
)
from mirrorlake.models.row_filters.select_conditions import SelectConditions, SharedExpressions
from mirrorlake.models.row_filters.value_sets import ALL, NONE, ValueSet
from mirrorlake.models.spark_sql.bound_query import BoundQuery, InputColumn, Trace
from mirrorlake.models.spark_sql.constants.values import Constant, Unknown
from mirrorlake.models.spark_sql.node_places import at

_MOST_VISITS = 10_000
"""A query that names its CTEs so often is not followed: all of its tables have no bound."""


@dataclass(frozen=True)
class TableReach:
    """What one mention of a table in a query can depend on.

    Attributes:
        columns: column, in lower case → its values; columns that have no bound are not in it.
        place: line and column of the mention, where the parser kept them.
    """

    table: str
    columns: Mapping[str, ValueSet] = field(default_factory=dict[str, ValueSet])
    place: tuple[int, int] | None = None

    def bound(self, column: str) -> ValueSet:
        return self.columns.get(column.lower(), ALL)


def reach(
    query: exp.Expr, bound: BoundQuery, names: Mapping[str, Constant]
) -> tuple[TableReach, ...]:
    """What a query reads of each table under one scope.

    Args:
        query: the one that was bound.
        names: the constants of the scope.

    Returns:
        one for each mention, in no order; a mention from which no row can matter is left out.
    """
    names = {name.lower(): value for name, value in names.items()}
    walk = _Walk(bound.trace, FactFinder(bound.trace, names))
    try:
        walk.query(query, {}, {})
    except _TooMany:
        walk.found.clear()
    return tuple(walk.all())


class _TooMany(Exception):
    pass


class _Walk:
    """One way through a query, downwards: what matters of what each part reads."""

    def __init__(self, trace: Trace, facts: FactFinder) -> None:
        self.trace, self.facts = trace, facts
        self.conditions = SelectConditions(trace, facts)
        self.given = GivenValues(trace, facts, self.conditions)
        self.found: dict[int, list[Mapping[str, ValueSet]]] = {}
        self._nodes: dict[int, exp.Expr] = {}
        self._visits = 0

    def all(self) -> Iterator[TableReach]:
        for key, table in self.trace.tables.items():
            place = at(self._nodes[key]) if key in self._nodes else None
            for columns in self.found.get(key, [{}]):
                yield TableReach(table, columns, place)

    def query(self, node: exp.Expr, wanted: WantedValues, outer: Facts) -> None:
        """Visit a query of which only some rows matter.

        Args:
            outer: facts of the columns of queries around it.
        """
        self._visits += 1
        if self._visits > _MOST_VISITS:
            raise _TooMany
        if _cut(node):
            wanted = {}
        if isinstance(node, exp.Subquery | exp.Paren):
            self.query(node.this, wanted, outer)
        elif isinstance(node, exp.SetOperation):
            for side in (node.left, node.right):
                self.query(side, self.given.of_branch(node, side, wanted), outer)
        elif isinstance(node, exp.Select):
            self._select(node, wanted, outer)

    def _select(self, node: exp.Select, wanted: WantedValues, outer: Facts) -> None:
        sources, where = sources_of(node, self.trace), self.conditions.of(node)
        for one in self.trace.nodes.sources(node):
            self._nodes.setdefault(id(one), one)
        known = added(outer, self._sources_of(node, wanted))
        known = added(known, self.given.in_queries(where))
        inside = self.facts.closure(*self.given.up(sources, len(sources.joins), where, known))
        self._subqueries(node, sources, inside, outer)
        if _dead(inside):
            for key in sources.keys:
                self._skip(key)
            return
        self._push(sources, len(sources.joins), where, known)

    def _sources_of(self, node: exp.Select, wanted: WantedValues) -> Facts:
        """What is wanted of a SELECT's columns, as facts of its sources' columns."""
        facts: Facts = {}
        outputs = self.trace.outputs.get(id(node), [])
        allowed = self.conditions.shared(node)
        for number, values in wanted.items():
            if values.is_all or number >= len(outputs):
                continue
            column, turned = self._wanted_of(outputs[number][1], values, allowed)
            if column is not None:
                facts[column] = facts.get(column, ALL) & turned
        return facts

    def _wanted_of(
        self, output: exp.Expr | InputColumn | None, values: ValueSet, allowed: SharedExpressions
    ) -> tuple[InputColumn | None, ValueSet]:
        if isinstance(output, tuple):
            return (output if allowed.holds(("column", output)) else None), values
        if output is None:
            return None, values
        try:
            value = self.facts.constant(output)
            # A column that is NULL, or a constant out of the wanted ones, in every row.
            return NOWHERE, (ALL if value is not None and values.touches(value, value) else NONE)
        except Unknown:
            pass
        if not allowed.holds(self.conditions.named(output)):
            return None, values
        turned = self.facts.turned(output, values)
        return turned if turned is not None else (None, values)

    def _push(
        self, sources: JoinedSources, number: int, conditions: Conditions, known: Facts
    ) -> None:
        """Visit the first ``number`` joins of a SELECT, in a relation of which only rows matter for
        which conditions and facts hold."""
        if sources.first is None:
            return
        if number == 0:
            self._leaf(
                sources.first, self.facts.closure(conditions, self.given.first_up(sources, known))
            )
            return
        join = sources.joins[number - 1]
        kind = self._narrowed(sources, number, conditions, known)
        theirs = self.given.of_source(join.key)
        if kind == "FULL":
            # Neither side's rows depend on the condition.
            self._leaf(join.key, self.facts.closure(Conditions(), theirs))
            self._push(sources, number - 1, Conditions(), {})
        elif kind == "RIGHT":
            self._leaf(join.key, self.facts.closure(conditions, added(known, theirs)))
            self._push(sources, number - 1, conditions + join.on, added(known, theirs))
        else:
            both = self.given.up(sources, number - 1, conditions + join.on, added(known, theirs))
            self._leaf(join.key, self.facts.closure(*both))
            if kind in ("INNER", "SEMI"):
                self._push(sources, number - 1, conditions + join.on, added(known, theirs))
            else:
                self._push(sources, number - 1, conditions, known)

    def _narrowed(
        self, sources: JoinedSources, number: int, conditions: Conditions, known: Facts
    ) -> str:
        """What a join amounts to, where a fact of one side's column drops the rows without it."""
        join = sources.joins[number - 1]
        if join.kind not in ("LEFT", "RIGHT", "FULL"):
            return join.kind
        facts = self.facts.closure(conditions, known)
        there = {key for (key, _), values in facts.items() if not values.is_all}
        right = join.key in there
        left = bool(there & sources.keys_before(number - 1))
        if join.kind == "FULL":
            names = {(True, True): "INNER", (True, False): "LEFT", (False, True): "RIGHT"}
            return names.get((left, right), "FULL")
        return "INNER" if (right if join.kind == "LEFT" else left) else join.kind

    def _leaf(self, key: int, facts: Facts) -> None:
        """Visit one source of which only rows matter that some facts are true of."""
        node = self._nodes.get(key)
        if _dead(facts):
            self._skip(key)
        elif key in self.trace.tables:
            columns = {name: values for (of, name), values in facts.items() if of == key}
            sampled = node is not None and node.args.get("sample") is not None
            unknown = key in self.trace.renamed or sampled
            self.found.setdefault(key, []).append({} if unknown else columns)
        elif key in self.trace.queries:
            inner, names = self.trace.queries[key]
            wanted = {
                number: facts[key, name]
                for number, name in enumerate(names)
                if (key, name) in facts and names.count(name) == 1
            }
            self.query(inner, wanted, facts)
        else:
            for inner in self.trace.nodes.queries(node) if node is not None else ():
                self.query(inner, {}, facts)

    def _skip(self, key: int) -> None:
        """No row of a source matters."""
        if key in self.trace.tables:
            self.found.setdefault(key, [])
            return
        inner = self.trace.queries[key][0] if key in self.trace.queries else self._nodes.get(key)
        self._visits += 1
        if self._visits > _MOST_VISITS:
            raise _TooMany
        for one in inner.find_all(exp.Table) if inner is not None else ():
            if id(one) != key:
                self._skip(id(one))

    def _subqueries(
        self, node: exp.Select, sources: JoinedSources, inside: Facts, outer: Facts
    ) -> None:
        """Visit the queries within a SELECT's expressions."""
        where = node.args.get("where")
        for inner in self.trace.nodes.queries(where) if where is not None else ():
            self.query(inner, {}, inside)
        # A total has a row even of no rows.
        after = outer if self.trace.nodes.is_total(node) else inside
        clauses = (node.args.get(name) for name in ("group", "having", "qualify", "order"))
        for part in (*node.expressions, *(one for one in clauses if one is not None)):
            for inner in self.trace.nodes.queries(part):
                self.query(inner, {}, after)
        for join in sources.joins:
            on = join.node.args.get("on") if join.node is not None else None
            for inner in self.trace.nodes.queries(on) if on is not None else ():
                # A row that the condition drops may be one that an outer join keeps.
                self.query(inner, {}, outer)


def _cut(node: exp.Expr) -> bool:
    """Whether rows are counted off: which are left depends on all."""
    return any(node.args.get(clause) is not None for clause in ("limit", "offset", "fetch"))


def _dead(facts: Facts) -> bool:
    """Whether there is no row of which all facts are true."""
    return any(values.is_none for values in facts.values())
