"""Conditions from which a reader learns the values of a column that is hidden.

``WHERE p.email = s.name`` selects no hidden column; but the rows that come tell which ``email`` is
which ``name``. Nothing is refused here, as a condition on a hidden column may be harmless; it is
pointed out, and the person who reviews the model decides.

Pointed out is a condition that has a hidden column and, beside it, a column or a name under ``for``
that is not hidden, in whatever expression; and one by which a hidden column is equal to a constant.
Not so are bounds (``age >= 18``) and ``IS NULL``.

What belongs here: conditions of one query. What doesn't: columns made of hidden ones, which are
refused (`mirrorlake.models.compile.stored_columns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from mirrorlake.models.compile.model import Model
from mirrorlake.models.external_sources.tables import ExternalTable
from mirrorlake.models.spark_sql.bound_query import Trace
from mirrorlake.models.spark_sql.columns import Origin
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.serving.catalogue import Catalogue

_EQUAL = (exp.EQ, exp.NullSafeEQ, exp.In, exp.Like, exp.ILike, exp.RegexpLike)


def hidden_columns(
    tables: Sequence[str], catalogue: Catalogue, externals: Mapping[str, ExternalTable]
) -> frozenset[Origin]:
    """The columns of some tables that a contract, or the file of one that is made elsewhere, keeps
    from people.

    Raises:
        LakeError: the lake can't be read.
    """
    mirrored = {name: catalogue.table(name) for name in tables}
    return frozenset(
        {
            Origin(name, column)
            for name, table in mirrored.items()
            if table is not None
            for column in catalogue.hidden(table)
        }
        | {
            Origin(one.name, column)
            for one in externals.values()
            for column in one.declaration.hidden
        }
    )


def told_by_conditions(catalogue: Catalogue, model: Model) -> Iterator[str]:
    """Warnings: conditions of a model from which its readers learn hidden values, with the place.

    Raises:
        LakeError: the lake can't be read.
    """
    hidden = hidden_columns(model.reads, catalogue, model.externals)
    if not hidden:
        return
    found: dict[tuple[int, int], str] = {}
    for node, origins, beside in _Conditions(model.bound.trace, hidden).all(model.query):
        places = (at(one) for one in node.walk() if "line" in one.meta)
        place = model.declaration.place(min(filter(None, places), default=(1, 1)))
        names = ", ".join(f"{one.column} of {one.table}" for one in sorted(origins, key=_by_name))
        found.setdefault(
            place,
            f"{model.declaration.path}:{place[0]}:{place[1]}: a condition compares {names}, which "
            f"is hidden, with {beside}, which is not: whoever reads {model.name} learns it from "
            "the rows that come. Read the clean table instead, or decide that its readers may",
        )
    yield from (found[place] for place in sorted(found))


def _by_name(origin: Origin) -> tuple[str, str]:
    return origin.table, origin.column


_Told = tuple[exp.Expr, frozenset[Origin], str]
"""A condition, the hidden columns that it tells, and in words what they are compared with."""


@dataclass(frozen=True)
class _Conditions:
    """The conditions of one bound query."""

    trace: Trace
    hidden: frozenset[Origin]

    def all(self, query: exp.Expr) -> Iterator[_Told]:
        for node in query.find_all(exp.Where, exp.Having, exp.Qualify):
            yield from self._condition(node.this, negated=False)
        for join in query.find_all(exp.Join):
            if join.args.get("on") is not None:
                yield from self._condition(join.args["on"], negated=False)
            named = join.args.get("using") or []
            for node, sides in zip(named, self.trace.used.get(id(join), ()), strict=False):
                yield from self._sides(node, sides)
        for one in query.find_all(exp.Intersect, exp.Except):
            left, right = (
                self.trace.made_of.get(id(side.unnest()), ()) for side in (one.left, one.right)
            )
            for sides in zip(left, right, strict=False):
                yield from self._sides(one.left, sides)

    def _sides(self, node: exp.Expr, sides: Sequence[frozenset[Origin]]) -> Iterator[_Told]:
        """Two columns that are equal where a row comes."""
        told = frozenset[Origin]().union(*sides) & self.hidden
        shown = [one for side in sides for one in side - self.hidden]
        if told and (shown or not all(sides)):
            words = f"{shown[0].column} of {shown[0].table}" if shown else "a value"
            yield node, told, words

    def _condition(self, node: exp.Expr, *, negated: bool) -> Iterator[_Told]:
        """Each part of a condition that stands by itself."""
        if isinstance(node, exp.And | exp.Or | exp.Xor):
            yield from self._bounds(node)
            for one in (node.left, node.right):
                yield from self._condition(one, negated=negated)
        elif isinstance(node, exp.Paren):
            yield from self._condition(node.this, negated=negated)
        elif isinstance(node, exp.Not):
            yield from self._condition(node.this, negated=True)
        else:
            told = self._told(node)
            beside = self._beside(node) if told else ""
            if not beside and told and self._equals_constant(node, negated=negated):
                beside = "a constant"
            if beside:
                yield node, told, beside

    def _told(self, node: exp.Expr) -> frozenset[Origin]:
        return _union(self._origins(one) for one in _named(node)) & self.hidden

    def _origins(self, node: exp.Expr) -> frozenset[Origin]:
        return _union(self.trace.made_of.get(id(node), ()))

    def _beside(self, node: exp.Expr) -> str:
        """What is not hidden in a part of a condition, in words; '' where all is, or constant."""
        for one in _named(node):
            shown = sorted(self._origins(one) - self.hidden, key=_by_name)
            if shown:
                return f"{shown[0].column} of {shown[0].table}"
            if not self._origins(one) and isinstance(one, exp.Column):
                return one.sql("spark")
        return ""

    def _equals_constant(self, node: exp.Expr, *, negated: bool) -> bool:
        """Whether a part of a condition, all of whose columns are hidden, says a value of one."""
        if isinstance(node, exp.Column):
            return True  # `WHERE is_member`
        other = (one for one in node.find_all(exp.NEQ) if negated or one is not node)
        equal: list[exp.Expr] = [*node.find_all(*_EQUAL), *other]
        same = (
            one.args["low"].sql() == one.args["high"].sql() for one in node.find_all(exp.Between)
        )
        return any(same) or any(self._has_open_side(one) for one in equal)

    def _has_open_side(self, node: exp.Expr) -> bool:
        return not all(self._told(one) for one in node.iter_expressions())

    def _bounds(self, node: exp.Expr) -> Iterator[_Told]:
        """``x >= 'a' AND x <= 'a'``."""
        if not isinstance(node, exp.And) or isinstance(node.parent, exp.And):
            return
        seen: set[tuple[str, str, bool]] = set()
        for part in node.flatten():
            one = part.unnest()
            if not isinstance(one, exp.GTE | exp.LTE):
                continue
            left, right = one.left, one.right
            turned = not self._told(left)
            value, bound = (right, left) if turned else (left, right)
            if not self._told(value) or any(True for _ in _named(bound)):
                continue
            is_low = isinstance(one, exp.GTE) != turned
            seen.add((value.sql(), bound.sql(), is_low))
            if (value.sql(), bound.sql(), not is_low) in seen:
                yield one, self._told(value), "a constant"


def _union(several: Iterable[frozenset[Origin]]) -> frozenset[Origin]:
    return frozenset[Origin]().union(*several)


def _named(node: exp.Expr) -> Iterator[exp.Expr]:
    """The columns in an expression, and of a subquery the query itself: what its own conditions
    name is looked at with them. Whether there is a row at all (``EXISTS``) shows no column."""
    if isinstance(node, exp.Exists):
        return
    if isinstance(node, exp.Column | exp.Select | exp.SetOperation):
        yield node
        return
    for one in node.iter_expressions():
        yield from _named(one)
