"""The rows of a copy that changed since the one before, found by keys and hashes.

In one consistent snapshot the server is asked for key and hash of each row, which are held against
the row index of the copy before; then for the rows that it does not hold: by their keys, or, where
these are many, by reading all rows. Where most rows changed, all of them are a complete copy.

Keys and hashes cost the server twice what reading the rows does, and come by ranges of the key on
as many sessions as the source has free, where their snapshots are shown to be one
(`mirrorlake.sources.mysql.changes.one_moment`): one session sends a range while others are at the
next ones. They are taken in the order of the key, as the copy before saw them.

What belongs here: what the server is asked, and when. What doesn't: what changed
(`mirrorlake.load.row_hashes.delta`).
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pymysql.connections import Connection

from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.errors import ReadGivenUp, SourceError
from mirrorlake.failpoints import failpoint
from mirrorlake.load.chunks.convert import check_witness, exact_rows
from mirrorlake.load.chunks.row_source import OnRows, Rows, RowSource
from mirrorlake.load.chunks.select_rows import SELECT, gathered, look_at
from mirrorlake.load.chunks.statements import ChunkPlan, count_statement, measured, select_statement
from mirrorlake.load.row_hashes.delta import COMPLETE, Changes, CopyPlan
from mirrorlake.load.row_hashes.fingerprint import key_fingerprints
from mirrorlake.load.row_hashes.row_index import DeltaGivenUp, RowIndex
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.proof.sides.server_hashes import ServerHashes
from mirrorlake.sources.mysql.changes.one_moment import find_still
from mirrorlake.sources.mysql.reading.keys import key_condition
from mirrorlake.sources.mysql.reading.limits import also_reading
from mirrorlake.sources.mysql.reading.reader import (
    BATCH_ROWS,
    WITNESS,
    Question,
    read_in_turn,
    witness,
)
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
                reading.open_several(connection, heed)
            except BaseException:
                reading.discard()
                raise
        try:
            return reading.begin(heed, report)
        except BaseException:
            reading.discard()
            raise


CHANGED: Final[RowSource] = _ChangedRows()


class _NoMore(Exception):
    """The server has no more sessions for us."""


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
        self._question = Question(count_statement(part), after=True)
        self._keys = _keys_alone(part, hashes)
        self._ranges: tuple[str, ...] = (part.where,)
        self._streams: list[Iterator[pa.RecordBatch | None]] = []
        self._free = ExitStack()

    def open_several(self, connection: Connection[Any], heed: Heed | None) -> None:
        """Open as many sessions as the source has free, each with its snapshot, if these are of one
        moment; else none."""
        part, ranges = self._part, self._copy.ranges
        more = self._free.enter_context(also_reading(part.source, len(ranges) - 1))
        still = find_still(connection) if more else None
        if still is not None:
            with suppress(_NoMore):
                for number in range(1 + more):
                    self._streams.append(self._one_more(number, heed))
            if self.sessions > 1 and still.lasts(connection):
                self._ranges = ranges
                return
        if more:
            words = "table %s load %s: one session: the server is not still, or does not say so"
            logger.info(words, part.name, part.load_id)
        while self._streams:
            _close(self._streams.pop())
        self._free.close()  # others may have them

    def _opened(self, number: int, heed: Heed | None) -> Iterator[pa.RecordBatch | None]:
        """What comes of a session, after its snapshot is there."""
        part = self._part
        stream = read_in_turn(
            part.source,
            part.database,
            partial(self._statements, number),
            table=part.name,
            near=part.near,
            question=self._question if not number else Question(_NOTHING, after=True),
            heed=heed,
        )
        try:
            came = pa.concat_tables(list(_of_one_statement(stream)))
            check_witness(part, came.column(0).to_pylist() != [0])
        except BaseException:
            _close(stream)
            raise
        return stream

    def _one_more(self, number: int, heed: Heed | None) -> Iterator[pa.RecordBatch | None]:
        """One more session, if the server lets us have it.

        Raises:
            _NoMore: it does not.
        """
        try:
            return self._opened(number, heed)
        except ReadGivenUp:
            raise
        except SourceError as error:
            logger.info("table %s: no session more: %s", self._part.name, error)
            raise _NoMore from error

    @property
    def sessions(self) -> int:
        return len(self._streams)

    def begin(self, heed: Heed | None, report: OnRows | None) -> Rows:
        """Read keys and hashes; the rows that are to come.

        Raises:
            DeltaGivenUp: see `Changes`.
        """
        if not self._streams:
            self._streams.append(self._opened(0, heed))
        changes, began, sessions = self._changes, time.monotonic(), self.sessions
        for rows in self._of_all_ranges():
            changes.add(exact_rows(self._keys, rows, self._seen.position))
            if report is not None:
                report(rows.num_rows, rows.nbytes)
        if not changes.rows:
            raise DeltaGivenUp("no row bears witness that the right server has none")
        changes.end()
        failpoint("copy.compared")
        self._part = self._to_come()
        seconds = time.monotonic() - began
        return Rows(self._part, self._seen, self._rows(), self._said, seconds, sessions=sessions)

    def _said(self) -> list[Tally]:
        return [Tally(int(self._question.answer[0] or 0), self._changes.digest)]

    def _of_all_ranges(self) -> Iterator[pa.Table]:
        """Keys and hashes in the order of the ranges. Each session is asked for its next range as
        soon as its last one is through, and sends while others are taken in."""
        streams = self._streams
        begun = {number: next(stream) for number, stream in enumerate(streams)}
        for number in range(len(self._ranges)):
            stream = streams[number % len(streams)]
            first = begun[number % len(streams)]
            yield from _of_one_statement(chain([first], stream))
            if number + len(streams) < len(self._ranges):
                begun[number % len(streams)] = next(stream)
        # What is read now, one session reads.
        while len(streams) > 1:
            _close(streams.pop())
        self._free.close()

    def discard(self) -> None:
        """Read nothing more, and leave no index."""
        self.end()
        self._copy.found.discard()

    def end(self) -> None:
        """Read nothing more."""
        self._changes.close()
        for stream in self._streams:
            _close(stream)
        self._free.close()

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

    def _statements(self, number: int, session: int | None) -> Iterator[tuple[str, int]]:
        """What one of the sessions reads, and how many rows are held at once; asked for as it is
        read."""
        yield f"SELECT {witness(self._seen, session=session)} AS {WITNESS}", BATCH_ROWS
        for where in self._ranges[number :: self.sessions]:
            keys = dataclasses.replace(self._keys, where=where)
            yield select_statement(keys, self._seen, session), BATCH_ROWS
        if number:
            return
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
        [stream] = self._streams
        return (pa.Table.from_batches([batch]) for batch in stream if batch is not None)


_NOTHING: Final = "SELECT 0"
"""A session opens a snapshot for a question; only one of several is asked one."""


def _of_one_statement(stream: Iterable[pa.RecordBatch | None]) -> Iterator[pa.Table]:
    for batch in stream:
        if batch is None:
            return
        yield pa.Table.from_batches([batch])


def _close(stream: Iterator[pa.RecordBatch | None]) -> None:
    if isinstance(stream, Generator):
        stream.close()


def _keys_alone(part: ChunkPlan, hashes: ServerHashes) -> ChunkPlan:
    """The same chunk's keys and hashes, without the other columns."""
    key = set(hashes.key)
    columns = tuple(exact for exact in part.columns if exact.name in key)
    schema = pa.schema([part.schema.field(exact.name) for exact in columns])
    return dataclasses.replace(
        part, columns=columns, schema=schema, equality_columns=(), day_column=None
    )
