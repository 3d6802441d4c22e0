"""The types of Spark SQL, and which one several have in common.

A type is written as Spark writes it (``simpleString``): ``int``, ``decimal(12,2)``,
``array<string>``. Spark's rules hold as they are with ``spark.sql.ansi.enabled``, its default.

>>> wider("int", "decimal(5,2)")
'decimal(12,2)'
>>> product("decimal(38,10)", "decimal(38,10)")
'decimal(38,6)'

What belongs here: types alone. What doesn't: expressions
(`mirrorlake.models.spark_sql.expression_types.expressions`).

Source: Spark SQL Guide, "ANSI Compliance", "Data Types"; Spark's ``DecimalPrecision`` and
``AnsiTypeCoercion``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import reduce

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FRACTIONS = ("float", "double")
MOMENTS = ("date", "timestamp_ntz", "timestamp")
VOID = "void"
"""The type of a bare NULL."""
MOST_DIGITS, LEAST_SCALE = 38, 6
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


def decimal(precision: int, scale: int) -> str:
    """A decimal type as it is written; digits beyond 38 are not kept.

    >>> decimal(40, 4)
    'decimal(38,4)'
    """
    return f"decimal({min(precision, MOST_DIGITS)},{min(scale, MOST_DIGITS)})"


def digits_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal, or of the decimal that holds an integer type."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]), int(found[2])) if found else None


def is_decimal(kind: str) -> bool:
    return kind.startswith("decimal(")


def is_number(kind: str) -> bool:
    return kind in INTEGERS or kind in FRACTIONS or is_decimal(kind)


def adjusted(precision: int, scale: int) -> str:
    """A decimal that has no more than 38 digits: those before its point are kept first, and of
    those after it at least six where there were as many.

    >>> adjusted(77, 20)
    'decimal(38,6)'
    """
    if precision <= MOST_DIGITS:
        return f"decimal({precision},{scale})"
    least = min(scale, LEAST_SCALE)
    return f"decimal({MOST_DIGITS},{max(MOST_DIGITS - (precision - scale), least)})"


def sum_of_two(left: str, right: str) -> str:
    """The type of ``left + right`` and ``left - right``, both decimals or integers.

    >>> sum_of_two("decimal(5,2)", "decimal(4,3)")
    'decimal(7,3)'
    """
    (p1, s1), (p2, s2) = _both(left, right)
    scale = max(s1, s2)
    return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def product(left: str, right: str) -> str:
    """The type of ``left * right``."""
    (p1, s1), (p2, s2) = _both(left, right)
    return adjusted(p1 + p2 + 1, s1 + s2)


def quotient(left: str, right: str) -> str:
    """The type of ``left / right``.

    >>> quotient("decimal(12,2)", "decimal(12,2)")
    'decimal(27,15)'
    """
    (p1, s1), (p2, s2) = _both(left, right)
    scale = max(LEAST_SCALE, s1 + p2 + 1)
    return adjusted(p1 - s1 + s2 + scale, scale)


def remainder(left: str, right: str) -> str:
    """The type of ``left % right``."""
    (p1, s1), (p2, s2) = _both(left, right)
    return adjusted(min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))


def total(kind: str) -> str | None:
    """The type of ``SUM``; None of what has no sum."""
    found = digits_of(kind)
    if is_decimal(kind) and found:
        return decimal(found[0] + 10, found[1])
    if kind in INTEGERS:
        return "bigint"
    return "double" if kind in (*FRACTIONS, "string", VOID) else None


def average(kind: str) -> str | None:
    """The type of ``AVG``; None of what has none."""
    found = digits_of(kind)
    if is_decimal(kind) and found:
        return decimal(found[0] + 4, found[1] + 4)
    return "double" if is_number(kind) or kind in ("string", VOID) else None


def wider(left: str, right: str) -> str | None:
    """The type that both have in common, as in ``CASE``, ``COALESCE``, ``UNION`` and comparisons;
    None where there is none.

    >>> wider("string", "int"), wider("date", "timestamp"), wider("boolean", "int")
    ('bigint', 'timestamp', None)
    """
    if left == right:
        return left
    if VOID in (left, right):
        return right if left == VOID else left
    if "string" in (left, right):
        return _with_string(right if left == "string" else left)
    if is_number(left) and is_number(right):
        return _wider_number(left, right)
    if left in MOMENTS and right in MOMENTS:
        return max(left, right, key=MOMENTS.index)
    return _wider_nested(left, right)


def common(kinds: Iterable[str]) -> str | None:
    """The type that several have in common; None where there is none."""
    found: list[str] = list(kinds)
    # A text is turned into the others' type, whatever stands between.
    found.sort(key=lambda kind: kind == "string")
    return reduce(lambda a, b: wider(a, b) if a is not None else None, found[1:], found[0])


def _both(left: str, right: str) -> tuple[tuple[int, int], tuple[int, int]]:
    a, b = digits_of(left), digits_of(right)
    if a is None or b is None:
        raise ValueError(f"no decimals: {left}, {right}")
    return a, b


def _wider_number(left: str, right: str) -> str:
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    if left in FRACTIONS or right in FRACTIONS:
        # A float has no place for every integer, nor for a decimal.
        return "float" if left == right == "float" else "double"
    (p1, s1), (p2, s2) = _both(left, right)
    scale, whole = max(s1, s2), max(p1 - s1, p2 - s2)
    return adjusted(whole + scale, scale)


def _with_string(other: str) -> str | None:
    if other in INTEGERS:
        return "bigint"
    if is_number(other):
        return "double"
    return other if other in (*MOMENTS, "boolean", "binary") else None


def _wider_nested(left: str, right: str) -> str | None:
    if left.startswith("array<") and right.startswith("array<"):
        inner = wider(left[6:-1], right[6:-1])
        return f"array<{inner}>" if inner else None
    return None


def element(kind: str) -> str | None:
    """The type of an array's elements, or of a map's values; None of what is neither.

    >>> element("array<decimal(5,2)>"), element("map<string,array<int>>")
    ('decimal(5,2)', 'array<int>')
    """
    if kind.startswith("array<"):
        return kind[6:-1]
    pair = map_of(kind)
    return pair[1] if pair else None


def map_of(kind: str) -> tuple[str, str] | None:
    """The types of a map's keys and values; None of what is no map."""
    if not kind.startswith("map<"):
        return None
    key, value = _parts(kind[4:-1])
    return key, value


def fields_of(kind: str) -> dict[str, str] | None:
    """The fields of a struct with their types; None of what is no struct.

    >>> fields_of("struct<a:int,b:struct<c:decimal(3,2)>>")
    {'a': 'int', 'b': 'struct<c:decimal(3,2)>'}
    """
    if not kind.startswith("struct<"):
        return None
    pairs = (part.split(":", 1) for part in _parts(kind[7:-1]) if part)
    return {name: inner for name, inner in pairs}  # noqa: C416 - two-item lists


def _parts(text: str) -> list[str]:
    """What commas separate that stand in no brackets."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return found


def digits(number: Decimal) -> tuple[int, int]:
    """Precision and scale of a number as it is written.

    >>> digits(Decimal("0.001")), digits(Decimal("12.50"))
    ((3, 3), (4, 2))
    """
    _, figures, exponent = number.as_tuple()
    scale = max(-int(exponent), 0)
    return max(len(figures), scale), scale
