"""Keys as conditions in SQL: the rows of given keys, found through the key's index.

The values come from the lake. They are written as literals that any session reads alike: numbers as
they are, texts and bytes in hexadecimal. The server compares, under the column's own collation.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from mirrorlake.errors import SchemaError
from mirrorlake.sources.mysql.tables import Column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def key_condition(columns: tuple[Column, ...], keys: pa.Table) -> str:
    """The condition that holds for the rows of these keys (one row a key, none NULL).

    A composite key is written as alternatives of equalities: MySQL and MariaDB both turn those into
    ranges of the index.

    Raises:
        SchemaError: a key column has a type whose values can't be written as a literal.
    """
    if len(columns) == 1 and columns[0].data_type != "timestamp":
        values = keys[columns[0].name].to_pylist()
        return f"{columns[0].sql} IN ({', '.join(literal(v) for v in values)})"
    rows = zip(*(keys[c.name].to_pylist() for c in columns), strict=True)
    alternatives = (
        " AND ".join(_equals(c, v) for c, v in zip(columns, row, strict=True)) for row in rows
    )
    return " OR ".join(f"({alternative})" for alternative in alternatives)


def _equals(column: Column, value: Any) -> str:
    if column.data_type == "timestamp":
        # The instant, whatever zone the session is in.
        return f"UNIX_TIMESTAMP({column.sql}) = {_seconds(value)}"
    return f"{column.sql} = {literal(value)}"


def literal(value: Any) -> str:
    """A value of the lake as a literal of MySQL.

    >>> literal("a'b"), literal(b"\\x00"), literal(7)
    ("_utf8mb4 x'612762'", "x'00'", '7')

    Raises:
        SchemaError: values of this type have no literal that is surely the same value.
    """
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f"_utf8mb4 x'{value.encode().hex()}'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, datetime):
        return f"'{value.isoformat(sep=' ', timespec='microseconds')}'"
    if isinstance(value, date):
        return f"'{value.isoformat()}'"
    raise SchemaError(
        f"a key of type {type(value).__name__} can't be looked up",
        next_step="Leave this column out of the key",
    )


def _seconds(value: datetime) -> str:
    whole = (value - _EPOCH) // timedelta(seconds=1)
    return f"{whole}.{value.microsecond:06d}"
