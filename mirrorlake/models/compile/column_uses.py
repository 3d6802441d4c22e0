"""Where a query names the columns of a table.

A star names them all, and ``USING`` one of each side; a column of a subquery is named where the
subquery takes it from its table.

What belongs here: places in one model's query. What doesn't: what becomes of a model when a column
changes (`mirrorlake.models.changes.impact`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from mirrorlake.models.compile.model import Model
from mirrorlake.models.spark_sql.bound_query import InputColumn
from mirrorlake.models.spark_sql.node_places import at


@dataclass(frozen=True)
class ColumnReading:
    """One place where a model names a column of a table.

    Attributes:
        column: in lower case, as the table has it.
        line, col: of the model's file, from 1.
    """

    model: str
    table: str
    column: str
    path: str
    line: int
    col: int

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}:{self.col}"


def readings(model: Model, table: str, columns: Sequence[str]) -> list[ColumnReading]:
    """The places where a model names columns of a table, in the order of its text; each column once
    a place.

    Args:
        columns: all that the table has, in order.
    """
    names = [name.lower() for name in columns]
    found: dict[ColumnReading, None] = {}
    sources = {
        id(node): node
        for node in model.query.find_all(exp.Table)
        if model.bound.trace.tables.get(id(node)) == table
    }
    for (key, column), node in _named(model, sources):
        place = at(node)
        if place is not None:
            own = _own_name(sources[key], column, names)
            declared = model.declaration
            line, col = declared.place(place)
            found[ColumnReading(model.name, table, own, str(declared.path), line, col)] = None
    order = {name: number for number, name in enumerate(names)}
    return sorted(found, key=lambda one: (one.line, one.col, order.get(one.column, len(order))))


def table_places(model: Model, table: str) -> list[str]:
    """The places where a model names a table, ``file:line:column``."""
    declared = model.declaration
    nodes = (
        n for n in model.query.find_all(exp.Table) if model.bound.trace.tables.get(id(n)) == table
    )
    found = sorted(place for node in nodes if (place := at(node)) is not None)
    return ["{}:{}:{}".format(declared.path, *declared.place(place)) for place in found]


def _own_name(source: exp.Table, column: str, names: Sequence[str]) -> str:
    """What the table calls a column: ``t AS a (x, y)`` gives them other names."""
    clause = source.args.get("alias")
    given = [one.name.lower() for one in clause.args.get("columns") or []] if clause else []
    return names[given.index(column)] if given else column


def _named(model: Model, sources: dict[int, exp.Table]) -> Iterator[tuple[InputColumn, exp.Expr]]:
    """Columns of some sources, each with the node that names it."""
    trace = model.bound.trace
    for node in model.query.find_all(exp.Column):
        place = trace.columns.get(id(node))
        if place is not None and place[0] in sources:
            yield place, node
    for join in model.query.find_all(exp.Join):
        for place in (one for pair in trace.using.get(id(join), ()) for one in pair):
            if place[0] in sources:
                yield place, _using(join, place[1])
    for select in model.query.find_all(exp.Select):
        starred = (value for _, value in trace.outputs.get(id(select), ()))
        for value in starred:
            if isinstance(value, tuple) and value[0] in sources:
                yield value, _star(select, sources[value[0]])


def _using(join: exp.Join, column: str) -> exp.Expr:
    named = (one for one in join.args.get("using") or [] if one.name.lower() == column)
    return next(named, join)


def _star(select: exp.Select, source: exp.Table) -> exp.Expr:
    """The star of a SELECT by which it has the columns of a source: the first that is of it."""
    name = (source.alias or source.name).lower()
    stars = (
        one
        for one in select.expressions
        if isinstance(one, exp.Star)
        or (
            isinstance(one, exp.Column)
            and isinstance(one.this, exp.Star)
            and one.table.lower() == name
        )
    )
    return next(stars, select)
