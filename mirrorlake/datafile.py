"""Data files: a chunk's rows as Parquet in the table's location, and their digest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.parquet as pq
from pandas.core.util.hashing import hash_array
from pyiceberg.io import FileIO, load_file_io

from mirrorlake.lake.tables import DAY

pc: Any = _compute  # its functions are made at import: type checkers see none of them


def write_files(
    storage: dict[str, str], location: str, stem: str, rows: pa.Table
) -> tuple[list[str], int]:
    """One file a raw day, each called ``stem``, which carries load id and attempt; paths and bytes.

    On any failure what was written is removed.
    """
    io = load_file_io(storage, location)
    paths: list[str] = []
    size = 0
    try:
        for day, part in _by_day(rows):
            path = f"{location}/data/{DAY}={day}/{stem}.parquet"
            paths.append(path)
            size += _write_file(io, path, part)
    except BaseException:
        for path in paths:
            with suppress(OSError):
                io.delete(path)
        raise
    return paths, size


def _write_file(io: FileIO, path: str, rows: pa.Table) -> int:
    output = io.new_output(path)
    with output.create(overwrite=True) as stream:
        pq.write_table(rows, stream, compression="zstd", row_group_size=1_000_000)
    return len(output)


def _by_day(rows: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    if rows.num_rows == 0:
        return
    order = pc.sort_indices(rows, sort_keys=[(DAY, "ascending")])
    ordered = rows.take(order)
    days = ordered.column(DAY).combine_chunks()
    starts = [0, *(pc.indices_nonzero(pc.not_equal(days[1:], days[:-1])).to_numpy() + 1)]
    for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        yield days[int(start)].as_py(), ordered.slice(start, end - start)


_MIX = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD6E8FEB86659FD93)


def digest_of(rows: pa.Table) -> int:
    """An order-free 64-bit checksum: the sum of one hash a row. A receipt, not a proof."""
    total = np.zeros(rows.num_rows, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for number, column in enumerate(rows.columns, 1):
            total += _hashes(column) * (_MIX * np.uint64(2 * number + 1))
        total ^= total >> np.uint64(31)
        total *= _MIX
        total ^= total >> np.uint64(29)
        return int(total.sum(dtype=np.uint64))


def _hashes(column: pa.ChunkedArray) -> Any:
    if pa.types.is_floating(column.type):
        return _float_hashes(column)
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values = encoded.dictionary
    if pa.types.is_integer(values.type):
        unique = hash_array(values.to_numpy(zero_copy_only=False))
    else:
        texts = np.array([_bytes(v) for v in values.to_pylist()], dtype=object)
        unique = hash_array(texts, categorize=False) if len(texts) else np.array([])
    table = np.append(unique.astype(np.uint64), _NULL)
    return table[encoded.indices.fill_null(len(unique)).to_numpy(zero_copy_only=False)]


def _float_hashes(column: pa.ChunkedArray) -> Any:
    """Over the bits: -0.0 and 0.0 are two values, and a dictionary would make them one."""
    valid = column.is_valid().to_numpy()
    bits = column.fill_null(0).to_numpy()
    hashes = hash_array(bits.view(np.uint32 if bits.itemsize == 4 else np.uint64))
    return np.where(valid, hashes, _NULL)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
