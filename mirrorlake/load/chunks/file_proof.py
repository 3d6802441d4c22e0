"""The files of a chunk, read again as they are closed, and compared row by row with what the
server said of each row.

It runs beside the read, in a thread of its own: the server hashes the next rows meanwhile. What
is held is the hashes of rows whose file is not compared yet, eight bytes each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.destinations.iceberg.commits.data_files import WrittenFile
from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.errors import LakeError
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.proof.sides.server_hashes import UNKNOWN, Compared, ServerHashes, compare_rows

MOST_WAITING = 4
"""So many closed files may wait: then the read waits for them."""
_AT_ONCE = 32_768
"""Rows of a file that are decoded at once."""


class FileProofs:
    """Compares a chunk's files with the hashes that came with their rows.

    Raises (`begin` and `end`):
        LakeError: a file could not be read again.
    """

    def __init__(self, plan: ChunkPlan, hashes: ServerHashes) -> None:
        self._plan, self._hashes = plan, hashes
        self._pool: ThreadPoolExecutor | None = None
        self._waiting = deque[Future[Compared]]()
        self._found = Compared()

    def begin(self, files: Sequence[WrittenFile]) -> None:
        """Compare files that are closed, beside whatever is read meanwhile."""
        for file in files:
            if len(self._waiting) >= MOST_WAITING:
                self._found += self._waiting.popleft().result()
            self._pool = self._pool or ThreadPoolExecutor(1, "prove")
            self._waiting.append(self._pool.submit(self._compare, file))

    def end(self, files: Sequence[WrittenFile]) -> Compared:
        """Compare the last files; what all of them say."""
        while self._waiting:
            self._found += self._waiting.popleft().result()
        for file in files:
            self._found += self._compare(file)
        self.stop()
        return self._found

    def stop(self) -> None:
        """Compare nothing more; no file is open when this returns."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _compare(self, file: WrittenFile) -> Compared:
        if file.aside is None or file.aside.null_count:
            return UNKNOWN
        io = open_storage(self._plan.storage, self._plan.location)
        try:
            with io.new_input(file.path).open(seekable=True) as stream:
                found = pq.ParquetFile(stream)
                if not _has_columns(found.schema_arrow, self._plan.schema, self._hashes.names):
                    return UNKNOWN
                return compare_rows(self._hashes, self._rows(found), file.aside.to_numpy())
        except (OSError, pa.ArrowException) as error:
            raise LakeError(
                f"data file {file.path} of {self._plan.name} can't be read again, just after it "
                f"was written ({type(error).__name__})",  # its words may hold a row's value
                table=self._plan.name,
                next_step="Nothing of this load is visible. See that the storage gives back what "
                "it was given, then sync again",
                retryable=True,
            ) from error

    def _rows(self, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self._plan.schema.field(name) for name in self._hashes.names])
        wanted = wanted.remove_metadata()
        for rows in file.iter_batches(_AT_ONCE, columns=wanted.names, use_threads=False):
            arrays = [rows.column(field.name).cast(field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(arrays, names=wanted.names)


def _has_columns(file: pa.Schema, table: pa.Schema, names: Sequence[str]) -> bool:
    """Whether a file has these columns of the table, under the table's own field ids."""

    def ids(schema: pa.Schema) -> dict[str, bytes | None]:
        return {f.name: (f.metadata or {}).get(b"PARQUET:field_id") for f in schema}

    theirs, ours = ids(file), ids(table)
    return all(name in theirs and theirs[name] == ours[name] for name in names)
