"""All values of one column in a batch of row images, by where they are in the images' bytes.

Source: numpy, strided views: a number at any offset is read without a copy of the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.row_scanner import Width, images_cut

Offsets: TypeAlias = npt.NDArray[np.int64]
CellWords: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]

PADDING = bytes(8)
"""What must follow the images: a number at their end is read eight bytes wide."""


@dataclass(frozen=True)
class ColumnCells:
    """One column's values: bytes from ``at`` on, ``size`` of each.

    Attributes:
        null: where there is none; None: nowhere.
    """

    bytes: npt.NDArray[np.uint8]
    at: Offsets
    size: Offsets | int
    null: Mask | None = None

    def __len__(self) -> int:
        return len(self.at)

    def word(self, size: int, offset: int = 0) -> CellWords:
        """``size`` bytes (at most 8) of each as a number, the lowest byte first."""
        words = _words(self.bytes)[self._at(offset)]
        return words if size == 8 else words & np.uint64((1 << 8 * size) - 1)

    def big(self, size: int, offset: int = 0) -> CellWords:
        """The same, the highest byte first."""
        words = _words(self.bytes)[self._at(offset)].byteswap()
        return words if size == 8 else words >> np.uint64(8 * (8 - size))

    def _at(self, offset: int) -> Offsets:
        # The place of a NULL may be the end of all bytes.
        return np.minimum(self.at + offset, len(self.bytes) - 8) if offset else self.at

    def valid(self, given: Any) -> Any:
        """Numbers that were read of each, 0 where there is no value."""
        return given if self.null is None else np.where(self.null, 0, given)

    def padded(self, size: int) -> npt.NDArray[np.uint8]:
        """The bytes of each in a row of ``size``, with zeros behind them.

        Raises:
            LogUnreadable: one has more.
        """
        columns = np.arange(size)
        sizes = np.broadcast_to(self.size, len(self.at))
        if len(sizes) and int(sizes.max()) > size:
            raise unreadable("A row event", f"a value has more than {size} bytes")
        places = np.minimum(self.at[:, None] + columns, len(self.bytes) - 1)
        return np.where(columns < sizes[:, None], self.bytes[places], 0).astype(np.uint8)

    def binary(self) -> pa.Array:
        """The bytes of each, as they are (large_binary)."""
        return spans(self.bytes, self.at, self.at + self.size, self.null)

    def to_list(self) -> list[bytes | None]:
        """The bytes of each."""
        found: list[bytes | None] = self.binary().to_pylist()
        return found


def spans(
    given: npt.NDArray[np.uint8], first: Offsets, end: Offsets, null: Mask | None = None
) -> pa.Array:
    """Pieces of bytes, in ascending order, as large_binary.

    Arrow takes every second piece of one array of pieces and of what lies between them: nothing is
    copied but the pieces.
    """
    count = len(first)
    if not count:
        return pa.array([], pa.large_binary())
    ends = np.empty(2 * count, dtype=np.int64)
    ends[0::2], ends[1::2] = first, end
    pieces: Any = pa.Array.from_buffers(
        pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(ends), pa.py_buffer(given)]
    )
    return pieces.take(pa.array(np.arange(0, 2 * count, 2), mask=null))


def _words(given: npt.NDArray[np.uint8]) -> CellWords:
    """The eight bytes at every offset."""
    return np.ndarray((len(given) - 7,), dtype="<u8", buffer=given, strides=(1,))


def locate(given: bytearray, starts: Sequence[int], widths: Sequence[Width]) -> list[ColumnCells]:
    """Every column's cells, of images that begin at ``starts``.

    Args:
        given: the images one after the other, with `PADDING` behind them.

    Raises:
        LogUnreadable: an image does not end where the next one begins.
    """
    bytes_ = np.frombuffer(given, dtype=np.uint8)
    places = np.fromiter(starts, dtype=np.int64, count=len(starts))
    at = places + (len(widths) + 7) // 8
    words, end = _words(bytes_), len(given) - len(PADDING)
    found: list[ColumnCells] = []
    bits, seen = np.zeros(len(places), dtype=np.uint8), False
    for number, (fixed, size) in enumerate(widths):
        if number % 8 == 0:
            bits = bytes_[places + number // 8]
            seen = bool(bits.any())
        null = (bits >> (number % 8) & 1).astype(np.bool_) if seen else None
        null = null if null is not None and null.any() else None
        if fixed:
            found.append(ColumnCells(bytes_, at, size, null))
            at = at + (size if null is None else np.where(null, 0, size))
        else:
            mask = np.uint64((1 << 8 * size) - 1)
            lengths = (words[np.minimum(at, end)] & mask).astype(np.int64)
            if null is not None:
                lengths[null] = 0
            at = at + (size if null is None else np.where(null, 0, size))
            found.append(ColumnCells(bytes_, at, lengths, null))
            at = at + lengths
        if len(at) and int(at.max()) > end:
            raise images_cut()
    if not np.array_equal(at[:-1], places[1:]) or (len(at) and at[-1] != end):
        raise images_cut()
    return found
