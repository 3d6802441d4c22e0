"""Values that the log has, and a SELECT of ours would not: such tables are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.errors import SchemaError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
FIXED = (
    "v1 INT AS (a + 1) VIRTUAL, v2 TEXT AS (CONCAT(b, '-', a)) VIRTUAL,"
    " v3 VARCHAR(9) AS (JSON_UNQUOTE(JSON_EXTRACT(j, '$.k'))) VIRTUAL,"
    " v4 INT AS (CASE WHEN a > 5 THEN v1 END) VIRTUAL, p VARCHAR(30) AS (b) STORED"
)
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, j JSON, ts TIMESTAMP NOT NULL, {})"


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def test_virtual_columns_that_depend_on_no_session(sql: Sql, engine_for: EngineFor) -> None:
    sql(
        TABLE.format(FIXED),
        "INSERT INTO t (id, a, b, j, ts) VALUES (1, 1, 'x', '{\"k\": \"m\"}', NOW()),"
        " (2, 2, 'y', '{}', NOW()), (3, 3, NULL, NULL, NOW())",
    )
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(
        "SET time_zone = '+05:00', sql_mode = 'NO_UNSIGNED_SUBTRACTION'",
        "UPDATE t SET ts = '2026-03-01 02:00:00' WHERE id = 1",
        "UPDATE t SET b = 'zz', j = '{\"k\": 7}' WHERE id = 2",
        "INSERT INTO t (id, a, b, ts) VALUES (3, 9, 'n', NOW()) ON DUPLICATE KEY UPDATE a = 10",
        "REPLACE INTO t (id, a, b, ts) VALUES (2, 5, 'r', '2026-05-05 01:00:00')",
        "INSERT INTO t (id, a, b, j, ts) SELECT id + 10, a, b, j, ts FROM t",
        "UPDATE t x JOIN t y ON x.id = y.id + 10 SET x.a = y.a + 100",
    )
    assert sync_table(workspace, contract).window == "log"
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"


def test_one_that_depends_on_its_session_is_refused_or_left_out(
    sql: Sql, engine_for: EngineFor
) -> None:
    """Its value in the log is its writer's, by that session's time zone."""
    sql(
        TABLE.format("`of ts` VARCHAR(30) AS (CONCAT(ts)) VIRTUAL"),
        "INSERT INTO t (id, ts) VALUES (1, '2026-01-01 00:00:00')",
    )
    workspace = engine_for({"t": LOG})
    with pytest.raises(SchemaError, match=r"column of ts is VIRTUAL.*Make it STORED, or leave it"):
        sync_table(workspace, workspace.config.table("t"))
    assert workspace.ledger.last_load(workspace.config.table("t").name) is None
    workspace = engine_for({"t": {**LOG, "columns": {"of ts": {"pci": "never"}}}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("SET time_zone = '+05:00'", "UPDATE t SET ts = '2026-03-01 02:00:00'")
    assert sync_table(workspace, contract).window == "log"
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"


def test_a_system_versioned_table_is_refused(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        [version] = cursor.fetchone() or ("",)
    if "MariaDB" not in str(version):
        return  # MySQL has none
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME(s, e))"
        " WITH SYSTEM VERSIONING",
        "INSERT INTO t (id, a) VALUES (1, 1)",
    )
    workspace = engine_for({"t": LOG})
    with pytest.raises(SchemaError, match=r"table s\..*\.t: .*system-versioned, and its old rows"):
        sync_table(workspace, workspace.config.table("t"))
