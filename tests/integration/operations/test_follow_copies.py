"""Copies of tables that follow a log: chunks of several moments, joined by what the log says."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.following.log_state import LogPlace, read_end
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follow_log import LOG, TABLE, assert_equal, kinds
from tests.soak.runs import Order, Runner

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.mark.full
def test_a_copy_that_dies_half_way_is_resumed_and_the_log_wins(
    server: EmbeddedServer,
    sql: Sql,
    engine_for: EngineFor,
    runner: Runner,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rows that went from a chunk that was read into one that was not, or back, are there once."""
    rows = ", ".join(f"({n}, 'n{n}')" for n in range(4_000))
    sql(TABLE.format("t"), f"INSERT INTO t (id, name) VALUES {rows}", "ANALYZE TABLE t")
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    with session(workspace.config.sources["s"]) as connection:
        begun = read_end(connection, workspace.config.sources["s"]).position
    path = workspace.config.path
    order = Order(path, "t", failpoint="chunks.recorded:2", spark=False, rows_per_chunk=1_000)
    run = runner.run(order)
    assert run.code == -signal.SIGKILL, run.error
    sql(
        "UPDATE t SET amount = 1 WHERE id IN (1, 3500)",
        "DELETE FROM t WHERE id IN (2, 3501)",
        "UPDATE t SET id = 10003 WHERE id = 3",
        "UPDATE t SET id = -3502 WHERE id = 3502",
        "INSERT INTO t (id) VALUES (-1), (10001)",
    )
    caplog.set_level("INFO")
    sync_table(workspace, contract)
    assert "chunks are there" in caplog.text
    assert_equal(workspace, server)
    copied = workspace.ledger.successful_loads(contract.name)[0]
    assert copied.receipt is not None
    assert copied.receipt.moments is not None, "its chunks are of several moments"
    assert copied.receipt.log_place is not None
    # From the first run's place on: what changed between the two is in the log that is read.
    place = LogPlace.parse(copied.receipt.log_place).log
    assert begun <= place
    with session(workspace.config.sources["s"]) as connection:
        assert place < read_end(connection, workspace.config.sources["s"]).position
    assert kinds(workspace, "t") == ["initial", "log"]
