"""Tables read by the binary log and by our SELECT, to be compared cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from mirrorlake.config.server import SourceConfig
from mirrorlake.destinations.iceberg.model import arrow_schema
from mirrorlake.destinations.iceberg.tables.schemas import raw_schema
from mirrorlake.load.chunks.select_rows import SELECT
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.binlog.charsets import read_server_forms
from mirrorlake.sources.mysql.binlog.events.rows import RowChange
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits, LogBatch
from mirrorlake.sources.mysql.binlog.log_reader import LogReader
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.types.exact_types import exact_columns
from tests.integration.conftest import PASSWORD, USER

SERVER_ID = 4_000_000_001


def source_of(server: EmbeddedServer) -> SourceConfig:
    return SourceConfig(name="s", host="127.0.0.1", port=server.port, user=USER, password=PASSWORD)


def log_end(server: EmbeddedServer) -> StreamPosition:
    """Where the server's log ends now."""
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        file, size, *_ = cursor.fetchall()[-1]
    return StreamPosition(LogPosition(file, size))


def followed(
    source: SourceConfig, database: str, *tables: str
) -> dict[tuple[str, str], FollowedTable]:
    with session(source, database) as connection:
        found = {name: read_table(connection, database, name) for name in tables}
    return {(database, name): FollowedTable.of(table) for name, table in found.items()}


@contextmanager
def reading(
    server: EmbeddedServer,
    start: StreamPosition,
    tables: Mapping[tuple[str, str], FollowedTable],
    limits: BatchLimits | None = None,
    *,
    follow: bool = False,
) -> Iterator[tuple[LogReader, LogTransport]]:
    source = source_of(server)
    with (
        session(source) as asked,
        LogTransport(source, start, SERVER_ID, follow=follow) as transport,
    ):
        forms = read_server_forms(asked)
        yield (
            LogReader(transport.start, tables, forms, checksums=transport.checksums, limits=limits),
            transport,
        )


def read_log(
    server: EmbeddedServer,
    start: StreamPosition,
    tables: Mapping[tuple[str, str], FollowedTable],
    limits: BatchLimits | None = None,
) -> list[LogBatch]:
    """All batches up to the log's end."""
    with reading(server, start, tables, limits) as (reader, transport):
        return list(reader.batches(transport.packets()))


def images(batches: Sequence[LogBatch], table: str) -> pa.Table:
    """The table's images with their places beside them."""
    found = [
        pa.table(
            {
                **{
                    f"_{n}": c
                    for n, c in zip(one.places.schema.names, one.places.columns, strict=True)
                },
                **dict(zip(one.rows.schema.names, one.rows.columns, strict=True)),
            }
        )
        for batch in batches
        for one in batch.tables
        if one.table == table
    ]
    return pa.concat_tables(found) if found else pa.table({})


def folded(
    batches: Sequence[LogBatch], table: str, key: Sequence[str]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What a table has after these changes, if it was empty before."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in images(batches, table).to_pylist():
        change = row.pop("_change")
        for name in ("_file", "_offset", "_gtid", "_row", "_committed_at"):
            row.pop(name)
        identity = tuple(row[name] for name in key)
        if change in (RowChange.DELETE, RowChange.UPDATE_BEFORE):
            assert found.pop(identity) == row
        else:
            assert identity not in found
            found[identity] = row
    return found


def selected(server: EmbeddedServer, database: str, table: str) -> pa.Table:
    """The table as a SELECT of ours gives it, without what a load adds."""
    source = source_of(server)
    with session(source, database) as connection:
        columns = exact_columns(read_table(connection, database, table))
    schema = arrow_schema(raw_schema(columns, with_key=False), field_ids=False)
    plan = ChunkPlan(
        *(source, database, table, columns, schema, str(Path("/")), {}),
        *("load", 1, 1, 0, "", date(2026, 1, 1), None, None, ""),
    )
    rows = SELECT.read(plan)
    found = pa.concat_tables(list(rows.batches))
    names = [e.name for e in columns]
    return found.select([*names, ORIGINAL] if ORIGINAL in found.schema.names else names)


def plain(
    rows: Sequence[dict[str, Any]], key: Sequence[str]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[name] for name in key): row for row in rows}
