"""Where a query names tables in whose place something else is read.

What belongs here: places in a text. What doesn't: what is read there
(`mirrorlake.models.spark.external_views`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from sqlglot import exp

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.node_places import at

TextSpan = tuple[int, int]
"""The first and the last character of a part of a text, from 0."""
BoundTables = Mapping[int, str]
"""Node of a query that names a table, by its ``id`` → which one, in lower case."""


def refuse_unfollowed(
    query: exp.Expr,
    tables: BoundTables,
    names: Container[str],
    what: str = "is made elsewhere",
) -> None:
    """See that something else can be read in the place of tables.

    Args:
        names: of the tables, in lower case.
        what: what is said of them.

    Raises:
        ModelError: a query asks more of one than its rows, with the place.
    """
    for node in _mentions(query, tables, names):
        name = tables[id(node)]
        if node.args.get("sample") is not None and not node.alias:
            raise ModelError(
                f"a sample of {name}, which {what}, needs a name",
                place=at(node),
                next_step="Write TABLESAMPLE (…) AS x",
            )
    for node in query.find_all(exp.Column):
        space = node.args.get("db")
        name = f"{space.name}.{node.table}".lower() if space is not None else ""
        if name in names:
            raise ModelError(
                f"{name} {what}: a column of it has no dataset before it",
                place=min((place for part in node.parts if (place := at(part))), default=None),
                next_step=f"Write {node.table}.{node.name}",
            )


def written_instead(
    query: exp.Expr, tables: BoundTables, views: Mapping[str, str]
) -> dict[TextSpan, str]:
    """What is written in the place of tables, so that columns can be named as before.

    Args:
        views: table, in lower case → the view that is read in its place, as Spark takes it.
    """
    found: dict[TextSpan, str] = {}
    for node in _mentions(query, tables, views):
        alias = "" if node.alias else f" AS {as_sql_identifier(node.name)}"
        found[_span(node)] = f"{views[tables[id(node)]]}{alias}"
    return found


def written_behind(
    query: exp.Expr, tables: BoundTables, sql: str, words: Mapping[str, str]
) -> dict[TextSpan, str]:
    """What is written for tables, so that more is said of each behind its name.

    Args:
        sql: the text of the query.
        words: table, in lower case → what stands behind it.
    """
    found: dict[TextSpan, str] = {}
    for node in _mentions(query, tables, words):
        first, last = _span(node)
        found[first, last] = f"{sql[first : last + 1]} {words[tables[id(node)]]}"
    return found


def _span(node: exp.Table) -> TextSpan:
    starts = [int(part.meta["start"]) for part in node.parts]
    return min(starts), max(int(part.meta["end"]) for part in node.parts)


def _mentions(query: exp.Expr, tables: BoundTables, names: Container[str]) -> Iterator[exp.Table]:
    for node in query.find_all(exp.Table):
        if tables.get(id(node), "") in names:
            yield node
