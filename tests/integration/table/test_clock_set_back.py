"""A server whose clock was set back: what is written then is stamped before the last window's end,
and is read all the same."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD
from tests.integration.sources.mysql.test_zones import MOVING, TABLE, server_setting


def test_a_clock_that_was_set_back(
    server: MariaDB,
    database: str,
    sql: Callable[..., Any],
    engine_for: Callable[..., Workspace],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``init_connect`` gives each session, the mirror's and the application's, the other clock; one
    that stands still, which a session of ours refuses otherwise."""
    monkeypatch.setattr("mirrorlake.sources.mysql.sessions.connect._CLOCK_RUNS", "1")
    sql(TABLE, "INSERT INTO t (id) VALUES (1)")
    grants = {f"{database}.*": "ALL", "*.*": "PROCESS, REPLICATION CLIENT"}
    server.create_user("plain", PASSWORD, grants)
    workspace = engine_for({"t": MOVING}, {"user": "plain"})
    contract = workspace.config.table("t")
    load_table(workspace, contract)
    with server_setting(sql, "init_connect", "SET timestamp = UNIX_TIMESTAMP() - 7200"):
        sql(
            "SET timestamp = UNIX_TIMESTAMP() - 7200",
            "INSERT INTO t (id) VALUES (2)",
            "SET timestamp = DEFAULT",
        )
        with caplog.at_level(logging.WARNING):
            assert load_table(workspace, contract).rows == 2  # one of them is of the future now
        assert "the clock of source s was set back by 2:00:0" in caplog.text
        last = workspace.ledger.last_load(contract.name, "success")
        assert last is not None
        assert last.receipt is not None
        ahead = timedelta(seconds=last.receipt.clock_ahead or 0)
        assert timedelta(hours=-2, minutes=-1) < ahead < timedelta(hours=-1, minutes=-59)
        caplog.clear()
        load_table(workspace, contract)
        assert "set back" not in caplog.text
