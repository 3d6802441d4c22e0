"""What stands below the nodes of one query, each looked for once: a query is looked at for many
scopes, and is the same for all.

What belongs here: what can be told from the nodes alone. What doesn't: what their names mean
(`mirrorlake.models.spark_sql.binding.binder`), and what values they have
(`mirrorlake.models.row_filters.rows_read`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from mirrorlake.models.spark_sql import functions


@dataclass
class Nodes:
    """The nodes of one query, which live as long as it does: their ``id`` names them."""

    _columns: dict[int, tuple[exp.Column, ...]] = field(
        default_factory=dict[int, tuple[exp.Column, ...]]
    )
    _sources: dict[int, tuple[exp.Expr, ...]] = field(
        default_factory=dict[int, tuple[exp.Expr, ...]]
    )
    _queries: dict[int, tuple[exp.Expr, ...]] = field(
        default_factory=dict[int, tuple[exp.Expr, ...]]
    )
    _windows: dict[int, tuple[exp.Expr, ...]] = field(
        default_factory=dict[int, tuple[exp.Expr, ...]]
    )
    _totals: dict[int, bool] = field(default_factory=dict[int, bool])
    _texts: dict[int, str] = field(default_factory=dict[int, str])

    def columns(self, node: exp.Expr) -> tuple[exp.Column, ...]:
        """The names within an expression, in no order."""
        found = self._columns.get(id(node))
        if found is None:
            found = self._columns[id(node)] = tuple(node.find_all(exp.Column))
        return found

    def sources(self, node: exp.Select) -> tuple[exp.Expr, ...]:
        """What a SELECT, and all queries in it, may have in FROM."""
        found = self._sources.get(id(node))
        if found is None:
            kinds = (exp.Table, exp.Subquery, exp.Lateral, exp.Values)
            found = self._sources[id(node)] = tuple(node.find_all(*kinds))
        return found

    def queries(self, node: exp.Expr) -> tuple[exp.Expr, ...]:
        """The outermost queries within an expression."""
        found = self._queries.get(id(node))
        if found is None:
            found = self._queries[id(node)] = tuple(_queries(node))
        return found

    def windows(self, node: exp.Select) -> tuple[exp.Expr, ...]:
        """The windows of a SELECT's own expressions."""
        found = self._windows.get(id(node))
        if found is None:
            found = self._windows[id(node)] = tuple(_own(node, exp.Window))
        return found

    def is_total(self, node: exp.Select) -> bool:
        """Whether a SELECT is one group of all rows."""
        found = self._totals.get(id(node))
        if found is None:
            found = self._totals[id(node)] = self._is_total(node)
        return found

    def text(self, node: exp.Expr) -> str:
        """An expression as Spark writes it."""
        found = self._texts.get(id(node))
        if found is None:
            found = self._texts[id(node)] = node.sql("spark")
        return found

    def _is_total(self, node: exp.Select) -> bool:
        if node.args.get("group") is not None:
            return False
        if node.args.get("having") is not None:
            return True
        windowed = {id(one.this) for one in self.windows(node)}
        return any(is_aggregate(one) for one in _own(node, exp.Func) if id(one) not in windowed)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a call is of a group's rows."""
    return isinstance(node, exp.AggFunc) or str(node.this).lower() in functions.AGGREGATES


def _queries(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Select | exp.SetOperation):
        yield node
        return
    for child in node.iter_expressions():
        yield from _queries(child)


def _own(node: exp.Select, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The nodes of one class in a SELECT's own expressions, without queries in it."""

    def walk(one: exp.Expr) -> Iterator[exp.Expr]:
        if isinstance(one, exp.Select | exp.SetOperation):
            return
        if isinstance(one, kind):
            yield one
        for child in one.iter_expressions():
            yield from walk(child)

    for one in node.expressions:
        yield from walk(one)
    for clause in ("having", "qualify", "order"):
        part = node.args.get(clause)
        if part is not None:
            yield from walk(part)
