"""A table has one schema version on every server: MariaDB and MySQL 8 print its types otherwise."""

from __future__ import annotations

import uuid

import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.versions import SchemaVersion, schema_version
from mirrorlake.sources.mysql.introspection.introspect import read_table
from tests.support.mysql8 import MySQL8

COLUMNS = (
    *("TINYINT(1)", "TINYINT UNSIGNED", "SMALLINT", "MEDIUMINT UNSIGNED", "INT", "INT(5) ZEROFILL"),
    *("BIGINT", "BIGINT UNSIGNED", "BOOLEAN", "YEAR", "BIT", "BIT(64)"),
    *(
        "DECIMAL",
        "DECIMAL(65,30)",
        "DECIMAL(9,2) UNSIGNED",
        "FLOAT",
        "FLOAT(7,3)",
        "DOUBLE",
        "REAL",
    ),
    *("CHAR", "VARCHAR(20)", "TEXT", "LONGTEXT", "TEXT CHARACTER SET gbk", "NATIONAL VARCHAR(9)"),
    *("ENUM('it''s','ü','a,b')", "SET('x','y')", "BINARY(16)", "VARBINARY(9)", "MEDIUMBLOB"),
    *("DATE", "DATETIME", "DATETIME(3)", "TIMESTAMP(6) NULL", "TIME", "TIME(2)"),
    *("GEOMETRY", "POINT", "INT AS (1 + 1) VIRTUAL", "INT NOT NULL DEFAULT 7 COMMENT 'seven'"),
)


def version_on(server: EmbeddedServer, columns: tuple[str, ...]) -> SchemaVersion:
    """The version of a table with these columns as a server describes it."""
    database = f"v{uuid.uuid4().hex[:8]}"
    listed = ", ".join(f"`c{number}` {kind}" for number, kind in enumerate(columns))
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        try:
            cursor.execute(f"CREATE TABLE {database}.customer ({listed})")
            table = read_table(admin, database, "customer")
        finally:
            cursor.execute(f"DROP DATABASE {database}")
    return schema_version(table.name, [(c.name, c.column_type) for c in table.columns])


@pytest.mark.full
def test_a_table_has_one_version_on_both_servers(mariadb: MariaDB, mysql8: MySQL8) -> None:
    on_mariadb, on_mysql = version_on(mariadb, COLUMNS), version_on(mysql8, COLUMNS)
    assert on_mariadb.columns == on_mysql.columns
    assert on_mariadb.hash == on_mysql.hash


@pytest.mark.full
def test_what_is_recorded_and_not_hashed(mariadb: MariaDB) -> None:
    """NULLs, charsets, collations, defaults and comments: the version keeps its DDL for them."""
    one, other = (
        version_on(mariadb, columns)
        for columns in (
            ("INT", "VARCHAR(9) CHARACTER SET latin1", "INT"),
            ("INT NOT NULL", "VARCHAR(9) COLLATE utf8mb4_bin", "INT DEFAULT 3 COMMENT 'x'"),
        )
    )
    assert one.hash == other.hash
