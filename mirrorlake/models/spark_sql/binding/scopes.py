"""What names mean at one place of a query: the sources of a SELECT, and their columns.

What belongs here: one scope, and a column of its own sources. What doesn't: scopes around it
(`mirrorlake.models.spark_sql.binding.name_lookup`), and how sources are joined
(`mirrorlake.models.spark_sql.binding.binder`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.bound_query import InputColumn
from mirrorlake.models.spark_sql.columns import NamedValue, Relation, Typed
from mirrorlake.models.spark_sql.node_places import at


@dataclass(frozen=True)
class QuerySource:
    """One source of a SELECT.

    Attributes:
        key: the ``id`` of its node in FROM.
    """

    relation: Relation
    key: int

    @property
    def fields(self) -> tuple[NamedValue, ...]:
        return self.relation.fields

    @property
    def columns(self) -> tuple[NamedValue, ...]:
        return (*self.relation.fields, *self.relation.hidden)

    def place(self, name: str) -> InputColumn:
        """A column of it, as the trace names columns."""
        return self.key, name.lower()

    def nullable(self) -> QuerySource:
        """The same on the side of an outer join that may have no row."""
        return QuerySource(self.relation.nullable(), self.key)


@dataclass
class QueryScope:
    """What names mean at one place of a query.

    Attributes:
        sources: alias (in lower case) → its columns.
        merged: columns that ``USING`` made one, by name; and the column of a source that each is.
        aliases: columns that the SELECT has named so far, which later ones may use.
    """

    parent: QueryScope | None
    ctes: dict[str, tuple[Relation, exp.Expr]]
    sources: dict[str, QuerySource] = field(default_factory=dict[str, QuerySource])
    merged: dict[str, tuple[Typed, InputColumn | None]] = field(
        default_factory=dict[str, "tuple[Typed, InputColumn | None]"]
    )
    aliases: dict[str, Typed] = field(default_factory=dict[str, Typed])

    def cte(self, name: str) -> tuple[Relation, exp.Expr] | None:
        """A query under WITH, here or around here, and its columns."""
        found = self.ctes.get(name)
        return found if found is not None or self.parent is None else self.parent.cte(name)

    def column(
        self, qualifier: str, name: str, node: exp.Expr, *, aliases: bool = True
    ) -> tuple[Typed, InputColumn | None] | None:
        """A column of the scope's own sources, and which; None where it has none of that name.

        Args:
            aliases: whether a column that the SELECT has named so far counts.

        Raises:
            ModelError: several sources have it, with the place of the node.
        """
        lowered = name.lower()
        if qualifier:
            source = self.sources.get(qualifier.rpartition(".")[2])
            sources = [source] if source is not None else []
        elif lowered in self.merged:
            return self.merged[lowered]
        else:
            sources = list(self.sources.values())
        found = [
            (one.value, source.place(name))
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
        alias = None if qualifier or not aliases else self.aliases.get(lowered)
        return None if alias is None else (alias, None)

    def star(self, node: exp.Expr) -> list[tuple[NamedValue, InputColumn | None]]:
        """The columns that ``*``, or ``t.*``, stands for, without those under EXCEPT.

        Raises:
            ModelError: there is no such source, or none has a column under EXCEPT.
        """
        star = node.this if isinstance(node, exp.Column) else node
        left_out = {one.name.lower() for one in star.args.get("except_") or []}
        if isinstance(node, exp.Column):
            source = self.sources.get(node.table.lower())
            if source is None:
                raise ModelError(
                    f"no source is called {node.table}{nearest(node.table, self.sources)}",
                    place=at(node),
                )
            found = [(one, source.place(one.name)) for one in source.fields]
        else:
            found = [
                (NamedValue(name, value), place) for name, (value, place) in self.merged.items()
            ]
            found += [
                (one, source.place(one.name))
                for source in self.sources.values()
                for one in source.fields
                if one.name.lower() not in self.merged
            ]
        there = {one.name.lower() for one, _ in found}
        for one in star.args.get("except_") or []:
            if one.name.lower() not in there:
                near = nearest(one.name, there)
                raise ModelError(f"* EXCEPT: there is no column {one.name}{near}", place=at(one))
        return [(one, place) for one, place in found if one.name.lower() not in left_out]
