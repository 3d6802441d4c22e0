"""What MySQL 9 writes into its log and 8.0.12 does not: tags of GTIDs, compressed transactions,
vectors, what foreign keys change; with ``MIRRORLAKE_TEST_MYSQL`` alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.errors import TypeRefused
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet
from mirrorlake.sources.mysql.binlog.positions import StreamPosition
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.types.exact_types import exact_columns
from tests.integration.binlogs import (
    folded,
    followed,
    images,
    log_end,
    plain,
    read_log,
    selected,
    source_of,
)

Sql = Callable[..., Any]


@pytest.fixture(scope="session")
def server(mysql8: EmbeddedServer) -> EmbeddedServer:
    return mysql8


def tagged(sql: Sql, tag: str, *statements: str) -> None:
    """Statements of one session whose transactions have a tag."""
    sql(f"SET gtid_next = 'AUTOMATIC:{tag}'", *statements, "SET gtid_next = 'AUTOMATIC'")


def test_transactions_with_tags(server: EmbeddedServer, database: str, sql: Sql) -> None:
    """By a file's offset, and by the set of what is known: none is left out, none comes twice."""
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    tagged(sql, "blue", "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')")
    sql("INSERT INTO t VALUES (3, 'c')")
    tagged(sql, "green_2", "UPDATE t SET v = 'x' WHERE id = 1")
    tables = followed(source_of(server), database, "t")
    batches = read_log(server, start, tables)
    assert folded(batches, "t", ["id"]) == plain(
        selected(server, database, "t").to_pylist(), ["id"]
    )
    tags = [one.split(":")[1:-1] for one in images(batches, "t").column("_gtid").to_pylist()]
    assert tags == [["blue"], ["blue"], [], ["green_2"], ["green_2"]]

    [[known]] = sql("SELECT @@global.gtid_executed")
    tagged(sql, "blue", "INSERT INTO t VALUES (4, 'd')")
    sql("INSERT INTO t VALUES (5, 'e')")
    later = read_log(server, StreamPosition(None, GtidSet.parse(known)), tables)
    assert images(later, "t").column("id").to_pylist() == [4, 5]
    [[now]] = sql("SELECT @@global.gtid_executed")
    assert later[-1].position.gtids == GtidSet.parse(now)


def test_compressed_transactions(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)",
        "SET SESSION binlog_transaction_compression = ON",
        "INSERT INTO t (v) WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r"
        " WHERE n < 900) SELECT REPEAT(HEX(n), 100) FROM r",
    )
    tagged(sql, "blue", "UPDATE t SET v = CONCAT(v, 'é') WHERE id < 200")
    sql("DELETE FROM t WHERE id % 7 = 0", "SET SESSION binlog_transaction_compression = OFF")
    assert start.log is not None
    kinds = sql(f"SHOW BINLOG EVENTS IN '{start.log.file}' FROM {start.log.offset}")
    assert [row[2] for row in kinds].count("Transaction_payload") == 3
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    wanted = plain(selected(server, database, "t").to_pylist(), ["id"])
    assert len(wanted) == 772
    assert folded(batches, "t", ["id"]) == wanted


@pytest.mark.parametrize(
    "charsets",
    [
        ("latin1", "utf8mb4", "cp1251", "greek"),  # each column's charset is logged
        ("latin1", "latin1", "cp1251", "latin1", "latin1", "latin1"),  # those beside the usual one
    ],
)
def test_texts_beside_a_vector(
    server: EmbeddedServer, database: str, sql: Sql, charsets: tuple[str, ...]
) -> None:
    """A text in another column's charset would be another text, and nothing would say so."""
    start = log_end(server)
    letters = {"latin1": "é", "utf8mb4": "日", "cp1251": "Я", "greek": "Ω"}
    texts = [f"c{n} VARCHAR(20) CHARACTER SET {name}" for n, name in enumerate(charsets)]
    columns = ["id INT PRIMARY KEY", texts[0], "v VECTOR(3)", *texts[1:]]
    values = [1, letters[charsets[0]], *(letters[name] for name in charsets[1:])]
    marks = ["%s", "%s", "TO_VECTOR('[1, 2, 3]')", *["%s"] * len(texts[1:])]
    sql(f"CREATE TABLE t ({', '.join(columns)})")
    sql(f"INSERT INTO t VALUES ({', '.join(marks)})", values=tuple(values))
    with session(source_of(server), database) as connection:
        table = read_table(connection, database, "t")
    with pytest.raises(TypeRefused, match=r"v vector\(3\)"):
        exact_columns(table)
    tables = {(database, "t"): FollowedTable.of(table, frozenset({"v"}))}
    [row] = images(read_log(server, start, tables), "t").to_pylist()
    assert [row[f"c{n}"] for n in range(len(charsets))] == [letters[name] for name in charsets]


def test_signs_beside_a_year(server: EmbeddedServer, database: str, sql: Sql) -> None:
    """8.0.12 logs no sign of a YEAR, and `test_binlog_types.py` has one among many others."""
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, y YEAR, a INT UNSIGNED, b INT, c BIGINT UNSIGNED)",
        "INSERT INTO t VALUES (1, 2000, 4294967295, -1, 18446744073709551615)",
    )
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    wanted = plain(selected(server, database, "t").to_pylist(), ["id"])
    assert folded(batches, "t", ["id"]) == wanted


def test_a_vector_is_refused_by_name(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, `my v` VECTOR)",
        "INSERT INTO t VALUES (1, TO_VECTOR('[1]'))",
    )
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    [stop] = [stop for batch in batches for stop in batch.stopped]
    assert (stop.table, images(batches, "t").num_rows) == ("t", 0)
    assert "column 'my v' has type VECTOR" in str(stop.error)


def test_what_a_foreign_key_changes_is_logged(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    """From 9.6 on the server does it itself, not InnoDB (`innodb_native_foreign_keys`)."""
    start = log_end(server)
    sql(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT,"
        " FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO c VALUES (1, 1), (2, 2)",
        "DELETE FROM p WHERE id = 1",
        "UPDATE p SET id = 5 WHERE id = 2",
    )
    batches = read_log(server, start, followed(source_of(server), database, "p", "c"))
    for name in ("p", "c"):
        wanted = plain(selected(server, database, name).to_pylist(), ["id"])
        assert folded(batches, name, ["id"]) == wanted
