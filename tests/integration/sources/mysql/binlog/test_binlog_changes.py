"""Transactions as servers write them: what is read of the log is what the tables have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.events.rows import RowChange
from mirrorlake.sources.mysql.binlog.gtid_lists import GtidList
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits, LogBatch
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
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


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


SELDOM_ON_MYSQL8 = pytest.mark.parametrize(
    "on_both_servers",
    ["mariadb", pytest.param("mysql8", marks=pytest.mark.full)],
    indirect=True,
    scope="session",
)


def same(
    server: EmbeddedServer, batches: list[LogBatch], database: str, table: str, *key: str
) -> bool:
    wanted = plain(selected(server, database, table).to_pylist(), key)
    return folded(batches, table, key) == wanted and bool(wanted)


def stops(batches: list[LogBatch]) -> list[Any]:
    return [stop for batch in batches for stop in batch.stopped]


def test_inserts_updates_and_deletes_of_several_tables(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    start = log_end(server)
    sql(
        "CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(20), d DATETIME(6))",
        "CREATE TABLE b (x INT, y INT, n INT UNSIGNED, PRIMARY KEY (x, y))",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "BEGIN",
        "INSERT INTO a VALUES (1, 'one', '2024-02-29 01:02:03.000004'), (2, NULL, NULL), (3, 'x', 0)",
        "INSERT INTO b VALUES (1, 1, 7), (1, 2, NULL)",
        "INSERT INTO other VALUES (1)",
        "UPDATE a SET t = 'two' WHERE id = 2",
        "COMMIT",
        "UPDATE a SET id = 30 WHERE id = 3",
        "UPDATE b SET n = 4294967295",
        "DELETE FROM a WHERE id = 1",
        "INSERT INTO a VALUES (1, 'again', NULL)",
    )
    batches = read_log(server, start, followed(source_of(server), database, "a", "b"))
    assert not stops(batches)
    assert same(server, batches, database, "a", "id")
    assert same(server, batches, database, "b", "x", "y")
    assert {one.table for batch in batches for one in batch.tables} == {"a", "b"}
    assert {one.logged.key for batch in batches for one in batch.tables} == {(0,), (0, 1)}
    found = images(batches, "a")
    assert found.column("_change").to_pylist() == [
        *[RowChange.INSERT] * 3,
        *[RowChange.UPDATE_BEFORE, RowChange.UPDATE_AFTER] * 2,
        *[RowChange.DELETE, RowChange.INSERT],
    ]
    assert found.column("_row").to_pylist() == [0, 1, 2, 3, 4, 0, 1, 0, 0]
    offsets = found.column("_offset").to_pylist()
    assert offsets == sorted(offsets)
    assert len(set(offsets)) == 4
    gtids = found.column("_gtid").to_pylist()
    assert len(set(gtids)) == 4
    assert None not in gtids


def test_what_was_rolled_back_is_not_there(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "BEGIN",
        "INSERT INTO t VALUES (1, 1)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (2, 2)",
        "UPDATE t SET v = 3",
        "ROLLBACK TO s",
        "INSERT INTO t VALUES (3, 3)",
        "COMMIT",
        "BEGIN",
        "DELETE FROM t",
        "ROLLBACK",
    )
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    assert not stops(batches)
    assert same(server, batches, database, "t", "id")


def test_a_column_that_comes_in_the_middle(server: EmbeddedServer, database: str, sql: Sql) -> None:
    """A statement is a batch of its own: whoever reads may say what he now knows of the table."""
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD COLUMN v VARCHAR(5) NOT NULL DEFAULT 'new'",
        "INSERT INTO t VALUES (2, 'v')",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (3, 'w')",
        "RENAME TABLE t TO u",
        "INSERT INTO u VALUES (4, 'y')",
        "DROP TABLE u",
    )
    tables = dict.fromkeys([(database, "t"), (database, "u")], FollowedTable())
    batches = read_log(server, start, tables)
    shown = [
        (
            [one.rows.to_pylist() for one in batch.tables],
            [s.text.split()[0] for s in batch.statements],
        )
        for batch in batches
    ]
    assert shown == [
        ([], ["CREATE"]),
        ([[{"id": 1}]], []),
        ([], ["ALTER"]),
        ([[{"id": 2, "v": "v"}]], []),
        ([], ["TRUNCATE"]),
        ([[{"id": 3, "v": "w"}]], []),
        ([], ["RENAME"]),
        ([[{"id": 4, "v": "y"}]], []),
        ([], ["DROP"]),
    ]
    assert {s.database for batch in batches for s in batch.statements} == {database}
    assert not any(s.rows_unknown for batch in batches for s in batch.statements)


def test_files_follow_one_another(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sql("FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS")
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    assert same(server, batches, database, "t", "id")
    files = images(batches, "t").column("_file").to_pylist()
    assert len(set(files)) == 2
    end = batches[-1].position
    assert end.log is not None
    assert end.log.file > max(files)
    assert [batch.rows for batch in read_log(server, end, {})] in ([], [0])


@pytest.fixture
def large(server: EmbeddedServer, database: str, sql: Sql) -> StreamPosition:
    """Where a transaction of 50,000 rows begins, and one of a row behind it."""
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT, w VARCHAR(40))",
        "CREATE TABLE ten (n INT)",
        "INSERT INTO ten VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
        "INSERT INTO t SELECT a.n + 10*b.n + 100*c.n + 1000*d.n + 10000*e.n, a.n * 7, "
        "REPEAT('x', b.n) FROM ten a, ten b, ten c, ten d, ten e WHERE e.n < 5",
        "INSERT INTO t VALUES (-1, NULL, NULL)",
    )
    return start


@SELDOM_ON_MYSQL8
def test_a_large_transaction_comes_in_several_batches(
    server: EmbeddedServer, database: str, large: StreamPosition
) -> None:
    tables = followed(source_of(server), database, "t")
    whole = read_log(server, large, tables)
    parts = read_log(server, large, tables, BatchLimits(rows=7_000))
    assert (
        images(whole, "t").equals(images(parts, "t").combine_chunks())
        or images(whole, "t").to_pylist() == images(parts, "t").to_pylist()
    )
    assert same(server, parts, database, "t", "id")
    states = [batch.state for batch in parts if batch.rows]
    assert states[:-1] == ["open"] * (len(states) - 1)
    assert len(states) >= 7
    assert states[-1] == "complete"
    begin = images(parts, "t").column("_offset")[0].as_py()
    places = [batch.position.log for batch in parts if batch.state == "open"]
    assert {place.offset for place in places if place} == {begin}
    assert images(parts, "t").column("_row").to_pylist() == [*range(50_000), 0]


@SELDOM_ON_MYSQL8
def test_each_end_of_a_batch_is_a_place_to_begin(
    server: EmbeddedServer, database: str, large: StreamPosition
) -> None:
    tables = followed(source_of(server), database, "t", "ten")
    every = read_log(server, large, tables, BatchLimits(rows=1))
    wanted = images(every, "t").to_pylist()
    for number, batch in enumerate(every[:-1]):
        if batch.state != "complete" or not (number < 3 or number > len(every) - 5):
            continue
        again = StreamPosition.parse(batch.position.to_text())
        rest = images(read_log(server, again, tables), "t").to_pylist()
        before = images(every[: number + 1], "t").to_pylist()
        assert before + rest == wanted


def test_reading_by_transactions_leaves_out_what_is_known(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with server.admin() as admin, admin.cursor() as cursor:
        name = "@@gtid_binlog_pos" if isinstance(server, MariaDB) else "@@gtid_executed"
        cursor.execute(f"SELECT {name}")
        [[text]] = cursor.fetchall()
    gtids = (GtidList if isinstance(server, MariaDB) else GtidSet).parse(text)
    tables = followed(source_of(server), database, "t")
    unmoved = read_log(server, StreamPosition(None, gtids), tables)
    assert not sum(batch.rows for batch in unmoved)
    for batch in unmoved:
        assert not sum(later.rows for later in read_log(server, batch.position, tables))
    sql("INSERT INTO t VALUES (2)")
    batches = read_log(server, StreamPosition(None, gtids), tables)
    assert [row["id"] for row in images(batches, "t").to_pylist()] == [2]
    end = batches[-1].position
    assert end.log is not None
    assert end.gtids != gtids
    sql("INSERT INTO t VALUES (3)")
    for again in (end, StreamPosition(None, end.gtids)):
        rows = images(read_log(server, again, tables), "t").to_pylist()
        assert [row["id"] for row in rows] == [3]


@SELDOM_ON_MYSQL8
def test_following_gives_what_comes_later(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    tables = followed(source_of(server), database, "t")
    with reading(server, start, tables, follow=True) as (reader, transport):
        batches = reader.batches(transport.packets())
        assert [s.text[:6] for s in next(batches).statements] == ["CREATE"]
        for number in range(3):
            sql(f"INSERT INTO t VALUES ({number})")
            found = next(batch for batch in batches if batch.rows)
            assert [one.rows.to_pylist() for one in found.tables] == [[{"id": number}]]
            assert found.state == "complete"


def test_reading_ends_at_a_place(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    until = log_end(server).log
    sql("INSERT INTO t VALUES (2)")
    with reading(server, start, {(database, "t"): FollowedTable()}) as (reader, transport):
        batches = list(reader.batches(transport.packets(), until))
    assert [row["id"] for row in images(batches, "t").to_pylist()] == [1]
    assert batches[-1].position.log == until


def test_xa_transactions_count_when_they_are_committed(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sessions = [server.admin(database) for _ in range(3)]
    for number, one in enumerate(sessions):
        with one.cursor() as cursor:
            for statement in (
                f"XA START 'x{number}','b'",
                f"INSERT INTO t VALUES ({10 + number})",
                f"XA END 'x{number}','b'",
                f"XA PREPARE 'x{number}','b'",
            ):
                cursor.execute(statement)
    tables = followed(source_of(server), database, "t")
    sql("INSERT INTO t VALUES (2)")
    first = read_log(server, start, tables)
    assert [row["id"] for row in images(first, "t").to_pylist()] == [1, 2]
    between = first[-1].position
    assert between.since is not None
    for one, end in zip(sessions, ("COMMIT", "ROLLBACK", "COMMIT"), strict=True):
        with one.cursor() as cursor:
            cursor.execute(f"XA {end} 'x{sessions.index(one)}','b'")
        one.close()
    sql("INSERT INTO t VALUES (3)")
    rest = read_log(server, StreamPosition.parse(between.to_text()), tables)
    assert [row["id"] for row in images(rest, "t").to_pylist()] == [10, 12, 3]
    assert rest[-1].position.since is None
    assert not any(s.rows_unknown for batch in rest for s in batch.statements)
    whole = read_log(server, start, tables)
    assert [row["id"] for row in images(whole, "t").to_pylist()] == [1, 2, 10, 12, 3]
    assert between.log is not None
    unaware = read_log(server, StreamPosition(between.log), tables)
    assert sum(s.rows_unknown for batch in unaware for s in batch.statements) == 2


def test_a_table_that_cannot_be_read_stops_alone(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE u (id INT PRIMARY KEY, v INT, w VARCHAR(9))",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO u VALUES (1, 1, 'a')",
        "SET SESSION binlog_row_image = MINIMAL",
        "BEGIN",
        "INSERT INTO t VALUES (2)",
        "UPDATE u SET v = 2",
        "COMMIT",
        "SET SESSION binlog_row_image = FULL",
        "INSERT INTO u VALUES (3, 3, '')",
        "INSERT INTO t VALUES (3)",
    )
    batches = read_log(server, start, followed(source_of(server), database, "t", "u"))
    [stop] = stops(batches)
    assert (stop.database, stop.table) == (database, "u")
    assert "binlog_row_image" in str(stop.error)
    assert [row["id"] for row in images(batches, "u").to_pylist()] == [1]
    assert [row["id"] for row in images(batches, "t").to_pylist()] == [1, 2, 3]
    at = [row["_offset"] for row in images(batches, "t").to_pylist() if row["id"] == 2]
    assert [stop.at.offset] == at
    rest = read_log(server, StreamPosition(LogPosition(stop.at.file, stop.at.offset)), {})
    assert rest[-1].state == "complete"


def test_statements_that_changed_rows_without_saying_which(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "SET SESSION binlog_format = STATEMENT",
        "INSERT INTO t VALUES (1)",
        "SET SESSION binlog_format = ROW",
        "INSERT INTO t VALUES (2)",
    )
    if isinstance(server, MariaDB):  # the tests' MySQL refuses it: enforce_gtid_consistency
        sql("CREATE TABLE v SELECT id FROM t")
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    told = [(s.text.split()[0], s.rows_unknown) for batch in batches for s in batch.statements]
    made = [("CREATE", False)] if isinstance(server, MariaDB) else []
    assert told == [("CREATE", False), ("INSERT", True), *made]
