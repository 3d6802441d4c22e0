"""Conditions on a table's rows as PyIceberg takes them.

Source: Iceberg specification, "Scan Planning".
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, cast

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNull,
    LessThanOrEqual,
    Or,
)

from mirrorlake.destinations.base import Condition

# Their constructors are made at import: type checkers see none of them.
_equal, _from, _until = (
    cast(Any, EqualTo),
    cast(Any, GreaterThanOrEqual),
    cast(Any, LessThanOrEqual),
)
_both, _null = cast(Any, And), cast(Any, IsNull)


def expression(rows: Condition) -> BooleanExpression:
    """The same condition for PyIceberg; whole files are left out by it where it can be."""
    column, lo, hi = rows.column, _literal(rows.lo), _literal(rows.hi)
    if not column:
        return AlwaysTrue()
    if lo is not None and lo == hi:
        found: Any = _equal(column, lo)
    else:
        found = AlwaysTrue()
        for make, end in ((_from, lo), (_until, hi)):
            if end is not None:
                found = _both(found, make(column, end))
    return Or(found, _null(column)) if rows.or_null else found


def _literal(value: Any) -> Any:
    return value.isoformat() if isinstance(value, (datetime, date)) else value
