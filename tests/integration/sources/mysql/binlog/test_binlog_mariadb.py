"""What MariaDB alone writes: compressed events and columns, types that look like BINARY."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.events.event_kinds import (
    DELETE_ROWS_COMPRESSED_V1,
    QUERY_COMPRESSED,
    UPDATE_ROWS_COMPRESSED_V1,
    WRITE_ROWS_COMPRESSED_V1,
)
from mirrorlake.sources.mysql.binlog.events.framing import Framing
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from tests.integration.binlogs import (
    folded,
    followed,
    images,
    log_end,
    plain,
    read_log,
    reading,
    selected,
    source_of,
)

Sql = Callable[..., Any]


@contextmanager
def set_globally(server: EmbeddedServer, **values: Any) -> Iterator[None]:
    """Global variables, as they were at the end."""
    with server.admin() as admin, admin.cursor() as cursor:
        before = {}
        for name, value in values.items():
            cursor.execute(f"SELECT @@global.{name}")
            [[before[name]]] = cursor.fetchall()
            cursor.execute(f"SET GLOBAL {name} = %s", (value,))
        try:
            yield
        finally:
            for name, value in before.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))


def test_compressed_events(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    with set_globally(server, log_bin_compress=1, log_bin_compress_min_len=10):
        sql(
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000), w INT)",
            "INSERT INTO t VALUES (1, REPEAT('a', 1000), 1), (2, REPEAT('é', 900), NULL), (3, '', 3)",
            "UPDATE t SET w = w + 1, v = CONCAT(SUBSTR(v, 2), 'x')",
            "DELETE FROM t WHERE id = 3",
        )
    with reading(server, start, {}) as (_, transport):
        framing = Framing(transport.checksums)
        kinds = {framing.read(packet).kind for packet in transport.packets()}
    compressed = WRITE_ROWS_COMPRESSED_V1, UPDATE_ROWS_COMPRESSED_V1, DELETE_ROWS_COMPRESSED_V1
    assert {QUERY_COMPRESSED, *compressed} <= kinds
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    assert [s.text[:14] for batch in batches for s in batch.statements] == ["CREATE TABLE t"]
    wanted = plain(selected(server, database, "t").to_pylist(), ["id"])
    assert folded(batches, "t", ["id"]) == wanted
    assert len(wanted) == 2


def test_compressed_columns(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(2000) COMPRESSED, b BLOB COMPRESSED,"
        " c TEXT COMPRESSED CHARACTER SET latin1, d VARBINARY(100) COMPRESSED)",
        "INSERT INTO t VALUES (1, REPEAT('ab é', 300), REPEAT(x'00ff', 500), REPEAT('ü', 300), x'00')",
        "INSERT INTO t VALUES (2, '', '', '', ''), (3, NULL, NULL, NULL, NULL), (4, 'x', 'y', 'z', 'z')",
        "SET SESSION column_compression_zlib_wrap = 1",
        "INSERT INTO t VALUES (5, REPEAT('wrapped', 200), REPEAT('w', 70000), '', REPEAT('z', 100))",
    )
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    assert not [stop for batch in batches for stop in batch.stopped]
    wanted = plain(selected(server, database, "t").to_pylist(), ["id"])
    assert folded(batches, "t", ["id"]) == wanted
    assert len(wanted) == 5


def test_events_without_checksums(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    with set_globally(server, binlog_checksum="NONE"):
        sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        batches = read_log(server, start, {(database, "t"): FollowedTable()})
    assert images(batches, "t").column("id").to_pylist() == [1]
    sql("INSERT INTO t VALUES (2)")
    batches = read_log(server, start, {(database, "t"): FollowedTable()})
    assert images(batches, "t").column("id").to_pylist() == [1, 2]


def test_a_type_that_was_declared_otherwise_stops_the_table(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY, u BINARY(16))", "INSERT INTO t VALUES (1, 'x')")
    for declared, words in ({"u": "vector"}, "VECTOR"), ({"id": "uuid"}, "something else"):
        batches = read_log(server, start, {(database, "t"): FollowedTable(declared)})
        [stop] = [stop for batch in batches for stop in batch.stopped]
        assert words in str(stop.error)
    hidden = FollowedTable({"u": "vector"}, excluded=frozenset({"u"}))
    batches = read_log(server, start, {(database, "t"): hidden})
    assert [one.rows.to_pylist() for batch in batches for one in batch.tables] == [[{"id": 1}]]


def test_rows_without_names_of_columns_stop_the_table(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with set_globally(server, binlog_row_metadata="NO_LOG"):
        sql("INSERT INTO t VALUES (1)")
    batches = read_log(server, start, {(database, "t"): FollowedTable()})
    [stop] = [stop for batch in batches for stop in batch.stopped]
    assert "SET GLOBAL binlog_row_metadata = FULL" in str(stop.error)
    assert not images(batches, "t").num_rows
