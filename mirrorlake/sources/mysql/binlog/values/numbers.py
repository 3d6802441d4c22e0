"""Whole numbers, years, bits and floating point numbers.

Source: MySQL internals, "Numeric Types" of row images: lowest byte first; BIT: highest first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.cells import ColumnCells
from mirrorlake.sources.mysql.binlog.values.decoded import Decoded, decimals, plain

UNSIGNED_LONG = pa.decimal128(20, 0)


def integer(size: int, kind: pa.DataType, *, unsigned: bool) -> Callable[[ColumnCells], Decoded]:
    """Whole numbers of so many bytes; those of 64 bits without a sign are decimals."""

    def decode(cells: ColumnCells) -> Decoded:
        words = cells.word(size)
        if unsigned and size == 8:
            return Decoded(decimals(words, np.zeros_like(words), cells.null, UNSIGNED_LONG))
        numbers = words.astype(np.int64)
        if not unsigned and size < 8:
            half = 1 << 8 * size - 1
            numbers = (numbers ^ half) - half
        return plain(cells.valid(numbers), cells, kind)

    return decode


def year(cells: ColumnCells) -> Decoded:
    """0, and 1901 to 2155."""
    numbers = cells.word(1).astype(np.int32)
    return plain(np.where(numbers, numbers + 1900, 0), cells, pa.int32())


def single(cells: ColumnCells) -> Decoded:
    """FLOAT."""
    return Decoded(pa.array(cells.word(4).astype(np.uint32).view(np.float32), mask=cells.null))


def double(cells: ColumnCells) -> Decoded:
    """DOUBLE."""
    return Decoded(pa.array(cells.word(8).view(np.float64), mask=cells.null))


def bits(count: int) -> Callable[[ColumnCells], Decoded]:
    """BIT(count), as a whole number."""

    def decode(cells: ColumnCells) -> Decoded:
        words: Any = cells.valid(cells.big((count + 7) // 8)).astype(np.uint64)
        if count < 64 and len(words) and int(words.max()) >> count:
            raise unreadable("A row event", f"a value of more than {count} bits")
        if count == 64:
            return Decoded(decimals(words, np.zeros_like(words), cells.null, UNSIGNED_LONG))
        return plain(words.astype(np.int64), cells, pa.int64())

    return decode
