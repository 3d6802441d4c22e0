"""Types as people and tools spell them: what is predicted of a column is what a server makes of it.

Declarations are drawn from a grammar: a type in one of its spellings, its size, and attributes. A
server may refuse one (a row that is too long, an attribute that a type has not); what it takes is
to be as it was predicted, whatever its mode.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from mirrorlake.errors import DdlRefused
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.ddl.altered import alter
from mirrorlake.sources.mysql.ddl.parser import parse_ddl
from mirrorlake.sources.mysql.ddl.surroundings import read_surroundings
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import is_mariadb
from tests.integration.conftest import connected
from tests.integration.sources.test_altered import shape

SPELLINGS = """MIDDLEINT; MIDDLEINT UNSIGNED; INT3; VARCHAR(20) COMPRESSED; TEXT COMPRESSED; LONG COMPRESSED;
    VARCHAR(20) COMPRESSED CHARACTER SET utf8mb4; VARBINARY(20) COMPRESSED; BLOB COMPRESSED; JSON COMPRESSED;
    VARCHAR(20) CHARACTER SET utf8mb4 COMPRESSED=zlib; VARCHAR(70000) COMPRESSED; NATIONAL CHAR(5);
    NATIONAL CHARACTER(5); NATIONAL VARCHAR(5); NATIONAL CHAR VARYING(5); NATIONAL CHARACTER VARYING(5);
    NCHAR(5); NCHAR; NATIONAL CHAR; NCHAR VARCHAR(5); NCHAR VARYING(5); NVARCHAR(5); NATIONAL VARCHARACTER(5);
    NCHAR(4) BINARY; NVARCHAR(4) COLLATE utf8_bin; NATIONAL VARCHAR(22000); VARCHAR(70000); VARBINARY(70000);
    VARCHAR(20000) CHARACTER SET utf8mb4; VARCHAR(17000000); VARCHAR(70000) CHARACTER SET binary;
    VARCHAR(65533) CHARACTER SET ascii; VARBINARY(65535); VARCHAR(21845) CHARACTER SET utf8; CHAR(300);
    INT SERIAL DEFAULT VALUE; BIGINT SERIAL DEFAULT VALUE; SERIAL; DEC; DEC(5); FIXED; FIXED(6); NUMERIC;
    NUMERIC(6,2) UNSIGNED; NUMERIC(6,2) ZEROFILL; LONG; LONG VARCHAR; LONG CHAR VARYING; LONG VARBINARY;
    LONG CHARACTER VARYING; LONG VARCHAR CHARACTER SET utf8mb4; LONG BYTE; LONG BINARY; BOOL; BOOLEAN;
    DOUBLE PRECISION; DOUBLE PRECISION(7,3) UNSIGNED; DOUBLE PRECISION UNSIGNED ZEROFILL; REAL(7,3); FLOAT4;
    FLOAT8; CHARACTER VARYING(6); CHAR VARYING(6); VARCHARACTER(6); CHAR(5) BYTE; CHAR BYTE; VARCHAR(5) BYTE;
    TEXT BYTE; TINYTEXT BYTE; LONGTEXT BYTE; CHAR(5) UNICODE; CHAR(5) ASCII BINARY; CHAR(5) UNICODE BINARY;
    TEXT BINARY; VARCHAR(9) BINARY CHARACTER SET utf8mb4; VARCHAR(9) CHARACTER SET utf8mb4 BINARY; CHARACTER(5);
    CHARACTER; CHAR(0); INT SIGNED; BIT(0); DECIMAL(0); DECIMAL(0,0); TIME(0); BLOB(0); TEXT(0); INT ZEROFILL;
    ENUM('a','b') CHARACTER SET binary; SET('a') BYTE; ENUM('a') BINARY; VARCHAR(5) CHAR SET utf8mb4; FLOAT(0);
    VARCHAR(5) CHARACTER SET ascii BINARY; FLOAT(24); FLOAT(25); FLOAT UNSIGNED; FLOAT4 UNSIGNED ZEROFILL; BLOB COLLATE utf8mb4_bin;
    LONG VARBINARY COLLATE utf8mb4_bin; BINARY(5) COLLATE utf8mb4_bin; TEXT(255); TEXT(256); BLOB(16777216)"""
NUMBERS = (
    "TINYINT", "INT1", "SMALLINT", "INT2", "MEDIUMINT", "MIDDLEINT", "INT3", "INT", "INTEGER", "INT4", "BIGINT",
    "INT8", "DEC", "DECIMAL", "NUMERIC", "FIXED", "FLOAT", "FLOAT4", "DOUBLE", "DOUBLE PRECISION", "REAL", "FLOAT8",
)  # fmt: skip
SIZED = (
    "CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER", "CHAR VARYING", "CHARACTER VARYING", "BINARY", "VARBINARY",
    "TEXT", "BLOB",
)  # fmt: skip
NATIONAL = (
    "NCHAR", "NVARCHAR", "NATIONAL CHAR", "NATIONAL CHARACTER", "NATIONAL VARCHAR", "NATIONAL CHAR VARYING",
    "NATIONAL CHARACTER VARYING", "NATIONAL VARCHARACTER", "NCHAR VARCHAR", "NCHAR VARYING",
)  # fmt: skip
LONGS = (
    "LONG", "LONG VARCHAR", "LONG CHAR VARYING", "LONG CHARACTER VARYING", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT",
    "JSON", "LONG VARBINARY", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB",
)  # fmt: skip
OTHERS = (
    "BOOL", "BOOLEAN", "BIT", "BIT(9)", "DATE", "DATETIME", "DATETIME(3)", "TIME(2)", "YEAR",
    "TIMESTAMP(6) NULL", "ENUM('a','b c')", "SET('x','y')",
)  # fmt: skip
ATTRIBUTES = (
    "", "", "BINARY", "BYTE", "ASCII", "UNICODE", "CHARACTER SET utf8mb4", "CHARSET latin2", "COMPRESSED",
    "CHARACTER SET binary", "COLLATE utf8mb4_bin", "CHARACTER SET utf8mb4 BINARY", "CHAR SET ascii",
)  # fmt: skip


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def draw(some: random.Random) -> str:
    """A column's declaration without its name."""
    kind = some.choice((NUMBERS, SIZED, SIZED, NATIONAL, LONGS, OTHERS))
    word = some.choice(kind)
    if kind is NUMBERS:
        size = some.choice(("", "", "(5)", "(7,3)" if word[0] in "DNFR" else "(3)"))
        signs = some.choice(("", "", " UNSIGNED", " ZEROFILL", " UNSIGNED ZEROFILL", " SIGNED"))
        last = some.choice(
            ("", "", " NOT NULL", " NOT NULL DEFAULT 1", " COMMENT 'BYTE, COMPRESSED'")
        )
        return word + size + signs + last
    if kind is OTHERS:
        return word
    size = f"({some.choice((1, 5, 20, 200, 255, 256, 5000, 16384, 21846, 70000))})"
    if kind is LONGS or some.random() < 0.1:
        size = ""
    attribute = some.choice(ATTRIBUTES)
    return f"{word}{size} {attribute} {some.choice(('', 'NULL', 'NOT NULL'))}".strip()


def wrong_of(
    server: EmbeddedServer,
    database: str,
    sql: Callable[..., Any],
    declared: Sequence[str],
    strict: bool,
) -> list[str]:
    """The declarations of which something else was predicted than the server made of them."""
    mode = "STRICT_TRANS_TABLES" if strict else ""
    wrong: list[str] = []
    sql("DROP TABLE IF EXISTS t, plain", "CREATE TABLE plain (id INT) DEFAULT CHARSET = latin1")
    with connected(server, database) as connection, server.admin(database) as session:
        for number, one in enumerate(declared):
            name = f"t{number}"
            sql(f"CREATE TABLE {name} LIKE plain")
            before = read_table(connection, database, name)
            around = replace(read_surroundings(connection, database, name), strict=strict)
            text = f"ALTER TABLE {name} ADD COLUMN `n` {one}"
            said: Any
            try:
                [statement] = parse_ddl(text)
                said = shape(alter(before, statement.actions, around))
            except DdlRefused as error:
                said = error
            try:
                with session.cursor() as cursor:
                    cursor.execute(f"SET sql_mode = '{mode}'")
                    cursor.execute(text)
            except pymysql.Error as error:
                if error.args[0] == 1074 and not isinstance(said, DdlRefused):
                    wrong.append(f"{one}: the server: {error}; predicted {said}")
            else:
                made = shape(read_table(connection, database, name))
                if said != made:
                    wrong.append(f"{one}: made {made}; predicted {said}")
            sql(f"DROP TABLE {name}")
    return wrong


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.full)])
def test_every_spelling(
    strict: bool, server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    declared = [one.strip() for one in SPELLINGS.split(";")]
    assert not (wrong := wrong_of(server, database, sql, declared, strict)), "\n".join(wrong)


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 60), *(pytest.param(n, 400, marks=pytest.mark.full) for n in (2, 3))]
)
def test_declarations_that_were_drawn(
    seed: int, count: int, server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    some = random.Random(seed)  # noqa: S311
    declared = [draw(some) for _ in range(count)]
    wrong = wrong_of(server, database, sql, declared, strict=bool(seed % 2))
    assert not wrong, "\n".join(wrong)


def test_what_mariadb_alone_has_is_refused_of_mysql(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    sql("CREATE TABLE t (id INT)")
    with connected(server, database) as connection:
        table = read_table(connection, database, "t")
        around = read_surroundings(connection, database, "t")
        [statement] = parse_ddl("ALTER TABLE t ADD n TEXT COMPRESSED, ADD compressed INT AFTER id")
        if is_mariadb(connection):
            kinds = [c.column_type for c in alter(table, statement.actions, around).columns[1:]]
            assert kinds == ["int", "text /*M!100301 COMPRESSED*/"]
        else:
            with pytest.raises(DdlRefused, match="MySQL has no type TEXT COMPRESSED"):
                alter(table, statement.actions, around)
