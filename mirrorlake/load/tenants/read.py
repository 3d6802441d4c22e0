"""One batch of tenants: read from MySQL in one statement, written by buckets, and tallied from the
files that were written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.destinations.iceberg.data_files import PartFiles, WrittenFile
from mirrorlake.destinations.iceberg.model import Storage, open_storage
from mirrorlake.destinations.iceberg.originals import count_originals
from mirrorlake.destinations.iceberg.spark import LazySpark
from mirrorlake.destinations.iceberg.tenants import PARTITION, bucket_of
from mirrorlake.errors import LakeError
from mirrorlake.load.chunk_statements import ChunkPlan
from mirrorlake.load.chunk_task import OnRows, check_server, gathered, read_rows
from mirrorlake.load.convert import exact_rows
from mirrorlake.load.digest import digest_of
from mirrorlake.load.tenants.batches import (
    TENANT,
    Batch,
    digests_statement,
    rows_statement,
    tallies,
)
from mirrorlake.proof.loaded import tally_by_spark, tally_table
from mirrorlake.proof.ranges import NOTHING, Tally
from mirrorlake.proof.rows import RowForm
from mirrorlake.schema.own_columns import DATABASE, ORIGINAL, SOURCE
from mirrorlake.sources.mysql.connect import SourcePosition, read_position, session
from mirrorlake.sources.mysql.limits import reading
from mirrorlake.sources.mysql.reader import Question
from mirrorlake.sources.mysql.route import Heed
from mirrorlake.sources.mysql.throttle import wait_while_busy


@dataclass(frozen=True)
class ReadBatch:
    """What was read of a batch; lists are by the tenants' numbers.

    Attributes:
        counts: rows that were read.
        source: rows and digests as MySQL says, in the state that was read; None: it was not asked.
        moment, position: the source's UTC clock, and where it stood, just before.
        digest: as a receipt's.
    """

    files: tuple[WrittenFile, ...]
    counts: tuple[int, ...]
    source: tuple[Tally, ...] | None
    server: str
    moment: datetime
    position: str
    digest: int
    originals: dict[str, int]
    query_seconds: float
    read_bytes: int


def read_batch(
    batch: Batch,
    chunk: ChunkPlan,
    schema: pa.Schema,
    rows: RowForm | None,
    report: OnRows,
    heed: Heed,
) -> ReadBatch:
    """Read a batch and write its files; on any failure they are removed.

    Args:
        chunk: how the rows of any of its tenants are read, and where they go.
        schema: the raw table's, with the tenant's columns, which ``chunk`` does not know.
        rows: the form by which the server digests the rows; None: it does not.

    Raises:
        SourceError: MySQL was lost, refused, or another server answered.
        SourceBusy: it did not come to rest.
        LakeError: a file could not be written.
    """
    files = PartFiles(chunk.storage, chunk.location, chunk.stem, schema, chunk.iceberg, PARTITION)
    try:
        with reading(chunk.source):
            return _read(batch, chunk, files, rows, report, heed)
    except OSError as error:
        files.discard()
        raise LakeError(
            f"a data file of {chunk.table} could not be written: {error.strerror or error}",
            table=chunk.name,
            next_step="See that the warehouse has room and can be written, then sync again",
        ) from error
    except BaseException:
        files.discard()
        raise


def _read(
    batch: Batch,
    chunk: ChunkPlan,
    files: PartFiles,
    rows: RowForm | None,
    report: OnRows,
    heed: Heed,
) -> ReadBatch:
    with session(chunk.source, chunk.database) as connection:
        wait_while_busy(connection, chunk.source, chunk.name, chunk.load_id)
        seen = read_position(connection)
    check_server(chunk, seen)
    question = Question(digests_statement(batch, rows, chunk.load_id)) if rows else None
    split = _Split(batch, chunk, files)
    started, size = time.monotonic(), 0
    statement = partial(rows_statement, batch, chunk, seen)
    for found in gathered(read_rows(chunk, statement, seen, question, heed)):
        size += split.add(found, seen)
        report(found.num_rows, found.nbytes)
    seconds = time.monotonic() - started
    return ReadBatch(
        files=files.finish(),
        counts=tuple(int(count) for count in split.counts),
        source=tuple(tallies(question.answer)) if question else None,
        server=seen.server,
        moment=seen.clock,
        position=seen.position,
        digest=split.digest % 2**64,
        originals=dict(split.originals),
        query_seconds=seconds,
        read_bytes=size,
    )


class _Split:
    """A batch's rows on their way into the files of their buckets, and what is counted of them."""

    def __init__(self, batch: Batch, chunk: ChunkPlan, files: PartFiles) -> None:
        self._chunk, self._files = chunk, files
        self._names = pa.array(batch.databases, pa.large_string())
        self._buckets = np.array([bucket_of(name) for name in batch.databases])
        self._schema = files.arrow
        self.counts = np.zeros(len(batch.plans), dtype=np.int64)
        self.digest = 0
        self.originals: Counter[str] = Counter()

    def add(self, found: pa.Table, seen: SourcePosition) -> int:
        """Take rows as the server gave them; their bytes when they are exact."""
        numbers = found.column(TENANT).cast(pa.int64()).combine_chunks()
        rows = exact_rows(self._chunk, found, seen.position)
        of = numbers.to_numpy(zero_copy_only=False)
        self.counts += np.bincount(of, minlength=len(self.counts))
        self.digest += digest_of(rows.select([e.name for e in self._chunk.columns]))
        if ORIGINAL in rows.schema.names:
            self.originals.update(count_originals(rows.column(ORIGINAL)))
        whole = self._with_tenant(rows, numbers)
        buckets = self._buckets[of]
        if (buckets[1:] < buckets[:-1]).any():
            order = buckets.argsort(kind="stable")
            whole, buckets = whole.take(pa.array(order)), buckets[order]
        for start, end in runs(buckets):
            self._files.add_to(int(buckets[start]), whole.slice(start, end - start))
        return rows.nbytes

    def _with_tenant(self, rows: pa.Table, numbers: Any) -> pa.Table:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns[SOURCE] = pa.repeat(pa.scalar(self._chunk.source.name), rows.num_rows)
        columns[DATABASE] = self._names.take(numbers)
        arrays = [columns[f.name].cast(f.type) for f in self._schema]
        return pa.Table.from_arrays(arrays, schema=self._schema)


def runs(values: Any) -> Iterator[tuple[int, int]]:
    """The half-open ranges of places with equal values.

    >>> import numpy as np
    >>> list(runs(np.array([7, 7, 9])))
    [(0, 2), (2, 3)]
    """
    if len(values):
        starts = [0, *((values[1:] != values[:-1]).nonzero()[0] + 1), len(values)]
        for start, end in pairwise(starts):
            yield int(start), int(end)


# --- what the files hold --------------------------------------------------------------------------

_AT_ONCE = 20_000


def find_unequal(
    batch: Batch,
    chunk: ChunkPlan,
    files: Sequence[WrittenFile],
    form: RowForm,
    wanted: Sequence[Tally],
    spark: LazySpark,
) -> dict[int, Tally]:
    """The tenants whose rows in the files are not what is wanted, by number, and what they are. The
    files are read again, so that whatever was lost on the way into them is seen.

    Raises:
        LakeError: a file can't be read, or Spark failed.
    """
    table = batch.lead.table
    found = _tallies(batch, chunk, files, form, partial(tally_table, spark.get, table, form))
    differing = {n for n, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b}
    if not differing:
        return {}
    # Without Spark, a form may be said otherwise than MySQL says it: Spark has the verdict.
    names = {batch.databases[number] for number in differing}
    by_spark = partial(tally_by_spark, spark.get, table, form)
    found = _tallies(batch, chunk, files, form, by_spark, names)
    return {number: found[number] for number in differing if found[number] != wanted[number]}


def _tallies(
    batch: Batch,
    chunk: ChunkPlan,
    files: Sequence[WrittenFile],
    form: RowForm,
    tally: Callable[[pa.Table], Tally],
    only: Collection[str] = (),
) -> list[Tally]:
    """Rows and digests of each tenant as the files have them, by the tenants' numbers."""
    io = open_storage(chunk.storage, chunk.location)
    numbers = {name: number for number, name in enumerate(batch.databases)}
    found = [NOTHING] * len(batch.plans)
    names = [cell.name for cell in form.cells] + ([ORIGINAL] if form.originals else [])
    for rows in _batches(io, [file.path for file in files]):
        databases = rows.column(DATABASE).combine_chunks().dictionary_encode()
        words = databases.dictionary.to_pylist()
        codes = databases.indices.to_numpy(zero_copy_only=False)
        for start, end in runs(codes):
            name = words[codes[start]]
            if not only or name in only:
                found[numbers[name]] += tally(rows.slice(start, end - start).select(names))
    return found


def _batches(io: Storage, paths: Sequence[str]) -> Iterator[pa.Table]:
    for path in paths:
        try:
            with io.new_input(path).open(seekable=True) as stream:
                for found in pq.ParquetFile(stream).iter_batches(_AT_ONCE):
                    yield pa.Table.from_batches([found])
        except (OSError, pa.ArrowInvalid) as error:
            raise LakeError(
                f"the data file {path}, which was just written, can't be read: {error}",
                next_step="Check the warehouse's storage, then sync again",
                retryable=True,  # each attempt writes its own files
            ) from error
