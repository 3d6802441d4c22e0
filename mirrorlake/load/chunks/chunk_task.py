"""One part of a load: its rows, read from where they come from, written as Parquet data files.
Runs on a Spark worker or here.

Nothing in this module needs Spark, the ledger or the catalog: a worker shares only storage with the
driver.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.destinations.iceberg.commits.data_files import PartFiles, WrittenFile
from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.destinations.iceberg.reading.originals import count_originals
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.load.chunks.file_proof import FileProofs
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.chunks.row_source import OnRows, Rows, RowSource
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.load.row_hashes.delta import COMPLETE, RowSink, made_complete
from mirrorlake.load.row_hashes.row_index import DeltaGivenUp, IndexWriter
from mirrorlake.proof.ranges.ranges import NOTHING
from mirrorlake.proof.sides.server_hashes import HASH, Compared, sum_of
from mirrorlake.runtime.memory import give_back
from mirrorlake.schema.own_columns import COMMITTED_AT, ORIGINAL
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.sessions.connect import SourcePosition

logger = logging.getLogger(__name__)

pc: Any = _compute  # its functions are made at import: type checkers see none of them


def load_chunk(plan: ChunkPlan, source: RowSource) -> ChunkReceipt:
    """Read one chunk and write its files; on any failure its files are removed.

    See `take_in` for what it takes and raises.
    """
    return take_in(plan, source).finish()


def take_in(
    plan: ChunkPlan,
    source: RowSource,
    report: OnRows | None = None,
    heed: Heed | None = None,
    files: PartFiles | None = None,
) -> ReadChunk:
    """Read one chunk; the last of its rows are not written yet.

    Rows are read, made exact and written batch by batch: memory does not grow with the chunk. A
    server that is busy is waited for first, as its contract says. A copy that can't be written as
    changes is read again, as a complete one.

    Args:
        heed: called while rows come, and are waited for; raises to give the chunk up.
        files: where its rows go; by default into files of raw's days.

    Raises:
        SourceError: the source was lost, refused, or another one answered.
        SourceBusy: it did not come to rest.
        LakeError: a file could not be written.
    """
    try:
        return _take_in(plan, source, report, heed, files)
    except DeltaGivenUp as why:
        logger.info("table %s load %s: %s: a complete copy is made", plan.name, plan.load_id, why)
        return _take_in(without_delta(plan, why), source, report, heed, files)


def without_delta(plan: ChunkPlan, why: DeltaGivenUp) -> ChunkPlan:
    """The same chunk as a complete copy, in files of other names."""
    copy = made_complete(plan.copy, why) if plan.copy else None
    return dataclasses.replace(plan, copy=copy, task=COMPLETE)


def _take_in(
    plan: ChunkPlan,
    source: RowSource,
    report: OnRows | None,
    heed: Heed | None,
    files: PartFiles | None,
) -> ReadChunk:
    """`take_in`, as the plan says.

    Raises:
        DeltaGivenUp: the copy can't be written as changes.
    """
    found = source.read(plan, heed, report)
    plan = found.part
    tally, sink = ChunkTally(plan, found.seen, found.seconds), _sink_of(plan, files)
    proofs = FileProofs(plan, plan.hashes) if plan.hashes else None
    # Closed at once where it fails: what is tried then has the only session.
    with removed_on_failure(plan, sink, proofs), closing(found.batches):
        for rows in found.batches:
            if found.asked_last and not rows.num_rows:
                sink.complete()
            else:
                tally.add(rows)
                sink.add(rows)
            if proofs is not None:
                proofs.begin(sink.closed())
            if report is not None:
                report(rows.num_rows, rows.nbytes)
        tally.end_of_query()
    return ReadChunk(found, sink, tally, proofs)


def _sink_of(plan: ChunkPlan, files: PartFiles | None) -> RowSink:
    if files is None:
        aside = HASH if plan.hashes else None
        files = PartFiles(
            plan.storage, plan.location, plan.stem, plan.schema, plan.iceberg, aside=aside
        )
    return RowSink(plan.copy, files, _index_writer(plan) if plan.hashes else None)


def _index_writer(plan: ChunkPlan) -> IndexWriter:
    """What writes the row index of a copy."""
    io = open_storage(plan.storage, plan.location)
    return IndexWriter(io, plan.location, f"{plan.stem}.index")


class ReadChunk:
    """A chunk whose rows are all here, and not all written: its source is not needed any more."""

    def __init__(
        self, rows: Rows, sink: RowSink, tally: ChunkTally, proofs: FileProofs | None
    ) -> None:
        self.rows, self._sink, self._tally, self._proofs = rows, sink, tally, proofs

    def finish(self) -> ChunkReceipt:
        """Write what is held; return once the files are closed, on the disk where that is a local
        one, and compared with what the server said of their rows. On any failure they are removed.

        Raises:
            LakeError: a file could not be written, or not be read again.
        """
        seen = None
        with removed_on_failure(self.rows.part, self._sink, self._proofs):
            written = self._sink.finish()
            if self._proofs is not None:
                seen = self._proofs.end(self._sink.closed())
        if self.rows.part.near:
            give_back()
        failpoint("chunk.written")
        receipt = self._tally.receipt(written)
        place = self.rows.log_place() if self.rows.log_place is not None else None
        receipt = dataclasses.replace(receipt, sessions=self.rows.sessions, log_place=place)
        if self.rows.tallies is None:
            return receipt
        said = sum(self.rows.tallies(), NOTHING)
        if seen is None:
            receipt = _of_changes(self.rows.part, receipt, said.rows)
            return dataclasses.replace(receipt, source_rows=said.rows, source_digest=said.digest)
        return dataclasses.replace(
            receipt,
            source_rows=said.rows,
            source_keys=said.digest,
            source_digest=self._tally.hashes,
            proved=seen == Compared(said.rows, said.digest),
        )

    def discard(self) -> None:
        """Remove what was written of it; never raises."""
        if self._proofs is not None:
            self._proofs.stop()
        self._sink.discard()


def _of_changes(plan: ChunkPlan, receipt: ChunkReceipt, rows: int) -> ChunkReceipt:
    """A receipt of all the rows that a copy saw, where what changed came alone."""
    if plan.copy is None or not plan.copy.found.is_delta:
        return receipt
    return dataclasses.replace(receipt, rows=rows, written=receipt.rows)


@contextmanager
def removed_on_failure(
    plan: ChunkPlan, sink: RowSink | PartFiles, proofs: FileProofs | None = None
) -> Iterator[None]:
    """A chunk's files are removed where the block fails, and nothing reads them any more."""
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


class ChunkTally:
    """What a chunk's receipt reports of its rows, counted as they come.

    Args:
        seconds: how long the source was read before.
    """

    def __init__(self, plan: ChunkPlan, seen: SourcePosition, seconds: float = 0.0) -> None:
        self._plan, self._seen = plan, seen
        self._started = time.monotonic() - seconds
        self._seconds = 0.0
        self._rows = self._bytes = self._future = 0
        self._originals: Counter[str] = Counter()
        self._high: Any = None
        self._since: datetime | None = None
        self.hashes = 0
        """The sum of the hashes that came with the rows."""

    def add(self, rows: pa.Table) -> None:
        plan = self._plan
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if plan.hashes is not None:
            self.hashes += sum_of(rows.column(HASH))
        if ORIGINAL in rows.schema.names:
            self._originals.update(count_originals(rows.column(ORIGINAL)))
        self._future += _count_future(plan, rows, self._seen.clock)
        if COMMITTED_AT in rows.schema.names:
            first: datetime | None = pc.min(rows.column(COMMITTED_AT)).as_py()
            known = [one for one in (first, self._since) if one is not None]
            self._since = min(known, default=None)
        highest = _high(plan, rows)
        if highest is not None and (self._high is None or highest > self._high):
            self._high = highest

    def end_of_query(self) -> None:
        self._seconds = time.monotonic() - self._started

    def receipt(self, written: Sequence[WrittenFile]) -> ChunkReceipt:
        return ChunkReceipt(
            number=self._plan.number,
            rows=self._rows,
            bytes=sum(file.bytes for file in written),
            paths=tuple(file.path for file in written),
            moment=self._seen.clock,
            server=self._seen.server,
            position=self._seen.position,
            high=None if self._high is None else str(self._high),
            originals=dict(self._originals),
            future=self._future,
            query_seconds=self._seconds,
            read_bytes=self._bytes,
            metrics=tuple((file.path, file.metrics) for file in written),
            since=None if self._since is None else f"{self._since.replace(tzinfo=None)}",
        )


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
