"""Chunk tasks: the chunks of a load run here, or each as a task of Spark, and are tried again.

A chunk that fails in a way that a later attempt may not meet (a lost connection, a deadlock, a
killed worker) is read again after a pause; what other chunks have read stays. Every attempt writes
files under names of its own, so a worker that was wrongly taken for dead can't overwrite the files
of the attempt that replaced it.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pyarrow as pa

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import LakeError, MirrorlakeError, ReadGivenUp, SourceBusy, SourceError
from mirrorlake.load.chunks.chunk_task import ReadChunk, load_chunk, take_in
from mirrorlake.load.chunks.finishing import Finishing, Record
from mirrorlake.load.chunks.receipt import ChunkReceipt, receipt_from_json, receipt_to_json
from mirrorlake.load.chunks.row_source import RowSource
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.runtime.permissions import Permissions, held
from mirrorlake.sources.mysql.reading.limits import reading, share_of
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.table.progress import Pace

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

ATTEMPTS = 4
PAUSE_SECONDS = 1.0


def reads_on_spark(chunks: Sequence[ChunkPlan], spark: LazySpark) -> bool:
    """Whether chunks become tasks of Spark, rather than being read here."""
    return len(chunks) > 1 and spark.is_worth_tasks()


def run_chunks(
    chunks: Sequence[ChunkPlan],
    source: RowSource,
    spark: LazySpark,
    pace: Pace,
    heed: Heed,
    record: Record,
) -> Iterator[ChunkReceipt]:
    """The chunks' receipts as they finish, each chunk read exactly once.

    Without a Spark that has more cores than one stream keeps busy, chunks are read here one after
    the other: a stream's reader, its conversion and the server use two cores between them. Either
    way each reads by one of its source's ``connections``, which all threads of this process share.

    Args:
        heed: called while chunks are read; raises to give the load up.
        record: called with each receipt before it is yielded, in whatever thread.

    Raises:
        MirrorlakeError: a chunk failed for good; the caller owns the others' files.
    """
    if not reads_on_spark(chunks, spark):
        yield from _read_here(chunks, source, pace, heed, record)
        return
    session = spark.get()

    def on_spark(plan: ChunkPlan) -> ChunkReceipt:
        with reading(plan.source):
            heed()
            plan = dataclasses.replace(plan, source=share_of(plan.source))
            receipt = _run_on_spark(session, plan, source, spark.permissions)
        pace.advance(receipt.rows, receipt.read_bytes)
        return receipt

    with ThreadPoolExecutor(min(chunks[0].source.connections, len(chunks)), "chunk") as pool:
        for receipt in _as_they_finish(
            {pool.submit(patiently, chunk, on_spark, heed) for chunk in chunks}
        ):
            yield receipt
            record(receipt)


def _read_here(
    chunks: Sequence[ChunkPlan], source: RowSource, pace: Pace, heed: Heed, record: Record
) -> Iterator[ChunkReceipt]:
    """Chunks one after the other; while one is read, the one before is finished.

    One read at a time, whatever ``connections`` allow: a chunk is begun when the statement of the
    one before has ended.
    """
    with Finishing(record) as finishing:

        def heeded() -> None:
            heed()
            # A full disk is no reason to read on.
            finishing.check()

        def here(plan: ChunkPlan) -> ReadChunk:
            with reading(plan.source):
                return take_in(plan, source, pace.advance, heeded)

        try:
            for chunk in chunks:
                read = patiently(chunk, here, heeded)
                try:
                    yield from finishing.receipts()
                except BaseException:
                    read.discard()
                    raise
                finishing.begin(read)
            yield from finishing.receipts()
        except GeneratorExit:
            raise
        except BaseException:
            # What was finished meanwhile stays, for the run that goes on from there.
            yield from finishing.receipts()
            raise


def _as_they_finish(waiting: set[Future[ChunkReceipt]]) -> Iterator[ChunkReceipt]:
    """The chunks' receipts, those too that were being read when another chunk failed."""
    failed: Future[ChunkReceipt] | None = None
    try:
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                if future.cancelled():
                    continue
                if future.exception() is None:
                    yield future.result()
                elif failed is None:
                    failed = future
                    for other in waiting:
                        other.cancel()
    finally:
        for future in waiting:
            future.cancel()
    if failed is not None:
        failed.result()


def patiently(
    chunk: ChunkPlan,
    run: Callable[[ChunkPlan], _T],
    heed: Heed | None = None,
    *,
    attempts: int = ATTEMPTS,
    at_once: tuple[type[MirrorlakeError], ...] = (SourceBusy, ReadGivenUp),
) -> _T:
    """Run one chunk, and run it again where the failure may pass.

    Args:
        at_once: errors that another attempt does not pass: by default those by which the load as a
            whole is to leave the source alone.
    """
    for number in range(attempts):
        try:
            return run(dataclasses.replace(chunk, retry=number))
        except at_once:
            raise
        except MirrorlakeError as error:
            if heed is not None:
                heed()  # a connection that was lost because the read was ended
            # A value that does not fit its column will not fit it in a second either.
            if not error.retryable or error.column or number + 1 == attempts:
                raise
            pause = PAUSE_SECONDS * 2**number
            logger.warning(
                "table %s load %s chunk %d: %s; read again in %g s",
                *(chunk.name, chunk.load_id, chunk.number, error, pause),
            )
            time.sleep(pause)
    raise AssertionError("unreachable")


def _run_on_spark(
    session: Any, plan: ChunkPlan, source: RowSource, permissions: Permissions
) -> ChunkReceipt:
    """One chunk as one task of one job; its own errors come back as they are."""

    def run_chunk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                yield pa.RecordBatch.from_pydict({"answer": [_answer(plan, source, permissions)]})

    with _deaths_are_retryable(plan.name), spark_errors(plan.name):
        # One row: one task. mapInArrow works on a cluster and through Spark Connect alike.
        found = session.range(0, 1, 1, 1).mapInArrow(cast(Any, run_chunk), "answer string")
        (row,) = found.collect()
    answer = json.loads(row.answer)
    if "error" in answer:
        raise _KINDS[answer["kind"]](**answer["error"])
    return receipt_from_json(answer["receipt"])


@contextmanager
def _deaths_are_retryable(table: str) -> Generator[None]:
    """Spark's own failures (a worker that was killed, an executor that was lost) may pass."""
    try:
        yield
    except LakeError as error:
        if not _DEATHS.search(str(error.__cause__)):
            raise
        raise LakeError(
            f"a Spark worker ended while it read a chunk of table {table}",
            table=table,
            next_step="See Spark's log for its end (memory, most often), and sync again",
            retryable=True,
        ) from error


# What a task's error is, where its kind decides what follows.
_KINDS = {kind.__name__: kind for kind in (SourceError, SourceBusy, LakeError)}

_DEATHS = re.compile(
    r"worker (crashed|exited)|exited unexpectedly|ExecutorLost|Connection reset|EOFException"
)


def _answer(plan: ChunkPlan, source: RowSource, permissions: Permissions) -> str:
    """Runs on a worker, whose umask is its own: the chunk's receipt, or its error, as JSON."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None:
        # Spark may run a task again by itself.
        plan = dataclasses.replace(plan, task=f"t{context.taskAttemptId()}")
    try:
        with held(permissions):
            return json.dumps({"receipt": receipt_to_json(load_chunk(plan, source))})
    except MirrorlakeError as error:
        fields = {
            "message": error.message,
            "next_step": error.next_step,
            "retryable": error.retryable,
            "source": plan.source.name,
            "table": error.table,
            "column": error.column,
        }
        kind = type(error).__name__
        return json.dumps({"error": fields, "kind": kind if kind in _KINDS else "SourceError"})
