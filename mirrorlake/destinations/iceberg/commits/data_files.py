"""Data files: rows as Parquet in the table's location, a file a partition, in bounded memory.

Partitions are raw days, or buckets of tenants. Rows are gathered by them; when they weigh more than
a budget, the heaviest partitions are written on as row groups of their open files. What a commit
must know of a file (rows, sizes, bounds per column) is taken from its writer, so that no footer is
read again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from threading import Lock
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.schema import Schema

from mirrorlake.destinations.iceberg.metadata.footers import FooterPlan, metrics_of
from mirrorlake.destinations.iceberg.metadata.metrics import FileMetrics
from mirrorlake.destinations.iceberg.storage.durable import flush_files, local_path, native
from mirrorlake.schema.own_columns import DAY

pc: Any = _compute  # its functions are made at import: type checkers see none of them

FilePart: TypeAlias = date | int
"""A raw day, or the number of a bucket."""

# Rows held before a row group is written, as Arrow: a quarter to an eighth of it in the file.
BUDGET_BYTES = 64 * 2**20
# A file may become one of a layer, whose folds open those that they need: moderate, as its own are.
FILE_BYTES = 32 * 2**20
# Each open file holds a descriptor and its columns' encoders.
OPEN_FILES = 64
# Of each open file, before Python sees it.
_BUFFERED_BYTES = 128 * 2**10
# From this many partitions on, closing their files in threads pays.
_MANY_PARTS = 4
_WRITERS = 2
# Rows that decide whether a column's values repeat.
_SAMPLE_ROWS = 8_192


@dataclass(frozen=True)
class WrittenFile:
    """One finished data file; ``metrics`` is what a commit says of it, as `FileMetrics` in JSON.

    ``aside``: what came with its rows and is not in it, in their order.
    """

    path: str
    bytes: int
    metrics: str
    aside: Any = field(default=None, compare=False, repr=False)


class _Summed:
    """A stream that a file is written to, and the SHA-256 of what went into it.

    Computed from the bytes on their way, so it says what the file must hold, whatever becomes of
    the file: reading the file again would bear witness to itself.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._sum = hashlib.sha256()
        self.closed = False

    def write(self, data: Any) -> int:
        self._sum.update(data)
        self._stream.write(data)
        return len(data)

    def tell(self) -> int:
        return self._stream.tell()

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: the caller that opened the stream closes it."""

    @property
    def checksum(self) -> str:
        return self._sum.hexdigest()


@dataclass(eq=False)
class _OpenFile:
    path: str
    sink: Any
    summed: _Summed
    buffered: Any
    writer: pq.ParquetWriter
    footers: list[Any]
    aside: list[Any] = field(default_factory=list[Any])


@dataclass
class _Held:
    rows: list[pa.Table] = field(default_factory=list)
    bytes: int = 0


class PartFiles:
    """Writes rows as they come; all files are named ``stem``, which carries load id and attempt.

    Args:
        storage: PyIceberg's properties of the table's storage.
        arrow: the rows' schema, with the table's field ids.
        schema: the table's schema as Iceberg's JSON; without it files come without metrics.
        by: the name of the partition, in their paths.
        aside: a column of the rows that is not written, and handed back with each file.
    """

    def __init__(
        self,
        storage: dict[str, str],
        location: str,
        stem: str,
        arrow: pa.Schema,
        schema: str | None = None,
        by: str = DAY,
        aside: str | None = None,
    ) -> None:
        self._io: FileIO = load_file_io(storage, location)
        self._location, self._stem, self._by = location, stem, by
        self._aside = aside
        self._handed = 0
        self.arrow = arrow
        self._plan = FooterPlan.of(Schema.model_validate_json(schema)) if schema else None
        self._parts: dict[FilePart, _Held] = {}
        self._open: dict[FilePart, _OpenFile] = {}
        self._unclosed: list[_OpenFile] = []
        self._counts: dict[FilePart, int] = {}
        self._paths: list[str] = []
        self._done: list[WrittenFile] = []
        self._held = 0
        self._newest: date | None = None
        self._in_order = True
        self._writers: ThreadPoolExecutor | None = None
        self._ending: deque[tuple[Future[None], int]] = deque()
        self._under_way = 0
        self._naming = Lock()

    def add(self, rows: pa.Table) -> None:
        """Take rows, of any days; they may be written now or later.

        While days come in order, those before the newest are complete: their files are written
        beside the read.
        """
        days, in_order = _by_day(rows)
        for day, of_day in days:
            self.add_to(day, of_day)
        if not days or not self._in_order:
            return
        last, self._newest = self._newest, days[-1][0]
        self._in_order = in_order and (last is None or days[0][0] >= last)
        before = {*self._parts, *self._open} - {self._newest}
        # One batch alone is no evidence.
        if self._in_order and last is not None and len(before) >= _MANY_PARTS:
            self._end_side_by_side(before)

    def add_to(self, part: FilePart, rows: pa.Table) -> None:
        """Take rows of one partition; they may be written now or later."""
        held = self._parts.setdefault(part, _Held())
        held.rows.append(rows)
        held.bytes += rows.nbytes
        self._held += rows.nbytes
        while self._held > BUDGET_BYTES:
            self._flush(max(self._parts, key=lambda p: self._parts[p].bytes))

    def closed(self) -> list[WrittenFile]:
        """The files that were closed since this was last called; what is held aside of them is
        not held here any more."""
        found = self._done[self._handed :]
        self._done[self._handed :] = [replace(one, aside=None) for one in found]
        self._handed = len(self._done)
        return found

    def finish(self) -> tuple[WrittenFile, ...]:
        """Write what is held and close every file; they are in the order of their paths, and on the
        disk where that is a local one."""
        self.complete()
        self._stop()
        flush_files(p for p in map(local_path, self._paths) if p is not None)
        return tuple(sorted(self._done, key=lambda f: f.path))

    def complete(self) -> None:
        """Write what is held and close every file: there are no more rows."""
        parts = sorted({*self._parts, *self._open}, key=str)
        if len(parts) < _MANY_PARTS:
            for part in parts:
                self._end(part, *self._taken(part))
        else:
            self._end_side_by_side(parts)
        self._wait(0)

    def _end_side_by_side(self, parts: Collection[FilePart]) -> None:
        """Each partition's last rows and the end of its file, two at once: encoding and compressing
        holds no interpreter's lock, and most files are too small to keep two cores busy."""
        self._writers = self._writers or ThreadPoolExecutor(_WRITERS, "files")
        for part in parts:
            held, opened = self._taken(part)
            future = self._writers.submit(self._end, part, held, opened)
            self._ending.append((future, held.bytes))
            self._under_way += held.bytes
        self._wait(BUDGET_BYTES)

    def _taken(self, part: FilePart) -> tuple[_Held, _OpenFile | None]:
        """What is held of a partition, and its open file: nobody else has them any more."""
        held = self._parts.pop(part, None) or _Held()
        self._held -= held.bytes
        return held, self._open.pop(part, None)

    def _wait(self, most: int) -> None:
        """Wait until fewer than ``most`` bytes are still to be written; 0: until none are."""
        while self._ending and self._under_way >= most:
            future, size = self._ending.popleft()
            future.result()
            self._under_way -= size

    def _stop(self) -> None:
        """Nobody writes any more once this is left: what is there may be removed."""
        if self._writers is not None:
            self._writers.shutdown(cancel_futures=True)

    def _end(self, part: FilePart, held: _Held, opened: _OpenFile | None) -> None:
        """Write a partition's last rows, and close its file."""
        if held.rows:
            opened = self._write(part, pa.concat_tables(held.rows), opened)
        if opened is not None:
            self._close(part, opened)

    def discard(self) -> None:
        """Remove everything that was written, finished or not; never raises."""
        self._stop()
        for opened in self._unclosed:
            # A sink on a full disk fails to close, a writer on a failed sink as well.
            with suppress(Exception):
                opened.writer.close()
            with suppress(Exception):
                opened.buffered.close()
            with suppress(Exception):
                opened.sink.close()
        for path in self._paths:
            with suppress(OSError):
                self._io.delete(path)

    def _flush(self, part: FilePart) -> None:
        held, opened = self._taken(part)
        opened = self._write(part, pa.concat_tables(held.rows), opened)
        # A first one is short where it is read again at once: else nobody reads while it is filled.
        first = self._aside is not None and not self._done
        if opened.buffered.tell() > (FILE_BYTES // 4 if first else FILE_BYTES):
            self._close(part, opened)
            return
        # The one that was written to last is the last in the dict.
        self._open[part] = opened
        if len(self._open) > OPEN_FILES:
            oldest = next(iter(self._open))
            self._close(oldest, self._open.pop(oldest))

    def _write(self, part: FilePart, rows: pa.Table, opened: _OpenFile | None) -> _OpenFile:
        """A row group of a partition's open file, or of a new one."""
        aside = None if self._aside is None else rows.column(self._aside)
        if aside is not None:
            rows = rows.select(self.arrow.names)
        opened = opened or self._new(part, rows)
        if aside is not None:
            opened.aside.append(aside)
        opened.writer.write_table(rows, row_group_size=rows.num_rows)
        return opened

    def _new(self, part: FilePart, rows: pa.Table) -> _OpenFile:
        with self._naming:  # a part that goes on after its file was ended gets another one
            number = self._counts[part] = self._counts.get(part, -1) + 1
        name = f"{self._stem}-{number}" if number else self._stem
        path = f"{self._location}/data/{self._by}={part}/{name}.parquet"
        self._paths.append(path)
        sink: Any = self._io.new_output(path).create(overwrite=True)
        footers: list[Any] = []
        summed = _Summed(native(sink))
        # Parquet writes a page in two pieces: through Python each of them costs a turn.
        buffered = pa.BufferedOutputStream(pa.PythonFile(summed, mode="w"), _BUFFERED_BYTES)
        writer = pq.ParquetWriter(
            buffered,
            self.arrow,
            compression="zstd",
            store_decimal_as_integer=True,
            use_dictionary=_repeating(rows),  # pyright: ignore[reportArgumentType]
            # The table's schema is Iceberg's; Arrow's own would only be read past.
            store_schema=False,
            metadata_collector=footers,
        )
        opened = _OpenFile(path, sink, summed, buffered, writer, footers)
        self._unclosed.append(opened)
        return opened

    def _close(self, part: FilePart, opened: _OpenFile) -> None:
        opened.writer.close()
        opened.buffered.flush()
        size = opened.sink.tell()
        native(opened.sink).close()  # flushed with the others, by `finish`
        self._unclosed.remove(opened)
        metrics = self._metrics(opened, part, size)
        chunks = [chunk for one in opened.aside for chunk in one.chunks]
        aside = pa.chunked_array(chunks) if chunks else None
        self._done.append(WrittenFile(opened.path, size, metrics, aside))

    def _metrics(self, opened: _OpenFile, part: FilePart, size: int) -> str:
        if self._plan is None:
            return ""
        found = metrics_of(opened.footers[0], self._plan, part, size)
        return replace(found, checksum=opened.summed.checksum).to_json()


def holds(io: FileIO, path: str, metrics: str, schema: Schema) -> bool:
    """Whether a file is there as its writer left it, by its size and its footer."""
    recorded = FileMetrics.from_json(metrics)
    file = io.new_input(path)
    try:
        if len(file) != recorded.size:
            return False
        with file.open(seekable=True) as stream:
            footer = pq.read_metadata(stream)
        return (
            metrics_of(footer, FooterPlan.of(schema), recorded.partition, recorded.size) == recorded
        )
    except (OSError, pa.ArrowInvalid, KeyError):  # KeyError: a column that the table lacks
        return False


def write_files(
    storage: dict[str, str], location: str, stem: str, rows: pa.Table, schema: str | None = None
) -> tuple[WrittenFile, ...]:
    """One file a raw day of rows that are all here.

    On any failure what was written is removed.

    Args:
        schema: the table's schema as Iceberg's JSON; without it files come without metrics.
    """
    files = PartFiles(storage, location, stem, rows.schema, schema)
    try:
        files.add(rows)
        written = files.finish()
    except BaseException:
        files.discard()
        raise
    return written


def _repeating(rows: pa.Table) -> list[str]:
    """The columns whose values come again: for all others a dictionary only costs (a fifth of the
    time of writing lineitem, and a tenth of its size). Of few rows only texts': a page of numbers
    is smaller without (a tenth of a day of flights, and a quarter of its time)."""
    if rows.num_rows < _SAMPLE_ROWS:
        of = (pa.types.is_nested, pa.types.is_large_string, pa.types.is_string)
        return [f.name for f in rows.schema if any(is_it(f.type) for is_it in of)]
    sample = rows.slice(0, _SAMPLE_ROWS)
    return [
        f.name
        for f in rows.schema
        if pa.types.is_nested(f.type)
        or pc.count_distinct(sample.column(f.name)).as_py() < _SAMPLE_ROWS // 2
    ]


def _by_day(rows: pa.Table) -> tuple[list[tuple[date, pa.Table]], bool]:
    """The rows of each raw day, by day, and whether the days came in order; rows of one day keep
    theirs."""
    if rows.num_rows == 0:
        return [], True
    days = rows.column(DAY).combine_chunks()
    span = pc.min_max(days).as_py()
    if span["min"] == span["max"]:
        return [(span["min"], rows)], True
    numbers = days.cast(pa.int32()).to_numpy(zero_copy_only=False)
    in_order = not (numbers[1:] < numbers[:-1]).any()
    if not in_order:
        order = numbers.argsort(kind="stable")
        rows, numbers = rows.take(pa.array(order)), numbers[order]
    starts = [0, *((numbers[1:] != numbers[:-1]).nonzero()[0] + 1), len(numbers)]
    ordered = rows.column(DAY)
    found = [
        (ordered[int(start)].as_py(), rows.slice(int(start), int(end - start)))
        for start, end in pairwise(starts)
    ]
    return found, in_order
