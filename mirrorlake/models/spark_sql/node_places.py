"""Where something stands in a query."""

from __future__ import annotations

from sqlglot import exp


def at(node: exp.Expr) -> tuple[int, int] | None:
    """Line and column of what a node begins with, from 1; None where the parser kept none.

    >>> from mirrorlake.models.spark_sql.parser import parse_query
    >>> at(parse_query("SELECT a,\\n  total FROM t").expressions[1])
    (2, 3)
    """
    if isinstance(node, exp.Table):  # its own name comes before its namespace's in the tree
        found = [place for part in node.parts if (place := at(part)) is not None]
        return min(found, default=None)
    for one in node.walk():
        if "line" in one.meta:
            width = 1 if isinstance(one, exp.Star) else len(str(one.this))
            return int(one.meta["line"]), int(one.meta["col"]) - width + 1
    return None
