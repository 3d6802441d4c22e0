"""What decoding a column gives, and how numbers become Arrow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirrorlake.sources.mysql.binlog.cells import ColumnCells, Mask


class Decoded(NamedTuple):
    """A column's values, and the exact texts of those that have no place in its type."""

    values: Any
    originals: Any = None


def plain(numbers: npt.NDArray[Any], cells: ColumnCells, kind: pa.DataType) -> Decoded:
    """Numbers as they are; one that does not fit is an error of Arrow's."""
    return Decoded(pa.array(numbers, mask=cells.null).cast(kind))


def decimals(
    low: npt.NDArray[Any], high: npt.NDArray[Any], null: Mask | None, kind: pa.Decimal128Type
) -> pa.Array:
    """Decimals of 128 bits, from the lower and the higher 64."""
    halves = np.empty((len(low), 2), dtype=np.uint64)
    halves[:, 0], halves[:, 1] = low, high
    bits = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(kind, len(low), [bits, pa.py_buffer(halves)])
