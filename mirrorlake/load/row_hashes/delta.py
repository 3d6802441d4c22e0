"""What of a copy is written: all its rows, or those that the last copy's row index does not hold.

Here keys and hashes are on their way from MySQL, in the process that reads them. How they are
queried, and the rows that changed, is elsewhere (`mirrorlake.load.copies.changed_rows`); whether a
copy may write only what changed, and what follows from it, too (`mirrorlake.load.copies.copies`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirrorlake.destinations.iceberg.commits.data_files import PartFiles, WrittenFile
from mirrorlake.destinations.iceberg.model import Storage
from mirrorlake.failpoints import failpoint
from mirrorlake.load.row_hashes.fingerprint import Words, key_fingerprints
from mirrorlake.load.row_hashes.row_index import (
    MOST_CHANGED,
    DeltaGivenUp,
    IndexReader,
    IndexWriter,
    KeySet,
    Matcher,
    RowIndex,
)
from mirrorlake.proof.sides.server_hashes import HASH, sum_of

LOOKED_AT = 65_536
"""After this many rows, or a twentieth of the table, a copy of which most changed is complete."""
WAIT = 8
"""This many copies are complete after one that was read in vain."""
FEW = 16
"""If at most one row in this many changed, changed rows are read by their keys: finding a row costs
the server some ten times what reading the next one costs."""
_KEYS_BYTES = 64 * 2**20
"""Keys of rows that changed are held up to this size: of more, the table is read."""
COMPLETE = "c"
"""What they have after it of a copy that turned out to be complete while it was read."""
SUFFIX = "d"
"""What the names of a delta's files have after the chunk's number: a rebuilt ledger knows by it
that a load was not the whole table, even where its commit is gone."""


@dataclass
class Found:
    """What became of one copy's reading.

    Attributes:
        index: the row index that it wrote; ``writer`` writes it.
        is_delta: whether only what changed was written.
        most_changed: whether that would have been most of the rows.
        unmatched: keys of the index before that no row had with the same hash.
        changed: keys of the rows that the index before does not hold.
    """

    index: RowIndex | None = None
    is_delta: bool = False
    most_changed: bool = False
    unmatched: Words | None = None
    changed: list[Words] = field(default_factory=list[Words])
    writer: IndexWriter | None = None

    def begin(self, writer: IndexWriter) -> None:
        """A reading begins, from nothing."""
        self.index, self.unmatched = None, None
        self.is_delta = self.most_changed = False
        self.changed, self.writer = [], writer

    def discard(self) -> None:
        """Remove the index that is being written; never raises."""
        if self.writer is not None:
            self.writer.discard()

    def came(self) -> KeySet:
        """Keys of the rows that changed or are new.

        Raises:
            DeltaGivenUp: two rows have one key.
        """
        return KeySet(np.concatenate([np.empty((0, 2), np.uint64), *self.changed]))

    def gone(self) -> Words:
        """Keys of the index before that none of the rows has.

        Raises:
            DeltaGivenUp: two rows have one key.
        """
        if self.unmatched is None or not len(self.unmatched):
            return np.empty((0, 2), dtype=np.uint64)
        return KeySet(self.unmatched).without(self.came())


@dataclass(frozen=True)
class CopyPlan:
    """How a full copy is written.

    Attributes:
        columns: a row's, in their order; ``key``: those of its key.
        terms: a digest of all that decides what the entries of an index mean.
        before: the row index of the copy before, if this one may write only what changed.
        wait: how many copies after this one are complete whatever happens.
        ranges: conditions of the ranges of its key by which several sessions may read it.
        found: what became of the reading: it is done in one process.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    terms: str
    before: RowIndex | None = None
    wait: int = 0
    ranges: tuple[str, ...] = ()
    found: Found = field(default_factory=Found)

    def entries(self, rows: pa.Table) -> Words:
        """What an index has of rows that came with their hashes: three words each."""
        keys = key_fingerprints(rows, self.columns, self.key)
        # Without a hash a row is not proved, and its copy not shown.
        hashes = rows.column(HASH).fill_null(0).to_numpy()
        return np.column_stack([keys, hashes.astype(np.uint64, copy=False)])


def made_complete(copy: CopyPlan, why: DeltaGivenUp) -> CopyPlan:
    """The same copy, to be read again as a complete one."""
    return replace(copy, before=None, wait=WAIT if why.costly else 0)


class Changes:
    """What changed since the copy before, by the keys and hashes of all rows as they come.

    Args:
        io, location: of the raw table.
        name: of the row index that is written.

    Raises:
        DeltaGivenUp: the row index before is not there.
    """

    def __init__(
        self, copy: CopyPlan, before: RowIndex, io: Storage, location: str, name: str
    ) -> None:
        self._copy, self._before = copy, before
        self._reader = IndexReader(io, location, before)
        self._matcher = Matcher(self._reader)
        self._keys: list[pa.Table] | None = []
        self._bytes = self._changed = 0
        self._most = False
        self.rows = self.digest = 0
        """How many came, and the sum of their hashes."""
        copy.found.begin(IndexWriter(io, location, name))

    def add(self, rows: pa.Table) -> None:
        """Take in keys and hashes.

        Raises:
            DeltaGivenUp: the index before is damaged.
        """
        found, entries = self._copy.found, self._copy.entries(rows)
        if found.writer is not None:
            found.writer.add(entries)
        self.rows += rows.num_rows
        self.digest += sum_of(rows.column(HASH))
        if self._most:
            return
        changed = ~self._matcher.match(entries)
        self._changed += int(changed.sum())
        enough = self.rows >= max(LOOKED_AT, self._before.rows // 20)
        if (enough and 2 * self._changed > self.rows) or self._changed > MOST_CHANGED:
            # To look for rows that are not there costs more than to look for those that are.
            self._most, self._keys, found.changed = True, None, []
            return
        found.changed.append(entries[changed, :2])
        if changed.any():
            self._hold(rows, changed)

    def _hold(self, rows: pa.Table, changed: npt.NDArray[np.bool_]) -> None:
        """Hold the keys of those that changed, while these are few."""
        if self._keys is None:
            return
        keys = rows.select(list(self._copy.key)).filter(pa.array(changed))
        self._keys.append(keys)
        self._bytes += keys.nbytes
        if self._bytes > _KEYS_BYTES or FEW * self._changed > max(self._before.rows, LOOKED_AT):
            self._keys = None

    def end(self) -> None:
        """See what is left of the index before: there are no more rows.

        Raises:
            DeltaGivenUp: the index before is damaged.
        """
        most = max(self._changed, self._matcher.left)
        self._most = self._most or 2 * most > self._before.rows or most > MOST_CHANGED
        if not self._most:
            self._copy.found.unmatched = self._matcher.end()
            self._copy.found.is_delta = True
        self._copy.found.most_changed = self._most
        self.close()

    @property
    def keys(self) -> list[pa.Table] | None:
        """Keys of the rows that changed; None where there are too many, and all rows are read."""
        return self._keys if self._copy.found.is_delta else None

    def close(self) -> None:
        self._reader.close()


class RowSink:
    """Takes a chunk's exact rows, and writes them; of a copy's rows that come with their hashes,
    the row index too.

    Args:
        copy: how a full copy is written; None of anything else.
        writer: of the row index; None where none is written, or by whoever gives the rows.
    """

    def __init__(self, copy: CopyPlan | None, files: PartFiles, writer: IndexWriter | None) -> None:
        self._files, self._copy, self._writer = files, copy, writer
        if copy is not None and writer is not None:
            copy.found.begin(writer)

    def add(self, rows: pa.Table) -> None:
        """Write these rows."""
        if self._copy is not None and self._writer is not None:
            self._writer.add(self._copy.entries(rows))
        self._files.add(rows)

    def complete(self) -> None:
        """Write what is held, and close the files: there are no more rows."""
        self._files.complete()

    def closed(self) -> list[WrittenFile]:
        """The files that were closed since this was last called."""
        return self._files.closed()

    def finish(self) -> tuple[WrittenFile, ...]:
        """Close the files and the index."""
        written, copy = self._files.finish(), self._copy
        if copy is not None and copy.found.writer is not None:
            copy.found.index = copy.found.writer.finish(copy.terms, copy.wait)
            failpoint("copy.indexed")
        return written

    def discard(self) -> None:
        """Remove everything that was written; never raises."""
        self._files.discard()
        if self._copy is not None:
            self._copy.found.discard()
