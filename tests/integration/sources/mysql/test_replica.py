"""A replica that is read in place of its primary: it shows the past, and no row is missed by it.

Two real servers; windows have no overlap here, so that nothing but an honest end can keep a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceBusy, SourceError
from mirrorlake.ledger import Receipt
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB, free_port
from mirrorlake.sources.mysql.changes import replica as replicas
from mirrorlake.sources.mysql.changes.replica import Reach, read_lag, read_reach
from mirrorlake.sources.mysql.sessions.connect import read_clock, session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER
from tests.integration.load.test_giving_way import assert_exact

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
MOVING = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "0s"}
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, modified_at DATETIME(6) NOT NULL "
    "DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))"
)


class Replica:
    """A server that replicates another, as a test tells it to."""

    def __init__(self, server: MariaDB, primary: MariaDB) -> None:
        self.server, self._primary = server, primary

    def run(self, *statements: str) -> Any:
        with self.server.admin() as admin, admin.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def begin(self) -> None:
        """Replicate what comes from now on."""
        self.run(
            "RESET MASTER",
            f"SET GLOBAL gtid_slave_pos = '{self.position_of_primary()}'",
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {self._primary.port}, "
            "MASTER_USER = 'follower', MASTER_PASSWORD = 'f', MASTER_USE_GTID = slave_pos, "
            "MASTER_SSL = 0, MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_CONNECT_RETRY = 1",
            "START SLAVE",
        )

    def position_of_primary(self) -> str:
        with self._primary.admin() as admin, admin.cursor() as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos")
            return str(cursor.fetchone()[0])  # type: ignore[index]

    def follow(self, delay: int = 0) -> None:
        self.run("STOP SLAVE", f"CHANGE MASTER TO MASTER_DELAY = {delay}", "START SLAVE")
        with self.server.admin() as admin:
            for _ in range(200):
                lag = read_lag(admin)
                if lag is not None and lag.seconds is not None:
                    return
                time.sleep(0.05)
        raise AssertionError("the replica did not connect")

    def catch_up(self) -> None:
        self.follow()
        assert self.run(f"SELECT MASTER_GTID_WAIT('{self.position_of_primary()}', 30)") == ((0,),)


@pytest.fixture(scope="module")
def replica(mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    mariadb.create_user("follower", "f", "REPLICATION SLAVE")
    folder = tmp_path_factory.mktemp("replica")
    with MariaDB.start(folder, extra_args=["--server-id=2", "--log-slave-updates"]) as server:
        server.create_user(USER, PASSWORD)
        found = Replica(server, mariadb)
        found.begin()
        yield found


@pytest.fixture
def workspace(
    replica: Replica,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Workspace]:
    """Over table t of the primary, which the replica has, read from the replica."""
    monkeypatch.setenv("TEST_REPLICA", url_of(replica))
    sql(TABLE, "INSERT INTO t (id) VALUES (1)")
    replica.catch_up()
    yield engine_for({"t": MOVING}, {"replica": "${env:TEST_REPLICA}"})
    replica.catch_up()


def url_of(replica: Replica) -> str:
    return f"mysql://{USER}:p%40ss%20w%2F%C3%B6rd%25@127.0.0.1:{replica.server.port}"


def source_of(workspace: Workspace) -> SourceConfig:
    return workspace.config.sources["s"]


def reach_of(workspace: Workspace) -> tuple[Reach, timedelta]:
    """What the replica shows, and how far its clock is past that."""
    with session(source_of(workspace)) as connection:
        reach = read_reach(connection, source_of(workspace))
        return reach, read_clock(connection) - reach.shown


def receipt_of(workspace: Workspace) -> Receipt:
    last = workspace.ledger.last_load(workspace.config.table("t").name, "success")
    assert last is not None
    assert last.receipt is not None
    return last.receipt


@pytest.mark.full
def test_rows_that_the_replica_had_not_yet_are_there_once(
    replica: Replica,
    mariadb: MariaDB,
    sql: Sql,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Written on the primary before each load, and shown by the replica after it."""
    # No load waits until the replica has caught up: its end is told by the lag alone.
    monkeypatch.setattr(replicas, "CATCH_UP_SECONDS", 1)
    contract = workspace.config.table("t")
    load_table(workspace, contract)
    replica.follow(delay=20)
    for number in range(2, 6):
        sql(f"INSERT INTO t (id) VALUES ({number})", f"UPDATE t SET n = {number} WHERE id = 1")
        load_table(workspace, contract)
        time.sleep(0.4)
    shown = replica.run(f"SELECT COUNT(*) FROM {contract.database}.t")
    assert shown[0][0] < 5  # else the replica was never behind, and this showed nothing
    replica.catch_up()
    sync_table(workspace, contract)
    assert_exact(workspace, mariadb, contract)


def test_a_replica_that_is_up_to_date_is_proved_by_position(
    replica: Replica, mariadb: MariaDB, workspace: Workspace
) -> None:
    reach, behind = reach_of(workspace)
    assert timedelta() <= behind < timedelta(seconds=30)
    assert reach.oldest_open is None
    load_table(workspace, workspace.config.table("t"))
    receipt = receipt_of(workspace)
    ((uid,),) = replica.run("SELECT @@server_uid")
    assert receipt.server == uid
    with mariadb.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SELECT @@server_uid")
        assert cursor.fetchone() != (uid,)
    assert receipt.hi == receipt.moment


def test_what_is_open_on_the_primary_is_read_when_it_is_committed(
    replica: Replica, mariadb: MariaDB, database: str, workspace: Workspace
) -> None:
    contract = workspace.config.table("t")
    load_table(workspace, contract)
    with mariadb.admin(database) as late, late.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t (id) VALUES (2)")
        time.sleep(0.1)
        load_table(workspace, contract)
        assert receipt_of(workspace).oldest_open is not None
        cursor.execute("COMMIT")
    replica.catch_up()
    sync_table(workspace, contract)
    assert_exact(workspace, mariadb, contract)


def test_a_replica_that_stands_still_is_not_read(
    replica: Replica, sql: Sql, workspace: Workspace
) -> None:
    replica.run("STOP SLAVE")
    sql("INSERT INTO t (id) VALUES (2)")
    with pytest.raises(SourceBusy, match="does not replicate at the moment") as caught:
        load_table(workspace, workspace.config.table("t"))
    assert caught.value.retryable
    assert workspace.ledger.last_load(workspace.config.table("t").name) is None


def test_a_primary_that_is_away(
    replica: Replica, workspace: Workspace, engine_for: EngineFor
) -> None:
    """The lag alone tells, and less than with the primary: a silent link looks like none."""
    gone = engine_for({"t": MOVING}, {"replica": "${env:TEST_REPLICA}", "port": free_port()})
    with session(source_of(gone)) as connection:
        lag = read_lag(connection)
    assert lag is not None
    _, behind = reach_of(gone)
    assert behind >= lag.silence >= timedelta(seconds=1)
    load_table(gone, gone.config.table("t"))


def test_a_replica_that_tells_nothing_is_refused(
    replica: Replica, database: str, workspace: Workspace, engine_for: EngineFor, monkeypatch: Any
) -> None:
    replica.server.create_user("blind", "b", {f"{database}.*": "SELECT"})
    url = f"mysql://blind:b@127.0.0.1:{replica.server.port}"
    monkeypatch.setenv("TEST_REPLICA", url)
    blind = engine_for({"t": MOVING}, {"replica": "${env:TEST_REPLICA}", "port": free_port()})
    with pytest.raises(SourceError, match="does not say how far it is behind") as caught:
        load_table(blind, blind.config.table("t"))
    assert "SLAVE MONITOR" in str(caught.value)
    assert "blind:b" not in str(caught.value)


@pytest.mark.full
def test_a_replica_that_lags_is_left_alone(
    replica: Replica, sql: Sql, workspace: Workspace, engine_for: EngineFor, monkeypatch: Any
) -> None:
    monkeypatch.setattr(replicas, "CATCH_UP_SECONDS", 1)
    limits = {"replica_lag": "1s", "wait": "1s"}
    strict = engine_for({"t": MOVING}, {"replica": "${env:TEST_REPLICA}", "back_off": limits})
    words = r"the replica is \d+s behind \(back_off.replica_lag: 1s\)"
    with replica.server.admin() as locker, locker.cursor() as cursor:
        cursor.execute("FLUSH TABLES WITH READ LOCK")  # what is replicated waits; reads don't
        sql("INSERT INTO t (id) VALUES (2)")
        time.sleep(2.5)
        with pytest.raises(SourceBusy, match=words):
            load_table(strict, strict.config.table("t"))


@pytest.mark.full
def test_domains_that_are_applied_side_by_side_hide_how_far_one_is_behind(tmp_path: Path) -> None:
    """What the replica says is the lag of the domain that is furthest ahead."""
    side_by_side = ["--server-id=2", "--log-slave-updates", "--slave-parallel-threads=4"]
    with (
        MariaDB.start(tmp_path / "primary") as primary,
        MariaDB.start(tmp_path / "replica", extra_args=side_by_side) as server,
    ):
        primary.create_user("follower", "f", "REPLICATION SLAVE")
        server.create_user(USER, PASSWORD)
        found = Replica(server, primary)
        found.begin()
        with primary.admin() as admin, admin.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            for name in ("d.late", "d.early"):
                cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        found.catch_up()
        secret = SecretStr(PASSWORD)
        of_port = partial(SourceConfig, name="s", host="127.0.0.1", user=USER, password=secret)
        source = of_port(port=server.port, primary=of_port(port=free_port()))  # it is away
        with server.admin() as locker, locker.cursor() as cursor:
            cursor.execute("LOCK TABLES d.late WRITE")
            with primary.admin() as admin, admin.cursor() as writer:
                writer.execute("INSERT INTO d.late VALUES (1)")
                time.sleep(3)
                writer.execute("SET SESSION gtid_domain_id = 7")
                writer.execute("INSERT INTO d.early VALUES (1)")
            while not found.run("SELECT * FROM d.early"):
                time.sleep(0.05)
            words = r"side by side, and is behind in 0:"
            with session(source) as connection, pytest.raises(SourceBusy, match=words) as busy:
                read_reach(connection, source)
            assert busy.value.retryable
        found.catch_up()
        with session(source) as connection:
            assert read_reach(connection, source).shown
