"""What we say that a CREATE TABLE makes, against what the server makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.ddl.actions import Statement
from mirrorlake.sources.mysql.ddl.altered import made
from mirrorlake.sources.mysql.ddl.parser import parse_ddl
from mirrorlake.sources.mysql.ddl.surroundings import read_surroundings_of_new
from mirrorlake.sources.mysql.introspection.introspect import read_ddl, read_table, read_tables
from mirrorlake.sources.mysql.sessions.connect import is_mariadb
from tests.integration.conftest import connected
from tests.integration.sources.test_altered import TYPES, shape
from tests.support.invented_schema import invented_tables

TABLES = (
    "(id INT)",
    "(id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20) UNIQUE)",
    "(a INT, b INT NOT NULL, PRIMARY KEY (b, a), KEY k (a), UNIQUE (a), INDEX (a, b))",
    "(KEY (a), a INT, UNIQUE KEY ua (b), b INT)",
    "(a TEXT, b VARCHAR(9) CHARACTER SET latin1, c CHAR(3) COLLATE utf8mb4_bin) CHARSET=ascii",
    "(a TEXT, b ENUM('x', 'y') NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin",
    "(a VARCHAR(9), b JSON) COLLATE utf8mb4_unicode_ci COMMENT='it''s (a, b)' ROW_FORMAT=DYNAMIC",
    "(a INT COMMENT 'SELECT', b INT DEFAULT 3, CHECK (a > 0), c INT CHECK (c > 1))",
    "(a INT, g INT AS (a + 1) STORED, h INT GENERATED ALWAYS AS (a * 2) VIRTUAL)",
    "(id INT NOT NULL, d DATE NOT NULL, PRIMARY KEY (id, d), KEY (d)) ENGINE=InnoDB"
    " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    "(`select` INT, `a b` INT, `c``d` INT, PRIMARY KEY (`a b`))",
    "(id SERIAL, at TIMESTAMP NULL, m DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE"
    " CURRENT_TIMESTAMP(6), FULLTEXT KEY f (t), t TEXT)",
    "(id INT PRIMARY KEY, /*!50000 a INT, */ b INT) /*!40100 DEFAULT CHARSET=latin1 */",
)  # fmt: skip
UNKNOWN = {
    "AS SELECT 1 AS a": "from a query",
    "SELECT 1 AS a": "from a query",
    "(a INT) SELECT 1 AS a, 2 AS b": "from a query",
    "(id INT PRIMARY KEY, a INT /*!80023 INVISIBLE */)": "in a comment that servers run or not",
    "(id INT, nothing)": "can't be read",
}


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def check(connection: Any, database: str, sql: Callable[..., Any], text: str) -> str:
    """What is wrong with what is predicted; '' if nothing, or if the server refuses it."""
    statement: Statement
    [statement] = parse_ddl(text)
    if statement.unread:
        return f"{text}: {statement.unread}"
    try:
        sql(f"DROP TABLE IF EXISTS {statement.table}", text)
    except pymysql.Error:
        return ""
    around = read_surroundings_of_new(connection, database)
    predicted = made(database, statement.table, statement.actions, around)
    now = read_table(connection, database, statement.table)
    if shape(predicted) == shape(now) and predicted.engine.lower() == now.engine.lower():
        return ""
    return f"{text}:\n  {shape(predicted)}\n  and is {shape(now)}"


@pytest.mark.full
def test_a_table_is_what_its_statement_says(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    with connected(server, database) as connection:
        texts = [f"CREATE TABLE t {body}" for body in TABLES]
        texts += [f"CREATE TABLE t (n {kind.strip()} NULL)" for kind in TYPES.split(";")]
        if not is_mariadb(connection):
            sql(f"ALTER DATABASE {database} COLLATE utf8mb4_bin")
        found = [check(connection, database, sql, text) for text in texts]
    assert not list(filter(None, found)), "\n".join(filter(None, found))


@pytest.mark.full
def test_what_servers_print_of_their_tables_is_read(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    """A dump's CREATE TABLE, of tables as public schemas have them."""
    for invented in invented_tables(7, 40):
        sql(*invented.statements)
    with connected(server, database) as connection:
        names = [table.name for table in read_tables(connection, database)]
        printed = [read_ddl(connection, database, name) for name in names]
        found = [check(connection, database, sql, text) for text in printed]
    assert len(names) > 20
    assert not list(filter(None, found)), "\n".join(filter(None, found))


@pytest.mark.parametrize("body", UNKNOWN)
def test_what_is_not_known_is_said(body: str) -> None:
    [statement] = parse_ddl(f"CREATE TABLE t {body}")
    assert (statement.kind, statement.table) == ("create", "t")
    assert UNKNOWN[body] in statement.unread
