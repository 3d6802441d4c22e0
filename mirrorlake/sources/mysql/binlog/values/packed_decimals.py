"""DECIMAL: groups of nine digits in four bytes, the highest first, the sign in the first bit.

Source: MySQL source, ``decimal2bin``: "a decimal number in a fixed-length sortable form".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.cells import CellWords, ColumnCells
from mirrorlake.sources.mysql.binlog.values.decoded import Decoded, decimals

_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_MOST_DIGITS: Final = 38
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def groups_of(precision: int, scale: int) -> list[int]:
    """The digits of each group, of a number with so many in all and so many after the point.

    >>> groups_of(14, 4)
    [1, 9, 4]
    """
    whole = precision - scale
    found = [whole % 9] if whole % 9 else []
    found += [9] * (whole // 9 + scale // 9)
    return [*found, scale % 9] if scale % 9 else found


def decimal_size(precision: int, scale: int) -> int:
    """The bytes of one number."""
    return sum(_BYTES[digits] for digits in groups_of(precision, scale))


def decimal(precision: int, scale: int) -> Callable[[ColumnCells], Decoded]:
    """DECIMAL(precision, scale); as text, as MySQL prints it, where Iceberg has no such type."""
    groups = groups_of(precision, scale)

    def decode(cells: ColumnCells) -> Decoded:
        values, negative = _groups(cells, groups)
        if precision > _MOST_DIGITS:
            return Decoded(_texts(cells, values, negative, groups, scale))
        low, high = _joined(values, groups, negative)
        return Decoded(decimals(low, high, cells.null, pa.decimal128(precision, scale)))

    return decode


def _groups(cells: ColumnCells, groups: list[int]) -> tuple[list[CellWords], npt.NDArray[np.bool_]]:
    """The number of each group, and which decimals are below zero."""
    negative = cells.big(1) < 0x80
    found: list[CellWords] = []
    at = 0
    for place, digits in enumerate(groups):
        size = _BYTES[digits]
        words = cells.big(size, at)
        every = np.uint64((1 << 8 * size) - 1)
        words = np.where(negative, words ^ every, words)
        if place == 0:
            words = words ^ np.uint64(1 << 8 * size - 1)
        words = cells.valid(words).astype(np.uint64)
        if len(words) and int(words.max()) >= 10**digits:
            raise unreadable("A row event", "a DECIMAL has digits that are none")
        found.append(words)
        at += size
    return found, negative


def _joined(
    values: list[CellWords], groups: list[int], negative: Any
) -> tuple[CellWords, CellWords]:
    """All groups as one number of 128 bits: its lower and its higher 64."""
    low, high = np.zeros_like(values[0]), np.zeros_like(values[0])
    for words, digits in zip(values, groups, strict=True):
        times = np.uint64(10**digits)
        first = (low & _LOW) * times + words
        second = (low >> _HALF) * times + (first >> _HALF)
        low = (second << _HALF) | (first & _LOW)
        high = high * times + (second >> _HALF)
    minus = ~low + np.uint64(1)
    over = ~high + (minus == 0).astype(np.uint64)
    return np.where(negative, minus, low), np.where(negative, over, high)


def _texts(
    cells: ColumnCells, values: list[CellWords], negative: Any, groups: list[int], scale: int
) -> pa.Array:
    found: list[str | None] = []
    for place in range(len(cells)):
        if cells.null is not None and cells.null[place]:
            found.append(None)
            continue
        parts = zip(values, groups, strict=True)
        digits = "".join(f"{int(words[place]):0{count}}" for words, count in parts)
        found.append(_decimal_text(digits, scale, minus=bool(negative[place])))
    return pa.array(found, pa.large_string())


def _decimal_text(digits: str, scale: int, *, minus: bool) -> str:
    """A decimal as MySQL prints it.

    >>> _decimal_text("000150", 2, minus=True), _decimal_text("07", 0, minus=False)
    ('-1.50', '7')
    """
    whole = digits[: len(digits) - scale].lstrip("0") or "0"
    text = f"{whole}.{digits[len(digits) - scale :]}" if scale else whole
    return f"-{text}" if minus and digits.strip("0") else text


def read_decimal(given: bytes, precision: int, scale: int) -> str:
    """One decimal of these bytes, as text.

    Raises:
        LogUnreadable: it is cut, or no number.
    """
    if not 0 < precision <= 65 or scale > precision or len(given) != decimal_size(precision, scale):
        raise unreadable("A value of type JSON", "a DECIMAL in it is cut")
    cells = ColumnCells(
        np.frombuffer(given + bytes(8), np.uint8), np.zeros(1, np.int64), len(given)
    )
    values, negative = _groups(cells, groups_of(precision, scale))
    found = _texts(cells, values, negative, groups_of(precision, scale), scale)
    return str(found[0].as_py())
