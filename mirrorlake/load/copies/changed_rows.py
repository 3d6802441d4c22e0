"""The rows of a copy that changed since the one before, found by keys and hashes.

In one consistent snapshot the server is asked for key and hash of each row, which are held against
the row index of the copy before; then for the rows that it does not hold: by their keys, or, where
these are many, by reading all rows. Where most rows changed, all of them are a complete copy.

What belongs here: what the server is asked, and when. What doesn't: what changed
(`mirrorlake.load.row_hashes.delta`).
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Generator, Iterator
from typing import Final

import pyarrow as pa

from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.failpoints import failpoint
from mirrorlake.load.chunks.convert import exact_rows
from mirrorlake.load.chunks.row_source import OnRows, Rows, RowSource
from mirrorlake.load.chunks.select_rows import SELECT, gathered, look_at
from mirrorlake.load.chunks.statements import ChunkPlan, count_statement, measured, select_statement
from mirrorlake.load.row_hashes.delta import COMPLETE, Changes, CopyPlan
from mirrorlake.load.row_hashes.fingerprint import key_fingerprints
from mirrorlake.load.row_hashes.row_index import DeltaGivenUp, RowIndex
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.proof.sides.server_hashes import ServerHashes
from mirrorlake.sources.mysql.reading.keys import key_condition
from mirrorlake.sources.mysql.reading.reader import BATCH_ROWS, Question, read_in_turn
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, session

logger = logging.getLogger(__name__)

KEYS_AT_ONCE = 500
"""Rows that one statement reads by their keys."""
_KEY_BYTES_AT_ONCE = 128 * 2**10


class _ChangedRows:
    """A copy's rows that its row index before does not hold; all rows of anything else."""

    def read(self, part: ChunkPlan, heed: Heed | None = None, report: OnRows | None = None) -> Rows:
        """See `RowSource.read`.

        Raises:
            DeltaGivenUp: the row index before is damaged, or no row came.
        """
        copy, hashes = part.copy, part.hashes
        if copy is None or copy.before is None or hashes is None:
            return SELECT.read(part, heed, report)
        with session(part.source, part.database) as connection:
            seen = look_at(connection, part)
            # The rows that come by their keys are few.
            near = measured(connection, dataclasses.replace(part, widest=())).near
        part = dataclasses.replace(part, near=near)
        reading = _Reading(part, copy, copy.before, hashes, seen)
        try:
            return reading.begin(heed, report)
        except BaseException:
            reading.end()
            copy.found.discard()
            raise


CHANGED: Final[RowSource] = _ChangedRows()


class _Reading:
    """One reading of keys and hashes, and then of rows."""

    def __init__(
        self,
        part: ChunkPlan,
        copy: CopyPlan,
        before: RowIndex,
        hashes: ServerHashes,
        seen: SourcePosition,
    ) -> None:
        self._part, self._copy, self._hashes, self._seen = part, copy, hashes, seen
        io = open_storage(part.storage, part.location)
        self._changes = Changes(copy, before, io, part.location, f"{part.stem}.index")
        self._question = Question(count_statement(part))
        self._keys = _keys_alone(part, hashes)
        self._stream: Iterator[pa.RecordBatch | None] = iter(())

    def begin(self, heed: Heed | None, report: OnRows | None) -> Rows:
        """Read keys and hashes; the rows that are to come.

        Raises:
            DeltaGivenUp: see `Changes`.
        """
        part, changes, began = self._part, self._changes, time.monotonic()
        self._stream = read_in_turn(
            part.source,
            part.database,
            self._statements,
            table=part.name,
            near=part.near,
            question=self._question,
            heed=heed,
        )
        for rows in self._of_one_statement():
            changes.add(exact_rows(self._keys, rows, self._seen.position))
            if report is not None:
                report(rows.num_rows, rows.nbytes)
        if not changes.rows:
            raise DeltaGivenUp("no row bears witness that the right server has none")
        changes.end()
        failpoint("copy.compared")
        self._part = self._to_come()
        said = Tally(int(self._question.answer[0] or 0), changes.digest)
        seconds = time.monotonic() - began
        return Rows(self._part, self._seen, self._rows(), lambda: [said], seconds)

    def end(self) -> None:
        """Read nothing more."""
        self._changes.close()
        if isinstance(self._stream, Generator):
            self._stream.close()

    def _to_come(self) -> ChunkPlan:
        """How the rows are written that come now: without hashes beside them, as the sum of those
        that came before decides."""
        part = dataclasses.replace(self._part, hashes=None)
        if self._copy.found.is_delta:
            return part
        logger.info(
            "table %s load %s: most rows changed: a complete copy is made", part.name, part.load_id
        )
        return dataclasses.replace(part, task=COMPLETE)

    def _statements(self, session: int | None) -> Iterator[tuple[str, int]]:
        """What is read, and how many rows are held at once; asked for as it is read."""
        yield select_statement(self._keys, self._seen, session), BATCH_ROWS
        part, keys = self._part, self._changes.keys
        conditions = [part.where] if keys is None else self._conditions(keys)
        for where in conditions:
            asked = dataclasses.replace(part, where=where)
            yield select_statement(asked, self._seen, session), part.batch_rows

    def _conditions(self, keys: list[pa.Table]) -> Iterator[str]:
        """Conditions of the rows of some keys, in the server's order; each through their index."""
        columns = {column.name: column for column in self._hashes.columns}
        key = tuple(columns[name] for name in self._hashes.key)
        if not keys:
            return
        found = pa.concat_tables(keys).combine_chunks()
        at_once = max(1, min(KEYS_AT_ONCE, _KEY_BYTES_AT_ONCE * found.num_rows // found.nbytes))
        for start in range(0, found.num_rows, at_once):
            yield key_condition(key, found.slice(start, at_once))

    def _rows(self) -> Generator[pa.Table]:
        """The rows that changed, or all of them."""
        copy, every = self._copy, self._changes.keys is None
        wanted = copy.found.came() if every and copy.found.is_delta else None
        try:
            for found in gathered(self._batches()):
                rows = exact_rows(self._part, found, self._seen.position)
                if wanted is not None:
                    keys = key_fingerprints(rows, copy.columns, copy.key)
                    rows = rows.filter(pa.array(wanted.find(keys) >= 0))
                yield rows
        finally:
            self.end()

    def _batches(self) -> Iterator[pa.Table]:
        return (pa.Table.from_batches([batch]) for batch in self._stream if batch is not None)

    def _of_one_statement(self) -> Iterator[pa.Table]:
        for batch in self._stream:
            if batch is None:
                return
            yield pa.Table.from_batches([batch])


def _keys_alone(part: ChunkPlan, hashes: ServerHashes) -> ChunkPlan:
    """The same chunk's keys and hashes, without the other columns."""
    key = set(hashes.key)
    columns = tuple(exact for exact in part.columns if exact.name in key)
    schema = pa.schema([part.schema.field(exact.name) for exact in columns])
    return dataclasses.replace(
        part, columns=columns, schema=schema, equality_columns=(), day_column=None
    )
