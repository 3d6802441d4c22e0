"""The row index of a copy: of each row the fingerprint of its key and the server's hash, in the
order in which they came; and what of the next copy it does not hold.

It is a file of 24 bytes a row in the raw table's location, beside the data. The receipt of the load
that wrote it names it, with its own checksum: where it is missing, or has other bytes, the next
copy is a complete one. It is read from its beginning to its end, once, beside the copy: of a table
of any size a window is in memory.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.iceberg.model import Storage
from mirrorlake.load.row_hashes.fingerprint import Words

FOLDER = "rows"
"""Where row indexes are, in a raw table's location: neither data nor metadata of the table."""
ENTRY_BYTES = 24
NEAR = 4_096
"""This many entries past a batch are looked at: a row that was deleted shifts all that follow."""
WIDE = 1_048_576
"""At most this many, where most of a batch was found nowhere near: a block of rows went. Behind a
larger one nothing is found any more: that copy is complete."""
PASSED = 262_144
"""This many entries that were passed by may still be met. Of a row that comes later than that the
entry is given up, and the row is written, changed or not."""
READ_AT_ONCE = 65_536
MOST_CHANGED = 4_194_304
"""Changes beyond this are no delta: their keys are held in memory, 64 bytes each."""


class DeltaGivenUp(Exception):
    """A copy can't be written as changes: it is made complete. Never an error of its own.

    ``costly``: the table was read in vain, and may be so again.
    """

    def __init__(self, why: str, *, costly: bool = False) -> None:
        super().__init__(why)
        self.costly = costly


@dataclass(frozen=True)
class RowIndex:
    """A row index as its load's receipt names it.

    Attributes:
        name: its file's, in `FOLDER`.
        rows: how many entries it has.
        checksum: SHA-256 of its bytes.
        terms: a digest of all that decides what its entries mean.
        wait: how many copies are complete before one writes only changes again.
    """

    name: str
    rows: int
    checksum: str
    terms: str
    wait: int = 0

    def to_fields(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> RowIndex | None:
        """What `to_fields` gave; None where a newer release says more, or something else."""
        with suppress(TypeError):
            return RowIndex(**fields)
        return None


def index_path(location: str, name: str) -> str:
    return f"{location}/{FOLDER}/{name}"


class IndexWriter:
    """Writes an index as the rows come."""

    def __init__(self, io: Storage, location: str, name: str) -> None:
        self._io, self._path, self._name = io, index_path(location, name), name
        self._stream: Any = None  # opened with the first rows, as data files are
        self._sum, self._rows = hashlib.sha256(), 0

    def add(self, entries: Words) -> None:
        if self._stream is None:
            self._stream = self._io.new_output(self._path).create(overwrite=True)
        data = np.ascontiguousarray(entries, dtype="<u8").tobytes()
        self._sum.update(data)
        self._stream.write(data)
        self._rows += len(entries)

    def finish(self, terms: str, wait: int) -> RowIndex:
        """Close it; on a local disk it is flushed when this returns."""
        self.add(np.empty((0, 3), dtype=np.uint64))
        self._stream.close()
        return RowIndex(self._name, self._rows, self._sum.hexdigest(), terms, wait)

    def discard(self) -> None:
        """Remove it; never raises."""
        if self._stream is None:
            return
        with suppress(Exception):
            self._stream.close()
        with suppress(OSError):
            self._io.delete(self._path)


class IndexReader:
    """Reads an index from its beginning to its end, and sees that it is the one that was written.

    Raises (all methods):
        DeltaGivenUp: it is not there, or has other bytes.
    """

    def __init__(self, io: Storage, location: str, index: RowIndex) -> None:
        self._index, self._sum, self._left = index, hashlib.sha256(), index.rows
        try:
            file = io.new_input(index_path(location, index.name))
            if len(file) != index.rows * ENTRY_BYTES:
                raise DeltaGivenUp("the row index has another size than it was written with")
            self._stream: Any = file.open(seekable=False)
        except OSError as error:
            raise DeltaGivenUp("the row index can't be read") from error

    @property
    def left(self) -> int:
        """How many entries come yet."""
        return self._left

    def read(self, most: int) -> Words:
        """The next entries."""
        wanted = min(most, self._left) * ENTRY_BYTES
        try:
            data = self._stream.read(wanted)
        except OSError as error:
            raise DeltaGivenUp("the row index can't be read") from error
        if len(data) != wanted:
            raise DeltaGivenUp("the row index ends too early")
        self._sum.update(data)
        self._left -= wanted // ENTRY_BYTES
        if not self._left and self._sum.hexdigest() != self._index.checksum:
            raise DeltaGivenUp("the row index has other bytes than it was written with")
        return np.frombuffer(data, dtype="<u8").reshape(-1, 3).astype(np.uint64, copy=False)

    def close(self) -> None:
        self._stream.close()


class Matcher:
    """Finds the rows of a copy in the index of the one before, batch by batch.

    Both are mostly in one order, and what is not met near its place is taken for changed: writing a
    row again does no harm. An entry is used up by the first row that has its key and its hash.
    """

    def __init__(self, index: IndexReader) -> None:
        self._index = index
        self._window = np.empty((0, 3), dtype=np.uint64)
        self._passed = 0  # how many at the window's beginning were passed by
        self._lost: list[Words] = []
        self._lost_rows = 0

    @property
    def unmatched(self) -> int:
        """How many entries were passed by, and may belong to rows that changed or are gone."""
        return self._passed + self._lost_rows

    @property
    def left(self) -> int:
        """How many entries no row had, if no more rows come."""
        return self._lost_rows + len(self._window) + self._index.left

    def match(self, entries: Words) -> npt.NDArray[np.bool_]:
        """Which of a batch's rows the index holds as they are."""
        count = len(entries)
        self._fill(count + NEAR)
        same = np.zeros(count, dtype=bool)
        used = np.zeros(len(self._window), dtype=bool)
        fresh = self._window[self._passed : self._passed + count]
        equal = (fresh == entries[: len(fresh)]).all(axis=1)
        same[: len(fresh)] = equal
        used[self._passed : self._passed + len(fresh)] = equal
        _match_any(entries, same, self._window[: self._passed + count + NEAR], used)
        while 2 * same.sum() < count and self._index.left and len(self._window) < WIDE:
            self._fill(len(self._window) - self._passed + WIDE // 4)
            used = np.append(used, np.zeros(len(self._window) - len(used), dtype=bool))
            _match_any(entries, same, self._window, used)
        self._pass_by(used)
        return same

    def end(self) -> Words:
        """The keys of all entries that no row had: changed rows, and rows that are gone.

        Raises:
            DeltaGivenUp: the index is damaged.
        """
        found = [*self._lost, self._window[:, :2]]
        while self._index.left:
            found.append(self._index.read(READ_AT_ONCE)[:, :2].copy())
        return np.concatenate(found)

    def _fill(self, wanted: int) -> None:
        """See that this many entries that were not passed by are at hand, if there are."""
        parts = [self._window]
        there = len(self._window) - self._passed
        while there < wanted and self._index.left:
            parts.append(self._index.read(max(READ_AT_ONCE, wanted - there)))
            there += len(parts[-1])
        if len(parts) > 1:
            self._window = np.concatenate(parts)

    def _pass_by(self, used: npt.NDArray[np.bool_]) -> None:
        """Continue behind the last entry that was met, and forget those that are used up."""
        met = np.flatnonzero(used[self._passed :])
        end = self._passed + int(met[-1]) + 1 if len(met) else self._passed
        left = self._window[:end][~used[:end]]
        if len(left) > PASSED:
            lost = left[: len(left) - PASSED // 2, :2].copy()
            self._lost.append(lost)
            self._lost_rows += len(lost)
            left = left[len(lost) :]
        self._window = np.concatenate([left, self._window[end:]])
        self._passed = len(left)


def _match_any(
    entries: Words, same: npt.NDArray[np.bool_], window: Words, used: npt.NDArray[np.bool_]
) -> None:
    """Match what is left of both sides, wherever it stands."""
    rows = np.flatnonzero(~same)
    free = np.flatnonzero(~used[: len(window)])
    if not len(rows) or not len(free):
        return
    # By the hash, which is of the whole row: two rows that share it are taken for changed.
    order = rows[np.argsort(entries[rows, 2], kind="stable")]
    sorted_ = entries[order, 2]
    wanted = window[free]
    places = np.searchsorted(sorted_, wanted[:, 2])
    places[places == len(sorted_)] = 0
    hit = (entries[order[places]] == wanted).all(axis=1)
    same[order[places[hit]]] = True
    used[free[hit]] = True


class KeySet:
    """Keys by their fingerprints.

    Raises:
        DeltaGivenUp: two of them are one.
    """

    def __init__(self, keys: Words) -> None:
        order = np.argsort(keys[:, 0], kind="stable")
        self._first, self._second = keys[order, 0], keys[order, 1]
        if len(keys) > 1 and (self._first[1:] == self._first[:-1]).any():
            raise DeltaGivenUp("two rows have one key, or two keys one fingerprint")

    def __len__(self) -> int:
        return len(self._first)

    def find(self, keys: Words) -> npt.NDArray[np.int64]:
        """Each key's number in the set, -1 if it is not in the set."""
        if not len(self._first) or not len(keys):
            return np.full(len(keys), -1, dtype=np.int64)
        places = np.searchsorted(self._first, keys[:, 0])
        places[places == len(self._first)] = 0
        hit = (self._first[places] == keys[:, 0]) & (self._second[places] == keys[:, 1])
        return np.where(hit, places, -1)

    def without(self, other: KeySet) -> Words:
        """The keys of this set that another one does not have."""
        mine = np.column_stack([self._first, self._second])
        return mine[other.find(mine) < 0]
