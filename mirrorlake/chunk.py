"""One chunk: read from MySQL as Arrow, written as Parquet data files. Runs on a Spark worker or
here.

Nothing in this module needs Spark, the ledger or the catalog: a worker shares only storage with the
driver.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import connectorx
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.config import SourceConfig
from mirrorlake.datafile import digest_of, write_files
from mirrorlake.errors import SourceError
from mirrorlake.failpoint import failpoint
from mirrorlake.lake.tables import (
    DAY,
    DELETED,
    KEY,
    LOAD,
    LOADED_AT,
    ORIGINAL,
    POSITION,
    SEQ,
)
from mirrorlake.mysql.connect import quote, read_position, session, url_of, without_secret
from mirrorlake.schema import Exact

logger = logging.getLogger(__name__)

pc: Any = _compute  # its functions are made at import: type checkers see none of them


@dataclass(frozen=True)
class ChunkPlan:
    """Everything that one chunk's task must know. It holds the source's password: never log it.

    Attributes:
        number: the chunk's number in its load, in its files' names.
        where: the SQL condition of the chunk, '' for the whole table.
        day_column: the column whose date is the raw day, or None: then every row gets ``day``.
        cursor: the time column to compare with the source's clock, or None.
        server: the server that must answer, '' if any may.
        key_expression: SQL of the key under the server's collation, where texts that differ may be
            equal keys; None where the key's columns tell keys apart by themselves.
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
    key_expression: str | None


@dataclass(frozen=True)
class ChunkReceipt:
    """What one chunk saw and wrote; see `mirrorlake.ledger.Receipt` for the words."""

    number: int
    rows: int
    bytes: int
    paths: tuple[str, ...]
    digest: int
    moment: datetime
    server: str
    position: str
    high: str | None
    originals: int
    future: int
    query_seconds: float


def load_chunk(plan: ChunkPlan) -> ChunkReceipt:
    """Read one chunk in one statement and write its files; on any failure its files are removed.

    Raises:
        SourceError: MySQL was lost, refused, or another server answered.
        LakeError: a file could not be written.
    """
    with session(plan.source, plan.database) as connection:
        seen = read_position(connection)
    if plan.server and seen.server != plan.server:
        raise SourceError(
            f"source {plan.source.name} is answered by server {seen.server}, the load "
            f"began on {plan.server}",
            source=plan.source.name,
            next_step="Point the contract at one server: answers of two are not one copy",
        )
    started = time.monotonic()
    found = _read(plan)
    seconds = time.monotonic() - started
    rows = _exact(plan, found, seen.position)
    paths, size = write_files(
        plan.storage, plan.location, f"{plan.load_id}-{plan.attempt}-{plan.number:05d}", rows
    )
    failpoint("chunk.written")
    return ChunkReceipt(
        number=plan.number,
        rows=rows.num_rows,
        bytes=size,
        paths=tuple(paths),
        digest=digest_of(rows.select([e.name for e in plan.columns])),
        moment=seen.clock,
        server=seen.server,
        position=seen.position,
        high=_high(plan, rows),
        originals=_count_originals(rows),
        future=_count_future(plan, rows, seen.clock),
        query_seconds=seconds,
    )


def select_statement(plan: ChunkPlan) -> str:
    """The chunk's one SELECT. Columns are named by number: names may be anything."""
    parts: list[str] = []
    for number, exact in enumerate(plan.columns):
        parts.append(f"{exact.select} AS c{number}")
        if exact.original is not None:
            parts.append(f"{exact.original} AS o{number}")
    if plan.key_expression is not None:
        parts.append(f"{plan.key_expression} AS k")
    where = f" WHERE {plan.where}" if plan.where else ""
    return f"SELECT {', '.join(parts)} FROM {quote(plan.database)}.{quote(plan.table)}{where}"  # noqa: S608


def _read(plan: ChunkPlan) -> pa.Table:
    try:
        # The binary protocol: the text of a FLOAT is rounded by the server.
        return connectorx.read_sql(
            url_of(plan.source, plan.database),
            select_statement(plan),
            return_type="arrow",
            protocol="binary",
        )
    except BaseException as error:
        # connectorx raises RuntimeError, and its Rust panics are BaseExceptions.
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise SourceError(
            f"reading {plan.database}.{plan.table} from source {plan.source.name} failed: "
            f"{_servers_words(error, plan.source)}",
            source=plan.source.name,
            table=f"{plan.source.name}.{plan.database}.{plan.table}",
            next_step="Nothing of this load is visible: sync again",
            retryable=True,
        ) from None


def _servers_words(error: BaseException, source: SourceConfig) -> str:
    """The server's own words; the reader's may hold a row's value, and stay where they are."""
    text = without_secret(str(error), source).splitlines()
    if text and text[0].startswith(("MySqlError", "DriverError", "IoError")):
        return text[0]
    return "the reader met a value or an answer that it can't take"


def _exact(plan: ChunkPlan, found: pa.Table, position: str) -> pa.Table:
    """The chunk's rows in the raw table's schema; a value that does not fit is an error, never
    changed."""
    rows = found.num_rows
    columns: dict[str, Any] = {}
    for number, exact in enumerate(plan.columns):
        wanted = plan.schema.field(exact.name).type
        columns[exact.name] = _cast(plan, exact, found.column(f"c{number}"), wanted)
    now = datetime.now(UTC)
    columns[LOAD] = _constant(plan.load_id, rows, pa.string())
    columns[SEQ] = _constant(plan.seq, rows, pa.int64())
    columns[POSITION] = _constant(position, rows, pa.string())
    columns[LOADED_AT] = _constant(now, rows, pa.timestamp("us", "UTC"))
    columns[DELETED] = _constant(False, rows, pa.bool_())
    columns[DAY] = _days(plan, columns, rows)
    if plan.key_expression is not None:
        columns[KEY] = found.column("k")
    if ORIGINAL in plan.schema.names:
        columns[ORIGINAL] = _originals(plan, found, plan.schema.field(ORIGINAL).type)
    arrays = [
        columns[f.name].cast(f.type) if columns[f.name].type != f.type else columns[f.name]
        for f in plan.schema
    ]
    return pa.Table.from_arrays(arrays, schema=plan.schema)


def _cast(plan: ChunkPlan, exact: Exact, values: pa.ChunkedArray, wanted: pa.DataType) -> Any:
    try:
        return values.cast(wanted, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        # The error's own text holds the value: it may be personal.
        raise SourceError(
            f"a value of {plan.database}.{plan.table}, column {exact.name!r}, does not fit "
            f"{exact.iceberg}",
            source=plan.source.name,
            column=exact.name,
            next_step="Its type changed while it was read: sync again",
            retryable=True,
        ) from error


def _constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def _days(plan: ChunkPlan, columns: dict[str, Any], rows: int) -> Any:
    today = _constant(plan.day, rows, pa.date32())
    if plan.day_column is None:
        return today
    # A cursor without a place in the calendar (a zero date) belongs to the day that loaded it.
    return pc.coalesce(columns[plan.day_column].cast(pa.date32(), safe=False), today)


def _originals(plan: ChunkPlan, found: pa.Table, kind: pa.DataType) -> pa.Array:
    """The originals of each row, sorted by column, NULL where there are none."""
    originals: dict[int, list[dict[str, str]]] = {}
    for number, exact in sorted(enumerate(plan.columns), key=lambda pair: pair[1].name):
        if exact.original is None:
            continue
        texts = found.column(f"o{number}").combine_chunks()
        for index in pc.indices_nonzero(texts.is_valid()).to_pylist():
            entry = {"column": exact.name, "text": texts[index].as_py()}
            originals.setdefault(index, []).append(entry)
    return pa.array((originals.get(i) for i in range(found.num_rows)), kind, size=found.num_rows)


def _high(plan: ChunkPlan, rows: pa.Table) -> str | None:
    if plan.cursor is None or rows.num_rows == 0:
        return None
    highest = pc.max(rows.column(plan.cursor)).as_py()
    return None if highest is None else str(highest)


def _count_originals(rows: pa.Table) -> int:
    if ORIGINAL not in rows.schema.names:
        return 0
    return pc.sum(pc.list_value_length(rows.column(ORIGINAL))).as_py() or 0


def _count_future(plan: ChunkPlan, rows: pa.Table, clock: datetime) -> int:
    """Rows whose time cursor lies after the source's clock, by the contract's zone."""
    if plan.cursor is None or not pa.types.is_timestamp(rows.schema.field(plan.cursor).type):
        return 0
    kind = rows.schema.field(plan.cursor).type
    aware = clock.replace(tzinfo=UTC)
    now = aware if kind.tz else aware.astimezone(plan.source.zone).replace(tzinfo=None)
    return pc.sum(pc.greater(rows.column(plan.cursor), pa.scalar(now, kind))).as_py() or 0
