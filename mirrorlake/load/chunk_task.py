"""One chunk: read from MySQL as Arrow, written as Parquet data files. Runs on a Spark worker or
here.

Nothing in this module needs Spark, the ledger or the catalog: a worker shares only storage with the
driver.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.destinations.iceberg.data_files import PartFiles, WrittenFile
from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.destinations.iceberg.originals import count_originals
from mirrorlake.errors import LakeError, SourceError
from mirrorlake.failpoints import failpoint
from mirrorlake.load.chunk_receipt import ChunkReceipt
from mirrorlake.load.chunk_statements import (
    HASH,
    ChunkPlan,
    digest_statement,
    keys_statement,
    measured,
    select_statement,
)
from mirrorlake.load.convert import check_witness, exact_rows
from mirrorlake.load.delta import RowSink, made_complete
from mirrorlake.load.digest import digest_of
from mirrorlake.load.file_proof import FileProofs
from mirrorlake.load.row_index import DeltaGivenUp
from mirrorlake.proof.server_hashes import Compared, sum_of
from mirrorlake.runtime.memory import give_back
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.connect import SourcePosition, read_position, session
from mirrorlake.sources.mysql.reader import BATCH_ROWS, WITNESS, Question, read_batches, witness
from mirrorlake.sources.mysql.route import Heed
from mirrorlake.sources.mysql.throttle import wait_while_busy

# What is made exact at once, at most (and at least one batch).
GATHERED_BYTES = 8 * 2**20

logger = logging.getLogger(__name__)

pc: Any = _compute  # its functions are made at import: type checkers see none of them


OnRows = Callable[[int, int], None]
"""Called with (rows, bytes in Arrow) of every batch that was taken in."""


def load_chunk(
    plan: ChunkPlan, report: OnRows | None = None, heed: Heed | None = None
) -> ChunkReceipt:
    """Read one chunk in one statement and write its files; on any failure its files are removed.

    See `take_in` for what it takes and raises.
    """
    return take_in(plan, report, heed).finish()


def take_in(plan: ChunkPlan, report: OnRows | None = None, heed: Heed | None = None) -> ReadChunk:
    """Read one chunk in one statement; the last of its rows are not written yet.

    Rows are read, made exact and written batch by batch: memory does not grow with the chunk. A
    server that is busy is waited for first, as its contract says. A copy that can't be written as
    changes is read again, as a complete one.

    Args:
        heed: called while rows come, and are waited for; raises to give the chunk up.

    Raises:
        SourceError: MySQL was lost, refused, or another server answered.
        SourceBusy: it did not come to rest.
        LakeError: a file could not be written.
    """
    try:
        return _take_in(plan, report, heed)
    except DeltaGivenUp as why:
        logger.info("table %s load %s: %s: a complete copy is made", plan.name, plan.load_id, why)
        return _take_in(without_delta(plan, why), report, heed)


def without_delta(plan: ChunkPlan, why: DeltaGivenUp) -> ChunkPlan:
    """The same chunk as a complete copy, in files of other names."""
    copy = made_complete(plan.copy, why) if plan.copy else None
    return dataclasses.replace(plan, copy=copy, task="c")


def _take_in(plan: ChunkPlan, report: OnRows | None, heed: Heed | None) -> ReadChunk:
    """`take_in`, as the plan says.

    Raises:
        DeltaGivenUp: see `RowSink`.
    """
    plan, seen = _looked_at(plan)
    aside = HASH if plan.hashes else None
    files = PartFiles(
        plan.storage, plan.location, plan.stem, plan.schema, plan.iceberg, aside=aside
    )
    question = _question(plan)
    tally = ChunkTally(plan, seen)
    io = open_storage(plan.storage, plan.location)
    sink = RowSink(plan.copy, files, io, plan.location, f"{plan.stem}.index")
    proofs = FileProofs(plan, plan.hashes) if plan.hashes else None
    with _removed_on_failure(plan, sink, proofs):
        for found in gathered(_read(plan, seen, question, heed)):
            rows = exact_rows(plan, found, seen.position)
            tally.add(rows, sink.add(rows))
            if proofs is not None:
                proofs.begin(sink.closed())
            if report is not None:
                report(rows.num_rows, rows.nbytes)
        tally.end_of_query()
        sink.end()
    return ReadChunk(plan, sink, tally, question, proofs)


def _question(plan: ChunkPlan) -> Question | None:
    """What the server is asked of a chunk, in the state that is then read."""
    if plan.hashes is not None:
        return Question(keys_statement(plan, plan.hashes))
    return Question(digest_statement(plan)) if plan.digest else None


class ReadChunk:
    """A chunk whose rows are all here, and not all written: the server is not needed any more."""

    def __init__(
        self,
        plan: ChunkPlan,
        sink: RowSink,
        tally: ChunkTally,
        question: Question | None,
        proofs: FileProofs | None,
    ) -> None:
        self._plan, self._sink, self._tally, self._question = plan, sink, tally, question
        self._proofs = proofs

    def finish(self) -> ChunkReceipt:
        """Write what is held; return once the files are closed, on the disk where that is a local
        one, and compared with what the server said of their rows. On any failure they are removed.

        Raises:
            LakeError: a file could not be written, or not be read again.
        """
        seen = None
        with _removed_on_failure(self._plan, self._sink, self._proofs):
            written = self._sink.finish()
            if self._proofs is not None:
                seen = self._proofs.end(self._sink.closed())
        if self._plan.near:
            give_back()
        failpoint("chunk.written")
        receipt = self._tally.receipt(written)
        if self._question is None:
            return receipt
        # No sum of no rows; nor of rows of which the server could digest none, which the proof
        # finds.
        rows, answer = (number or 0 for number in self._question.answer)
        if seen is None:
            return dataclasses.replace(receipt, source_rows=rows, source_digest=answer)
        return dataclasses.replace(
            receipt,
            source_rows=rows,
            source_keys=answer,
            source_digest=self._tally.hashes,
            proved=seen == Compared(rows, answer),
        )

    def discard(self) -> None:
        """Remove what was written of it; never raises."""
        if self._proofs is not None:
            self._proofs.stop()
        self._sink.discard()


@contextmanager
def _removed_on_failure(
    plan: ChunkPlan, sink: RowSink, proofs: FileProofs | None
) -> Iterator[None]:
    """A chunk's files are removed where the block fails."""
    try:
        with _stopped_on_failure(proofs):
            yield
    except OSError as error:
        sink.discard()
        raise LakeError(
            f"a data file of {plan.database}.{plan.table} could not be written: "
            f"{error.strerror or error}",
            table=plan.name,
            next_step="See that the warehouse has room and can be written, then sync again",
        ) from error
    except BaseException:
        sink.discard()
        raise


@contextmanager
def _stopped_on_failure(proofs: FileProofs | None) -> Iterator[None]:
    """Nothing reads a chunk's files any more where the block fails."""
    try:
        yield
    except BaseException:
        if proofs is not None:
            proofs.stop()
        raise


def read_chunk(plan: ChunkPlan, heed: Heed | None = None) -> Iterator[pa.Table]:
    """The chunk's exact rows as they come, in one statement; nothing is written.

    Args:
        heed: called while rows come, and are waited for; raises to give the chunk up.

    Raises:
        SourceError: MySQL was lost, refused, or another server answered.
        SourceBusy: it did not come to rest.
    """
    plan, seen = _looked_at(plan)
    for found in gathered(_read(plan, seen, None, heed)):
        yield exact_rows(plan, found, seen.position)


def _looked_at(plan: ChunkPlan) -> tuple[ChunkPlan, SourcePosition]:
    """What is looked up before a chunk is read: whether the server may be read, which it is, how
    large its rows are."""
    with session(plan.source, plan.database) as connection:
        wait_while_busy(connection, plan.source, plan.name, plan.load_id)
        seen = read_position(connection)
        check_server(plan, seen)
        return measured(connection, plan), seen


def check_server(plan: ChunkPlan, seen: SourcePosition) -> None:
    """See that the server answers with which the load began.

    Raises:
        SourceError: another one does.
    """
    if plan.server and seen.server != plan.server:
        raise SourceError(
            f"source {plan.source.name} is answered by server {seen.server}, the load "
            f"began on {plan.server}",
            source=plan.source.name,
            next_step="Point the contract at one server: answers of two are not one copy",
        )


class ChunkTally:
    """What a chunk's receipt reports of its rows, counted as they come."""

    def __init__(self, plan: ChunkPlan, seen: SourcePosition) -> None:
        self._plan, self._seen = plan, seen
        self._started = time.monotonic()
        self._seconds = 0.0
        self._rows = self._written = self._bytes = self._digest = self._future = 0
        self._originals: Counter[str] = Counter()
        self._high: Any = None
        self.hashes = 0
        """The sum of the hashes that came with the rows."""

    def add(self, rows: pa.Table, written: pa.Table) -> None:
        plan = self._plan
        self._rows += rows.num_rows
        self._written += written.num_rows
        self._bytes += rows.nbytes
        self._digest += digest_of(written.select([e.name for e in plan.columns]))
        if plan.hashes is not None:
            self.hashes += sum_of(rows.column(HASH))
        if ORIGINAL in rows.schema.names:
            self._originals.update(count_originals(rows.column(ORIGINAL)))
        self._future += _count_future(plan, rows, self._seen.clock)
        highest = _high(plan, rows)
        if highest is not None and (self._high is None or highest > self._high):
            self._high = highest

    def end_of_query(self) -> None:
        self._seconds = time.monotonic() - self._started

    def receipt(self, written: Sequence[WrittenFile]) -> ChunkReceipt:
        return ChunkReceipt(
            number=self._plan.number,
            rows=self._rows,
            written=self._written,
            bytes=sum(file.bytes for file in written),
            paths=tuple(file.path for file in written),
            digest=self._digest % 2**64,
            moment=self._seen.clock,
            server=self._seen.server,
            position=self._seen.position,
            high=None if self._high is None else str(self._high),
            originals=dict(self._originals),
            future=self._future,
            query_seconds=self._seconds,
            read_bytes=self._bytes,
            metrics=tuple((file.path, file.metrics) for file in written),
        )


def gathered(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Small batches together: rows that may be large are read few at once, and are mostly small."""
    held: list[pa.Table] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= BATCH_ROWS or size >= GATHERED_BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held, rows, size = [], 0, 0
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
) -> Iterator[pa.Table]:
    """The rows of a statement as they arrive, as the server gives them; `exact_rows` makes them
    exact.

    Args:
        statement: it, by the session that runs it; each of its rows bears the witness of ``seen``.
        near: as `read_batches` takes it.

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
    ):
        rows += batch.num_rows
        yield pa.Table.from_batches([batch])
    if rows == 0:
        # No row bears witness that the right server has none.
        asked = f"SELECT {witness(seen)} AS {WITNESS}"
        for batch in read_batches(plan.source, plan.database, asked):
            check_witness(plan, batch.column(0).to_pylist() != [0])


def _read(
    plan: ChunkPlan, seen: SourcePosition, question: Question | None, heed: Heed | None
) -> Iterator[pa.Table]:
    """The chunk's rows."""
    statement = partial(select_statement, plan, seen)
    return read_rows(plan, statement, seen, question, heed, near=plan.near)


def _high(plan: ChunkPlan, rows: pa.Table) -> Any:
    if plan.cursor is None or rows.num_rows == 0:
        return None
    return pc.max(rows.column(plan.cursor)).as_py()


def _count_future(plan: ChunkPlan, rows: pa.Table, clock: datetime) -> int:
    """Rows whose time cursor lies after the source's clock, by the contract's zone."""
    if plan.cursor is None or not pa.types.is_timestamp(rows.schema.field(plan.cursor).type):
        return 0
    kind = rows.schema.field(plan.cursor).type
    aware = clock.replace(tzinfo=UTC)
    now = aware if kind.tz else aware.astimezone(plan.source.zone).replace(tzinfo=None)
    return pc.sum(pc.greater(rows.column(plan.cursor), pa.scalar(now, kind))).as_py() or 0
