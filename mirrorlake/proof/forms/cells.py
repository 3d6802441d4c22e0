"""Rows of two lake tables as digests, in Arrow: equal rows have equal digests, others don't.

A cell is written with its length, NULL apart, so no two rows are written alike; a row's digest is
the first 64 bits of its SHA-256, and that of many rows their sum. Both sides are of one type per
column, so a cell's own bytes are its form: no text of another system has to be met.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as _compute

pc: Any = _compute  # its functions are made at import: type checkers see none of them
CellDigests = npt.NDArray[np.uint64]
_NULL = pa.scalar(b"N", pa.large_binary())


def digests_of(columns: Sequence[Any], rows: int) -> CellDigests:
    """One digest a row of these columns."""
    if not rows:
        return np.zeros(0, dtype=np.uint64)
    if not columns:
        return np.zeros(rows, dtype=np.uint64)
    written = [written_as(column) for column in columns]
    joined = pc.binary_join_element_wise(*written, pa.scalar(b"", pa.large_binary()))
    digests = b"".join(hashlib.sha256(row).digest() for row in joined.to_pylist())
    words = np.frombuffer(digests, dtype=">u8").reshape(-1, 4)[:, 0]
    return words.astype(np.uint64)


def sum_of(digests: CellDigests) -> int:
    """The sum of digests, as a whole number without bounds."""
    high, low = digests >> np.uint64(32), digests & np.uint64(0xFFFFFFFF)
    return (int(high.sum(dtype=np.uint64)) << 32) + int(low.sum(dtype=np.uint64))


def written_as(column: Any) -> Any:
    """Each cell as its length, a colon and its bytes; ``N`` for NULL.

    >>> written_as(pa.array(["a,b", None, ""])).to_pylist()
    [b'3:a,b', b'N', b'0:']
    """
    cells = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    content = _bytes_of(cells)
    lengths = pc.binary_length(content).cast(pa.string()).cast(pa.large_binary())
    made = pc.binary_join_element_wise(lengths, content, pa.scalar(b":", pa.large_binary()))
    return pc.fill_null(made, _NULL)


def _bytes_of(cells: Any) -> Any:
    """The bytes of each cell: two cells of one type are equal exactly where their bytes are."""
    kind, types = cells.type, pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        entries = [None if not v else _entries(v) for v in cells.to_pylist()]
        return pa.array(entries, pa.large_binary())
    if types.is_floating(kind):
        # By bits: -0.0 is not 0.0, and every NaN is one that was stored.
        bits = cells.view(pa.int64() if kind.bit_width == 64 else pa.int32())
        return bits.cast(pa.string()).cast(pa.large_binary())
    if types.is_timestamp(kind) or types.is_time(kind):
        return cells.cast(pa.int64()).cast(pa.string()).cast(pa.large_binary())
    if types.is_date32(kind):
        return cells.cast(pa.int32()).cast(pa.string()).cast(pa.large_binary())
    if _is_bytes(kind):
        return cells.cast(pa.large_binary())
    return cells.cast(pa.string()).cast(pa.large_binary())


def _is_bytes(kind: Any) -> bool:
    types = pa.types
    binary = types.is_binary(kind) or types.is_large_binary(kind)
    return binary or types.is_string(kind) or types.is_large_string(kind)


def _entries(originals: Sequence[dict[str, Any]]) -> bytes:
    """Originals are kept sorted by column: their order is a part of what is stored."""
    parts = [part for entry in originals for part in (entry["column"], entry["text"])]
    return b"".join(_part(part) for part in parts)


def _part(text: str | None) -> bytes:
    if text is None:
        return b"N"
    content = text.encode("utf-8", "surrogatepass")
    return b"%d:%b" % (len(content), content)
