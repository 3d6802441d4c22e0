"""Which column, or which constant, a name in a query means.

What belongs here: names, outwards from the scope in which they stand. What doesn't: the columns of
one scope (`mirrorlake.models.spark_sql.binding.scopes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.binding.scopes import QueryScope
from mirrorlake.models.spark_sql.bound_query import InputColumn, Trace
from mirrorlake.models.spark_sql.columns import NamedValue, Typed
from mirrorlake.models.spark_sql.expression_types.expressions import field_of, type_of
from mirrorlake.models.spark_sql.functions import DeclaredFunction
from mirrorlake.models.spark_sql.node_places import at


class QueryBinder(Protocol):
    """What binds the query in which names stand."""

    trace: Trace
    constants: Mapping[str, Typed]
    functions: Mapping[str, DeclaredFunction]

    def query(self, node: exp.Expr, scope: QueryScope) -> list[NamedValue]:
        """The columns of a query within it."""
        ...


class ScopeNames:
    """What names mean in one scope, and around it."""

    def __init__(self, binder: QueryBinder, scope: QueryScope) -> None:
        self._binder, self._scope = binder, scope

    def typed(self, node: exp.Expr) -> Typed:
        return type_of(node, self)

    def column(self, node: exp.Column) -> Typed:
        qualifier, name = node.table.lower(), node.name
        scope: QueryScope | None = self._scope
        around = 0
        while scope is not None:
            found = scope.column(qualifier, name, node, aliases=scope is self._scope)
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

    def _refuse_hidden(self, scope: QueryScope, qualifier: str, node: exp.Column) -> None:
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
            whole = self._scope.column(qualifier, parts[first], node)
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
        found = self._scope.column("", name, node)
        if found is None:
            raise ModelError(f"no column {name} on the left of the join", place=at(node))
        return found

    def query(self, node: exp.Expr) -> Sequence[Typed]:
        fields = self._binder.query(node, QueryScope(self._scope, {}))
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
