"""A source's limits: rows a second, reads at once, a statement's time, and rest when it is busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from mirrorlake.errors import SourceBusy, SourceError
from mirrorlake.ledger import Load
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.reading.reader import read_batches
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL = {"mode": "full", "key": ["id"]}


@pytest.fixture(scope="session", params=["mariadb", pytest.param("mysql8", marks=pytest.mark.full)])
def server(request: pytest.FixtureRequest) -> EmbeddedServer:
    return request.getfixturevalue(request.param)


def make_rows(sql: Sql, rows: int, *tables: str, width: int = 100) -> None:
    """So many rows with a text of so many letters, on both servers."""
    digits = " UNION ALL ".join(f"SELECT {n} AS n" for n in range(10))
    sql("CREATE TABLE digits (n INT)", f"INSERT INTO digits {digits}")
    for table in tables or ("t",):
        sql(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(15000) NOT NULL)",
            f"INSERT INTO {table} SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 1 AS id, "
            f"REPEAT('x', {width}) FROM digits a, digits b, digits c, digits d "
            f"HAVING id <= {rows}",
        )


@contextmanager
def ticking() -> Iterator[list[float]]:
    """When another Python thread could run, about every 20 ms."""
    ticks: list[float] = []
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(0.02):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    yield ticks
    ended.set()
    thread.join()


def test_rows_come_at_the_sources_rate(database: str, sql: Sql, engine_for: EngineFor) -> None:
    """Exactly as many as there are, no faster, and other threads run meanwhile."""
    make_rows(sql, 3_000)
    source = engine_for({"t": FULL}, {"rows_per_second": 2_000}).config.sources["s"]
    began = time.monotonic()
    with ticking() as ticks:
        batches = list(read_batches(source, database, "SELECT id, v FROM t", 64))
    seconds = time.monotonic() - began
    assert sorted(i for batch in batches for i in batch[0].to_pylist()) == list(range(1, 3_001))
    assert seconds > 1.2
    # A read that kept the interpreter's lock let it run once or twice.
    assert len(ticks) > 10


@pytest.mark.full
def test_threads_share_the_rate(database: str, sql: Sql, engine_for: EngineFor) -> None:
    make_rows(sql, 1_000)
    source = engine_for({"t": FULL}, {"rows_per_second": 1_500}).config.sources["s"]

    def read(_: int) -> int:
        return sum(b.num_rows for b in read_batches(source, database, "SELECT id FROM t"))

    began = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(read, range(3))) == [1_000] * 3
    assert time.monotonic() - began > 1.6


@pytest.mark.full
def test_connections_are_a_cap_over_all_tables(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    names = ["t0", "t1", "t2"]
    # Wide: what fits into the network's buffers is no open statement to the server.
    make_rows(sql, 1_000, *names, width=10_000)
    source = {"connections": 1, "rows_per_second": 3_000}
    workspace = engine_for(dict.fromkeys(names, FULL), source)
    most, ended = 0, threading.Event()

    def look() -> None:
        nonlocal most
        with server.admin() as admin, admin.cursor() as cursor:
            while not ended.wait(0.03):
                cursor.execute(
                    "SELECT COUNT(*) FROM information_schema.PROCESSLIST "
                    f"WHERE INFO LIKE '%mirrorlake load%' AND DB = '{database}' "
                    "AND ID <> CONNECTION_ID()"
                )
                most = max(most, cursor.fetchone()[0])

    looking = threading.Thread(target=look)
    looking.start()
    with ThreadPoolExecutor(3) as pool:
        done = list(
            pool.map(lambda name: load_table(workspace, workspace.config.table(name)), names)
        )
        ended.set()
        looking.join()
    assert [result.rows for result in done] == [1_000] * 3
    assert most == 1


def test_a_statement_that_takes_too_long(database: str, sql: Sql, engine_for: EngineFor) -> None:
    """The server stops it; the error names the table and the setting, and nothing is there."""
    make_rows(sql, 10_000)
    workspace = engine_for({"t": FULL}, {"statement_seconds": 1})
    # Rows that are sent already can't be called back: so the server takes its time over each.
    sql("RENAME TABLE t TO u", "CREATE VIEW v AS SELECT id, SLEEP(0.01) AS s FROM u")
    source = workspace.config.sources["s"]
    batches = read_batches(source, database, "SELECT id FROM v WHERE s = 0", table="s.x.t")
    words = r"table s\.x\.t .*`statement_seconds`.*\(1 s\)"
    with pytest.raises(SourceError, match=words) as caught:
        list(batches)
    assert not caught.value.retryable
    assert "Raise `statement_seconds`" in caught.value.next_step


def test_a_busy_server_is_waited_for(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, caplog: Any
) -> None:
    """Two queries of others are at work for a second; the load begins after them, and says so."""
    make_rows(sql, 10)
    workspace = engine_for({"t": FULL}, {"back_off": {"threads_running": 2, "wait": "30s"}})
    contract = workspace.config.table("t")
    with others_at_work(server, 2, 2.0):
        began = time.monotonic()
        result = load_table(workspace, contract)
    assert result.rows == 10
    assert time.monotonic() - began > 1.0
    [waited] = [r.getMessage() for r in caplog.records if " waits: " in r.getMessage()]
    assert f"table {contract.name} load {result.load_id} waits: " in waited
    assert "threads are running (back_off.threads_running: 2)" in waited


@pytest.mark.full
def test_a_server_that_stays_busy_is_left_alone(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    make_rows(sql, 10)
    workspace = engine_for({"t": FULL}, {"back_off": {"threads_running": 2, "wait": "1s"}})
    contract = workspace.config.table("t")
    with (
        others_at_work(server, 3, 3.0),
        pytest.raises(SourceBusy, match=r"did not come to rest within 1s: .* threads") as caught,
    ):
        load_table(workspace, contract)
    assert caught.value.retryable
    failed = workspace.ledger.last_load(contract.name)
    assert isinstance(failed, Load)
    assert (failed.state, failed.snapshot_id) == ("errored", None)
    assert "did not come to rest" in str(failed.error)
    assert load_table(workspace, contract).rows == 10


def test_the_history_list_is_looked_at(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    make_rows(sql, 10)
    workspace = engine_for({"t": FULL}, {"back_off": {"history_list": 20, "wait": "1s"}})
    with server.admin(database) as reader, reader.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        for _ in range(60):
            sql("UPDATE t SET v = CONCAT(v, 'x') WHERE id = 1", "UPDATE t SET v = 'y' WHERE id = 1")
        with pytest.raises(SourceBusy, match=r"history list is \d+ long"):
            load_table(workspace, workspace.config.table("t"))
        cursor.execute("ROLLBACK")


@pytest.mark.full
def test_the_longest_query_is_told(sql: Sql, engine_for: EngineFor) -> None:
    make_rows(sql, 500)
    workspace = engine_for({"t": FULL}, {"rows_per_second": 500})
    contract = workspace.config.table("t")
    result = load_table(workspace, contract)
    assert 0.5 < result.longest_query < 10
    last = workspace.ledger.last_load(contract.name)
    assert last is not None
    assert last.receipt is not None
    assert last.receipt.query_seconds == result.longest_query
    raw = workspace.ledger.schema_versions(contract.name)[-1].raw_table
    assert len(lake_rows(workspace, contract.namespaces.raw, raw)) == 500


@contextmanager
def others_at_work(server: EmbeddedServer, count: int, seconds: float) -> Iterator[None]:
    """So many queries of somebody else's, running for so long."""
    connections = [server.admin() for _ in range(count)]

    def run(connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT SLEEP({seconds})")

    threads = [threading.Thread(target=run, args=(c,)) for c in connections]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    yield
    for thread, connection in zip(threads, connections, strict=True):
        thread.join()
        connection.close()
