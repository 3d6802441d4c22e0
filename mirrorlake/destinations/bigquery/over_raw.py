"""Views over raw in BigQuery's SQL: the text of `mirrorlake.serving.over_raw`, translated.

A cast that fails is an error there, as in the lake; none gives NULL. Arrays keep their order.

Source: sqlglot; BigQuery, "GoogleSQL reference": "Array functions", "QUALIFY clause", "Quotas and
limits: view text".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import sqlglot
from sqlglot import exp

from mirrorlake.destinations.bigquery.types import type_of

MOST_CHARACTERS = 250_000
"""BigQuery: a view's text has 256 K characters at most. One that would have more is over views."""


def over_tables(select: str, project: str) -> str:
    """A SELECT over tables and views of the lake, as one over BigQuery's of the same names.

    Args:
        select: in Spark's SQL, each column with its name.
    """
    # Spark's own plain cast is NULL where it fails, and would be translated so.
    tree = sqlglot.parse_one(select, read="databricks", into=exp.Select)
    for table in list(tree.find_all(exp.Table)):
        named = f"`{project}.{table.db}.{table.name}`"
        table.replace(exp.to_table(named, dialect="bigquery"))
    for kind in list(tree.find_all(exp.DataType)):
        if kind.this == exp.DataType.Type.DECIMAL:
            precision, scale = (int(one.name) for one in kind.expressions)
            kind.replace(_type(type_of(pa.decimal128(precision, scale)) or "BIGNUMERIC"))
    # The innermost first: each is written by what is in it.
    arrays = [*tree.find_all(exp.ArrayFilter, exp.Transform, exp.ArraySort, bfs=True)]
    for node in reversed(arrays):
        node.replace(_ARRAYS[type(node)](node))
    return tree.sql(dialect="bigquery")


def _type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="bigquery")


def _filtered(node: exp.Expr) -> exp.Expr:
    return _over_elements(node, "SELECT {x}", "WHERE {of} ORDER BY at")


def _mapped(node: exp.Expr) -> exp.Expr:
    return _over_elements(node, "SELECT {of}", "ORDER BY at")


def _sorted(node: exp.Expr) -> exp.Expr:
    """Of original texts alone: by column, then by text."""
    entries = node.this.sql(dialect="bigquery")
    sql = f"ARRAY(SELECT x FROM UNNEST({entries}) AS x ORDER BY x.column, x.text)"  # noqa: S608
    return sqlglot.parse_one(sql, read="bigquery")


def _over_elements(node: exp.Expr, shown: str, rest: str) -> exp.Expr:
    """An array of what a lambda says of the elements of another one, in their order."""
    [x] = node.expression.expressions
    parts = {"x": x.name, "of": node.expression.this.sql(dialect="bigquery")}
    entries = f"UNNEST({node.this.sql(dialect='bigquery')}) AS {x.name} WITH OFFSET AS at"
    sql = f"ARRAY({shown.format(**parts)} FROM {entries} {rest.format(**parts)})"
    return sqlglot.parse_one(sql, read="bigquery")


_ARRAYS: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.ArrayFilter: _filtered,
    exp.Transform: _mapped,
    exp.ArraySort: _sorted,
}


def in_parts(selects: Sequence[str], most: int | None = None) -> Iterator[tuple[str, ...]]:
    """SELECTs in order, as many together as one view's text may have.

    Args:
        most: characters of it; `MOST_CHARACTERS` by default.
    """
    most = MOST_CHARACTERS if most is None else most
    part: list[str] = []
    for select in selects:
        if part and len(union_of([*part, select])) > most:
            yield tuple(part)
            part = []
        part.append(select)
    if part:
        yield tuple(part)


def union_of(selects: Sequence[str]) -> str:
    """The rows of several SELECTs."""
    return " UNION ALL ".join(selects)
