"""Whether values repeat, over more rows than memory holds.

Rows become 64-bit hashes, which are spooled to disk in parts and compared part by part: what has
no equal there has none at all. Hashes that do repeat are only suspects: their rows are read once
more and compared themselves. So no verdict rests on a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

RowHashes = npt.NDArray[np.int64]
Read = Callable[[], Iterator[pa.RecordBatch]]
"""Reads the same rows each time it is called."""

PARTS = 64
SUSPECTS = 100_000
"""Hashes whose rows are compared themselves; beyond, an equal hash counts as an equal row."""


class Spool:
    """Hashes on disk, in ``PARTS`` parts: equal ones are in the same part."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Spool:
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="mirrorlake-")))
        self._paths = [folder / f"{number}" for number in range(PARTS)]
        self._files = [self._stack.enter_context(path.open("wb")) for path in self._paths]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, hashes: RowHashes) -> None:
        """Spool some."""
        part = hashes % PARTS
        for number in np.unique(part):
            hashes[part == number].tofile(self._files[int(number)])

    def parts(self) -> Iterator[RowHashes]:
        """Each part, whole; in the same order for every spool."""
        for path, file in zip(self._paths, self._files, strict=True):
            file.flush()
            yield np.fromfile(path, dtype=np.int64)


def hash_rows(batch: pa.RecordBatch) -> RowHashes:
    """One hash per row: equal rows have equal ones, within this process."""
    columns = batch.columns
    if len(columns) == 1 and pa.types.is_integer(columns[0].type):
        return columns[0].cast(pa.int64()).fill_null(0).to_numpy()
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return np.fromiter((hash(row) for row in rows), dtype=np.int64, count=batch.num_rows)


def count_repeats(read: Read) -> int:
    """How many rows are equal to another one before them."""
    repeated = 0
    suspects: list[RowHashes] = []
    with Spool() as spool:
        for batch in read():
            spool.add(hash_rows(batch))
        for part in spool.parts():
            found, counts = np.unique(part, return_counts=True)
            repeated += int((counts - 1).sum())
            suspects.append(found[counts > 1])
    if not repeated:
        return 0
    wanted = np.concatenate(suspects)
    if len(wanted) > SUSPECTS:
        return repeated
    rows = _rows_of_hashes(read, wanted)
    return rows.num_rows - rows.group_by(rows.column_names).aggregate([]).num_rows


def common_values(first: Read, second: Read) -> set[Any]:
    """The values, NULL apart, that stand in both of two columns; at most ``SUSPECTS`` of them."""
    suspects: list[RowHashes] = []
    with Spool() as left, Spool() as right:
        for spool, read in ((left, first), (right, second)):
            for batch in read():
                spool.add(hash_rows(batch.filter(batch.column(0).is_valid())))
        for ours, theirs in zip(left.parts(), right.parts(), strict=True):
            suspects.append(np.intersect1d(ours, theirs))
    wanted = np.concatenate(suspects)[:SUSPECTS]
    if not len(wanted):
        return set()
    both = (set(_rows_of_hashes(read, wanted).column(0).to_pylist()) for read in (first, second))
    return next(both) & next(both) - {None}


def _rows_of_hashes(read: Read, wanted: RowHashes) -> pa.Table:
    """The rows that have one of these hashes."""
    batches = [batch.filter(pa.array(np.isin(hash_rows(batch), wanted))) for batch in read()]
    return pa.Table.from_batches(batches)
