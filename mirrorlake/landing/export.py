"""Export: a table of MySQL written as a snapshot that lands: JSON in chunks, the manifest last."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.model import arrow_schema
from mirrorlake.destinations.iceberg.tables.schemas import raw_schema
from mirrorlake.errors import ConfigError
from mirrorlake.landing.files.columns import TIMES, schema_text
from mirrorlake.landing.files.writer import MOST_BYTES, SnapshotWriter
from mirrorlake.landing.files.written import texts_of, written_rows, written_values
from mirrorlake.load.chunks.planner import batch_rows, brings_many, widest_columns
from mirrorlake.load.chunks.select_rows import SELECT
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.files.layout import TableFolder, id_of
from mirrorlake.sources.files.store import Store
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.sources.mysql.reading.lock_watch import Guard
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.holds import refuse_held
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class Exported:
    """One snapshot that was written: ``bytes`` are those of its files.

    Attributes:
        table: ``source.database.table``.
        snapshot: its id: the server's clock, in UTC.
        folder: where its files are.
        files: how many there are.
        rows: how many rows were written.
        bytes: the files' size.
    """

    table: str
    snapshot: int
    folder: str
    files: int
    rows: int
    bytes: int


def export_table(
    workspace: Workspace,
    contract: TableContract,
    to: Store,
    *,
    packed: bool,
    most: int = MOST_BYTES,
) -> Exported:
    """Read a whole table in one statement, one moment of it, and write it as a snapshot.

    Its schema is written too. Without its manifest, which is written last, nobody takes it. A value
    that has no place in its column is written as its original text.

    Args:
        packed: whether the chunks are compressed by gzip.
        most: how many bytes of JSON a chunk has at most, unless one record is longer.

    Raises:
        ConfigError: the table comes from a landing, not from a server.
        SourceError: MySQL was lost or refused, or the read was given up.
        LandingError: the place can't be written, or holds a snapshot of this second. After any
            error what was written is removed.
    """
    if contract.landed:
        raise ConfigError(
            f"table {contract.name} comes from a landing: there is no server to export it from",
            table=contract.name,
            next_step="Export tables of a server",
        )
    refuse_held(workspace.ledger, contract.source)
    source = workspace.config.sources[contract.source]
    with session(source, contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
        seen = read_position(connection)
    folder = TableFolder("json", contract.source, contract.database, contract.table, "dq")
    number, day = id_of(seen.clock), seen.clock.date()
    writer = SnapshotWriter(to, folder, number, day, packed=packed, most=most)
    chunk = _chunk_plan(plan, seen.server, day)
    rows = 0
    try:
        writer.begin()
        with reading(source), _guard(chunk) as guard:
            for batch in SELECT.read(chunk, guard.heed).batches:
                rows += batch.num_rows
                for line in _lines(plan, batch):
                    writer.add(line)
        with to.create(folder.schema_path, replace=True) as stream:
            stream.write(_schema(plan))
        writer.close(rows)
    except BaseException:
        writer.discard()
        raise
    return Exported(contract.name, number, writer.place, len(writer.files), rows, writer.bytes)


def _guard(chunk: ChunkPlan) -> Guard:
    return Guard(chunk.source, chunk.database, chunk.table, chunk.load_id)


def _chunk_plan(plan: ResolvedTable, server: str, day: date) -> ChunkPlan:
    return ChunkPlan(
        source=plan.source,
        database=plan.table.database,
        table=plan.table.name,
        columns=plan.columns,
        schema=arrow_schema(raw_schema(plan.columns, with_key=False)),
        location="",
        storage={},
        load_id=f"export-{uuid.uuid4().hex[:12]}",
        attempt=1,
        seq=0,
        number=0,
        where="",
        day=day,
        day_column=None,
        cursor=None,
        server=server,
        batch_rows=batch_rows(plan),
        near=brings_many(plan, None),
        widest=widest_columns(plan, None),
    )


def _lines(plan: ResolvedTable, batch: pa.Table) -> Iterator[bytes]:
    types = {column.name: column.iceberg for column in plan.columns}
    columns = {n: written_values(batch.column(n).to_pylist(), k) for n, k in types.items()}
    there = ORIGINAL in batch.schema.names
    texts = texts_of(batch.column(ORIGINAL).to_pylist() if there else [None] * batch.num_rows)
    for record in written_rows(columns, types, texts):
        yield json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _schema(plan: ResolvedTable) -> bytes:
    def columns() -> Iterator[tuple[str, str, bool, str, bool]]:
        for exact in plan.columns:
            column = plan.table.column(exact.name)
            original = exact.has_original and exact.iceberg not in TIMES
            yield exact.name, exact.iceberg, column.nullable, column.column_type, original

    return schema_text(columns()).encode()
