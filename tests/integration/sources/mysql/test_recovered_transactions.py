"""A prepared transaction (XA) outlives the server; when that starts again, nobody knows any more
when it wrote its rows."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest

from demo.embedded import EmbeddedServer, free_port
from demo.mariadb import MariaDB
from mirrorlake.operations.sync import load_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, Place, lake_rows, write_config
from tests.support.mysql8 import MySQL8

CURSOR = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "0s"}


def raw_keys(workspace: Workspace, name: str) -> set[int]:
    contract = workspace.config.table(f"s.d.{name}")
    tables = {load.raw_table for load in workspace.ledger.successful_loads(contract.name)}
    rows = (lake_rows(workspace, contract.namespaces.raw, table) for table in tables)
    return {row["id"] for of_table in rows for row in of_table}


@pytest.mark.parametrize("ended", ["killed", pytest.param("stopped", marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", [MariaDB, MySQL8])
def test_rows_of_a_transaction_that_outlived_the_server_are_read(
    kind: type[EmbeddedServer],
    ended: str,
    tmp_path: Path,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`seen` is loaded before the restart, `fresh` for the first time while it is prepared, and
    `copied` is a full copy, which MySQL's own word may call unchanged."""
    monkeypatch.setattr("mirrorlake.table.windows._MARGIN", timedelta(0))
    port = free_port()
    first = kind.start(tmp_path / "data", port=port)
    try:
        first.create_user(USER, PASSWORD)
        with first.admin() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            cursor.execute("USE d")
            for name in ("seen", "fresh", "copied"):
                cursor.execute(
                    f"CREATE TABLE {name} (id INT PRIMARY KEY, modified_at DATETIME(6) NOT NULL "
                    "DEFAULT CURRENT_TIMESTAMP(6), KEY (modified_at))"
                )
                cursor.execute(f"INSERT INTO {name} (id) VALUES (1)")
        tables = {"seen": CURSOR, "fresh": CURSOR, "copied": {"mode": "full", "key": ["id"]}}
        config = write_config(tmp_path, first, {"d": {"tables": tables}})
        workspace = Workspace.open(config, spark=place.spark)

        def load(*names: str) -> list[bool]:
            """Whether the windows of each are held back."""
            tables = [config.table(f"s.d.{name}") for name in names]
            return ["(XA)" in load_table(workspace, one).held_back for one in tables]

        load("seen", "copied")
        with first.admin("d") as late, late.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("XA START 'x'")
            for name in tables:
                cursor.execute(f"INSERT INTO {name} (id) VALUES (2)")
            cursor.execute("XA END 'x'")
            cursor.execute("XA PREPARE 'x'")
            load("seen", "copied")  # sees it open
        time.sleep(1.1)
        if ended == "killed":
            os.kill(first.pid, signal.SIGKILL)
    finally:
        first.stop()
    with kind.start(tmp_path / "data", port=port) as server:
        assert load("seen", "fresh", "copied") == [True, True, False]
        assert "prepared transaction (XA)" in caplog.text
        # Another one, that looks back to what the one before knew.
        assert load("seen") == [True]
        with server.admin("d") as connection, connection.cursor() as cursor:
            for name in ("seen", "fresh", "copied"):
                assert raw_keys(workspace, name) == {1}
            cursor.execute("XA COMMIT 'x'")
            caplog.clear()
            assert load("seen", "fresh", "copied") == [False, False, False]
        assert "prepared transaction (XA)" not in caplog.text
    for name in ("seen", "fresh", "copied"):
        assert raw_keys(workspace, name) == {1, 2}, name
