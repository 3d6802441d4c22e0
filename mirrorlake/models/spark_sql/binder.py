"""A query bound to what its tables have: the columns that it gives, and what it reads.

One pass over the parsed query gives names, types, nullability and origins together. Nothing is run
and nothing is rewritten: what is executed later is the text as it was written.

What belongs here: FROM, joins, stars, CTEs, unions, subqueries. What doesn't: expressions
(`mirrorlake.models.spark_sql.expressions`).

Source: Spark SQL Reference, "SELECT".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import functions, types
from mirrorlake.models.spark_sql.bound_query import BoundQuery, InputColumn, Tables, Trace
from mirrorlake.models.spark_sql.clauses import (
    grouped_by,
    output_columns,
    refuse_maps,
    refuse_no_condition,
    refuse_uncountable,
    sometimes_grouped,
)
from mirrorlake.models.spark_sql.columns import NamedValue, Relation, Typed, joined
from mirrorlake.models.spark_sql.expressions import field_of, type_of
from mirrorlake.models.spark_sql.functions import DeclaredFunction
from mirrorlake.models.spark_sql.grouping import Grouping, refuse_aggregates
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.models.spark_sql.window_functions import is_aggregate


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
    fields = binder.query(query, _Scope(None, {}))
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


@dataclass(frozen=True)
class _Source:
    """One source of a SELECT."""

    relation: Relation
    key: int

    @property
    def fields(self) -> tuple[NamedValue, ...]:
        return self.relation.fields

    @property
    def columns(self) -> tuple[NamedValue, ...]:
        return (*self.relation.fields, *self.relation.hidden)

    def nullable(self) -> _Source:
        return _Source(self.relation.nullable(), self.key)


@dataclass
class _Scope:
    """What names mean at one place of a query.

    Attributes:
        sources: alias (in lower case) → its columns.
        merged: columns that ``USING`` made one, by name; and the column of a source that each is.
        aliases: columns that the SELECT has named so far, which later ones may use.
    """

    parent: _Scope | None
    ctes: dict[str, tuple[Relation, exp.Expr]]
    sources: dict[str, _Source] = field(default_factory=dict[str, _Source])
    merged: dict[str, tuple[Typed, InputColumn | None]] = field(
        default_factory=dict[str, "tuple[Typed, InputColumn | None]"]
    )
    aliases: dict[str, Typed] = field(default_factory=dict[str, Typed])

    def cte(self, name: str) -> tuple[Relation, exp.Expr] | None:
        found = self.ctes.get(name)
        return found if found is not None or self.parent is None else self.parent.cte(name)


class _Binder:
    def __init__(
        self,
        tables: Tables,
        constants: Mapping[str, Typed],
        declared: Mapping[str, DeclaredFunction],
    ) -> None:
        self._tables, self._constants, self._declared = tables, constants, declared
        self.reads: dict[str, None] = {}
        self.trace = Trace()

    # --- queries ----------------------------------------------------------------------------------

    def query(self, node: exp.Expr, scope: _Scope) -> list[NamedValue]:
        """The columns of a SELECT, a union, or a query in brackets."""
        scope = self._with(node, scope)
        if isinstance(node, exp.Select | exp.SetOperation):
            read = self._select if isinstance(node, exp.Select) else self._set_operation
            fields = read(node, scope)  # type: ignore[arg-type] - each reads its own
            self.trace.types[id(node)] = tuple(one.value.type for one in fields)
            self.trace.made_of[id(node)] = tuple(one.value.origins for one in fields)
            refuse_uncountable(node, self._constants)
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
        refuse_uncountable(node, self._constants)

    def _with(self, node: exp.Expr, scope: _Scope) -> _Scope:
        clause = node.args.get("with_")
        if clause is None:
            return scope
        if clause.args.get("recursive"):
            raise ModelError("WITH RECURSIVE can't be analysed", place=at(clause))
        inner = _Scope(scope, {})
        for one in clause.expressions:
            fields = self.query(one.this, _Scope(inner, {}))
            names = [column.name for column in one.args["alias"].args.get("columns") or []]
            relation = Relation(tuple(_renamed(fields, names, one)))
            inner.ctes[one.alias.lower()] = relation, one.this
        return inner

    def _set_operation(self, node: exp.SetOperation, scope: _Scope) -> list[NamedValue]:
        left = self.query(node.left, _Scope(scope, {}))
        right = self.query(node.right, _Scope(scope, {}))
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
        if node.args.get("distinct"):
            refuse_maps([one.value for one in found], node.left, node.key.upper())
        self._ordered(node, found)
        return found

    def _select(self, node: exp.Select, scope: _Scope) -> list[NamedValue]:
        inner = _Scope(scope, {})
        begin = node.args.get("from_")
        if begin is not None:
            self._add(inner, begin.this)
        for join in node.args.get("joins") or []:
            self._join(inner, join)
        for lateral in node.args.get("laterals") or []:
            self._lateral(inner, lateral)
        self.trace.sources[id(node)] = [one.key for one in inner.sources.values()]
        names = _Names(self, inner)
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

    def _look_at_the_rest(self, node: exp.Select, names: _Names) -> None:
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

    def _projections(self, node: exp.Select, scope: _Scope, names: _Names) -> list[NamedValue]:
        grouped = sometimes_grouped(node)
        fields: list[NamedValue] = []
        outputs = self.trace.outputs.setdefault(id(node), [])
        for one in node.expressions:
            if isinstance(one, exp.Star) or (
                isinstance(one, exp.Column) and isinstance(one.this, exp.Star)
            ):
                starred = self._star(scope, one)
                fields += [found for found, _ in starred]
                outputs += [(found.name.lower(), place) for found, place in starred]
                continue
            plain = one.unalias()
            if isinstance(plain, exp.Anonymous) and str(plain.this).lower() in _GENERATORS:
                self._refuse_generator(node, plain)
                exploded = _exploded(plain, names, one.alias, [])
                fields += exploded
                outputs += [(found.name.lower(), None) for found in exploded]
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

    def _refuse_generator(self, node: exp.Select, call: exp.Anonymous) -> None:
        """See that rows are made of rows once, and not of groups."""
        others = [one.unalias() for one in node.expressions]
        several = sum(
            isinstance(one, exp.Anonymous) and str(one.this).lower() in _GENERATORS
            for one in others
        )
        grouped = node.args.get("group") is not None or node.args.get("having") is not None
        if several > 1 or grouped:
            words = f"{call.this} stands once in a SELECT, and not beside GROUP BY or HAVING"
            raise ModelError(words, place=at(call), next_step="Write LATERAL VIEW")

    def _star(self, scope: _Scope, node: exp.Expr) -> list[tuple[NamedValue, InputColumn | None]]:
        star = node.this if isinstance(node, exp.Column) else node
        left_out = {one.name.lower() for one in star.args.get("except_") or []}
        if isinstance(node, exp.Column):
            source = scope.sources.get(node.table.lower())
            if source is None:
                raise ModelError(
                    f"no source is called {node.table}{nearest(node.table, scope.sources)}",
                    place=at(node),
                )
            found = [(one, _place(source, one.name)) for one in source.fields]
        else:
            found = [
                (NamedValue(name, value), place) for name, (value, place) in scope.merged.items()
            ]
            found += [
                (one, _place(source, one.name))
                for source in scope.sources.values()
                for one in source.fields
                if one.name.lower() not in scope.merged
            ]
        for one, place in found:
            if place is not None:
                self.trace.kinds[place] = one.value.type
        there = {one.name.lower() for one, _ in found}
        for one in star.args.get("except_") or []:
            if one.name.lower() not in there:
                near = nearest(one.name, there)
                raise ModelError(f"* EXCEPT: there is no column {one.name}{near}", place=at(one))
        return [(one, place) for one, place in found if one.name.lower() not in left_out]

    # --- sources ----------------------------------------------------------------------------------

    def _add(self, scope: _Scope, node: exp.Expr) -> None:
        alias, relation = self._source(scope, node)
        if alias in scope.sources:
            raise ModelError(f"two sources are called {alias}", place=at(node))
        scope.sources[alias] = _Source(relation, id(node))
        for join in node.args.get("joins") or []:
            self._join(scope, join)
        for lateral in node.args.get("laterals") or []:
            self._lateral(scope, lateral)

    def _source(self, scope: _Scope, node: exp.Expr) -> tuple[str, Relation]:
        clause = node.args.get("alias")
        columns = [one.name for one in clause.args.get("columns") or []] if clause else []
        if isinstance(node, exp.Table):
            alias, relation = self._table(scope, node)
        elif isinstance(node, exp.Subquery):
            found = self.query(node.this, _Scope(scope.parent, {}))
            alias, relation = "", Relation(tuple(found))
            self.trace.queries[id(node)] = node.this, [one.name.lower() for one in found]
        elif isinstance(node, exp.Values):
            alias, relation = "", self._values(node, scope)
        elif isinstance(node, exp.Lateral):
            fields = self.query(node.this, _Scope(scope, {}))
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

    def _table(self, scope: _Scope, node: exp.Table) -> tuple[str, Relation]:
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

    def _values(self, node: exp.Values, scope: _Scope) -> Relation:
        names = _Names(self, scope)
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

    def _join(self, scope: _Scope, node: exp.Join) -> None:
        side, kind = (node.side or "").upper(), (node.kind or "").upper()
        if (node.args.get("method") or "").upper() == "NATURAL":
            raise ModelError(
                "NATURAL JOIN changes with every column", place=at(node), next_step="Write USING"
            )
        before = dict(scope.sources)
        alias, relation = self._source(scope, node.this)
        if alias in before:
            raise ModelError(f"two sources are called {alias}", place=at(node.this))
        source = _Source(relation, id(node.this))
        visible = _Scope(scope.parent, scope.ctes, {**before, alias: source}, dict(scope.merged))
        on = node.args.get("on")
        if on is not None:
            refuse_no_condition(type_of(on, _Names(self, visible)), on, "ON")
            refuse_aggregates(on, "ON")
        if side in ("RIGHT", "FULL"):
            scope.sources = {name: one.nullable() for name, one in before.items()}
        using = [one.name for one in node.args.get("using") or []]
        self._use(scope, using, source, side, node)
        if kind in ("SEMI", "ANTI"):
            return
        scope.sources[alias] = source.nullable() if side in ("LEFT", "FULL") else source

    def _use(
        self, scope: _Scope, using: Sequence[str], source: _Source, side: str, node: exp.Join
    ) -> None:
        """Columns that ``USING`` makes one: the left side's, of a full join either's."""
        pairs = self.trace.using.setdefault(id(node), [])
        used = self.trace.used.setdefault(id(node), [])
        for name in using:
            mine, mine_at = _Names(self, scope).plain(name, node)
            theirs = next((f for f in source.fields if f.name.lower() == name.lower()), None)
            if theirs is None:
                raise ModelError(f"no column {name} on the right of the join", place=at(node))
            theirs_at = _place(source, name)
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

    def _lateral(self, scope: _Scope, node: exp.Lateral) -> None:
        """``LATERAL VIEW explode(…) t AS a, b``."""
        clause = node.args.get("alias")
        columns = [one.name for one in clause.args.get("columns") or []] if clause else []
        call = node.this
        if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in _GENERATORS:
            raise ModelError(f"{node.sql('spark')[:60]} can't be analysed", place=at(node))
        refuse_aggregates(call, "LATERAL VIEW")
        fields = _exploded(call, _Names(self, scope), "", columns)
        found = _Source(Relation(tuple(fields)), id(node))
        outer = bool(node.args.get("outer")) or str(call.this).lower().endswith("_outer")
        alias = (node.alias or f"__{len(scope.sources)}").lower()
        scope.sources[alias] = found.nullable() if outer else found

    @property
    def constants(self) -> Mapping[str, Typed]:
        return self._constants

    @property
    def functions(self) -> Mapping[str, DeclaredFunction]:
        return self._declared


class _Names:
    """What names mean in one scope, and around it."""

    def __init__(self, binder: _Binder, scope: _Scope) -> None:
        self._binder, self._scope = binder, scope

    def typed(self, node: exp.Expr) -> Typed:
        return type_of(node, self)

    def column(self, node: exp.Column) -> Typed:
        qualifier, name = node.table.lower(), node.name
        scope: _Scope | None = self._scope
        around = 0
        while scope is not None:
            found = _found(scope, qualifier, name, node, aliases=scope is self._scope)
            if found is not None:
                if around > 1:
                    raise ModelError(
                        f"{node.sql('spark')} is a column of a query around the one around this",
                        place=at(node),
                        next_step="Spark sees those of the next one alone",
                    )
                return self._traced(node, *found)
            if qualifier and scope.parent is not None:
                self._refuse_hidden(scope, qualifier, node)
            around += bool(scope.sources)
            scope = scope.parent
        constant = self._binder.constants.get(name.lower()) if not qualifier else None
        if constant is not None:
            self._binder.trace.constants[id(node)] = node
            return constant
        if qualifier:
            inner = self._struct(node)
            if inner is not None:
                return inner
        raise self._unknown(node)

    def _refuse_hidden(self, scope: _Scope, qualifier: str, node: exp.Column) -> None:
        """A column of this name is nearer than the source that is called so: Spark takes it."""
        columns = (one for source in scope.sources.values() for one in source.columns)
        if any(one.name.lower() == qualifier for one in columns) and self._struct(node) is None:
            raise ModelError(
                f"{node.table} is a column here, so {node.sql('spark')} is a field of it to Spark",
                place=at(node),
                next_step="Give the source another name",
            )

    def _traced(self, node: exp.Column, value: Typed, place: InputColumn | None) -> Typed:
        """A column of a source; a name of the scope's beside it would be taken for it silently."""
        if place is not None:
            self._binder.trace.columns[id(node)] = place
            self._binder.trace.kinds[place] = value.type
        self._binder.trace.made_of[id(node)] = (value.origins,)
        if not node.table and node.name.lower() in self._binder.constants:
            what = "a column of the query" if place is None else "a column of a source"
            raise ModelError(
                f"{node.name} is {what} and a name under `for`",
                place=at(node),
                next_step="Write t.column, or give the name under `for` another one",
            )
        return value

    def _struct(self, node: exp.Column) -> Typed | None:
        """``a.b`` as the field ``b`` of a column ``a``."""
        parts = [part.name for part in node.parts]
        for first in range(len(parts) - 1):
            qualifier = ".".join(parts[:first]).lower()
            whole = _found(self._scope, qualifier, parts[first], node)
            if whole is not None and whole[0].type.startswith("struct<"):
                found, place = whole
                if place is not None:
                    self._binder.trace.fields[id(node)] = place
                for name in parts[first + 1 :]:
                    found = field_of(found, name, node)
                self._binder.trace.made_of[id(node)] = (found.origins,)
                return found
        return None

    def plain(self, name: str, node: exp.Expr) -> tuple[Typed, InputColumn | None]:
        """A column by its bare name, in this scope alone."""
        found = _found(self._scope, "", name, node)
        if found is None:
            raise ModelError(f"no column {name} on the left of the join", place=at(node))
        return found

    def query(self, node: exp.Expr) -> Sequence[Typed]:
        fields = self._binder.query(node, _Scope(self._scope, {}))
        return [one.value for one in fields]

    def declared(self, name: str) -> DeclaredFunction | None:
        return self._binder.functions.get(name)

    def _unknown(self, node: exp.Column) -> ModelError:
        known = [f.name for r in self._scope.sources.values() for f in r.fields]
        known += list(self._binder.constants)
        if node.table and node.table.lower() not in self._scope.sources:
            words = f"no source is called {node.table}{nearest(node.table, self._scope.sources)}"
        else:
            words = f"there is no column {node.name}{nearest(node.name, known)}"
        return ModelError(words, place=at(node))


def _order_of(node: exp.Expr) -> list[exp.Expr]:
    order = node.args.get("order")
    return [one.this for one in order.expressions] if order is not None else []


def _place(source: _Source, name: str) -> InputColumn:
    return source.key, name.lower()


def _found(
    scope: _Scope, qualifier: str, name: str, node: exp.Expr, *, aliases: bool = True
) -> tuple[Typed, InputColumn | None] | None:
    """A column of a scope's own sources, and which; None where it has none of that name."""
    lowered = name.lower()
    if qualifier:
        source = scope.sources.get(qualifier.rpartition(".")[2])
        sources = [source] if source is not None else []
    elif lowered in scope.merged:
        return scope.merged[lowered]
    else:
        sources = list(scope.sources.values())
    found = [
        (one.value, _place(source, name))
        for source in sources
        for one in source.columns
        if one.name.lower() == lowered
    ]
    if len(found) > 1:
        raise ModelError(
            f"column {name} is ambiguous: {len(found)} of the sources have it",
            place=at(node),
            next_step="Write which, as in t.column",
        )
    if found:
        return found[0]
    alias = None if qualifier or not aliases else scope.aliases.get(lowered)
    return None if alias is None else (alias, None)


_GENERATORS = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "stack"}


def _exploded(
    call: exp.Anonymous, names: _Names, alias: str, columns: Sequence[str]
) -> list[NamedValue]:
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


def _renamed(
    fields: Sequence[NamedValue], names: Sequence[str], node: exp.Expr
) -> list[NamedValue]:
    if not names:
        return list(fields)
    if len(names) != len(fields):
        raise ModelError(f"{len(names)} names are given to {len(fields)} columns", place=at(node))
    return [NamedValue(name, one.value) for name, one in zip(names, fields, strict=True)]


def _null_of_both(node: exp.SetOperation, left: Typed, right: Typed) -> bool:
    if isinstance(node, exp.Intersect):
        return left.nullable and right.nullable
    if isinstance(node, exp.Except):
        return left.nullable
    return left.nullable or right.nullable
