"""Keys of every type that can be one, on both servers: one row per key, whatever changes.

Two rows are one key exactly where the server says so: 'a' and 'A' under a collation that calls them
equal, 0.0 and -0.0, but not two zero dates that differ, nor ENUM's error and a legal ''.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.sources.mysql.test_types import MODES, assert_exact
from tests.integration.type_cases import MARIADB, MYSQL8

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@dataclass(frozen=True)
class Key:
    """A key's column, its first values, and changes of a key's text that leave it the same key."""

    ddl: str
    values: tuple[str, ...]
    respelt: tuple[tuple[str, str], ...] = ()
    server: str | None = None


UNICODE = "VARCHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"
WORDS = "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"
ACUTE = "\u0301"
FEW = (
    Key("DATE", ("'0000-00-00'", "'2024-00-00'", "'2023-02-31'", "'2024-01-01'")),
)  # fmt: skip
MANY = (
    # 'ß' weighs as two letters: a key of three is six letters long to the server.
    Key(UNICODE, ("'ßßa'", "'ßßb'", "'a'", "'b '"), (("'a'", "'A '"), ("'b'", "'b'"))),
    # One key, respelled: by letters that weigh as two, and by marks of their own.
    Key(WORDS, ("'Strasse'", "'cafe'", "'b '"), (("'Strasse'", "'Straße'"), ("'cafe'", f"'cafe{ACUTE}'"), ("'b'", "'b\u00a0'"))),
    Key("VARCHAR(9) CHARACTER SET latin7", ("'asses'", "'a'"), (("'asses'", "'ASSES'"),)),
    Key("ENUM('a','')", ("'a'", "''", "'none'")),
    Key("VARCHAR(9) CHARACTER SET gbk", ("'a'", "CAST(x'a2ab' AS CHAR CHARACTER SET gbk)", "CAST(x'a2ac' AS CHAR CHARACTER SET gbk)"), (("'a'", "'A'"),)),
    Key("DOUBLE", ("0", "0.1", "1e300"), (("0", "-0e0"),)),
    Key("BIGINT UNSIGNED", ("0", "9223372036854775808", "18446744073709551615")),
    Key("DECIMAL(65,30)", ("0", "1e-30", "-1e-30", "99999999999999999999999999999999999.5")),
    Key("DECIMAL(30,12)", ("0", "0.000000000001", "0.000000000002")),
    Key("FLOAT", ("16777216", "16777218", "0.1"), ()),
    Key("BIT(64)", ("b'0'", "b'1'", f"b'{'1' * 64}'")),
    Key("YEAR", ("0", "1999", "2026")),
    Key("TIME(6)", ("'-838:59:59'", "'00:00:00.000001'", "'00:00:00.000002'")),
    Key("DATETIME(6)", ("'0000-00-00'", "'2024-01-00 01:00:00'", "'2024-01-01 00:00:00.000001'")),
    Key("TIMESTAMP(6)", ("'0000-00-00'", "'1970-01-01 00:00:01'", "'2024-01-01 00:00:00.000001'")),
    Key("BINARY(16)", ("x'00'", "x'0001'", "x'ff00'")),
    Key("VARBINARY(9)", ("''", "x'00'", "x'0000'", "'a'", "'a '")),
    Key("SET('a','b')", ("''", "'a'", "'a,b'")),
    Key("CHAR(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ("'a'", "'A'", "'b'")),
    Key("VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ("'a'", "'A'", "'b '"), (("'b'", "'b'"),)),
    Key("VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_german2_ci", ("'äa'", "'äb'", "'o'"), (("'o'", "'O'"),)),
    Key("VARCHAR(9) CHARACTER SET sjis", ("'あ'", "'い'", "'a'"), (("'a'", "'A'"),)),
    Key("VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci", ("'a'", "'a '", "'é'"), (("'é'", "'E'"),), MYSQL8),
    Key("VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_as_cs", ("'a'", "'A'", "'é '"), (("'é'", "'é'"),), MARIADB),
    Key("UUID", ("UUID()", "UUID()"), (), MARIADB),
    Key("INET6", ("'::1'", "'::2'"), (), MARIADB),
)  # fmt: skip


def sync_while_it_changes(
    key: Key, server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """Four syncs between which rows are changed, added, respelt and touched."""
    if key.server not in (None, MARIADB if isinstance(server, MariaDB) else MYSQL8):
        return
    sql(
        f"CREATE TABLE t (k {key.ddl} NOT NULL, n INT NOT NULL, v INT, at DATETIME(6) NOT NULL "
        "DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), PRIMARY KEY (k, n), KEY (at))"
    )
    contract = {"mode": "incremental", "key": ["k", "n"], "cursor": "at"}
    workspace = engine_for({"t": contract}, {"time_zone": "UTC"})
    table = workspace.config.table("t")

    def check() -> None:
        sync_table(workspace, table)
        # Rows are compared as a multiset: texts of a key may be equal where keys are not.
        assert_exact(server, workspace, database, "t", ())

    for value in key.values:
        sql(MODES, f"INSERT IGNORE INTO t (k, n, v) VALUES ({value}, 1, 0)")
    check()
    sql(
        MODES,
        "UPDATE t SET v = v + 1",
        *(f"INSERT IGNORE INTO t (k, n, v) VALUES ({v}, 2, 0)" for v in key.values),
    )
    check()
    for old, new in key.respelt:
        sql(MODES, f"UPDATE t SET k = {new}, at = NOW(6) WHERE k = {old}")
    check()
    [(rows, distinct)] = sql("SELECT COUNT(*), COUNT(DISTINCT n, v) FROM t")
    assert rows == 2 * len(key.values)
    assert distinct == 2


@pytest.mark.parametrize("key", FEW, ids=lambda key: key.ddl)
def test_a_key(
    key: Key, server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sync_while_it_changes(key, server, database, sql, engine_for)


@pytest.mark.full
@pytest.mark.parametrize("key", MANY, ids=lambda key: key.ddl)
def test_every_other_key(
    key: Key, server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sync_while_it_changes(key, server, database, sql, engine_for)


@pytest.mark.full
def test_a_key_whose_index_has_the_beginning_alone(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """Its texts are told apart whole; one that changes behind that is another key, and the one
    before is found gone."""
    sql(
        "CREATE TABLE t (k LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, v INT, "
        "at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), PRIMARY KEY (k(3)), KEY (at))",
        "INSERT INTO t (k, v) VALUES ('one', 1), ('two...', 1), (REPEAT('long', 99999), 1)",
    )
    contract = {"mode": "incremental", "key": ["k"], "cursor": "at"}
    workspace = engine_for({"t": contract}, {"time_zone": "UTC"})
    table = workspace.config.table("t")
    sync_table(workspace, table)
    sql("UPDATE t SET v = 2", "UPDATE t SET k = 'one ' WHERE k = 'one'")
    sync_table(workspace, table)
    assert_exact(server, workspace, database, "t", ())
    sql("UPDATE t SET k = 'two, again' WHERE k = 'two...'")
    sync_table(workspace, table)
    assert repair_table(workspace, table, Ask("full")).outcome == "equal"
    assert_exact(server, workspace, database, "t", ())
