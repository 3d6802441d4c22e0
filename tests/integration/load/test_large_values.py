"""Values as large as the server sends at all, many columns, an empty table; on both servers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.lakes import READERS
from tests.integration.sources.mysql.test_types import assert_exact

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL = {"t": {"mode": "full", "key": ["id"]}}
# A row must fit into max_allowed_packet, 16 MB by default in MariaDB.
LARGEST = 16 * 2**20 - 1_000


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.mark.full
def test_one_value_of_16_mb(database: str, sql: Sql, engine_for: EngineFor) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB, t LONGTEXT CHARACTER SET utf8mb4)",
        f"INSERT INTO t VALUES (1, REPEAT(x'00ff', {LARGEST // 2}), 'ü')",
        f"INSERT INTO t VALUES (2, NULL, REPEAT('ü😀', {LARGEST // 6})), (3, '', '')",
    )
    workspace = engine_for(FULL)
    sync_table(workspace, workspace.config.table("t"))
    stored = sql("SELECT id, LENGTH(b), SHA2(b, 256), LENGTH(t), SHA2(t, 256) FROM t ORDER BY id")
    table = workspace.lake.load(Identifier(f"s_{database}", "t"))
    assert table is not None
    for reader, rows in READERS.items():
        found = []
        for row in sorted(rows(table).to_pylist(), key=lambda r: r["id"]):
            text = None if row["t"] is None else row["t"].encode()
            found.append((row["id"], *measured(row["b"]), *measured(text)))
        assert tuple(found) == stored, reader


def measured(value: bytes | None) -> tuple[int | None, str | None]:
    return (None, None) if value is None else (len(value), hashlib.sha256(value).hexdigest())


@pytest.mark.full
def test_400_columns(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    kinds = ("INT", "VARCHAR(9)", "DATE", "DECIMAL(30,12)")
    columns = ", ".join(f"c{n} {kinds[n % 4]}" for n in range(399))
    values = ", ".join(("7", "'ü'", "'0000-00-00'", "1.5")[n % 4] for n in range(399))
    nulls = ", ".join(["NULL"] * 399)
    sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {values}), (2, {nulls})",
    )
    workspace = engine_for(FULL)
    result = sync_table(workspace, workspace.config.table("t"))
    assert result.originals == 100
    assert_exact(server, workspace, database, "t", ("id",))


def test_an_empty_table(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE, g POINT, v VARCHAR(9) CHARACTER SET sjis)")
    workspace = engine_for(FULL)
    result = sync_table(workspace, workspace.config.table("t"))
    assert result.rows == 0
