"""Which rows of each table a query can depend on: for each place where it reads the table, the
values that some of its columns may have.

All other rows could be taken away, or anything be added to them, and the query would give the same.
Where that can't be shown of a column it has no bound. Conditions are carried through joins,
subqueries, CTEs, unions, groups and windows, downwards (what is not wanted need not be read) and
upwards (a subquery of one day joined by its day).

What belongs here: queries and their sources. What doesn't: what conditions say of columns
(`mirrorlake.models.row_filters.joined_values`), and which partitions there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from mirrorlake.models.row_filters.joined_values import (
    NOWHERE,
    Conditions,
    FactFinder,
    Facts,
    added,
    comparable,
    conjuncts,
)
from mirrorlake.models.row_filters.value_sets import ALL, NONE, ValueSet
from mirrorlake.models.spark_sql.bound_query import BoundQuery, InputColumn, Trace
from mirrorlake.models.spark_sql.constant_values import Constant, Unknown
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.models.spark_sql.nodes import is_aggregate

_MOST_VISITS = 10_000
"""A query that names its CTEs so often is not followed: all of its tables have no bound."""
WantedValues = Mapping[int, ValueSet]
"""Position of a column → the values that matter; rows with others are thrown away by the reader."""


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


@dataclass(frozen=True)
class _Join:
    """One source joined to those before it. ``kind``: INNER, LEFT, RIGHT, FULL, SEMI or ANTI."""

    kind: str
    key: int
    on: Conditions
    node: exp.Expr | None = None


@dataclass(frozen=True)
class _From:
    """The sources of a SELECT: the first, then joins from the left to the right."""

    first: int | None
    joins: tuple[_Join, ...]

    @property
    def keys(self) -> frozenset[int]:
        return self.keys_before(len(self.joins))

    def keys_before(self, number: int) -> frozenset[int]:
        keys = {self.first, *(one.key for one in self.joins[:number])}
        return frozenset(key for key in keys if key is not None)


@dataclass
class _Walk:
    trace: Trace
    facts: FactFinder
    found: dict[int, list[Mapping[str, ValueSet]]] = field(
        default_factory=dict[int, "list[Mapping[str, ValueSet]]"]
    )
    _given: dict[int, Mapping[int, ValueSet]] = field(
        default_factory=dict[int, Mapping[int, ValueSet]]
    )
    _nodes: dict[int, exp.Expr] = field(default_factory=dict[int, exp.Expr])
    _visits: int = 0

    def all(self) -> Iterator[TableReach]:
        for key, table in self.trace.tables.items():
            place = at(self._nodes[key]) if key in self._nodes else None
            for columns in self.found.get(key, [{}]):
                yield TableReach(table, columns, place)

    # --- downwards: what matters ------------------------------------------------------------------

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
                self.query(side, self._of_branch(node, side, wanted), outer)
        elif isinstance(node, exp.Select):
            self._select(node, wanted, outer)

    def _of_branch(
        self, node: exp.SetOperation, side: exp.Expr, wanted: WantedValues
    ) -> WantedValues:
        """What is wanted of one side of a union: of columns that the union does not cast."""
        whole, part = self.trace.types.get(id(node)), self.trace.types.get(id(_core(side)))
        if whole is None or part is None:
            return {}
        return {
            number: values
            for number, values in wanted.items()
            if comparable(whole[number], part[number])
        }

    def _select(self, node: exp.Select, wanted: WantedValues, outer: Facts) -> None:
        sources, where = _from(node, self.trace), self._where(node)
        for one in self.trace.nodes.sources(node):
            self._nodes.setdefault(id(one), one)
        known = added(outer, self._sources_of(node, wanted))
        known = added(known, self._in_queries(where))
        inside = self.facts.closure(*self._up(sources, len(sources.joins), where, known))
        self._subqueries(node, sources, inside, outer)
        if _dead(inside):
            for key in sources.keys:
                self._skip(key)
            return
        self._push(sources, len(sources.joins), where, known)

    def _where(self, node: exp.Select) -> Conditions:
        """WHERE, and the conditions of HAVING on columns that the rows are grouped by."""
        where, having = node.args.get("where"), node.args.get("having")
        found = [*conjuncts(where.this)] if where is not None else []
        if having is not None and node.args.get("group") is not None:
            grouped = self._that_filter_rows(node)
            found += [
                one
                for one in conjuncts(having.this)
                if self.facts.columns_in(one)
                and all(grouped.holds(("column", c)) for c in self.facts.columns_in(one))
                and not any(True for _ in one.find_all(exp.AggFunc, exp.Query, exp.Window))
                and not any(is_aggregate(call) for call in one.find_all(exp.Anonymous))
            ]
        return Conditions(tuple(found))

    def _sources_of(self, node: exp.Select, wanted: WantedValues) -> Facts:
        """What is wanted of a SELECT's columns, as facts of its sources' columns."""
        facts: Facts = {}
        outputs = self.trace.outputs.get(id(node), [])
        allowed = self._that_filter_rows(node)
        for number, values in wanted.items():
            if values.is_all or number >= len(outputs):
                continue
            column, turned = self._wanted_of(outputs[number][1], values, allowed)
            if column is not None:
                facts[column] = facts.get(column, ALL) & turned
        return facts

    def _wanted_of(
        self, output: exp.Expr | InputColumn | None, values: ValueSet, allowed: _Allowed
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
        if not allowed.holds(self._named(output)):
            return None, values
        turned = self.facts.turned(output, values)
        return turned if turned is not None else (None, values)

    def _that_filter_rows(self, node: exp.Select) -> _Allowed:
        """The expressions by which rows of the result can be left out before they are made: those
        that all rows of a group and of its windows share."""
        sets: list[frozenset[object]] = []
        group = node.args.get("group")
        if group is not None:
            members = group.expressions if not _has_sets(group) else []
            sets.append(frozenset(self._named(self._grouped(node, one)) for one in members))
        elif self.trace.nodes.is_total(node):
            sets.append(frozenset())
        for window in self.trace.nodes.windows(node):
            by = window.args.get("partition_by") or []
            sets.append(frozenset(self._named(one) for one in by))
        return _Allowed(tuple(sets))

    def _grouped(self, node: exp.Select, member: exp.Expr) -> exp.Expr:
        """What a GROUP BY names: by position, or by the alias of a column."""
        if isinstance(member, exp.Literal) and not member.args.get("is_string"):
            number = int(member.this) - 1
            if 0 <= number < len(node.expressions):
                return node.expressions[number].unalias()
        if isinstance(member, exp.Column) and id(member) not in self.trace.columns:
            for one in node.expressions:
                if one.alias and one.alias.lower() == member.name.lower():
                    return one.unalias()
        return member

    def _named(self, node: exp.Expr) -> object:
        """An expression as it can be compared with others of the same SELECT."""
        node = node.unnest()
        place = self.trace.columns.get(id(node))
        if place is not None:
            return "column", place
        return self.trace.nodes.text(node)

    def _push(self, sources: _From, number: int, conditions: Conditions, known: Facts) -> None:
        """Visit the first ``number`` joins of a SELECT, in a relation of which only rows matter for
        which conditions and facts hold."""
        if sources.first is None:
            return
        if number == 0:
            self._leaf(sources.first, self.facts.closure(conditions, self._leaf_up(sources, known)))
            return
        join = sources.joins[number - 1]
        kind = self._narrowed(sources, number, conditions, known)
        theirs = self._of_source(join.key)
        if kind == "FULL":
            # Neither side's rows depend on the condition.
            self._leaf(join.key, self.facts.closure(Conditions(), theirs))
            self._push(sources, number - 1, Conditions(), {})
        elif kind == "RIGHT":
            self._leaf(join.key, self.facts.closure(conditions, added(known, theirs)))
            self._push(sources, number - 1, conditions + join.on, added(known, theirs))
        else:
            both = self._up(sources, number - 1, conditions + join.on, added(known, theirs))
            self._leaf(join.key, self.facts.closure(*both))
            if kind in ("INNER", "SEMI"):
                self._push(sources, number - 1, conditions + join.on, added(known, theirs))
            else:
                self._push(sources, number - 1, conditions, known)

    def _narrowed(self, sources: _From, number: int, conditions: Conditions, known: Facts) -> str:
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

    def _subqueries(self, node: exp.Select, sources: _From, inside: Facts, outer: Facts) -> None:
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

    # --- upwards: what is there -------------------------------------------------------------------

    def _up(
        self, sources: _From, number: int, conditions: Conditions, known: Facts
    ) -> tuple[Conditions, Facts]:
        """Conditions and facts, with those that are true of each row of the first joins."""
        if sources.first is None:
            return conditions, known
        if number == 0:
            return conditions, self._leaf_up(sources, known)
        join = sources.joins[number - 1]
        if join.kind == "FULL":
            return conditions, known
        if join.kind == "RIGHT":
            return conditions, added(known, self._of_source(join.key))
        conditions, known = self._up(sources, number - 1, conditions, known)
        if join.kind in ("INNER", "SEMI"):
            return conditions + join.on, added(known, self._of_source(join.key))
        return conditions, known

    def _leaf_up(self, sources: _From, known: Facts) -> Facts:
        return added(known, self._of_source(sources.first or 0))

    def _of_source(self, key: int) -> Facts:
        """What a query in FROM, or a CTE, gives of its columns."""
        if key not in self.trace.queries:
            return {}
        inner, names = self.trace.queries[key]
        given = self._given_by(inner)
        return {(key, names[number]): values for number, values in given.items()}

    def _in_queries(self, where: Conditions) -> Facts:
        """``x IN (SELECT …)``: x is one of what the query gives."""
        facts: Facts = {}
        for node in where.nodes:
            query = node.args.get("query") if isinstance(node, exp.In) else None
            if query is None:
                continue
            given = self._given_by(query).get(0, ALL)
            types = self.trace.types.get(id(_core(query)))
            turned = None if given.is_all else self.facts.turned(node.this, given)
            if turned is not None and types is not None:
                column, values = turned
                if comparable(types[0], self.trace.kinds.get(column, "")):
                    facts[column] = facts.get(column, ALL) & values
        return facts

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
        if group is not None and _has_sets(group):
            return {}
        sources, where = _from(node, self.trace), self._where(node)
        known = self._in_queries(where)
        facts = self.facts.closure(*self._up(sources, len(sources.joins), where, known))
        given: dict[int, ValueSet] = {}
        for number, (_, output) in enumerate(self.trace.outputs.get(id(node), [])):
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
            value = self.facts.constant(output)
            return ALL if value is None else ValueSet.of("=", value)
        except Unknown:
            pass
        columns = self.facts.columns_in(output)
        if len(columns) != 1:
            return ALL
        return self.facts.image(output, columns[0], facts.get(columns[0], ALL))

    def _given_by_both(self, node: exp.SetOperation) -> Mapping[int, ValueSet]:
        left, right = (
            {
                number: values
                for number, values in self._given_by(side).items()
                if number in self._of_branch(node, side, {number: values})
            }
            for side in (node.left, node.right)
        )
        if isinstance(node, exp.Except):
            return left
        if isinstance(node, exp.Intersect):
            return {n: left.get(n, ALL) & right.get(n, ALL) for n in {*left, *right}}
        return {number: left[number] | right[number] for number in left if number in right}


@dataclass(frozen=True)
class _Allowed:
    """The expressions by which rows may be left out: those in each of some sets."""

    sets: tuple[frozenset[object], ...]

    def holds(self, named: object) -> bool:
        return all(named in one for one in self.sets)


def _from(node: exp.Select, trace: Trace) -> _From:
    begin = node.args.get("from_")
    if begin is None:
        return _From(None, ())
    joins: list[_Join] = []
    nodes: Sequence[exp.Expr] = [
        *(begin.this.args.get("joins") or []),
        *(begin.this.args.get("laterals") or []),
        *(node.args.get("joins") or []),
        *(node.args.get("laterals") or []),
    ]
    for one in nodes:
        if isinstance(one, exp.Lateral):
            joins.append(_Join("LEFT", id(one), Conditions()))
            continue
        on = Conditions(tuple(conjuncts(one.args.get("on"))), tuple(trace.using.get(id(one), ())))
        joins.append(_Join(_kind(one), id(one.this), on, one))
    return _From(id(begin.this), tuple(joins))


def _kind(node: exp.Expr) -> str:
    side = str(node.args.get("side") or "").upper()
    kind = str(node.args.get("kind") or "").upper()
    return kind if kind in ("SEMI", "ANTI") else (side or "INNER")


def _cut(node: exp.Expr) -> bool:
    """Whether rows are counted off: which are left depends on all."""
    return any(node.args.get(clause) is not None for clause in ("limit", "offset", "fetch"))


def _core(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Subquery | exp.Paren):
        node = node.this
    return node


def _has_sets(group: exp.Expr) -> bool:
    """Whether rows are grouped in several ways at once."""
    if any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets", "all", "totals")):
        return True
    sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
    return any(isinstance(one, sets) for one in group.expressions)


def _dead(facts: Facts) -> bool:
    """Whether there is no row of which all facts are true."""
    return any(values.is_none for values in facts.values())
