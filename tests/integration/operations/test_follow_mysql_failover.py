"""Two MySQL servers that replicate by GTID: after a failover, tables that follow the log go on from
where they stand, where the other server's log has just what follows; else that is refused by name,
and nothing changed."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.errors import SourceError
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.operations.loading.accept import Accepted, accept_server
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, Place, write_config
from tests.integration.operations.test_follow_log import (
    LOG,
    TABLE,
    assert_equal,
    kinds,
    raw_rows,
    sync_all,
)
from tests.integration.operations.test_follower import following
from tests.support.mysql8 import MySQL8

pytestmark = pytest.mark.full


class Cluster:
    """Servers of MySQL 8 that replicate as a test says; they may be stopped, and come back."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._servers: dict[str, MySQL8] = {}

    def __getitem__(self, name: str) -> MySQL8:
        return self._servers[name]

    def start(self, name: str, *more: str, port: int | None = None) -> MySQL8:
        """Start one, with what it had when it was stopped."""
        fresh = not (self._folder / name).exists()
        number = 1 + sum(map(ord, name))
        server = MySQL8.start(self._folder / name, port, (f"--server-id={number}", *more))
        self._stack.callback(server.stop)
        self._servers[name] = server
        if fresh:
            server.create_user(USER, PASSWORD)
            run(server, "RESET MASTER")
        return server

    def stop(self, name: str) -> int:
        """Stop one; the port that is free then."""
        self._servers[name].stop()
        return self._servers[name].port

    def save(self, name: str) -> None:
        """Back up one that is stopped."""
        shutil.copytree(self._folder / name, self._folder / f"saved {name}")

    def restore(self, name: str) -> None:
        """Put the backup in the place of one that is stopped."""
        shutil.rmtree(self._folder / name)
        (self._folder / f"saved {name}").rename(self._folder / name)

    def replicate(self, name: str, of: str) -> None:
        """Have one take all that the other one has, and will have."""
        run(
            self[name],
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {self[of].port}, "
            f"MASTER_USER = '{USER}', MASTER_PASSWORD = '{PASSWORD}', MASTER_AUTO_POSITION = 1, "
            "GET_MASTER_PUBLIC_KEY = 1",
            "START SLAVE",
        )

    def wait(self, name: str, of: str) -> None:
        """Until one has all of the other."""
        [(executed,)] = run(self[of], "SELECT @@global.gtid_executed")
        [(state,)] = run(self[name], f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 30)")
        assert state == 0

    def promote(self, name: str) -> None:
        """Have a replica be a server by itself."""
        run(self[name], "STOP SLAVE", "RESET SLAVE ALL")


def run(server: MySQL8, *statements: str, database: str | None = None) -> Any:
    with server.admin(database) as admin, admin.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


@pytest.fixture
def database() -> str:
    """The ledger knows tables by their names: each test has its own."""
    return f"f{uuid.uuid4().hex[:10]}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture
def pair(cluster: Cluster, database: str) -> Cluster:
    """Server a with the tables t and u, and b, which replicates it."""
    cluster.start("a")
    cluster.start("b")
    cluster.replicate("b", of="a")
    run(cluster["a"], f"CREATE DATABASE {database}")
    rows = "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')"
    run(cluster["a"], TABLE.format("t"), TABLE.format("u"), rows, database=database)
    cluster.wait("b", of="a")
    return cluster


OpenOn = Callable[..., Workspace]


@pytest.fixture
def on(place: Place, database: str) -> OpenOn:
    """The workspace whose source is this server."""

    def opened(server: MySQL8, *tables: str) -> Workspace:
        section = {"tables": dict.fromkeys(tables or ("t",), LOG)}
        config = write_config(place.folder, server, {database: section})
        return Workspace.open(config, spark=place.spark)

    return opened


def accept(workspace: Workspace) -> list[Accepted]:
    return accept_server(workspace.config, workspace.ledger, "s")


def assert_once(workspace: Workspace, *tables: str) -> None:
    """Each change is in raw once, and raw is what deduped says."""
    for name in tables or ("t",):
        contract = workspace.config.table(name)
        rows = [row for row in raw_rows(workspace, contract) if row["_mirror_op"]]
        seen = Counter((row["_mirror_position"], row["_mirror_op"], row["id"]) for row in rows)
        assert set(seen.values()) == {1}, seen
        assert prove_raw_layer(workspace, contract).verdict == "equal"


def test_tables_go_on_with_another_server_and_back(
    pair: Cluster, database: str, on: OpenOn
) -> None:
    a, b = pair["a"], pair["b"]
    workspace = on(a, "t", "u")
    sync_all(workspace)
    run(
        a,
        "UPDATE t SET name = 'x' WHERE id = 1",
        "INSERT INTO u (id) VALUES (1)",
        database=database,
    )
    sync_all(workspace)
    run(a, "DELETE FROM t WHERE id = 2", "INSERT INTO t (id) VALUES (4)", database=database)
    pair.wait("b", of="a")
    pair.promote("b")
    run(b, "FLUSH BINARY LOGS", "UPDATE t SET id = id + 10 ORDER BY id DESC", database=database)
    port = pair.stop("a")
    pair.stop("b")
    b = pair.start("b", port=port)  # the same address is another server

    workspace = on(b, "t", "u")
    with pytest.raises(SourceError, match="its log goes on there, and nothing is read again"):
        sync_table(workspace, workspace.config.table("t"))
    assert [(one.follows, one.why) for one in accept(workspace)] == [(True, "")] * 2
    sync_all(workspace)
    assert_equal(workspace, b, "t", "u")
    run(b, "INSERT INTO t (id) VALUES (5), (6)", "DELETE FROM u", database=database)
    sync_all(workspace)
    assert_equal(workspace, b, "t", "u")

    # The old one comes back as a replica, and is promoted later.
    a = pair.start("a")
    pair.replicate("a", of="b")
    run(b, "INSERT INTO u (id) VALUES (8)", database=database)
    pair.wait("a", of="b")
    pair.promote("a")
    pair.stop("b")
    run(a, "DELETE FROM t WHERE id = 5", "INSERT INTO u (id) VALUES (9)", database=database)
    workspace = on(a, "t", "u")
    assert all(one.follows for one in accept(workspace))
    sync_all(workspace)
    assert_equal(workspace, a, "t", "u")
    run(a, "ALTER TABLE t ADD COLUMN more INT", "UPDATE t SET more = 7", database=database)
    sync_all(workspace)
    assert_equal(workspace, a, "t", "u")
    for name in "tu":
        assert kinds(workspace, name).count("initial") == 1
    assert_once(workspace, "t", "u")
    assert accept(workspace) == []
    assert check_table(workspace, workspace.config.table("t"), Ask("full")).verdict == "equal"


def test_a_follower_goes_on_once_the_other_server_is_accepted(
    pair: Cluster, database: str, on: OpenOn
) -> None:
    """Rows are written all the time, to whichever server is the first."""
    stop, switched = threading.Event(), threading.Event()
    current, written = [pair["a"]], [100]

    def write() -> None:
        while not stop.wait(0.02):
            if switched.is_set():
                continue
            at = written[0]
            run(
                current[0],
                f"INSERT INTO t (id, name) VALUES ({at}, 'n{at}'), ({at + 1}, NULL)",
                f"UPDATE t SET amount = {at} WHERE id = {at - 2}",
                f"DELETE FROM t WHERE id = {at - 7}",
                database=database,
            )
            written[0] += 2

    workspace = on(pair["a"])
    sync_all(workspace)
    run(pair["a"], "UPDATE t SET amount = 1", database=database)
    sync_all(workspace)  # Spark has folded something
    writer = threading.Thread(target=write)
    with following(workspace) as running:
        writer.start()
        try:
            running.caught_up(60)
            switched.set()
            pair.wait("b", of="a")
            pair.promote("b")
            port = pair.stop("a")
            pair.stop("b")
            current[0] = pair.start("b", port=port)
            switched.clear()
            running.until(lambda: any("is now server" in words for words in running.waits))
            assert all(one.follows for one in accept(workspace))
            running.caught_up(60)
        finally:
            stop.set()
            writer.join()
    sync_all(workspace)
    assert_equal(workspace, pair["b"])
    assert kinds(workspace, "t").count("initial") == 1
    assert_once(workspace)


def test_a_replica_is_a_source(pair: Cluster, database: str, on: OpenOn) -> None:
    a, b = pair["a"], pair["b"]
    workspace = on(b)
    sync_all(workspace)
    run(a, "DELETE FROM t WHERE id = 1", "INSERT INTO t (id) VALUES (7)", database=database)
    pair.wait("b", of="a")
    sync_all(workspace)
    assert_equal(workspace, b)
    [(server,)] = run(a, "SELECT @@server_uuid")
    positions = [
        row["_mirror_position"] for row in raw_rows(workspace, workspace.config.table("t"))
    ]
    assert all(one.startswith(server) for one in positions[-2:])
    run(a, "UPDATE t SET name = 'last' WHERE id = 7", database=database)
    workspace = on(a)
    assert all(one.follows for one in accept(workspace))
    sync_all(workspace)
    assert_equal(workspace, a)
    assert kinds(workspace, "t") == ["initial", "log", "log", "log"]
    assert_once(workspace)


def test_a_replica_that_logs_none_of_what_it_replicates(
    cluster: Cluster, database: str, on: OpenOn
) -> None:
    """Its log looks as if nothing ever changed."""
    cluster.start("a")
    b = cluster.start("b", "--log-slave-updates=OFF")
    cluster.replicate("b", of="a")
    run(cluster["a"], f"CREATE DATABASE {database}")
    run(cluster["a"], TABLE.format("t"), "INSERT INTO t (id) VALUES (1)", database=database)
    cluster.wait("b", of="a")
    workspace = on(b)
    contract = workspace.config.table("t")
    with pytest.raises(SourceError, match=r"log_replica_updates: .*nothing of what it replicates"):
        sync_table(workspace, contract)
    assert workspace.ledger.schema_versions(contract.name) == []
    cluster.promote("b")
    sync_all(workspace)
    assert_equal(workspace, b)


def refused(workspace: Workspace, *words: str) -> None:
    """A sync is refused in these words, and changes nothing."""
    contract = workspace.config.table("t")
    loads = kinds(workspace, "t")
    with pytest.raises(SourceError) as raised:
        sync_table(workspace, contract)
    assert all(word in str(raised.value) for word in (*words, "mirrorlake accept s")), raised.value
    assert kinds(workspace, "t") == loads
    assert workspace.ledger.unproved(contract.name) is None


def read_again(workspace: Workspace, server: MySQL8, *words: str) -> None:
    """Who accepts it has the table read as a whole, and is told why."""
    database = workspace.config.table("t").database
    [accepted] = accept(workspace)
    assert not accepted.follows
    assert all(word in accepted.why for word in words), accepted.why
    sync_all(workspace)
    assert_equal(workspace, server)
    assert kinds(workspace, "t").count("initial") == 2
    run(server, "INSERT INTO t (id) VALUES (990)", "DELETE FROM t WHERE id = 1", database=database)
    sync_all(workspace)
    assert_equal(workspace, server)
    assert kinds(workspace, "t")[-1] == "log"


def test_transactions_that_the_other_server_never_got(
    pair: Cluster, database: str, on: OpenOn
) -> None:
    run(pair["b"], "STOP SLAVE")
    run(pair["a"], "INSERT INTO t (id) VALUES (7)", database=database)
    sync_all(on(pair["a"]))
    pair.promote("b")
    pair.stop("a")
    workspace = on(pair["b"])
    refused(workspace, "does not have transactions", "which were followed")
    read_again(workspace, pair["b"], "does not have transactions")


def test_transactions_that_the_other_server_purged(
    pair: Cluster, database: str, on: OpenOn
) -> None:
    sync_all(on(pair["a"]))
    run(pair["a"], "INSERT INTO t (id) VALUES (7)", database=database)
    pair.wait("b", of="a")
    pair.promote("b")
    b = pair["b"]
    run(b, "FLUSH BINARY LOGS")
    run(b, f"PURGE BINARY LOGS TO '{run(b, 'SHOW BINARY LOGS')[-1][0]}'")
    workspace = on(b)
    refused(workspace, "gtid_purged")
    read_again(workspace, b, "gtid_purged")


def test_a_transaction_of_the_other_servers_own(pair: Cluster, database: str, on: OpenOn) -> None:
    """It stands among those that were followed: no place has these before it, and nothing else."""
    sync_all(on(pair["a"]))
    run(pair["b"], "INSERT INTO t (id) VALUES (500)", database=database)
    run(pair["a"], "INSERT INTO t (id) VALUES (7)", database=database)
    pair.wait("b", of="a")
    sync_all(on(pair["a"]))
    pair.promote("b")
    workspace = on(pair["b"])
    read_again(workspace, pair["b"], "which was not followed, before", "errant")


def test_a_server_that_was_restored_from_an_older_backup(
    pair: Cluster, database: str, on: OpenOn
) -> None:
    port = pair.stop("a")
    pair.save("a")
    a = pair.start("a", port=port)
    run(a, "INSERT INTO t (id) VALUES (7)", "DELETE FROM t WHERE id = 2", database=database)
    sync_all(on(a))
    pair.stop("a")
    pair.restore("a")
    a = pair.start("a", port=port)
    workspace = on(a)
    refused(workspace, "went backwards", "older backup")
    # What is written since has numbers that were given out before.
    run(a, "INSERT INTO t (id) VALUES (20)", database=database)
    refused(workspace, "went backwards", "older backup")
    read_again(workspace, a, "went backwards")


def test_a_server_without_gtids_is_refused_as_any_other(
    cluster: Cluster, database: str, on: OpenOn
) -> None:
    off = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    for name in "ab":
        server = cluster.start(name, *off)
        made = (TABLE.format("t"), "INSERT INTO t (id) VALUES (1)")
        run(server, f"CREATE DATABASE {database}")
        run(server, *made, database=database)
    workspace = on(cluster["a"])
    sync_all(workspace)
    run(cluster["a"], "INSERT INTO t (id) VALUES (2)", database=database)
    sync_all(workspace)
    assert_equal(workspace, cluster["a"])
    assert kinds(workspace, "t") == ["initial", "log"]
    workspace = on(cluster["b"])
    refused(workspace, "its transactions have no GTIDs of MySQL's")
    read_again(workspace, cluster["b"], "have no GTIDs")
