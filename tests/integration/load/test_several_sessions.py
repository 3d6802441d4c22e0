"""Keys and hashes of a copy come on several sessions where their snapshots are one state, and on
one where that is not shown; either way the copy is what MySQL held at one moment.

MySQL is read and compared by the oracle, which shares no code with the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo.oracle import compare_table
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Receipt
from mirrorlake.load.copies import changed_rows, copies
from mirrorlake.load.row_hashes import delta
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.changes.one_moment import Still, find_still
from mirrorlake.sources.mysql.reading.limits import also_reading, reading
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace

ROWS, CONNECTIONS = 3_000, 3
CONTRACT = {"mode": "full", "key": ["id"], "verify": True}
Sql = Callable[..., Any]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "SMALL_ROWS", 10)
    monkeypatch.setattr(copies, "RANGE_ROWS", 300)
    monkeypatch.setattr(delta, "LOOKED_AT", 200)


@pytest.fixture
def workspace(engine_for: Callable[..., Workspace], sql: Sql) -> Workspace:
    """A table that was copied once."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n INT NOT NULL) STATS_AUTO_RECALC=0")
    values = ", ".join(f"({n}, 'v{n}', {n % 7})" for n in range(ROWS))
    sql(f"INSERT INTO t VALUES {values}", "ANALYZE TABLE t")
    workspace = engine_for({"t": CONTRACT}, {"connections": CONNECTIONS})
    assert sync(workspace).sessions == 1, "a complete copy"
    return workspace


def sync(workspace: Workspace) -> Receipt:
    sync_table(workspace, workspace.config.table("t"))
    found = workspace.ledger.newest_receipt(workspace.config.table("t").name)
    assert found is not None
    return found


def assert_deduped(workspace: Workspace, server: EmbeddedServer, database: str) -> None:
    namespaces = workspace.config.table("t").namespaces
    deduped = workspace.lake.load(Identifier(namespaces.deduped, "t"))
    with server.admin() as admin:
        verdict = compare_table(admin, database, "t", ("id",), deduped)
    assert verdict.equal, verdict.describe()


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that other tests write to as well is waited for: here only what a test does moves
    its log."""
    honest = changed_rows.find_still

    def patiently(connection: Any) -> Still | None:
        for _ in range(50):
            found = honest(connection)
            time.sleep(0.2)  # a server goes on for a while after a statement: purge, flushes
            if found is not None and found.lasts(connection):
                return found
        return None

    monkeypatch.setattr(changed_rows, "find_still", patiently)


def test_one_state_by_several_sessions(
    workspace: Workspace, sql: Sql, server: EmbeddedServer, database: str, still: None
) -> None:
    """Every range's rows are seen: changed, new and gone ones at all its ends."""
    for number in range(5):
        sql(
            f"UPDATE t SET n = {-1 - number} WHERE id % 100 IN (0, 99)",
            f"DELETE FROM t WHERE id % 500 = {7 + number}",
            f"INSERT INTO t VALUES ({-5 - number}, 'low', 0), ({99999 + number}, 'high', 0)",
        )
        found = sync(workspace)
        if found.sessions == CONNECTIONS:
            break  # else the server wrote by itself while they were opened: one read, and said so
    assert (found.sessions, found.stands_on > 0) == (CONNECTIONS, True)
    assert found.gone == 6
    assert_deduped(workspace, server, database)
    again = sync(workspace)
    assert again.written == 0


def between_snapshots(monkeypatch: pytest.MonkeyPatch, before: Callable[[int], Any]) -> None:
    """Have something done before each session's snapshot is opened."""
    honest = changed_rows._Reading._opened

    def opened(self: Any, number: int, heed: Any) -> Iterator[Any]:
        before(number)
        return honest(self, number, heed)

    monkeypatch.setattr(changed_rows._Reading, "_opened", opened)


def test_a_commit_between_two_snapshots(
    workspace: Workspace,
    sql: Sql,
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    still: None,
) -> None:
    """Whatever the binary log has of it: here nothing."""

    def move(number: int) -> None:
        if number:  # one row moves from a range that was opened before into one that was not
            with server.admin(database) as admin, admin.cursor() as cursor:
                cursor.execute("SET sql_log_bin = 0")
                cursor.execute(f"UPDATE t SET id = 100000 + id WHERE id = {number}")

    sql("UPDATE t SET n = -1 WHERE id = 5")
    with monkeypatch.context() as patch:
        between_snapshots(patch, move)
        found = sync(workspace)
    assert (found.sessions, found.rows, found.stands_on > 0) == (1, ROWS, True)
    assert_deduped(workspace, server, database)


@pytest.mark.full
def test_what_is_open_may_be_about_to_be_seen(
    workspace: Workspace, sql: Sql, server: EmbeddedServer, database: str, still: None
) -> None:
    with server.admin(database) as admin, admin.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("UPDATE t SET n = -1 WHERE id = 5")
        with session(workspace.config.sources["s"]) as look:
            assert find_still(look) is None
        assert sync(workspace).sessions == 1
        cursor.execute("COMMIT")
    sync(workspace)
    assert_deduped(workspace, server, database)


def test_a_server_that_has_no_more_sessions(
    workspace: Workspace,
    sql: Sql,
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    still: None,
) -> None:
    def refuse(number: int) -> None:
        if number == most:
            raise SourceError("too many connections")

    between_snapshots(monkeypatch, refuse)
    for most in (2, 1):
        for _ in range(5):
            sql(f"UPDATE t SET n = n + 10 WHERE id = {most}")
            found = sync(workspace).sessions
            assert_deduped(workspace, server, database)
            if found == most:
                break  # else the server wrote by itself while they were opened
        assert found == most


def test_a_moment_ends_with_a_commit(workspace: Workspace, sql: Sql, still: None) -> None:
    with session(workspace.config.sources["s"]) as look:
        found = changed_rows.find_still(look)
        assert found is not None
        assert found.lasts(look)
        sql("UPDATE t SET n = -1 WHERE id = 5")
        assert not found.lasts(look)


@pytest.mark.full
def test_others_reads_are_left_their_connections(workspace: Workspace) -> None:
    source = workspace.config.sources["s"]
    with reading(source), also_reading(source, 9) as more:
        assert more == CONNECTIONS - 1
        with also_reading(source, 9) as none:
            assert none == 0
    with reading(source), reading(source), also_reading(source, 9) as more:
        assert more == CONNECTIONS - 2
    with also_reading(source, 1) as more:
        assert more == 1


@pytest.mark.parametrize(
    "change", ["v = REPEAT('x', 3)", pytest.param("n = 5", marks=pytest.mark.full)]
)
def test_many_rows_and_all(
    workspace: Workspace, sql: Sql, server: EmbeddedServer, database: str, change: str, still: None
) -> None:
    """What one session reads afterwards is of the same state."""
    for share in (10, 2, 1):
        sql(
            f"UPDATE t SET {change} WHERE id % 10 < {10 // share}",
            f"DELETE FROM t WHERE id = {share}",
        )
        sync(workspace)
        assert_deduped(workspace, server, database)
