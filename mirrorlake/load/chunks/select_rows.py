"""Rows by one SELECT, which is one consistent read (on InnoDB): those of a chunk."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.load.chunks.convert import check_witness, exact_rows
from mirrorlake.load.chunks.row_source import OnRows, Rows, RowSource
from mirrorlake.load.chunks.statements import (
    ChunkPlan,
    digest_statement,
    keys_statement,
    measured,
    select_statement,
)
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.sources.mysql.reading.reader import (
    BATCH_ROWS,
    WITNESS,
    OnSnapshot,
    Question,
    read_batches,
    witness,
)
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.reading.throttle import wait_while_busy
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, read_position, session

# What is made exact at once, at most (and at least one batch).
GATHERED_BYTES = 8 * 2**20


class SelectRows:
    """A chunk's rows; a subclass says otherwise which those of one statement are."""

    def read(self, part: ChunkPlan, heed: Heed | None = None, report: OnRows | None = None) -> Rows:
        """See `RowSource.read`."""
        del report  # all that is read is to come
        with session(part.source, part.database) as connection:
            seen = look_at(connection, part)
            part = measured(connection, part)
        question = self._question(part)
        rows = self._rows(part, seen, question, heed)
        if question is None:
            return Rows(part, seen, rows)
        asked_last = question.after
        return Rows(part, seen, rows, lambda: tallies_of(question.answer), asked_last=asked_last)

    def _rows(
        self,
        part: ChunkPlan,
        seen: SourcePosition,
        question: Question | None,
        heed: Heed | None,
        opened: OnSnapshot | None = None,
    ) -> Generator[pa.Table]:
        statement = partial(self._statement, part, seen)
        more: Any = {"near": part.near, "opened": opened}
        arriving = read_rows(part, statement, seen, question, heed, **more)
        with closing(arriving):
            for found in gathered(arriving):
                ends = question is not None and question.after and not found.num_rows
                yield found if ends else self._exact(part, found, seen)

    def _statement(self, part: ChunkPlan, seen: SourcePosition, session: int | None) -> str:
        return select_statement(part, seen, session)

    def _question(self, part: ChunkPlan) -> Question | None:
        """What the server is asked of the rows, in the state that is then read."""
        if part.hashes is not None:
            # Last: what was read is compared meanwhile, and nothing else could be done before.
            return Question(keys_statement(part, part.hashes), after=True)
        return Question(digest_statement(part)) if part.digest else None

    def _exact(self, part: ChunkPlan, found: pa.Table, seen: SourcePosition) -> pa.Table:
        return exact_rows(part, found, seen.position)


SELECT: Final[RowSource] = SelectRows()


def look_at(connection: Connection[Any], part: ChunkPlan) -> SourcePosition:
    """Where a source stands just before it is read; one that is busy is waited for first.

    Raises:
        SourceError: another server answers than that with which the load began.
        SourceBusy: it did not come to rest.
    """
    wait_while_busy(connection, part.source, part.name, part.load_id)
    seen = read_position(connection)
    if part.server and seen.server != part.server:
        raise SourceError(
            f"source {part.source.name} is answered by server {seen.server}, the load "
            f"began on {part.server}",
            source=part.source.name,
            next_step="Point the contract at one server: answers of two are not one copy",
        )
    return seen


def tallies_of(answer: Sequence[int | None]) -> list[Tally]:
    """What the server says in pairs: a number of rows, and the sum of their digests. No sum of no
    rows; nor of rows of which the server could digest none, which the proof finds."""
    pairs = zip(answer[::2], answer[1::2], strict=True)
    return [Tally(int(count or 0), int(digest or 0)) for count, digest in pairs]


def gathered(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Small batches together: rows that may be large are read few at once, and are mostly small. An
    empty batch stays one."""
    held: list[pa.Table] = []
    rows = size = 0
    for batch in batches:
        ends = not batch.num_rows
        if not ends:
            held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if held and (ends or rows >= BATCH_ROWS or size >= GATHERED_BYTES):
            yield pa.concat_tables(held).combine_chunks()
            held, rows, size = [], 0, 0
        if ends:
            yield batch
    if held:
        yield pa.concat_tables(held).combine_chunks()


def read_rows(
    plan: ChunkPlan,
    statement: Callable[[int | None], str],
    seen: SourcePosition,
    question: Question | None,
    heed: Heed | None,
    *,
    near: bool = False,
    opened: OnSnapshot | None = None,
) -> Generator[pa.Table]:
    """The rows of a statement as they arrive, as the server gives them; `exact_rows` makes them
    exact.

    Args:
        statement: it, by the session that runs it; each of its rows bears the witness of ``seen``.
        near, opened: as `read_batches` takes them.

    Raises:
        SourceError: MySQL was lost, refused, or another server answered.
    """
    rows = 0
    for batch in read_batches(
        plan.source,
        plan.database,
        statement,
        plan.batch_rows,
        table=plan.name,
        near=near,
        question=question,
        heed=heed,
        opened=opened,
    ):
        rows += batch.num_rows
        yield pa.Table.from_batches([batch])
    if rows == 0:
        # No row bears witness that the right server has none.
        asked = f"SELECT {witness(seen)} AS {WITNESS}"
        for batch in read_batches(plan.source, plan.database, asked):
            check_witness(plan, batch.column(0).to_pylist() != [0])
