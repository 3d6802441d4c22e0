"""A query bound to what its tables have: the columns that it gives, and what it reads.

One pass over the parsed query gives names, types, nullability and origins together. Nothing is run
and nothing is rewritten: what is executed later is the text as it was written.

What belongs here: FROM, joins, CTEs, unions, subqueries. What doesn't: expressions
(`mirrorlake.models.spark_sql.expression_types.expressions`), and which column a name means
(`mirrorlake.models.spark_sql.binding.name_lookup`).

Source: Spark SQL Reference, "SELECT".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import functions, types
from mirrorlake.models.spark_sql.binding.generators import GENERATORS, exploded, refuse_several
from mirrorlake.models.spark_sql.binding.grouping import Grouping, refuse_aggregates
from mirrorlake.models.spark_sql.binding.name_lookup import ScopeNames
from mirrorlake.models.spark_sql.binding.scopes import QueryScope, QuerySource
from mirrorlake.models.spark_sql.binding.set_operations import united
from mirrorlake.models.spark_sql.binding.window_functions import is_aggregate
from mirrorlake.models.spark_sql.bound_query import BoundQuery, Tables, Trace
from mirrorlake.models.spark_sql.clauses import (
    grouped_by,
    output_columns,
    refuse_maps,
    refuse_no_condition,
    refuse_uncountable,
    sometimes_grouped,
)
from mirrorlake.models.spark_sql.columns import NamedValue, Relation, Typed, joined
from mirrorlake.models.spark_sql.expression_types.expressions import type_of
from mirrorlake.models.spark_sql.functions import DeclaredFunction
from mirrorlake.models.spark_sql.node_places import at


def bind(
    query: exp.Expr,
    tables: Tables,
    constants: Mapping[str, Typed] | None = None,
    declared: Mapping[str, DeclaredFunction] | None = None,
) -> BoundQuery:
    """Bind a query.

    Args:
        constants: the names of the model's scope, in lower case, with their types: they stand for a
            value wherever no source has a column of that name.
        declared: functions of the project.

    Raises:
        ModelError: a table, column, function or type in it is wrong; with its line and column.
    """
    binder = _Binder(tables, constants or {}, declared or {})
    fields = binder.query(query, QueryScope(None, {}))
    return BoundQuery(tuple(fields), tuple(binder.reads), tuple(_unstable(query)), binder.trace)


def _unstable(query: exp.Expr) -> list[tuple[str, tuple[int, int] | None]]:
    found: list[tuple[str, tuple[int, int] | None]] = []
    for node in query.find_all(exp.Anonymous, exp.CurrentDate, exp.CurrentTimestamp):
        name = (
            str(node.this).lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()
        )
        name = name if node.expressions or name != "unix_timestamp" else "unix_timestamp()"
        if name in functions.NON_DETERMINISTIC:
            found.append((name, at(node)))
    return found


class _Binder:
    def __init__(
        self,
        tables: Tables,
        constants: Mapping[str, Typed],
        declared: Mapping[str, DeclaredFunction],
    ) -> None:
        self._tables, self.constants, self.functions = tables, constants, declared
        self.reads: dict[str, None] = {}
        self.trace = Trace()

    # --- queries ----------------------------------------------------------------------------------

    def query(self, node: exp.Expr, scope: QueryScope) -> list[NamedValue]:
        """The columns of a SELECT, a union, or a query in brackets."""
        scope = self._with(node, scope)
        if isinstance(node, exp.Select | exp.SetOperation):
            read = self._select if isinstance(node, exp.Select) else self._set_operation
            fields = read(node, scope)  # type: ignore[arg-type] - each reads its own
            self.trace.types[id(node)] = tuple(one.value.type for one in fields)
            self.trace.made_of[id(node)] = tuple(one.value.origins for one in fields)
            refuse_uncountable(node, self.constants)
            return fields
        if isinstance(node, exp.Subquery | exp.Paren):
            fields = self.query(node.this, scope)
            self._ordered(node, fields)
            return fields
        if isinstance(node, exp.Values):
            return list(self._values(node, scope).fields)
        raise ModelError(
            f"{node.sql('spark')[:60]} is no query",
            place=at(node),
            next_step="A model is one SELECT, perhaps WITH others",
        )

    def _ordered(self, node: exp.Expr, fields: Sequence[NamedValue]) -> None:
        """ORDER BY and LIMIT of a union, or of a query in brackets."""
        order = node.args.get("order")
        if order is not None:
            output_columns(order.expressions, [one.name for one in fields])
            refuse_maps([one.value for one in fields], node, "ORDER BY")
        refuse_uncountable(node, self.constants)

    def _with(self, node: exp.Expr, scope: QueryScope) -> QueryScope:
        clause = node.args.get("with_")
        if clause is None:
            return scope
        if clause.args.get("recursive"):
            raise ModelError("WITH RECURSIVE can't be analysed", place=at(clause))
        inner = QueryScope(scope, {})
        for one in clause.expressions:
            fields = self.query(one.this, QueryScope(inner, {}))
            names = [column.name for column in one.args["alias"].args.get("columns") or []]
            relation = Relation(tuple(_renamed(fields, names, one)))
            inner.ctes[one.alias.lower()] = relation, one.this
        return inner

    def _set_operation(self, node: exp.SetOperation, scope: QueryScope) -> list[NamedValue]:
        left = self.query(node.left, QueryScope(scope, {}))
        right = self.query(node.right, QueryScope(scope, {}))
        found = united(node, left, right)
        if node.args.get("distinct"):
            refuse_maps([one.value for one in found], node.left, node.key.upper())
        self._ordered(node, found)
        return found

    def _select(self, node: exp.Select, scope: QueryScope) -> list[NamedValue]:
        inner = QueryScope(scope, {})
        begin = node.args.get("from_")
        if begin is not None:
            self._add(inner, begin.this)
        for join in node.args.get("joins") or []:
            self._join(inner, join)
        for lateral in node.args.get("laterals") or []:
            self._lateral(inner, lateral)
        self.trace.sources[id(node)] = [one.key for one in inner.sources.values()]
        names = ScopeNames(self, inner)
        where = node.args.get("where")
        if where is not None:
            refuse_no_condition(type_of(where.this, names), where.this, "WHERE")
            refuse_aggregates(where.this, "WHERE")
        fields = self._projections(node, inner, names)
        self._look_at_the_rest(node, names)
        if node.args.get("distinct"):
            refuse_maps([one.value for one in fields], node, "DISTINCT")
        grouping = Grouping(node, self.trace, frozenset(inner.merged))
        plain, sets = grouped_by(node)
        grouping.check((*plain, *sets))
        return fields

    def _look_at_the_rest(self, node: exp.Select, names: ScopeNames) -> None:
        """Clauses that give no column, whose names must be there all the same."""
        having = node.args.get("having")
        plain, sets = grouped_by(node)
        for one in (*plain, *sets):
            if not isinstance(one, exp.Literal):
                refuse_maps([type_of(one, names)], one, "GROUP BY")
        for window in node.args.get("windows") or []:
            for one in (*(window.args.get("partition_by") or []), *_order_of(window)):
                refuse_maps([type_of(one, names)], one, "a window")
        if having is not None:
            refuse_no_condition(type_of(having.this, names), having.this, "HAVING")
        for one in _order_of(node):
            if not isinstance(one, exp.Literal):
                refuse_maps([type_of(one, names)], one, "ORDER BY")

    def _projections(
        self, node: exp.Select, scope: QueryScope, names: ScopeNames
    ) -> list[NamedValue]:
        grouped = sometimes_grouped(node)
        fields: list[NamedValue] = []
        outputs = self.trace.outputs.setdefault(id(node), [])
        for one in node.expressions:
            if isinstance(one, exp.Star) or (
                isinstance(one, exp.Column) and isinstance(one.this, exp.Star)
            ):
                starred = scope.star(one)
                self.trace.kinds |= {place: found.value.type for found, place in starred if place}
                fields += [found for found, _ in starred]
                outputs += [(found.name.lower(), place) for found, place in starred]
                continue
            plain = one.unalias()
            if isinstance(plain, exp.Anonymous) and str(plain.this).lower() in GENERATORS:
                refuse_several(node, plain)
                made = exploded(plain, names, one.alias, [])
                fields += made
                outputs += [(found.name.lower(), None) for found in made]
                continue
            value = type_of(plain, names)
            parts = [] if any(map(is_aggregate, plain.walk())) else [*plain.walk()]
            if grouped and any(one.sql("spark").lower() in grouped for one in parts):
                value = Typed(value.type, True, value.origins)
            name = one.alias or (plain.name if isinstance(plain, exp.Column | exp.Dot) else "")
            fields.append(NamedValue(name, value))
            outputs.append((name.lower(), plain))
            # `day AS day` is what `day` is without it.
            same = isinstance(plain, exp.Column) and plain.name.lower() == name.lower()
            if isinstance(one, exp.Alias) and not same:
                scope.aliases.setdefault(name.lower(), value)
        return fields

    # --- sources ----------------------------------------------------------------------------------

    def _add(self, scope: QueryScope, node: exp.Expr) -> None:
        alias, relation = self._source(scope, node)
        if alias in scope.sources:
            raise ModelError(f"two sources are called {alias}", place=at(node))
        scope.sources[alias] = QuerySource(relation, id(node))
        for join in node.args.get("joins") or []:
            self._join(scope, join)
        for lateral in node.args.get("laterals") or []:
            self._lateral(scope, lateral)

    def _source(self, scope: QueryScope, node: exp.Expr) -> tuple[str, Relation]:
        clause = node.args.get("alias")
        columns = [one.name for one in clause.args.get("columns") or []] if clause else []
        if isinstance(node, exp.Table):
            alias, relation = self._table(scope, node)
        elif isinstance(node, exp.Subquery):
            found = self.query(node.this, QueryScope(scope.parent, {}))
            alias, relation = "", Relation(tuple(found))
            self.trace.queries[id(node)] = node.this, [one.name.lower() for one in found]
        elif isinstance(node, exp.Values):
            alias, relation = "", self._values(node, scope)
        elif isinstance(node, exp.Lateral):
            fields = self.query(node.this, QueryScope(scope, {}))
            alias, relation = "", Relation(tuple(fields))
        else:
            raise ModelError(f"{node.sql('spark')[:60]} can't be read from", place=at(node))
        if node.args.get("pivots"):
            raise ModelError("PIVOT can't be analysed", place=at(node), next_step="Write CASE")
        alias = node.alias or alias or f"__{len(scope.sources)}"
        fields = _renamed(relation.fields, columns, node)
        if id(node) in self.trace.queries:
            inside, _ = self.trace.queries[id(node)]
            self.trace.queries[id(node)] = inside, [one.name.lower() for one in fields]
        elif columns:
            self.trace.renamed.add(id(node))
        return alias.lower(), Relation(tuple(fields), relation.hidden)

    def _table(self, scope: QueryScope, node: exp.Table) -> tuple[str, Relation]:
        parts = [part.name for part in node.parts]
        name = ".".join(parts).lower()
        cte = scope.cte(name) if len(parts) == 1 else None
        if cte is not None:
            relation, query = cte
            self.trace.queries[id(node)] = query, [one.name.lower() for one in relation.fields]
            return parts[-1], relation
        try:
            relation = self._tables.columns_of(name)
        except ModelError as error:
            raise ModelError(error.message, place=at(node), next_step=error.next_step) from None
        if relation is None:
            raise ModelError(
                f"there is no table {'.'.join(parts)}{nearest(name, set(self._tables.names()))}",
                place=at(node),
            )
        self.reads.setdefault(name)
        self.trace.tables[id(node)] = name
        return parts[-1], relation

    def _values(self, node: exp.Values, scope: QueryScope) -> Relation:
        names = ScopeNames(self, scope)
        rows = [
            [type_of(cell, names) for cell in (row.expressions or [row])]
            for row in node.expressions
        ]
        if len({len(row) for row in rows}) > 1:
            raise ModelError("all rows of VALUES have as many columns", place=at(node))
        refuse_aggregates(node, "VALUES")
        fields: list[NamedValue] = []
        for number, cells in enumerate(zip(*rows, strict=True), 1):
            wide = types.common(cell.type for cell in cells)
            if wide is None:
                raise ModelError(f"column {number} of VALUES has no one type", place=at(node))
            value = Typed(wide, any(cell.nullable for cell in cells), joined(cells))
            fields.append(NamedValue(f"col{number}", value))
        return Relation(tuple(fields))

    def _join(self, scope: QueryScope, node: exp.Join) -> None:
        side, kind = (node.side or "").upper(), (node.kind or "").upper()
        if (node.args.get("method") or "").upper() == "NATURAL":
            raise ModelError(
                "NATURAL JOIN changes with every column", place=at(node), next_step="Write USING"
            )
        before = dict(scope.sources)
        alias, relation = self._source(scope, node.this)
        if alias in before:
            raise ModelError(f"two sources are called {alias}", place=at(node.this))
        source = QuerySource(relation, id(node.this))
        visible = QueryScope(
            scope.parent, scope.ctes, {**before, alias: source}, dict(scope.merged)
        )
        on = node.args.get("on")
        if on is not None:
            refuse_no_condition(type_of(on, ScopeNames(self, visible)), on, "ON")
            refuse_aggregates(on, "ON")
        if side in ("RIGHT", "FULL"):
            scope.sources = {name: one.nullable() for name, one in before.items()}
        using = [one.name for one in node.args.get("using") or []]
        self._use(scope, using, source, side, node)
        if kind in ("SEMI", "ANTI"):
            return
        scope.sources[alias] = source.nullable() if side in ("LEFT", "FULL") else source

    def _use(
        self,
        scope: QueryScope,
        using: Sequence[str],
        source: QuerySource,
        side: str,
        node: exp.Join,
    ) -> None:
        """Columns that ``USING`` makes one: the left side's, of a full join either's."""
        pairs = self.trace.using.setdefault(id(node), [])
        used = self.trace.used.setdefault(id(node), [])
        for name in using:
            mine, mine_at = ScopeNames(self, scope).plain(name, node)
            theirs = next((f for f in source.fields if f.name.lower() == name.lower()), None)
            if theirs is None:
                raise ModelError(f"no column {name} on the right of the join", place=at(node))
            theirs_at = source.place(name)
            self.trace.kinds[theirs_at] = theirs.value.type
            if mine_at is not None:
                self.trace.kinds[mine_at] = mine.type
                pairs.append((mine_at, theirs_at))
            kept, kept_at = (theirs.value, theirs_at) if side == "RIGHT" else (mine, mine_at)
            if side == "FULL":
                wide = types.wider(mine.type, theirs.value.type) or mine.type
                kept, kept_at = Typed(wide, mine.nullable and theirs.value.nullable), None
            value = Typed(kept.type, kept.nullable, joined((mine, theirs.value)))
            used.append((mine.origins, theirs.value.origins))
            scope.merged[name.lower()] = value, kept_at

    def _lateral(self, scope: QueryScope, node: exp.Lateral) -> None:
        """``LATERAL VIEW explode(…) t AS a, b``."""
        clause = node.args.get("alias")
        columns = [one.name for one in clause.args.get("columns") or []] if clause else []
        call = node.this
        if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in GENERATORS:
            raise ModelError(f"{node.sql('spark')[:60]} can't be analysed", place=at(node))
        refuse_aggregates(call, "LATERAL VIEW")
        fields = exploded(call, ScopeNames(self, scope), "", columns)
        found = QuerySource(Relation(tuple(fields)), id(node))
        outer = bool(node.args.get("outer")) or str(call.this).lower().endswith("_outer")
        alias = (node.alias or f"__{len(scope.sources)}").lower()
        scope.sources[alias] = found.nullable() if outer else found


def _order_of(node: exp.Expr) -> list[exp.Expr]:
    order = node.args.get("order")
    return [one.this for one in order.expressions] if order is not None else []


def _renamed(
    fields: Sequence[NamedValue], names: Sequence[str], node: exp.Expr
) -> list[NamedValue]:
    if not names:
        return list(fields)
    if len(names) != len(fields):
        raise ModelError(f"{len(names)} names are given to {len(fields)} columns", place=at(node))
    return [NamedValue(name, one.value) for name, one in zip(names, fields, strict=True)]
