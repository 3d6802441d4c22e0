"""A row committed late, behind the cursor, is read: windows reach back to the oldest open
transaction, and to the oldest statement that waits to write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceBusy
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.changes import open_writes
from mirrorlake.sources.mysql.changes.open_writes import OpenWrites, read_open_writes
from mirrorlake.sources.mysql.sessions.connect import read_clock, session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, lake_rows
from tests.support.mysql8 import MySQL8

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
NO_OVERLAP = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "0s"}
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, "
    "modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY (modified_at))"
)


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def open_on(source: SourceConfig) -> OpenWrites:
    with session(source) as connection:
        found = read_open_writes(connection)
        assert found is not None
        return found


@contextmanager
def in_background(work: Callable[[], None]) -> Iterator[None]:
    """Run beside the block, to its end; what went wrong in it is raised here."""
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
    assert not wrong, wrong


def test_a_late_commit_is_not_missed_without_any_overlap(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE, "INSERT INTO t (id) VALUES (1)")
    workspace = engine_for({"t": NO_OVERLAP})
    contract = workspace.config.table("t")
    load_table(workspace, contract)
    with server.admin(database) as late, late.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t (id) VALUES (2)")
        sql("INSERT INTO t (id) VALUES (3)")
        seen = load_table(
            workspace, contract
        )  # the late row is open, and older than what this one reads
        assert seen.rows >= 1
        last = workspace.ledger.last_load(contract.name, "success")
        assert last is not None
        assert last.receipt is not None
        assert last.receipt.oldest_open is not None
        cursor.execute("COMMIT")
    load_table(workspace, contract)
    assert raw_keys(workspace) == {1, 2, 3}


@pytest.mark.full
def test_writes_that_wait_behind_a_tables_lock_are_not_missed(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Theirs is the NOW() of before the lock. One commits at once; the other's transaction begins
    after its wait, and stays open over a load."""
    monkeypatch.setattr("mirrorlake.table.windows._MARGIN", timedelta(0))
    sql(TABLE, "INSERT INTO t (id) VALUES (1)")
    workspace = engine_for({"t": NO_OVERLAP})
    contract = workspace.config.table("t")
    load_table(workspace, contract)
    done = threading.Event()

    def at_once() -> None:
        with server.admin(database) as one, one.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("INSERT INTO t (id) VALUES (2)")

    def held_open() -> None:
        with server.admin(database) as two, two.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO t (id) VALUES (3)")
            assert done.wait(60)
            cursor.execute("COMMIT")

    with server.admin(database) as locker, locker.cursor() as lock:
        lock.execute("LOCK TABLES t READ")
        with in_background(at_once), in_background(held_open):
            time.sleep(1.1)
            assert len(open_on(workspace.config.sources["s"]).statements) == 2
            load_table(workspace, contract)  # sees them wait
            time.sleep(1.1)
            lock.execute("UNLOCK TABLES")
            time.sleep(0.3)
            load_table(workspace, contract)
            assert raw_keys(workspace) == {1, 2}
            # It began after its first row was stamped.
            [transaction] = open_on(workspace.config.sources["s"]).transactions.values()
            done.set()
    load_table(workspace, contract)
    assert raw_keys(workspace) == {1, 2, 3}
    [stamp] = {row["modified_at"] for row in raw_rows(workspace) if row["id"] == 3}
    assert stamp < transaction


def raw_rows(workspace: Workspace) -> list[dict[str, Any]]:
    contract = workspace.config.table("t")
    names = {load.raw_table for load in workspace.ledger.successful_loads(contract.name)}
    return [row for name in names for row in lake_rows(workspace, contract.namespaces.raw, name)]


def raw_keys(workspace: Workspace) -> set[int]:
    return {row["id"] for row in raw_rows(workspace)}


def test_what_only_reads_holds_no_window_back(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = engine_for({"t": {"mode": "full", "key": ["id"]}}).config.sources["s"]

    def read_slowly() -> None:
        with server.admin(database) as reader, reader.cursor() as cursor:
            cursor.execute("SELECT SLEEP(2), id FROM t")

    with server.admin(database) as reader, reader.cursor() as cursor, in_background(read_slowly):
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT * FROM t")
        time.sleep(0.2)
        found = open_on(source)
        assert (found.statements, found.waited) == ({}, ())
        cursor.execute("INSERT INTO t VALUES (2)")
        time.sleep(1.1)
        with session(source) as ours:
            now = read_clock(ours)
        oldest = open_on(source).transactions[reader.thread_id()]
        assert timedelta(seconds=1) <= now - oldest < timedelta(minutes=20)
        cursor.execute("ROLLBACK")


def test_a_list_that_others_poll_is_not_believed(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """InnoDB fills its list of transactions only when nobody has read it for 0.1 s."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    source = engine_for({"t": {"mode": "full", "key": ["id"]}}).config.sources["s"]
    stop = threading.Event()

    def poll() -> None:
        with server.admin() as monitor, monitor.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("SELECT COUNT(*) FROM information_schema.innodb_trx")
                time.sleep(0.03)

    with in_background(poll), in_background(poll), server.admin(database) as writer:
        try:
            time.sleep(0.3)
            with writer.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("INSERT INTO t VALUES (1)")
                time.sleep(1.2)
                with session(source) as ours:
                    now = read_clock(ours)
                found = open_on(source).transactions
                assert now - found[writer.thread_id()] >= timedelta(seconds=1)
                assert now - found[writer.thread_id()] < timedelta(minutes=20)
        finally:
            stop.set()


@pytest.mark.full
def test_a_list_that_can_not_be_seen_as_it_is_now_fails_the_load(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the status were cut too."""
    monkeypatch.setattr(open_writes, "transactions_of_status", lambda *_: None)
    sql(TABLE)
    workspace = engine_for({"t": NO_OVERLAP})
    stop = threading.Event()

    def poll() -> None:
        with server.admin() as monitor, monitor.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("SELECT COUNT(*) FROM information_schema.innodb_trx")
                time.sleep(0.01)

    with in_background(poll), in_background(poll):
        try:
            time.sleep(0.3)
            with pytest.raises(SourceBusy, match="less than ten times a second") as caught:
                load_table(workspace, workspace.config.table("t"))
        finally:
            stop.set()
    assert caught.value.retryable
    assert workspace.ledger.last_load(workspace.config.table("t").name) is None


def test_without_the_privilege_the_overlap_alone_holds(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    server.create_user(
        "no_process", PASSWORD, {f"{database}.*": "SELECT", "*.*": "REPLICATION CLIENT"}
    )
    sql(TABLE, "INSERT INTO t (id) VALUES (1)")
    workspace = engine_for({"t": NO_OVERLAP}, {"user": "no_process"})
    result = load_table(workspace, workspace.config.table("t"))
    assert result.rows == 1
    last = workspace.ledger.last_load("s." + database + ".t", "success")
    assert last is not None
    assert last.receipt is not None
    assert last.receipt.oldest_open is None


@pytest.mark.full
@pytest.mark.parametrize("kind", [MariaDB, pytest.param(MySQL8, marks=pytest.mark.full)])
def test_the_age_of_a_transaction_in_the_hour_that_comes_twice(
    kind: type[EmbeddedServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clocks of the server's machine are turned back an hour while a transaction is open."""
    for lead in (4, 15, 60):  # seconds in which the server must have started
        turn = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=lead)
        monkeypatch.setenv("TZ", zone_that_turns_back(turn))
        folder = tmp_path / str(lead)
        with kind.start(folder, extra_args=["--default-time-zone=SYSTEM"]) as server:
            server.create_user(USER, PASSWORD)
            source = source_at(server.port)
            with server.admin() as writer, writer.cursor() as cursor, session(source) as ours:
                cursor.execute("CREATE DATABASE d")
                cursor.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
                cursor.execute("BEGIN")
                cursor.execute("INSERT INTO d.t VALUES (1)")
                began = read_clock(ours)
                if wall_of(cursor) < began + timedelta(minutes=59):
                    continue  # turned already
                time.sleep((turn - began).total_seconds() + 1.1)
                assert wall_of(cursor) < turn + timedelta(minutes=1)  # the clocks were turned back
                found = read_open_writes(ours)
                break
    assert found is not None
    assert found.oldest is not None
    # Not an instant later than it was; earlier by the hour that comes twice, at most.
    assert began - timedelta(hours=1, minutes=1) <= found.oldest <= began


def source_at(port: int) -> SourceConfig:
    secret = SecretStr(PASSWORD)
    return SourceConfig(name="s", host="127.0.0.1", port=port, user=USER, password=secret)


def wall_of(cursor: Any) -> datetime:
    cursor.execute("SELECT NOW()")
    [(wall,)] = cursor.fetchall()
    return wall


def zone_that_turns_back(turn: datetime) -> str:
    """A POSIX zone whose summer (UTC+1) ends at that moment (UTC)."""

    def day(at: datetime) -> str:
        return f"{at.timetuple().tm_yday - 1}/{at:%H:%M:%S}"

    # The end is told by the clock of summer.
    return f"WIN0SUM-1,{day(turn - timedelta(days=30))},{day(turn + timedelta(hours=1))}"
