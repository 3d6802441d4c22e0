"""Tables with names that Windows takes for devices, or in other scripts: InnoDB spells their files in
its own way, and its number of them is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follow_log import assert_equal

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


def test_a_table_that_is_truncated_is_read_again(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    """The row that comes then is older than what was read, so no window has it."""
    names = ("com7", "日本")
    for name in names:
        sql(
            f"CREATE TABLE `{name}` (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))",
            f"INSERT INTO `{name}` VALUES (1, '2026-01-01'), (2, '2026-01-02')",
        )
    mode = {"mode": "incremental", "key": ["id"], "cursor": "at", "shrink_limit": None}
    workspace = engine_for(dict.fromkeys(names, mode))
    for name in names:
        sync_table(workspace, workspace.config.table(name))
        sql(f"TRUNCATE `{name}`", f"INSERT INTO `{name}` VALUES (3, '2020-01-01')")
        sync_table(workspace, workspace.config.table(name))
    assert_equal(workspace, server, *names)
