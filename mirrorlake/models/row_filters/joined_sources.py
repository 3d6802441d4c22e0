"""The sources of a SELECT, as they are joined from the left to the right.

What belongs here: FROM, JOIN and LATERAL VIEW, and what a query is without its brackets. What
doesn't: which rows they keep (`mirrorlake.models.row_filters.rows_read`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from mirrorlake.models.row_filters.joined_values import Conditions, conjuncts
from mirrorlake.models.spark_sql.bound_query import Trace


@dataclass(frozen=True)
class JoinedSource:
    """One source joined to those before it. ``kind``: INNER, LEFT, RIGHT, FULL, SEMI or ANTI."""

    kind: str
    key: int
    on: Conditions
    node: exp.Expr | None = None


@dataclass(frozen=True)
class JoinedSources:
    """The sources of a SELECT: the first, then joins from the left to the right."""

    first: int | None
    joins: tuple[JoinedSource, ...]

    @property
    def keys(self) -> frozenset[int]:
        return self.keys_before(len(self.joins))

    def keys_before(self, number: int) -> frozenset[int]:
        keys = {self.first, *(one.key for one in self.joins[:number])}
        return frozenset(key for key in keys if key is not None)


def sources_of(node: exp.Select, trace: Trace) -> JoinedSources:
    """What a SELECT reads from, joined."""
    begin = node.args.get("from_")
    if begin is None:
        return JoinedSources(None, ())
    joins: list[JoinedSource] = []
    nodes: Sequence[exp.Expr] = [
        *(begin.this.args.get("joins") or []),
        *(begin.this.args.get("laterals") or []),
        *(node.args.get("joins") or []),
        *(node.args.get("laterals") or []),
    ]
    for one in nodes:
        if isinstance(one, exp.Lateral):
            joins.append(JoinedSource("LEFT", id(one), Conditions()))
            continue
        on = Conditions(tuple(conjuncts(one.args.get("on"))), tuple(trace.using.get(id(one), ())))
        joins.append(JoinedSource(_kind(one), id(one.this), on, one))
    return JoinedSources(id(begin.this), tuple(joins))


def plain_query(node: exp.Expr) -> exp.Expr:
    """A query out of its brackets."""
    while isinstance(node, exp.Subquery | exp.Paren):
        node = node.this
    return node


def _kind(node: exp.Expr) -> str:
    side = str(node.args.get("side") or "").upper()
    kind = str(node.args.get("kind") or "").upper()
    return kind if kind in ("SEMI", "ANTI") else (side or "INNER")
