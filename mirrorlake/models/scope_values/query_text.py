"""A model's query for one scope: its text, with the names of the scope written as values.

Nothing else of the text changes, comments included: what Spark is given is what a person wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime

from sqlglot import exp

from mirrorlake.destinations.base import text_literal
from mirrorlake.models.scope_values.comprehension import kind_of
from mirrorlake.models.spark_sql.bound_query import BoundQuery
from mirrorlake.models.spark_sql.constants.values import Constant


def bound_sql(
    sql: str,
    bound: BoundQuery,
    scope: Mapping[str, Constant],
    part: tuple[int, int] | None = None,
    instead: Mapping[tuple[int, int], str] | None = None,
) -> str:
    """The text of a query under one scope.

    Args:
        sql: the text that was bound.
        scope: name → value.
        part: where the part of the text that is wanted begins and ends; by default all of it.
        instead: first and last character → what else is written there.
    """
    begin, stop = part or (0, len(sql))
    values = {name.lower(): value for name, value in scope.items()}
    places: dict[tuple[int, int], str] = {
        (start - begin, end - begin): text
        for (start, end), text in (instead or {}).items()
        if begin <= start < stop
    }
    for node in bound.trace.constants.values():
        identifier = node.this
        assert isinstance(identifier, exp.Identifier)  # noqa: S101
        start, end = int(identifier.meta["start"]), int(identifier.meta["end"])
        if begin <= start < stop:
            places[start - begin, end - begin] = literal(values[node.name.lower()])
    text = sql[begin:stop]
    for (start, end), value in sorted(places.items(), reverse=True):
        text = f"{text[:start]}{value}{text[end + 1 :]}"
    return text


def literal(value: Constant) -> str:
    """A value as Spark takes it, with its type. A number is cast: alone, it would be the position
    of a column in GROUP BY and ORDER BY.

    >>> literal(3)
    'CAST(3 AS INT)'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).isoformat(sep=" ", timespec="microseconds")
        return f"TIMESTAMP '{moment}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, int):
        return f"CAST({value} AS {'INT' if -(2**31) <= value < 2**31 else 'BIGINT'})"
    if isinstance(value, str):
        return text_literal(value)
    return f"CAST({value} AS {kind_of(value).upper()})"
