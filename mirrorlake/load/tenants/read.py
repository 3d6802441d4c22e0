"""One batch of tenants: read from MySQL in one statement, written by buckets, and tallied from the
files that were written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.destinations.iceberg.commits.data_files import PartFiles
from mirrorlake.destinations.iceberg.model import Storage, open_storage
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.destinations.iceberg.tables.tenants import PARTITION, bucket_of
from mirrorlake.errors import LakeError
from mirrorlake.load.chunks.chunk_task import OnRows, take_in
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.chunks.select_rows import SelectRows
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.load.tenants.batches import TENANT, Batch, digests_statement, rows_statement
from mirrorlake.proof.comparing.load_proof import tally_by_spark, tally_table
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.ranges.ranges import NOTHING, Tally
from mirrorlake.schema.own_columns import DATABASE, ORIGINAL, SOURCE
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.sources.mysql.reading.reader import Question
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.sessions.connect import SourcePosition


@dataclass(frozen=True)
class ReadBatch:
    """What was read of a batch; lists are by the tenants' numbers.

    Attributes:
        counts: rows that were read.
        source: rows and digests as MySQL says, in the state that was read; None: it was not asked.
    """

    receipt: ChunkReceipt
    counts: tuple[int, ...]
    source: tuple[Tally, ...] | None


def read_batch(
    batch: Batch, chunk: ChunkPlan, schema: pa.Schema, report: OnRows, heed: Heed | None = None
) -> ReadBatch:
    """Read a batch and write its files; on any failure they are removed.

    Args:
        chunk: how the rows of any of its tenants are read, and where they go.
        schema: the raw table's, with the tenant's columns, which ``chunk`` does not know.

    Raises:
        SourceError: MySQL was lost, refused, or another server answered.
        SourceBusy: it did not come to rest.
        LakeError: a file could not be written.
    """
    source = _TenantRows(batch, schema)
    files = ByBucket(chunk.storage, chunk.location, chunk.stem, schema, chunk.iceberg, PARTITION)
    with reading(chunk.source):
        read = take_in(chunk, source, report, heed, files)
        receipt = read.finish()
    said = read.rows.tallies
    counts = tuple(int(count) for count in source.counts)
    return ReadBatch(receipt, counts, None if said is None else tuple(said()))


class _TenantRows(SelectRows):
    """A batch's rows, each with its tenant; read once."""

    def __init__(self, batch: Batch, schema: pa.Schema) -> None:
        self._batch, self._schema = batch, schema
        self._names = pa.array(batch.databases, pa.large_string())
        self.counts = np.zeros(len(batch.plans), dtype=np.int64)

    def _statement(self, part: ChunkPlan, seen: SourcePosition, session: int | None) -> str:
        return rows_statement(self._batch, part, seen, session)

    def _question(self, part: ChunkPlan) -> Question | None:
        if part.digest is None:
            return None
        return Question(digests_statement(self._batch, part.digest, part.load_id))

    def _exact(self, part: ChunkPlan, found: pa.Table, seen: SourcePosition) -> pa.Table:
        numbers = found.column(TENANT).cast(pa.int64()).combine_chunks()
        of = numbers.to_numpy(zero_copy_only=False)
        self.counts += np.bincount(of, minlength=len(self.counts))
        rows = super()._exact(part, found, seen)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns[SOURCE] = pa.repeat(pa.scalar(part.source.name), rows.num_rows)
        columns[DATABASE] = self._names.take(numbers)
        arrays = [columns[f.name].cast(f.type) for f in self._schema]
        return pa.Table.from_arrays(arrays, schema=self._schema)


class ByBucket(PartFiles):
    """Files of buckets of tenants."""

    def add(self, rows: pa.Table) -> None:
        databases = rows.column(DATABASE).combine_chunks().dictionary_encode()
        of_name = np.array([bucket_of(name) for name in databases.dictionary.to_pylist()])
        buckets = of_name[databases.indices.to_numpy(zero_copy_only=False)]
        if (buckets[1:] < buckets[:-1]).any():
            order = buckets.argsort(kind="stable")
            rows, buckets = rows.take(pa.array(order)), buckets[order]
        for start, end in runs(buckets):
            self.add_to(int(buckets[start]), rows.slice(start, end - start))


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
    paths: Sequence[str],
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
    found = _tallies(batch, chunk, paths, form, partial(tally_table, spark.get, table, form))
    differing = {n for n, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b}
    if not differing:
        return {}
    # Without Spark, a form may be said otherwise than MySQL says it: Spark has the verdict.
    names = {batch.databases[number] for number in differing}
    by_spark = partial(tally_by_spark, spark.get, table, form)
    found = _tallies(batch, chunk, paths, form, by_spark, names)
    return {number: found[number] for number in differing if found[number] != wanted[number]}


def _tallies(
    batch: Batch,
    chunk: ChunkPlan,
    paths: Sequence[str],
    form: RowForm,
    tally: Callable[[pa.Table], Tally],
    only: Collection[str] = (),
) -> list[Tally]:
    """Rows and digests of each tenant as the files have them, by the tenants' numbers."""
    io = open_storage(chunk.storage, chunk.location)
    numbers = {name: number for number, name in enumerate(batch.databases)}
    found = [NOTHING] * len(batch.plans)
    names = [cell.name for cell in form.cells] + ([ORIGINAL] if form.originals else [])
    for rows in _batches(io, paths):
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
