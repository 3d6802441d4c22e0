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
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.config import SourceConfig
from mirrorlake.datafile import DayFiles, WrittenFile
from mirrorlake.digest import digest_of
from mirrorlake.errors import LakeError, SourceError
from mirrorlake.failpoint import failpoint
from mirrorlake.lake.originals import count_originals
from mirrorlake.lake.tables import (
    DAY,
    DELETED,
    KEY,
    LOAD,
    LOADED_AT,
    ORIGINAL,
    POSITION,
    SEQ,
    TOKEN,
)
from mirrorlake.mysql.calendar import dates_of, datetimes_of
from mirrorlake.mysql.calm import await_calm
from mirrorlake.mysql.connect import SourcePosition, quote, read_position, session
from mirrorlake.mysql.guard import mark
from mirrorlake.mysql.read import BATCH_ROWS, WITNESS, Question, read_batches, witness
from mirrorlake.mysql.route import Heed
from mirrorlake.schema import Exact

# What is made exact at once, at most (and at least one batch).
GATHERED_BYTES = 8 * 2**20

logger = logging.getLogger(__name__)

pc: Any = _compute  # its functions are made at import: type checkers see none of them

_DECODERS = {"date": dates_of, "datetime": datetimes_of}


@dataclass(frozen=True)
class ChunkPlan:
    """Everything that one chunk's task must know. It holds the source's password: never log it.

    Attributes:
        number: the chunk's number in its load, in its files' names.
        where: the SQL condition of the chunk, '' for the whole table.
        day_column: the column whose date is the raw day, or None: then every row gets ``day``.
        cursor: the time column to compare with the source's clock, or None.
        server: the server that must answer, '' if any may.
        iceberg: the raw table's schema as Iceberg's JSON: what files' metrics are told by.
        retry, task: which reading of the chunk this is: files of two readings never share a name.
        batch_rows: how many rows are held at once while they are read.
        braked: whether the reader must be kept from running ahead of the files: rows may be large.
        digest: SQL of a row's digest in MySQL, by the proof's forms: the server is asked for the
            chunk's rows and digest, in the very state that is read; None: it is not.
        told: columns of raw (`_mirror_key`, `_mirror_token`) that hold the server's word on what is
            equal, and the SQL of their bytes.
    """

    source: SourceConfig
    database: str
    table: str
    columns: tuple[Exact, ...]
    schema: pa.Schema
    location: str
    storage: dict[str, str]
    load_id: str
    attempt: int
    seq: int
    number: int
    where: str
    day: date
    day_column: str | None
    cursor: str | None
    server: str
    told: tuple[tuple[str, str], ...] = ()
    iceberg: str | None = None
    digest: str | None = None
    batch_rows: int = BATCH_ROWS
    braked: bool = False
    retry: int = 0
    task: str = ""

    @property
    def name(self) -> str:
        """``source.database.table``."""
        return f"{self.source.name}.{self.database}.{self.table}"

    @property
    def stem(self) -> str:
        """The name of its files: load and attempt, the chunk's number, and the reading."""
        again = f"r{self.retry}" if self.retry else ""
        return f"{self.load_id}-{self.attempt}-{self.number:05d}{again}{self.task}"


@dataclass(frozen=True)
class ChunkReceipt:
    """What one chunk saw and wrote; see `mirrorlake.ledger.Receipt` for the words.

    ``originals`` are counted by column. ``read_bytes`` are those of its rows in memory; ``metrics``
    are pairs of a path and what a commit says of it; without, its footer is read. ``source_rows``
    and ``source_digest`` are what the server said of the state that was read, where it was asked.
    """

    number: int
    rows: int
    bytes: int
    paths: tuple[str, ...]
    digest: int
    moment: datetime
    server: str
    position: str
    high: str | None
    originals: dict[str, int]
    future: int
    query_seconds: float
    metrics: tuple[tuple[str, str], ...] = ()
    read_bytes: int = 0
    source_rows: int | None = None
    source_digest: int | None = None


Report = Callable[[int, int], None]
"""Called with (rows, bytes in Arrow) of every batch that was taken in."""


def load_chunk(
    plan: ChunkPlan, report: Report | None = None, heed: Heed | None = None
) -> ChunkReceipt:
    """Read one chunk in one statement and write its files; on any failure its files are removed.

    Rows are read, made exact and written batch by batch: memory does not grow with the chunk. A
    server that is busy is waited for first, as its contract says.

    Args:
        heed: called while rows come, and are waited for; raises to give the chunk up.

    Raises:
        SourceError: MySQL was lost, refused, or another server answered.
        SourceBusy: it did not come to rest.
        LakeError: a file could not be written.
    """
    with session(plan.source, plan.database) as connection:
        await_calm(connection, plan.source, plan.name, plan.load_id)
        seen = read_position(connection)
    _check_server(plan, seen)
    files = DayFiles(plan.storage, plan.location, plan.stem, plan.schema, plan.iceberg)
    question = Question(digest_statement(plan)) if plan.digest else None
    tally = _Tally(plan, seen)
    try:
        for found in _gathered(_read(plan, seen, question, heed)):
            rows = _exact(plan, found, seen.position)
            tally.add(rows)
            files.add(rows)
            if report is not None:
                report(rows.num_rows, rows.nbytes)
        tally.end_of_query()
        written = files.finish()
    except OSError as error:
        files.discard()
        raise LakeError(
            f"a data file of {plan.database}.{plan.table} could not be written: "
            f"{error.strerror or error}",
            table=plan.name,
            next_step="See that the warehouse has room and can be written, then sync again",
        ) from error
    except BaseException:
        files.discard()
        raise
    failpoint("chunk.written")
    receipt = tally.receipt(written)
    if question is None:
        return receipt
    rows, digest = question.answer
    # No sum of no rows; nor of rows of which the server could digest none, which the proof finds.
    return dataclasses.replace(receipt, source_rows=rows or 0, source_digest=digest or 0)


def read_chunk(plan: ChunkPlan, heed: Heed | None = None) -> Iterator[pa.Table]:
    """The chunk's exact rows as they come, in one statement; nothing is written.

    Args:
        heed: called while rows come, and are waited for; raises to give the chunk up.

    Raises:
        SourceError: MySQL was lost, refused, or another server answered.
        SourceBusy: it did not come to rest.
    """
    with session(plan.source, plan.database) as connection:
        await_calm(connection, plan.source, plan.name, plan.load_id)
        seen = read_position(connection)
    _check_server(plan, seen)
    for found in _gathered(_read(plan, seen, None, heed)):
        yield _exact(plan, found, seen.position)


def _check_server(plan: ChunkPlan, seen: SourcePosition) -> None:
    if plan.server and seen.server != plan.server:
        raise SourceError(
            f"source {plan.source.name} is answered by server {seen.server}, the load "
            f"began on {plan.server}",
            source=plan.source.name,
            next_step="Point the contract at one server: answers of two are not one copy",
        )


class _Tally:
    """What is told of a chunk's rows, counted as they come."""

    def __init__(self, plan: ChunkPlan, seen: SourcePosition) -> None:
        self._plan, self._seen = plan, seen
        self._started = time.monotonic()
        self._seconds = 0.0
        self._rows = self._bytes = self._digest = self._future = 0
        self._originals: Counter[str] = Counter()
        self._high: Any = None

    def add(self, rows: pa.Table) -> None:
        plan = self._plan
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        self._digest += digest_of(rows.select([e.name for e in plan.columns]))
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


def _gathered(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
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


def digest_statement(plan: ChunkPlan) -> str:
    """How many rows a chunk has, and the sum of their digests, as the server says."""
    where = f" WHERE {plan.where}" if plan.where else ""
    told = f"COUNT(*), SUM({plan.digest})"
    table = f"{quote(plan.database)}.{quote(plan.table)}"
    return f"SELECT /* {mark(plan.load_id)} */ {told} FROM {table}{where}"  # noqa: S608


def select_statement(plan: ChunkPlan, server: SourcePosition, session: int | None = None) -> str:
    """The chunk's one SELECT. Columns are named by number: names may be anything."""
    parts: list[str] = []
    for number, exact in enumerate(plan.columns):
        parts.append(f"{exact.select} AS c{number}")
        if exact.original is not None:
            parts.append(f"{exact.original} AS o{number}")
    parts += [f"{sql} AS k{number}" for number, (_, sql) in enumerate(plan.told)]
    filled = " + ".join(f"({quote(e.name)} IS NOT NULL)" for e in _projected(plan))
    parts.append(f"{witness(server, filled or '0', session)} AS {WITNESS}")
    where = f" WHERE {plan.where}" if plan.where else ""
    table = f"{quote(plan.database)}.{quote(plan.table)}"
    return f"SELECT /* {mark(plan.load_id)} */ {', '.join(parts)} FROM {table}{where}"  # noqa: S608


def _projected(plan: ChunkPlan) -> list[Exact]:
    """The columns that are not selected as themselves: a function may give NULL for a value that it
    can't take (a result over ``max_allowed_packet``), with a warning that nobody sees."""
    return [e for e in plan.columns if e.select != quote(e.name) and not e.derived]


def _read(
    plan: ChunkPlan, seen: SourcePosition, question: Question | None, heed: Heed | None
) -> Iterator[pa.Table]:
    """The chunk's rows as they arrive, as the server gives them; `_exact` makes them exact."""
    rows = 0
    for batch in read_batches(
        plan.source,
        plan.database,
        lambda session: select_statement(plan, seen, session),
        plan.batch_rows,
        table=plan.name,
        braked=plan.braked,
        question=question,
        heed=heed,
    ):
        rows += batch.num_rows
        yield pa.Table.from_batches([batch])
    if rows == 0:
        # No row bears witness that the right server has none.
        asked = f"SELECT {witness(seen)} AS {WITNESS}"
        for batch in read_batches(plan.source, plan.database, asked):
            _check_witness(plan, batch.column(0).to_pylist() != [0])


def _check_witness(plan: ChunkPlan, other: bool) -> None:
    if other:
        raise SourceError(
            f"source {plan.source.name}: the reader's session is not what was asked for: another "
            "server answered, or something between us and MySQL drops the session's settings",
            source=plan.source.name,
            next_step="Point the contract at the server itself",
        )


def _check_nothing_lost(plan: ChunkPlan, found: pa.Table) -> None:
    """See that every value that the server has arrived, as itself or as its original text."""
    told = found.column(WITNESS).cast(pa.int64())
    _check_witness(plan, pc.any(pc.less(told, 0)).as_py() is True)
    arrived: Any = pa.repeat(pa.scalar(0, pa.int64()), found.num_rows)
    for number, exact in enumerate(plan.columns):
        if exact.select == quote(exact.name) or exact.derived:
            continue
        there = found.column(f"c{number}").is_valid()
        if exact.original is not None:
            there = pc.or_(there, found.column(f"o{number}").is_valid())
        arrived = pc.add(arrived, there.cast(pa.int64()))
    if pc.any(pc.not_equal(arrived, told)).as_py():
        names = ", ".join(repr(e.name) for e in _projected(plan))
        raise SourceError(
            f"reading {plan.database}.{plan.table} from source {plan.source.name}: a value of one "
            f"of the columns {names} came as NULL, and is not: it is too large for the server's "
            "max_allowed_packet",
            source=plan.source.name,
            table=f"{plan.source.name}.{plan.database}.{plan.table}",
            next_step="Raise max_allowed_packet in the server (a text in another charset than "
            "utf8mb4 needs twice its size)",
        )


def _exact(plan: ChunkPlan, found: pa.Table, position: str) -> pa.Table:
    """The chunk's rows in the raw table's schema; a value that does not fit is an error, never
    changed."""
    _check_nothing_lost(plan, found)
    rows = found.num_rows
    columns: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    for number, exact in enumerate(plan.columns):
        wanted = plan.schema.field(exact.name).type
        values = found.column(f"c{number}")
        if exact.decode == "unscaled":
            values = _scaled(values, wanted)
        elif exact.decode:
            values, texts[exact.name] = _DECODERS[exact.decode](values)
        elif exact.original is not None:
            texts[exact.name] = found.column(f"o{number}").combine_chunks()
        columns[exact.name] = _cast(plan, exact, values, wanted)
    now = datetime.now(UTC)
    columns[LOAD] = _constant(plan.load_id, rows, pa.string())
    columns[SEQ] = _constant(plan.seq, rows, pa.int64())
    columns[POSITION] = _constant(position, rows, pa.string())
    columns[LOADED_AT] = _constant(now, rows, pa.timestamp("us", "UTC"))
    columns[DELETED] = _constant(False, rows, pa.bool_())
    columns[DAY] = _days(plan, columns, rows)
    for number, (name, _) in enumerate(plan.told):
        columns[name] = found.column(f"k{number}")
    if any(e.has_original for e in plan.columns):
        columns[ORIGINAL] = _originals(texts, rows, plan.schema.field(ORIGINAL).type)
    for name in (KEY, TOKEN, ORIGINAL):
        # An earlier load of this version needed it (the column's charset or collation was another).
        if name in plan.schema.names and name not in columns:
            columns[name] = pa.nulls(rows, plan.schema.field(name).type)
    arrays = [
        columns[f.name].cast(f.type) if columns[f.name].type != f.type else columns[f.name]
        for f in plan.schema
    ]
    return pa.Table.from_arrays(arrays, schema=plan.schema)


def _cast(plan: ChunkPlan, exact: Exact, values: Any, wanted: pa.DataType) -> Any:
    try:
        return values.cast(wanted, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The error's own text holds the value: it may be personal.
        if exact.iceberg == "string" and pa.types.is_large_binary(values.type):
            raise SourceError(
                f"a value of {plan.database}.{plan.table}, column {exact.name!r}, holds bytes that "
                "are no text in the column's own charset",
                source=plan.source.name,
                table=f"{plan.source.name}.{plan.database}.{plan.table}",
                column=exact.name,
                next_step="Mend the value in MySQL, declare the column as binary, or mark it "
                "`pci: never` to leave it out",
            ) from None
        raise SourceError(
            f"a value of {plan.database}.{plan.table}, column {exact.name!r}, does not fit "
            f"{exact.iceberg}",
            source=plan.source.name,
            column=exact.name,
            next_step="Its type changed while it was read: sync again",
            retryable=True,
        ) from None


def _scaled(values: Any, kind: Any) -> Any:
    """Decimals from their digits as whole numbers (int64, and so at most 18 digits)."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    array = array.cast(pa.int64())
    whole = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset :][: len(array)]
    halves = np.empty((len(array), 2), dtype=np.int64)
    halves[:, 0], halves[:, 1] = whole, whole >> 63
    if array.null_count and array.offset:
        array = pa.concat_arrays([array])
    validity = array.buffers()[0] if array.null_count else None
    return pa.Array.from_buffers(kind, len(array), [validity, pa.py_buffer(halves)])


def _constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def _days(plan: ChunkPlan, columns: dict[str, Any], rows: int) -> Any:
    today = _constant(plan.day, rows, pa.date32())
    if plan.day_column is None:
        return today
    # A cursor without a place in the calendar (a zero date) belongs to the day that loaded it.
    return pc.coalesce(columns[plan.day_column].cast(pa.date32(), safe=False), today)


def _originals(texts: dict[str, Any], rows: int, kind: pa.DataType) -> pa.Array:
    """The originals of each row, sorted by column, NULL where there are none."""
    originals: dict[int, list[dict[str, str]]] = {}
    for name, column in sorted(texts.items()):
        if column.null_count == rows:
            continue
        for index in pc.indices_nonzero(column.is_valid()).to_pylist():
            entry = {"column": name, "text": column[index].as_py()}
            originals.setdefault(index, []).append(entry)
    if not originals:
        return pa.nulls(rows, kind)
    return pa.array((originals.get(i) for i in range(rows)), kind, size=rows)


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
