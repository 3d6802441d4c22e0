"""Conditions on a lake table's rows, by which whole files are left out.

Source: Iceberg specification, "Scan Planning".
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, TypeAlias, cast

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

from mirrorlake.destinations.iceberg.tables import DAY, LOAD

Condition: TypeAlias = BooleanExpression

# Their constructors are made at import: type checkers see none of them.
_equal, _from, _until = (
    cast(Any, EqualTo),
    cast(Any, GreaterThanOrEqual),
    cast(Any, LessThanOrEqual),
)
_both, _null = cast(Any, And), cast(Any, IsNull)

EVERY_ROW: Condition = AlwaysTrue()


def raw_days(first: date, last: date | None = None) -> Condition:
    """The rows of these raw days, both included; None: without an end."""
    since = _from(DAY, first.isoformat())
    return since if last is None else _both(since, _until(DAY, last.isoformat()))


def raw_day(day: date) -> Condition:
    """The rows of one raw day."""
    return _equal(DAY, day.isoformat())


def rows_of_load(load_id: str) -> Condition:
    """The rows that one load brought."""
    return _equal(LOAD, load_id)


def in_range(column: str, lo: Any, hi: Any) -> Condition:
    """The rows whose value in a column lies between two, both included, or is NULL; None: without
    an end."""
    found = EVERY_ROW
    for make, end in ((_from, lo), (_until, hi)):
        if end is not None:
            literal = end.isoformat() if isinstance(end, (datetime, date)) else end
            found = _both(found, make(column, literal))
    return Or(found, _null(column))
