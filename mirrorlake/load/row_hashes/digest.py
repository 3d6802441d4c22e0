"""An order-free 64-bit checksum of rows: of what was just written and is read again, and of a load
in the receipts of earlier releases.

A row's hash is the mixed sum of its cells' hashes, a digest the sum of its rows' hashes: it does
not depend on the order of rows, nor on how they were cut into batches. A cell is hashed over its
bytes, eight at a time, with its length; NULL is apart from every value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as _compute

pc: Any = _compute  # its functions are made at import: type checkers see none of them

Hashes: TypeAlias = npt.NDArray[np.uint64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_MORE = np.uint64(0xBF58476D1CE4E5B9)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_29, _31, _32 = np.uint64(29), np.uint64(31), np.uint64(32)
# Up to this many bytes, texts of one column are hashed side by side, padded to the longest.
PADDED = 64
_ALL = 2**64


def digest_of(rows: pa.Table | pa.RecordBatch) -> int:
    """The digest of these rows; the sum of two digests (modulo 2^64) is that of both."""
    total = np.zeros(rows.num_rows, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for number, column in enumerate(rows.columns, 1):
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            total += _hashes(array) * (_MIX * np.uint64(2 * number + 1))
        total ^= total >> _31
        total *= _MIX
        total ^= total >> _29
        return int(total.sum(dtype=np.uint64)) % _ALL


def _hashes(array: Any) -> Hashes:
    """One hash a cell."""
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        array = pa.array([None if v is None else str(v) for v in array.to_pylist()], pa.string())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    hashes = _texts(array) if is_text(array.type) else _fixed(array)
    if array.null_count:
        hashes = np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, _NULL)
    return hashes


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts or bytes."""
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
    )


def _fixed(array: Any) -> Hashes:
    """Over the bits: -0.0 and 0.0 are two values."""
    width = array.type.bit_width // 8
    start = array.offset * width
    bits = np.frombuffer(array.buffers()[1], dtype=np.uint8)[start : start + len(array) * width]
    if width == 16:
        # A decimal; of up to 18 digits its upper half is but the sign of the lower.
        halves = bits.view(np.uint64).reshape(-1, 2)
        low = _lane(halves[:, 0].copy(), 1)
        small = pa.types.is_decimal(array.type) and array.type.precision <= 18
        return low if small else low + _lane(halves[:, 1].copy(), 2)
    return _lane(bits.view(f"u{width}").astype(np.uint64), 1)


def _texts(array: Any) -> Hashes:
    lengths = pc.binary_length(array)
    if array.null_count:
        lengths = lengths.fill_null(0)
    lengths = lengths.to_numpy().astype(np.uint64)
    longest = int(lengths.max(initial=0))
    hashes = lengths * _MORE
    if longest <= PADDED:
        return hashes + _padded(array, longest)
    short = lengths <= PADDED
    hashes[short] += _padded(array.filter(pa.array(short)), PADDED)
    long = array.filter(pa.array(~short))
    digests = (hashlib.blake2b(v.as_buffer(), digest_size=8).digest() for v in long)
    hashes[~short] += np.frombuffer(b"".join(digests), dtype=np.uint64)
    return hashes


def _padded(array: Any, longest: int) -> Hashes:
    """Zeros after a value add nothing: its hash does not depend on the longest beside it."""
    hashes = np.zeros(len(array), dtype=np.uint64)
    for number, words in enumerate(padded_words(array, longest), 1):
        hashes += _lane(words, number)
    return hashes


def padded_words(array: Any, longest: int) -> Iterator[Hashes]:
    """The bytes of texts, eight at a time, with zeros after them up to the longest's end; a text
    that is NULL is empty. Each word is the caller's to change."""
    lanes = -(-longest // 8)
    if not lanes or not len(array):
        return
    # The kernel pads bytes, whatever they mean; viewed, not converted, nothing is checked.
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    texts = array.view(pa.large_string() if large else pa.string())
    if texts.null_count:
        texts = texts.fill_null("")
    padded = pc.ascii_rpad(texts, width=8 * lanes, padding="\0")
    found = np.frombuffer(padded.buffers()[2], dtype=np.uint8)[: len(array) * lanes * 8]
    matrix = found.view(np.uint64).reshape(-1, lanes)
    for lane in range(lanes):
        yield matrix[:, lane].copy()


def _lane(values: Hashes, number: int) -> Hashes:
    """Mix in place, so that 0 stays 0 and every bit moves every higher and many lower ones."""
    values *= _MIX * np.uint64(2 * number + 1)
    values ^= values >> _29
    values *= _MORE
    values ^= values >> _32
    return values
