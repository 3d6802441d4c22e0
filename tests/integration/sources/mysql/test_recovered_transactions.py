"""A prepared transaction (XA) outlives the server; when that starts again, nobody knows any more
when it wrote its rows."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import pymysql
import pytest

from demo.oracle import compare_table
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer, free_port
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, Place, lake_rows, write_config
from tests.integration.projects import SparkBeside
from tests.support.mysql8 import MySQL8

CURSOR = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "0s"}


TABLE = (
    "CREATE TABLE {} (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, modified_at DATETIME(6) NOT NULL"
    " DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))"
)


def raw_keys(workspace: Workspace, name: str) -> set[int]:
    contract = workspace.config.table(f"s.d.{name}")
    tables = {load.raw_table for load in workspace.ledger.successful_loads(contract.name)}
    rows = (lake_rows(workspace, contract.namespaces.raw, table) for table in tables)
    return {row["id"] for of_table in rows for row in of_table}


@pytest.mark.parametrize("ended", ["killed", pytest.param("stopped", marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", [MariaDB, pytest.param(MySQL8, marks=pytest.mark.full)])
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


@pytest.mark.parametrize("kind", [MariaDB, pytest.param(MySQL8, marks=pytest.mark.full)])
def test_an_account_that_may_not_look_is_told_so_once_after_a_restart(
    kind: type[EmbeddedServer], tmp_path: Path, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    with kind.start(tmp_path / "data", port=port) as server:
        server.create_user(USER, PASSWORD, {"d.*": "SELECT"})
        with server.admin() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            cursor.execute("USE d")
            cursor.execute(TABLE.format("t"))
            cursor.execute("INSERT INTO t (id) VALUES (1)")
        config = write_config(tmp_path, server, {"d": {"tables": {"t": CURSOR}}})
        workspace = Workspace.open(config, spark=place.spark)
        time.sleep(1.1)  # as below: a load in the server's first second can't know which came first
        for _ in range(2):
            load_table(workspace, config.table("s.d.t"))
        time.sleep(1.1)
    words = "this account may not see (PROCESS) whether a prepared transaction (XA) outlived that"
    assert words not in caplog.text
    with kind.start(tmp_path / "data", port=port):
        time.sleep(1.1)  # its start is known to the second: a load in that one says so once more
        load_table(workspace, config.table("s.d.t"))
        assert words in caplog.text
        caplog.clear()
        load_table(workspace, config.table("s.d.t"))
        assert words not in caplog.text


@pytest.mark.full
def test_a_server_that_is_killed_in_the_middle_of_its_commits(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions that InnoDB and the log had prepared are settled before anybody may connect: what
    is open then is nobody's. Each round kills under writes, and some transactions are rolled back."""
    monkeypatch.setattr("mirrorlake.table.windows._MARGIN", timedelta(0))
    port, durable = free_port(), ["--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"]
    server = MariaDB.start(tmp_path / "data", port=port, extra_args=durable)
    try:
        server.create_user(USER, PASSWORD)
        with server.admin() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            cursor.execute("USE d")
            cursor.execute(TABLE.format("t"))
        config = write_config(tmp_path, server, {"d": {"tables": {"t": CURSOR}}})
        contract = config.table("s.d.t")
        workspace = Workspace.open(config, spark=SparkBeside(config, place.spark))
        for number in range(4):
            committed = threading.Event()
            writers = [
                threading.Thread(target=_write, args=(server, 10 * number + one, committed))
                for one in range(4)
            ]
            for writer in writers:
                writer.start()
            assert committed.wait(30)
            sync_table(workspace, contract)  # while they write
            os.kill(server.pid, signal.SIGKILL)
            for writer in writers:
                writer.join()
            server.stop()
            server = MariaDB.start(tmp_path / "data", port=port, extra_args=durable)
            assert sync_table(workspace, contract).held_back == ""
            deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
            assert deduped is not None
            with server.admin() as connection:
                verdict = compare_table(connection, "d", "t", contract.key, deduped)
            assert verdict.equal, verdict.describe()
    finally:
        server.stop()


def _write(server: EmbeddedServer, number: int, committed: threading.Event) -> None:
    """Small transactions, one in five rolled back, until the server is gone."""
    with suppress(pymysql.MySQLError), server.admin("d") as connection:
        cursor = connection.cursor()
        for one in count(100_000 * number):
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO t (id) VALUES (%s)", (one,))
            cursor.execute("UPDATE t SET n = n + 1 WHERE id = %s", (one - 3,))
            cursor.execute("ROLLBACK" if one % 5 == 4 else "COMMIT")
            if one % 100 == 99:
                committed.set()
