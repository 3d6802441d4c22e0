"""What is true of each row of a joined relation: which values its columns have.

From conditions (``WHERE``, ``ON``) and from what is known of the sources: ``a.day = b.day`` gives
``b.day`` what is known of ``a.day``. A fact is never true of a row in which the column is NULL, so
facts survive outer joins (`mirrorlake.models.row_filters.rows_read` says how).

What belongs here: from conditions to sets of values. What doesn't: joins, and queries in queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from mirrorlake.models.row_filters.predicates import IsColumn, left_by, turned_round
from mirrorlake.models.row_filters.value_sets import ALL, Interval, ValueSet
from mirrorlake.models.spark_sql.bound_query import InputColumn, Trace
from mirrorlake.models.spark_sql.constants.evaluate import evaluate
from mirrorlake.models.spark_sql.constants.values import Constant, Unknown

Facts = dict[InputColumn, ValueSet]
"""Column → its values; a column that is not in it may have any, or be NULL."""

_GROUPS = (
    frozenset({"tinyint", "smallint", "int", "bigint"}),
    frozenset({"date", "timestamp", "timestamp_ntz"}),
    frozenset({"string"}),
    frozenset({"boolean"}),
)
"""Types that compare without loss: an INT beside a FLOAT is rounded first, a text is cast."""
_UNSURE = (Unknown, ArithmeticError, TypeError, ValueError)
"""Past the year 9999, or between types that can't be compared, there are no bounds."""
_ROUNDS = 8
"""How often facts are passed on through equalities; fewer only says less."""


def comparable(kind: str, other: str) -> bool:
    """Whether a value of one type, seen as the other's, is that value."""
    return any(kind in group and other in group for group in _GROUPS)


def added(facts: Facts, more: Mapping[InputColumn, ValueSet]) -> Facts:
    """Both facts at once."""
    found = dict(facts)
    for column, values in more.items():
        found[column] = found.get(column, ALL) & values
    return found


def conjuncts(node: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that must all be true for one to be."""
    if node is None:
        return
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    else:
        yield node


@dataclass(frozen=True)
class Conditions:
    """Conditions that hold together, and pairs of columns that are equal (``USING``)."""

    nodes: tuple[exp.Expr, ...] = ()
    pairs: tuple[tuple[InputColumn, InputColumn], ...] = ()

    def __add__(self, other: Conditions) -> Conditions:
        return Conditions(self.nodes + other.nodes, self.pairs + other.pairs)


@dataclass(frozen=True)
class FactFinder:
    """Finds facts in one bound query under one scope.

    Attributes:
        names: the constants of the scope, in lower case.
    """

    trace: Trace
    names: Mapping[str, Constant]
    _columns: dict[int, tuple[InputColumn, ...]] = field(
        default_factory=dict[int, tuple[InputColumn, ...]]
    )

    def kind_of(self, column: InputColumn) -> str:
        """A column's type. A time without a zone is taken for one in UTC, as all sessions are."""
        kind = self.trace.kinds.get(column, "")
        return "timestamp" if kind == "timestamp_ntz" else kind

    def columns_in(self, node: exp.Expr) -> tuple[InputColumn, ...]:
        """The columns that an expression names, each once."""
        found = self._columns.get(id(node))
        if found is None:
            places = (self.trace.columns.get(id(one)) for one in self.trace.nodes.columns(node))
            found = tuple(dict.fromkeys(place for place in places if place is not None))
            self._columns[id(node)] = found
        return found

    def closure(self, conditions: Conditions, known: Facts) -> Facts:
        """All that follows from conditions and from facts known before."""
        facts = dict(known)
        for node in conditions.nodes:
            for column in self.columns_in(node):
                kind = self.kind_of(column)
                values = left_by(node, self._is(column), kind, self.names)
                if not values.is_all and any(kind in group for group in _GROUPS):
                    facts[column] = facts.get(column, ALL) & values
            if not self.columns_in(node) and left_by(node, _never, "", self.names).is_none:
                facts[NOWHERE] = ValueSet(())
        links = [*self._links(conditions)]
        for _ in range(_ROUNDS):
            before = dict(facts)
            for one in links:
                self._pass_on(one, facts)
            if facts == before:
                break
        return facts

    def _is(self, column: InputColumn) -> IsColumn:
        return lambda node: self.trace.columns.get(id(node)) == column

    def _links(self, conditions: Conditions) -> Iterator[_Link]:
        for node in conditions.nodes:
            if isinstance(node, exp.Between):
                yield from self._link(">=", node.this, node.args["low"])
                yield from self._link("<=", node.this, node.args["high"])
            elif type(node) in _COMPARISONS:
                yield from self._link(_COMPARISONS[type(node)], node.this, node.expression)
        for left, right in conditions.pairs:
            yield _Link("=", left, right, None, None)
            yield _Link("=", right, left, None, None)

    def _link(self, operator: str, left: exp.Expr, right: exp.Expr) -> Iterator[_Link]:
        """What two expressions of a column each say of one another."""
        mine, theirs = self.columns_in(left), self.columns_in(right)
        if len(mine) == 1 and len(theirs) == 1 and mine != theirs:
            yield _Link(operator, mine[0], theirs[0], left, right)
            yield _Link(_FLIPPED[operator], theirs[0], mine[0], right, left)

    def _pass_on(self, link: _Link, facts: Facts) -> None:
        known = facts.get(link.source, ALL)
        if known.is_all:
            return
        kinds = self.kind_of(link.target), self.kind_of(link.source)
        if not comparable(*kinds):
            return
        values = self.image(link.source_node, link.source, known)
        if link.target_node is None:
            found = values
        else:
            turned = turned_round(link.target_node, self._is(link.target), kinds[0], self.names)
            if turned is None:
                return
            try:
                found = turned(_beside(link.operator, values))
            except _UNSURE:
                return
        if not found.is_all:
            facts[link.target] = facts.get(link.target, ALL) & found

    def image(self, node: exp.Expr | None, column: InputColumn, values: ValueSet) -> ValueSet:
        """The values of an expression, from those of the one column that it names."""
        if node is None or self.trace.columns.get(id(node)) == column:
            return values
        kind = self.kind_of(column)
        # What can be turned round never falls where the column rises.
        if values.is_all or turned_round(node, self._is(column), kind, self.names) is None:
            return ALL
        template = self._with_bound(node, column)

        def at(value: Constant) -> Constant:
            return evaluate(template, {**self.names, _BOUND: value})

        try:
            return values.widened(at, at)
        except _UNSURE:
            return ALL

    def _with_bound(self, node: exp.Expr, column: InputColumn) -> exp.Expr:
        copied = node.copy()
        for one, copy in zip(list(node.walk()), list(copied.walk()), strict=True):
            if self.trace.columns.get(id(one)) == column:
                copy.replace(exp.column(_BOUND))
        return copied

    def turned(self, node: exp.Expr, values: ValueSet) -> tuple[InputColumn, ValueSet] | None:
        """The one column that an expression names, and what it may be where the expression is one
        of some values; None where that can't be said."""
        columns = self.columns_in(node)
        if len(columns) != 1:
            return None
        kind = self.kind_of(columns[0])
        turned = turned_round(node, self._is(columns[0]), kind, self.names)
        if turned is None or not any(kind in group for group in _GROUPS):
            return None
        try:
            return columns[0], turned(values)
        except _UNSURE:
            return None

    def constant(self, node: exp.Expr) -> Constant:
        """The value of an expression that names no column.

        Raises:
            Unknown: it has none here.
        """
        if any(id(one) not in self.trace.constants for one in self.trace.nodes.columns(node)):
            raise Unknown(node)
        return evaluate(node, self.names)


NOWHERE: InputColumn = (0, "")
"""A column that no source has: a fact of it says that there are no rows."""
_BOUND = "_bound"
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@dataclass(frozen=True)
class _Link:
    """``target_node operator source_node``; None: the column itself."""

    operator: str
    target: InputColumn
    source: InputColumn
    target_node: exp.Expr | None
    source_node: exp.Expr | None


def _never(_: exp.Expr) -> bool:
    return False


def _beside(operator: str, values: ValueSet) -> ValueSet:
    """What compares so with at least one of some values."""
    if operator == "=" or values.is_none:
        return values
    parts: list[Interval] = []
    for one in values.parts:
        if operator in ("<", "<="):
            parts.append(Interval(None, one.high, True, operator == "<=" and one.to_high))
        else:
            parts.append(Interval(one.low, None, operator == ">=" and one.from_low, True))
    return ValueSet(tuple(parts))
