"""Spark SQL as it is written: functions keep the names that Spark knows them by."""

from __future__ import annotations

from typing import Any, ClassVar

import sqlglot.errors
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.models.spark_sql.syntax import refuse_unknown_syntax, refuse_unknown_tokens


class ModelSql(Spark):
    """Spark's dialect, whose functions are not turned into those that all dialects share: what a
    query returns follows from Spark's own functions."""

    class Parser(Spark.Parser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}


_DIALECT = ModelSql()


def parse_query(sql: str) -> exp.Expr:
    """The one statement of a text.

    Raises:
        ModelError: it can't be read, or has something that is not analysed, with its line and
            column; or is none, or several.
    """
    try:
        tokens = _DIALECT.tokenize(sql)
        refuse_unknown_tokens(tokens)
        found = [one for one in _DIALECT.parser().parse(tokens, sql) if one is not None]
    except sqlglot.errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        place = (int(first["line"]), int(first["col"])) if first.get("line") else None
        words = str(first.get("description") or error).rstrip(".")
        raise ModelError(f"the query can't be read: {words}", place=place) from None
    except sqlglot.errors.TokenError as error:
        raise ModelError(f"the query can't be read: {error}") from None
    if len(found) != 1:
        second = at(found[1]) if found else None
        raise ModelError(f"a model is one query, not {len(found)}", place=second)
    refuse_unknown_syntax(found[0])
    return found[0]


def table_name(table: exp.Table) -> str:
    """A table as a query names it, in lower case: ``dataset.name``."""
    return ".".join(part.name for part in table.parts).lower()


def parse_expression(text: str) -> exp.Expr:
    """The one expression of a text.

    Raises:
        ModelError: it can't be read, or is none.
    """
    query = parse_query(f"SELECT {text}")
    clauses = [key for key, value in query.args.items() if value and key != "expressions"]
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or clauses:
        raise ModelError("one expression is expected")
    return query.expressions[0].unalias()
