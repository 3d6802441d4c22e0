"""What of a copy is written: all its rows, or those that the last copy's row index does not hold.

Here rows are on their way from MySQL to the data files, in the process that reads them. Whether a
copy may write only what changed, and what follows from it, is decided elsewhere
(`mirrorlake.load.copies`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from mirrorlake.destinations.iceberg.data_files import PartFiles, WrittenFile
from mirrorlake.destinations.iceberg.model import Storage
from mirrorlake.failpoints import failpoint
from mirrorlake.load.fingerprint import Words, fingerprints
from mirrorlake.load.row_index import (
    MOST_CHANGED,
    DeltaGivenUp,
    IndexReader,
    IndexWriter,
    KeySet,
    Matcher,
    RowIndex,
)

LOOKED_AT = 65_536
"""After this many rows, or a twentieth of the table, a copy of which most changed is complete."""
WAIT = 8
"""This many copies are complete after one that turned out to be no delta: it was read twice."""
SUFFIX = "d"
"""What the names of a delta's files have after the chunk's number: a rebuilt ledger knows by it
that a load was not the whole table, even where its commit is gone."""


@dataclass
class Found:
    """What became of one copy's reading.

    Attributes:
        index: the row index that it wrote.
        is_delta: whether only what changed was written.
        unmatched: keys of the index before that no row had as it was.
        written: keys of the rows that were written.
    """

    index: RowIndex | None = None
    is_delta: bool = False
    unmatched: Words | None = None
    written: list[Words] = field(default_factory=list[Words])

    def gone(self) -> Words:
        """Keys of the index before that none of the rows has.

        Raises:
            DeltaGivenUp: two rows have one key.
        """
        if self.unmatched is None or not len(self.unmatched):
            return np.empty((0, 2), dtype=np.uint64)
        there = KeySet(np.concatenate([np.empty((0, 2), np.uint64), *self.written]))
        return KeySet(self.unmatched).without(there)


@dataclass(frozen=True)
class CopyPlan:
    """How a full copy is written.

    Attributes:
        columns: what a row's fingerprint is of; ``key``: what its key's is.
        terms: a digest of all that decides what fingerprints mean.
        before: the row index of the copy before, if this one may write only what changed.
        wait: how many copies after this one are complete whatever happens.
        found: what became of the reading: it is done in one process.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    terms: str
    before: RowIndex | None = None
    wait: int = 0
    found: Found = field(default_factory=Found)


def made_complete(copy: CopyPlan, why: DeltaGivenUp) -> CopyPlan:
    """The same copy, to be read again as a complete one."""
    return replace(copy, before=None, wait=WAIT if why.costly else 0)


class RowSink:
    """Takes a chunk's exact rows, and writes those that are to be written.

    Args:
        copy: None of what is no copy with a row index: every row is written.
        io, location: of the raw table.
        name: of the row index that is written.

    Raises:
        DeltaGivenUp: the row index before is not there.
    """

    def __init__(
        self, copy: CopyPlan | None, files: PartFiles, io: Storage, location: str, name: str
    ) -> None:
        self._files, self._copy = files, copy
        self._matcher: Matcher | None = None
        self._reader: IndexReader | None = None
        self._writer: IndexWriter | None = None
        self._seen = self._written = 0
        if copy is None:
            return
        copy.found.index, copy.found.is_delta = None, False
        copy.found.unmatched, copy.found.written = None, []
        if copy.before is not None:
            self._reader = IndexReader(io, location, copy.before)
            self._matcher = Matcher(self._reader)
        self._writer = IndexWriter(io, location, name)

    def add(self, rows: pa.Table) -> pa.Table:
        """Write these rows, or those of them that changed; the ones that are written.

        Raises:
            DeltaGivenUp: too many changed, or the index before is damaged.
        """
        copy = self._copy
        if copy is None or self._writer is None:
            self._files.add(rows)
            return rows
        prints = fingerprints(rows, copy.columns, copy.key)
        self._writer.add(prints)
        if self._matcher is not None:
            changed = ~self._matcher.match(prints)
            copy.found.written.append(prints[changed, :2])
            self._seen += rows.num_rows
            if not changed.all():
                rows = rows.filter(pa.array(changed))
            self._written += rows.num_rows
            self._refuse_many(copy)
        self._files.add(rows)
        return rows

    def closed(self) -> list[WrittenFile]:
        """The files that were closed since this was last called."""
        return self._files.closed()

    def end(self) -> None:
        """See what is left of the index before: there are no more rows.

        Raises:
            DeltaGivenUp: too many rows are gone, or the index before is damaged.
        """
        if self._copy is not None and self._matcher is not None:
            self._copy.found.unmatched = self._matcher.end()
            self._copy.found.is_delta = True
            self._close_reader()

    def finish(self) -> tuple[WrittenFile, ...]:
        """Close the files and the index, after `end`."""
        copy = self._copy
        if copy is None or self._writer is None:
            return self._files.finish()
        written = self._files.finish()
        copy.found.index = self._writer.finish(copy.terms, copy.wait)
        failpoint("copy.indexed")
        return written

    def discard(self) -> None:
        """Remove everything that was written; never raises."""
        self._files.discard()
        if self._writer is not None:
            self._writer.discard()
        self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _refuse_many(self, copy: CopyPlan) -> None:
        before = copy.before.rows if copy.before else 0
        unmatched = self._matcher.unmatched if self._matcher else 0
        early = self._seen >= max(LOOKED_AT, before // 20) and 2 * self._written > self._seen
        if early or 2 * max(self._written, unmatched) > before or self._written > MOST_CHANGED:
            raise DeltaGivenUp("most rows changed, or stand in another order", costly=True)
