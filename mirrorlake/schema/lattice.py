"""The type that holds every value of several: where versions of a table differ in a column's type,
all are read together in it.

No loss first: a wider number, a longer decimal, a time for a date. Where no type has a place for
every value, it is text, which has one form per type (`mirrorlake.merge.row_sql.conversions`).

>>> common_type(["int", "decimal(5,2)"]).type
'decimal(12,2)'
>>> common_type(["long", "string"])
Common(type='string', why='no other type holds every long and string: exact text')

What belongs here: which type. What doesn't: SQL that turns values into it.

Source: Iceberg specification, "Primitive Types".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Final

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DIGITS: Final = {"int": 10, "long": 19}
"""Decimal digits of the largest value."""
_MOST_DIGITS = 38
_DOUBLE_DIGITS = 15
"""Every whole number of this many digits is a double of its own."""
_MOMENTS = ("date", "timestamp", "timestamptz")


@dataclass(frozen=True)
class StoredType:
    """What a column is stored as: Iceberg's type, and MySQL's (``COLUMN_TYPE``) where it is
    known."""

    iceberg: str
    mysql: str = ""


@dataclass(frozen=True)
class Common:
    """The type that several have in common (in Iceberg's words), and why it is that one."""

    type: str
    why: str


def common_type(types: Iterable[str], *, utc: bool = True) -> Common:
    """The narrowest type in which every value of these has a place of its own.

    Args:
        types: Iceberg's, in the specification's words; at least one.
        utc: whether times without a zone are written by UTC. By another clock an hour of autumn is
            there twice, and no instant can be told from its text.

    >>> common_type(["date", "timestamptz"]).type
    'timestamptz'
    >>> common_type(["date", "timestamptz"], utc=False).type
    'string'
    """
    several = list(dict.fromkeys(types))
    if len(several) == 1:
        return Common(several[0], "its type in every version")
    found = reduce(lambda a, b: _join(a, b, utc=utc), several)
    *first, last = several
    listed = f"{', '.join(first)} and {last}"
    if found == "string":
        return Common(found, f"no other type holds every {listed}: exact text")
    if found in several:
        others = [kind for kind in several if kind != found]
        return Common(found, f"it holds every {' and '.join(others)}")
    return Common(found, f"the narrowest that holds every {listed}")


def is_promoted(held: str, wanted: str) -> bool:
    """Whether a column of one type may become one of another in place, by Iceberg's rules; the same
    type is none.

    >>> is_promoted("int", "long"), is_promoted("decimal(5,2)", "decimal(7,3)")
    (True, False)

    Source: Iceberg specification, "Schema Evolution".
    """
    old, new = (_DECIMAL.fullmatch(kind) for kind in (held, wanted))
    if old is not None and new is not None:
        return old[2] == new[2] and int(old[1]) < int(new[1])
    return (held, wanted) in (("int", "long"), ("float", "double"))


def holds_all(held: str, wanted: str, *, utc: bool = True) -> bool:
    """Whether every value of one type has a place of its own in the other."""
    return _join(held, wanted, utc=utc) == wanted


def _join(a: str, b: str, *, utc: bool) -> str:
    if a == b:
        return a
    if a in _MOMENTS and b in _MOMENTS:
        later = max(a, b, key=_MOMENTS.index)
        return later if utc or later == "timestamp" else "string"
    exact = [_as_decimal(kind) for kind in (a, b)]
    if exact[0] is not None and exact[1] is not None:
        return _decimal(a, b, exact[0], exact[1])
    floating = {a, b} & {"float", "double"}
    if len(floating) == 2:
        return "double"
    number = next((digits for digits in exact if digits is not None), None)
    if floating and number is not None:
        whole, scale = number
        return "double" if scale == 0 and whole <= _DOUBLE_DIGITS else "string"
    return "string"


def _decimal(a: str, b: str, x: tuple[int, int], y: tuple[int, int]) -> str:
    if {a, b} == {"int", "long"}:
        return "long"
    whole, scale = max(x[0], y[0]), max(x[1], y[1])
    return f"decimal({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else "string"


def _as_decimal(kind: str) -> tuple[int, int] | None:
    """The digits before and after the point of an exact number; None of any other type."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None
