"""Where aggregates and windows may stand, and what may stand beside them.

A SELECT with GROUP BY, or with an aggregate, gives a row for each group: outside of aggregates it
may name what it is grouped by, and nothing else.

What belongs here: one SELECT that is bound. What doesn't: names and types
(`mirrorlake.models.spark_sql.binding.binder`), and which rows a partition reads
(`mirrorlake.models.row_filters.rows_read`).

Source: Spark SQL Reference, "GROUP BY Clause", "Window Functions"; Spark's ``CheckAnalysis``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.binding.window_functions import (
    WINDOWED,
    arguments_of,
    check_window,
    is_aggregate,
    is_windowed,
    own_nodes,
    window_parts,
)
from mirrorlake.models.spark_sql.bound_query import InputColumn, Trace
from mirrorlake.models.spark_sql.clauses import position
from mirrorlake.models.spark_sql.node_places import at

_QUERIES = (exp.Select, exp.SetOperation)


def refuse_aggregates(node: exp.Expr, clause: str) -> None:
    """See that a clause that is about single rows has no aggregate and no window.

    Raises:
        ModelError: it has, with its place.
    """
    for one in own_nodes(node):
        if isinstance(one, exp.Window):
            step = "Give it a name in a subquery, and use that around it"
            raise ModelError(f"{clause} has a window", place=at(one), next_step=step)
        if is_aggregate(one):
            step = "Write HAVING" if clause == "WHERE" else ""
            raise ModelError(f"{clause} has an aggregate", place=at(one), next_step=step)


@dataclass
class Grouping:
    """One SELECT, whose names are bound.

    Attributes:
        sources: the keys of its sources.
        merged: columns that ``USING`` made one, in lower case.
    """

    node: exp.Select
    trace: Trace
    merged: frozenset[str] = frozenset()
    _canonical: dict[int, str] = field(default_factory=dict[int, str])

    @cached_property
    def sources(self) -> frozenset[int]:
        return frozenset(self.trace.sources[id(self.node)])

    @cached_property
    def outputs(self) -> Sequence[tuple[str, exp.Expr | InputColumn | None]]:
        return self.trace.outputs[id(self.node)]

    @cached_property
    def aliases(self) -> Mapping[str, exp.Expr]:
        """What the SELECT gives names to."""
        return {
            one.alias.lower(): one.this
            for one in reversed(self.node.expressions)
            if isinstance(one, exp.Alias)
        }

    @cached_property
    def is_grouped(self) -> bool:
        """Whether it gives a row for each group, or one of all rows."""
        node = self.node
        if node.args.get("group") is not None or node.args.get("having") is not None:
            return True
        return any(map(self._has_aggregate, node.expressions))

    def check(self, grouped_by: Sequence[exp.Expr]) -> None:
        """
        Args:
            grouped_by: what stands in GROUP BY.

        Raises:
            ModelError: something stands where Spark takes none, or is neither grouped nor
                aggregated; with its place.
        """
        self._check_aliases()
        for one in self._clauses():
            self._check_windows(one)
        if self.is_grouped:
            self._check_grouped(self._keys(grouped_by))
        else:
            for one in self._order():
                self._refuse_aggregate_alone(one)
        self._check_distinct()

    # --- what it is grouped by --------------------------------------------------------------------

    def _keys(self, grouped_by: Sequence[exp.Expr]) -> set[str]:
        group = self.node.args.get("group")
        if group is not None and group.args.get("all"):
            return {
                self._text(one) for one in self.node.expressions if not self._has_aggregate(one)
            }
        found: set[str] = set()
        for one in grouped_by:
            number = position(one, len(self.outputs), "GROUP BY")
            expression = one if number is None else self.outputs[number][1]
            if isinstance(expression, exp.Expr):
                expression = self._named(expression)
                refuse_aggregates(expression, "GROUP BY")
                found.add(self._text(expression))
            elif expression is not None:
                found.add(_column_text(expression))
        return found

    def _named(self, node: exp.Expr) -> exp.Expr:
        """What an alias of the SELECT stands for."""
        if isinstance(node, exp.Column) and self._is_alias(node):
            return self.aliases[node.name.lower()]
        return node

    def _is_alias(self, node: exp.Column) -> bool:
        known = id(node) in self.trace.columns or id(node) in self.trace.constants
        name = node.name.lower()
        return not known and not node.table and name not in self.merged and name in self.aliases

    def _check_grouped(self, keys: set[str]) -> None:
        for one in self.node.expressions:
            if isinstance(one, exp.Star) or (
                isinstance(one, exp.Column) and isinstance(one.this, exp.Star)
            ):
                continue
            self._check_parts(one.unalias(), keys)
        for name, value in self.outputs:
            if not isinstance(value, exp.Expr) and (
                value is None or _column_text(value) not in keys
            ):
                raise self._ungrouped(name, self.node)
        names = {name for name, _ in self.outputs}
        for one in self._order():
            self._check_parts(one, keys, names)
        self._check_order_of_groups(keys, names)

    def _check_order_of_groups(self, keys: set[str], names: set[str]) -> None:
        """Beside HAVING, ROLLUP and the like Spark orders by the columns that the SELECT gives."""
        group, order = self.node.args.get("group"), self.node.args.get("order")
        sets = group is not None and any(group.find_all(exp.Rollup, exp.Cube, exp.GroupingSets))
        clause = self.node.args.get("having")
        if order is None or not (sets or clause is not None):
            return
        having = clause.this if clause is not None else None
        outputs = {self._text(one) for _, one in self.outputs if isinstance(one, exp.Expr)}
        for one in self._order():
            counted = any(
                is_aggregate(each) and str(each.this).lower() not in ("grouping", "grouping_id")
                for each in own_nodes(one)
            )
            if one is not having and counted and self._text(one) not in outputs:
                step = "Select it, and order by its name"
                raise ModelError("ORDER BY has an aggregate here", place=at(one), next_step=step)
        for one in order.find_all(exp.Column):
            named = not one.table and one.name.lower() in names
            if not named and (sets or self._text(one) not in keys):
                raise ModelError(
                    f"ORDER BY takes columns of the SELECT here, and {one.name} is not one",
                    place=at(one),
                    next_step="Order by the name that it gives",
                )

    def _check_parts(
        self, node: exp.Expr, keys: set[str], outputs: frozenset[str] | set[str] = frozenset()
    ) -> None:
        """See that an expression is made of what is grouped, and of aggregates.

        Args:
            outputs: names of the SELECT's own columns that may be meant, too.
        """
        if self._text(node) in keys:
            return
        if isinstance(node, exp.Column):
            if node.table or node.name.lower() not in outputs:
                self._check_column(node, keys)
        elif isinstance(node, _QUERIES):
            for one in node.find_all(exp.Column):
                self._check_column(one, keys, own=False)
        elif isinstance(node, exp.Window):
            for one in (*arguments_of(node.this), *window_parts(node)):
                self._check_parts(one, keys)
        elif is_aggregate(node) or isinstance(node, exp.Filter | exp.WithinGroup):
            self._check_aggregate(node)
        else:
            for one in node.iter_expressions():
                self._check_parts(one, keys, outputs)

    def _check_column(self, node: exp.Column, keys: set[str], *, own: bool = True) -> None:
        """See that a column is one by which is grouped, or none of this SELECT's sources.

        Args:
            own: whether it stands in this SELECT, and in no query in it.
        """
        place = self.trace.columns.get(id(node)) or self.trace.fields.get(id(node))
        if place is not None:
            wrong = place[0] in self.sources and _column_text(place) not in keys
        else:
            wrong = own and not node.table and node.name.lower() in self.merged
        if wrong and self._text(node) not in keys:
            raise self._ungrouped(node.name, node)

    def _check_aggregate(self, node: exp.Expr) -> None:
        for one in node.iter_expressions():
            for inner in own_nodes(one):
                outer = one is inner and isinstance(node, exp.Filter | exp.WithinGroup)
                if isinstance(inner, exp.Window) or (is_aggregate(inner) and not outer):
                    raise ModelError(
                        "an aggregate has another one, or a window, in it",
                        place=at(inner),
                        next_step="Compute the inner one in a subquery",
                    )

    def _ungrouped(self, name: str, node: exp.Expr) -> ModelError:
        return ModelError(
            f"{name} is neither under GROUP BY nor in an aggregate",
            place=at(node),
            next_step=f"Add it to GROUP BY, or say which one: any_value({name}), max({name}) …",
        )

    # --- windows, aliases, DISTINCT ---------------------------------------------------------------

    def _clauses(self) -> Iterator[exp.Expr]:
        yield from self.node.expressions
        yield from self._order()

    def _order(self) -> Iterator[exp.Expr]:
        """HAVING and ORDER BY: what stands after the columns."""
        having, order = self.node.args.get("having"), self.node.args.get("order")
        if having is not None:
            for one in own_nodes(having.this):
                if isinstance(one, exp.Window):
                    raise ModelError("HAVING has a window", place=at(one))
            yield having.this
        for one in order.expressions if order is not None else []:
            if position(one.this, len(self.outputs), "ORDER BY") is None:
                yield one.this

    def _check_windows(self, node: exp.Expr) -> None:
        inside = {id(one.this) for one in own_nodes(node) if isinstance(one, exp.Window)}
        for one in own_nodes(node):
            if isinstance(one, exp.Window):
                check_window(one, self._definition(one))
            name = str(one.this).lower() if isinstance(one, exp.Anonymous) else ""
            if name in WINDOWED and id(one) not in inside and not is_windowed(one):
                raise ModelError(f"{name} needs OVER (…)", place=at(one))

    def _definition(self, node: exp.Window) -> exp.Window:
        """The window that a name of the WINDOW clause means."""
        if not node.alias:
            return node
        own = any(node.args.get(key) for key in ("partition_by", "order", "spec"))
        named = {one.name.lower(): one for one in self.node.args.get("windows") or []}
        found = named.get(node.alias.lower())
        if found is None or own or found.alias:
            raise ModelError(f"no window is called {node.alias}", place=at(node))
        return found

    def _check_aliases(self) -> None:
        """Names that the SELECT gives and uses itself: Spark takes them neither in an aggregate nor
        in a window, and only where one alone has the name."""
        names = [one.alias.lower() for one in self.node.expressions if isinstance(one, exp.Alias)]
        several = {name for name in names if names.count(name) > 1}
        for one in self.node.expressions:
            for node in own_nodes(one):
                words = ""
                if isinstance(node, exp.Column) and self._is_alias(node):
                    words = "two columns have this name" if node.name.lower() in several else ""
                    if self.node.args.get("having") is not None or self.merged:
                        words = "the SELECT's own name can't be used beside HAVING or USING"
                elif isinstance(node, exp.Window) or is_aggregate(node):
                    for inner in node.find_all(exp.Column):
                        if self._is_alias(inner):
                            words, node = (
                                "an aggregate or a window can't use the SELECT's own name",
                                inner,
                            )
                if words:
                    step = "Name it in a subquery, and use it around that"
                    raise ModelError(f"{node.name}: {words}", place=at(node), next_step=step)

    def _refuse_aggregate_alone(self, node: exp.Expr) -> None:
        for one in own_nodes(node):
            if is_aggregate(one) and not is_windowed(one):
                raise ModelError("ORDER BY has an aggregate, and nothing is grouped", place=at(one))

    def _check_distinct(self) -> None:
        if not self.node.args.get("distinct"):
            return
        # A column is there by its own name as well, unless it was given another.
        given = [one.unnest() for one in self.node.expressions]
        columns = {self._text(one) for one in given if isinstance(one, exp.Column)}
        columns |= {_column_text(value) for _, value in self.outputs if isinstance(value, tuple)}
        names = {name for name, _ in self.outputs}
        order = self.node.args.get("order")
        for one in order.expressions if order is not None else []:
            node = one.this
            others = [
                column
                for column in node.find_all(exp.Column)
                if (column.table or column.name.lower() not in names)
                and self._text(column) not in columns
            ]
            if others or any(map(is_aggregate, own_nodes(node))):
                raise ModelError(
                    "ORDER BY names what SELECT DISTINCT does not give",
                    place=at(node),
                    next_step="Select it, too",
                )

    # --- expressions ------------------------------------------------------------------------------

    def _has_aggregate(self, node: exp.Expr) -> bool:
        return any(is_aggregate(one) and not is_windowed(one) for one in own_nodes(node))

    def _text(self, node: exp.Expr) -> str:
        """An expression by what its names mean: equal of two that are the same to Spark."""
        found = self._canonical.get(id(node))
        if found is None:
            found = self._canonical[id(node)] = self._canon(node)
        return found

    def _canon(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Paren | exp.Alias):
            return self._text(node.this)
        if isinstance(node, exp.Column):
            place = self.trace.columns.get(id(node))
            if place is not None:
                return _column_text(place)
            if self._is_alias(node):
                return self._text(self.aliases[node.name.lower()])
            return node.sql("spark").lower()
        parts = [type(node).__name__]
        for key, value in node.args.items():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, exp.Expr):
                    parts.append(f"{key}={self._text(one)}")
                elif one is not None and one is not False:
                    word = str(one) if isinstance(node, exp.Literal) else str(one).lower()
                    parts.append(f"{key}:{word}")
        return f"({' '.join(parts)})"


def _column_text(place: InputColumn) -> str:
    return f"#{place[0]}.{place[1]}"
