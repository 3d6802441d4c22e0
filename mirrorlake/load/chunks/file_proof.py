"""The files of a chunk, read again as they are closed, and compared row by row with what the
server said of each row.

It runs beside the read, in threads of its own: the server hashes the next rows meanwhile. What
is held is the hashes of rows whose file is not compared yet, eight bytes each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.destinations.iceberg.commits.data_files import WrittenFile
from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.destinations.iceberg.reading.plain_files import has_columns, has_types
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.errors import LakeError
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.proof.sides.duckdb_forms import FileRows
from mirrorlake.proof.sides.server_hashes import (
    UNKNOWN,
    Compared,
    ServerHashes,
    compare_file,
    compare_rows,
)

MOST_WAITING = 4
"""So many closed files may wait: then the read waits for them."""
_THREADS = 2
"""How many parts of a file are compared at the same time. Nothing is left to overlap with the last
file, so it decides how long a load waits."""
_WORTH_PARTS = 200_000
"""Rows of a file that is worth it."""
_WORTH_THREAD = 5_000
"""With fewer rows than this a thread takes longer to start than they to compare."""
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
        self._waiting = deque[list[Future[Compared]]]()
        self._found = Compared()

    def begin(self, files: Sequence[WrittenFile]) -> None:
        """Compare files that are closed, beside whatever is read meanwhile."""
        for file in files:
            rows = 0 if file.aside is None else len(file.aside)
            if self._pool is None and rows < _WORTH_THREAD:
                self._found += self._compare(file)
                continue
            if len(self._waiting) >= MOST_WAITING:
                self._take_first()
            self._pool = self._pool or ThreadPoolExecutor(_THREADS, "prove")
            parts = _THREADS if rows > _WORTH_PARTS else 1
            self._waiting.append(
                [self._pool.submit(self._compare, file, part, parts) for part in range(parts)]
            )

    def end(self, files: Sequence[WrittenFile]) -> Compared:
        """Compare the last files; what all of them say."""
        self.begin(files)
        while self._waiting:
            self._take_first()
        self.stop()
        return self._found

    def stop(self) -> None:
        """Compare nothing more; no file is open when this returns."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _take_first(self) -> None:
        for part in self._waiting.popleft():
            self._found += part.result()

    def _compare(self, file: WrittenFile, part: int = 0, parts: int = 1) -> Compared:
        """What one of a file's parts says, which are row groups one after the other."""
        if file.aside is None or file.aside.null_count:
            return UNKNOWN
        io = open_storage(self._plan.storage, self._plan.location)
        try:
            with io.new_input(file.path).open(seekable=True) as stream:
                found = pq.ParquetFile(stream)
                if not has_columns(found.schema_arrow, self._plan.schema, self._hashes.names):
                    return UNKNOWN
                mine = _Part.of(found.metadata, part, parts)
                said = file.aside[mine.first : mine.until].to_numpy()
                return self._by_duckdb(file.path, found, mine, said) or compare_rows(
                    self._hashes, self._rows(found, mine), said
                )
        except (OSError, pa.ArrowException) as error:
            raise LakeError(
                f"data file {file.path} of {self._plan.name} can't be read again, just after it "
                f"was written ({type(error).__name__})",  # its words may hold a row's value
                table=self._plan.name,
                next_step="Nothing of this load is visible. See that the storage gives back what "
                "it was given, then sync again",
                retryable=True,
            ) from error

    def _by_duckdb(
        self, path: str, file: pq.ParquetFile, mine: _Part, said: Any
    ) -> Compared | None:
        """What a file says that DuckDB can read by itself; None of any other."""
        names, local = self._hashes.names, local_path(path)
        if local is None or not has_types(file.schema_arrow, self._plan.schema, names):
            return None
        rows = FileRows(str(local), mine.first, mine.until, _filled(file.metadata))
        return compare_file(self._hashes, rows, said)

    def _rows(self, file: pq.ParquetFile, mine: _Part) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self._plan.schema.field(name) for name in self._hashes.names])
        wanted = wanted.remove_metadata()
        groups = list(mine.groups)
        for rows in file.iter_batches(
            _AT_ONCE, row_groups=groups, columns=wanted.names, use_threads=False
        ):
            arrays = [rows.column(field.name).cast(field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(arrays, names=wanted.names)


@dataclass(frozen=True)
class _Part:
    """Some row groups of a file.

    Attributes:
        first, until: its rows, by their place in the file; None: to the end, whatever comes there.
    """

    groups: range
    first: int
    until: int | None

    @classmethod
    def of(cls, footer: pq.FileMetaData, part: int, parts: int) -> _Part:
        """Which of a file's row groups are one of its parts."""
        count = footer.num_row_groups
        groups = range(part * count // parts, (part + 1) * count // parts)
        ends = [0]
        for number in range(count):
            ends.append(ends[-1] + footer.row_group(number).num_rows)
        until = None if groups.stop == count else ends[groups.stop]
        return cls(groups, ends[groups.start], until)


def _filled(footer: pq.FileMetaData) -> set[str]:
    """The columns that have no NULL, by what the file says. Where that is wrong, a row has another
    form than the server's."""
    found: set[str] = set()
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for place in range(footer.num_columns):
        counted = [group.column(place).statistics for group in groups]
        if all(one is not None and one.null_count == 0 for one in counted):
            found.add(footer.schema.column(place).path)
    return found
