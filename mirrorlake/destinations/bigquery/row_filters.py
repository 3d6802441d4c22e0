"""Conditions of row access policies: read, compared, and the columns that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.errors import ParseError, TokenError

ALL_ROWS = "TRUE"
"""The condition that shows all rows. An account without it can neither copy nor change a table."""
_NO_BLANK_BEFORE = (",", ")", ".", "]")
_NO_BLANK_AFTER = ("(", ".", "[")


def canonical_filter(text: str) -> str:
    """A condition without comments and with its blanks in the same places, so that two that differ
    in these alone are one text.

    >>> canonical_filter("MOD( region ,2)=   1 -- odd")
    'MOD(region, 2) = 1'
    >>> canonical_filter("true")
    'TRUE'

    Raises:
        ValueError: it is no text of BigQuery's SQL.
    """
    try:
        tokens = BigQuery().tokenize(text)
    except TokenError as error:
        raise ValueError(_plain(error)) from error
    found, before, token_is_name = "", "", False
    for token in tokens:
        part = text[token.start : token.end + 1]
        called = part == "(" and token_is_name
        close = not found or part in _NO_BLANK_BEFORE or before in _NO_BLANK_AFTER or called
        found += part if close else f" {part}"
        before, token_is_name = part, token.token_type.name == "VAR"
    return ALL_ROWS if found.upper() in (ALL_ROWS, f"({ALL_ROWS})") else found


def refusal_of_filter(text: str) -> str | None:
    """Why a text is no condition, in words; None where it is one."""
    try:
        statements = sqlglot.parse(text, dialect="bigquery")
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        at = f"line {first.get('line')}, column {first.get('col')} of it"
        return f"can't be read as a condition at {first.get('highlight')!r} ({at})"
    except TokenError as error:
        return f"can't be read as a condition: {_plain(error)}"
    if len(statements) != 1 or not isinstance(statements[0], exp.Condition):
        return "is no condition, like region = 'EU'"
    if isinstance(statements[0], exp.Literal):
        return "is no condition, like region = 'EU': it says neither true nor false"
    return None


def columns_of(text: str) -> list[str]:
    """The columns that a condition names itself; those of queries within it are of other tables."""
    [condition] = sqlglot.parse(text, dialect="bigquery")
    return list(dict.fromkeys(_columns(condition))) if condition is not None else []


def _columns(node: exp.Expr) -> Iterator[str]:
    for one in node.walk(prune=lambda inner: isinstance(inner, exp.Query)):
        if isinstance(one, exp.Column):
            # Of a record and its field the first part is the column.
            yield one.parts[0].name


def _plain(error: Exception) -> str:
    return re.sub(r"\x1b\[\d+m", "", str(error)).split("\n", 1)[0]
