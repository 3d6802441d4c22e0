"""What we say that a table will be after a statement, against what the server makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.errors import DdlRefused
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.versions import schema_version, without_width
from mirrorlake.sources.mysql.ddl.altered import alter
from mirrorlake.sources.mysql.ddl.parser import parse_ddl
from mirrorlake.sources.mysql.ddl.surroundings import read_surroundings
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import is_mariadb
from mirrorlake.sources.mysql.tables import SourceTable
from tests.integration.conftest import connected

CREATE = """CREATE TABLE t (id INT NOT NULL, a VARCHAR(20), b DECIMAL(8,2) NOT NULL, `c d` INT,
    e ENUM('x','y'), f DATETIME(3), PRIMARY KEY (id), UNIQUE KEY ua (a), KEY bc (b, `c d`))
    DEFAULT CHARSET = latin1"""
TYPES = """INT; INTEGER; INT(11); INT(5) UNSIGNED ZEROFILL; TINYINT(1); BOOL; BOOLEAN; INT1; INT2;
    INT4; INT8; SMALLINT UNSIGNED; MEDIUMINT; BIGINT UNSIGNED; DECIMAL; DECIMAL(5);
    DECIMAL(20,4) UNSIGNED; DEC(7,2); NUMERIC(20,4); FIXED(6,1); FLOAT; FLOAT(20); FLOAT(30);
    FLOAT(7,3); DOUBLE; DOUBLE PRECISION; REAL; DOUBLE UNSIGNED; BIT; BIT(9); CHAR; CHAR(3);
    NCHAR(4); NVARCHAR(5); VARCHAR(20); CHARACTER VARYING(9); VARCHAR(9) CHARACTER SET utf8mb4;
    VARCHAR(9) COLLATE utf8mb4_bin; VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
    CHAR(5) ASCII; VARCHAR(20) BINARY; VARCHAR(20) CHARACTER SET binary; TINYTEXT; TEXT; TEXT(100);
    TEXT(300); TEXT(70000); TEXT(20000) CHARACTER SET utf8mb4; MEDIUMTEXT; LONGTEXT; LONG;
    TEXT CHARACTER SET utf8mb4; TEXT CHARACTER SET binary; BLOB; BLOB(10); BLOB(70000); TINYBLOB;
    LONGBLOB; BINARY; BINARY(4); VARBINARY(9); ENUM('a''b','c ','d,e'); SET('x','y'); JSON; DATE;
    DATETIME; DATETIME(3); TIMESTAMP; TIMESTAMP(6); TIME; TIME(2); YEAR; YEAR(4); GEOMETRY"""
STATEMENTS = [
    "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 3 AFTER a, ADD m VARCHAR(9) FIRST",
    "ALTER TABLE t DROP COLUMN e, ADD e BIGINT FIRST",
    "ALTER TABLE t DROP COLUMN a, CHANGE b a INT",
    "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "ALTER TABLE t CHANGE a b VARCHAR(20), CHANGE b a DECIMAL(8,2) NOT NULL, ADD KEY (a)",
    "ALTER TABLE t CHANGE COLUMN a aa BIGINT UNSIGNED NOT NULL AFTER b",
    "ALTER TABLE t CHANGE a A VARCHAR(20)",
    "ALTER TABLE t CHANGE a z VARCHAR(30), MODIFY b DOUBLE FIRST",
    "ALTER TABLE t MODIFY e ENUM('y','x','z') NOT NULL COMMENT 'it''s'",
    "ALTER TABLE t RENAME COLUMN a TO z, RENAME COLUMN `c d` TO `c``d`",
    "ALTER TABLE t DROP a, DROP COLUMN `c d`",
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (e, id)",
    "ALTER TABLE t DROP INDEX ua, DROP KEY bc, ADD UNIQUE KEY (a), ADD INDEX i (b, a)",
    "ALTER TABLE t ADD UNIQUE (b), ADD UNIQUE (b), ADD KEY (b), ADD KEY k (a(3))",
    "ALTER TABLE t RENAME INDEX ua TO other",
    "ALTER TABLE t ADD k INT UNIQUE",
    "ALTER TABLE t ADD g INT GENERATED ALWAYS AS (id + 1) STORED",
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT 'x', ALGORITHM=INPLACE, LOCK=NONE",
    "ALTER TABLE t AUTO_INCREMENT = 5, ENGINE=InnoDB",
    "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
    "ALTER TABLE t ADD x TEXT, CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "ALTER TABLE t CONVERT TO CHARSET ascii, MODIFY a VARCHAR(9) COMMENT 'CONVERT TO CHARSET x'",
    "CREATE UNIQUE INDEX i ON t (a, b)",
    "DROP INDEX ua ON t",
    "/* why */ ALTER /* here */ TABLE t ADD s BIGINT UNSIGNED NOT NULL -- and here",
]
ON_MARIADB = [
    "ALTER ONLINE TABLE t ADD COLUMN IF NOT EXISTS a INT, ADD IF NOT EXISTS n INT",
    "ALTER TABLE t DROP COLUMN IF EXISTS a, DROP COLUMN IF EXISTS nothing",
    "ALTER TABLE t ADD u UUID",
]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def shape(table: SourceTable) -> tuple[Any, ...]:
    """What the mirror goes by, as either side has it."""
    columns = [
        (
            *(c.name, c.ordinal, c.data_type, without_width(c.column_type), c.nullable),
            *(c.charset, c.collation, c.fraction, bool(c.generated)),
            (c.precision, c.scale) if c.data_type == "decimal" else None,
            c.precision if c.data_type == "bit" else None,
        )
        for c in table.columns
    ]
    indexes = sorted((i.name, i.unique, i.columns) for i in table.indexes)
    version = schema_version(table.name, [(c.name, c.column_type) for c in table.columns])
    return columns, indexes, version.hash


def check(server: EmbeddedServer, database: str, sql: Callable[..., Any], text: str) -> None:
    with connected(server, database) as connection:
        before = read_table(connection, database, "t")
        around = read_surroundings(connection, database, "t")
        [statement] = parse_ddl(text)
        predicted = alter(before, statement.actions, around)
        sql(text)
        assert shape(predicted) == shape(read_table(connection, database, "t"))


@pytest.mark.parametrize("statement", [*STATEMENTS, *ON_MARIADB])
def test_a_table_after_a_statement(
    statement: str, server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    with connected(server, database) as connection:
        if statement in ON_MARIADB and not is_mariadb(connection):
            statement = STATEMENTS[0]
    sql(CREATE)
    check(server, database, sql, statement)


def test_every_spelling_of_a_type(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    for spelled in TYPES.split(";"):
        sql("DROP TABLE IF EXISTS t", CREATE)
        check(server, database, sql, f"ALTER TABLE t ADD COLUMN n {spelled.strip()} NULL")


def test_texts_in_another_charset_are_as_long_as_their_characters_need(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    for kind in ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "VARCHAR(200)"):
        sql("DROP TABLE IF EXISTS t", CREATE, f"ALTER TABLE t ADD n {kind}, ADD m JSON, ADD k BLOB")
        check(server, database, sql, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4")
        check(server, database, sql, "ALTER TABLE t CONVERT TO CHARACTER SET latin1")


def test_a_key_that_counts_by_itself(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    sql("CREATE TABLE t (a INT)")
    check(server, database, sql, "ALTER TABLE t ADD n SERIAL")
    sql("DROP TABLE t", "CREATE TABLE t (a INT)")
    check(server, database, sql, "ALTER TABLE t ADD id INT AUTO_INCREMENT PRIMARY KEY FIRST")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t DROP nothing",
        "ALTER TABLE t ADD n INT, DROP n",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t ADD a INT",
        "ALTER TABLE t CHANGE nothing n INT",
        "ALTER TABLE t RENAME COLUMN nothing TO n",
        "ALTER TABLE t ADD KEY k (nothing)",
        "ALTER TABLE t DROP INDEX nothing",
        "ALTER TABLE t ADD n INT AFTER nothing",
        "ALTER TABLE t ADD UNIQUE KEY ua (b)",
    ],
)
def test_what_the_server_refuses_we_refuse(
    statement: str, server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    sql(CREATE)
    with connected(server, database) as connection:
        before = read_table(connection, database, "t")
        around = read_surroundings(connection, database, "t")
    [parsed] = parse_ddl(statement)
    with pytest.raises(DdlRefused, match="the server would refuse it"):
        alter(before, parsed.actions, around)
    with pytest.raises(Exception, match=r"\d{4}"):
        sql(statement)
