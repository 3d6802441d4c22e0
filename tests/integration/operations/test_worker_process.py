"""Many small tables, some of them synced by a process beside ours: as exact, and as easy to end."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.config import TableContract
from mirrorlake.errors import MachineError, SchemaError
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync_tables import Watch, _Work, sync_tables
from mirrorlake.operations.loading.unchanged import Look, look_at
from mirrorlake.operations.loading.worker_process import (
    Orders,
    WorkerLane,
    WorkerProcess,
)
from mirrorlake.operations.loading.workers import LANES, with_connections
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.sources.mysql.reading.helper_processes import start_helpers
from mirrorlake.table.progress import OnProgress
from mirrorlake.workspace import Workspace
from tests.integration.sources.mysql.test_types import assert_exact

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
COUNT = 10
CONTRACTS: dict[str, Any] = {
    f"t{n:02}": {"mode": "full", "key": ["id"]}
    if n % 2
    else {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
    for n in range(COUNT)
}


@pytest.fixture
def workspace(sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("mirrorlake.operations.loading.workers._WORTH_A_WORKER", 4)
    for name in CONTRACTS:
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20), day DATE, modified_at "
            "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), "
            "KEY (modified_at))",
            f"INSERT INTO {name} (id, v) VALUES (1, 'a'), (2, '{name}'), (10, NULL)",
        )
    return engine_for(CONTRACTS)


class Worker(WorkerProcess):
    """A worker that can be watched."""

    started: list[Worker]
    told: list[Orders]
    ready: threading.Event

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self.done: list[str] = []
        self.lanes = tuple(Lane(self, lane._ours) for lane in self.lanes)
        self.started.append(self)

    def begin(self, orders: Orders) -> None:
        self.told.append(orders)
        super().begin(orders)


class Lane(WorkerLane):
    """A lane of one."""

    def wait_until_ready(self, given_up: Callable[[], bool]) -> bool:
        usable = super().wait_until_ready(given_up)
        Worker.ready.set()
        return usable

    def sync(self, contract: TableContract, *more: Any) -> Any:
        assert isinstance(self.worker, Worker)
        self.worker.done.append(contract.table)
        return super().sync(contract, *more)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    Worker.started, Worker.told, Worker.ready = [], [], threading.Event()
    monkeypatch.setattr("mirrorlake.operations.loading.workers.WorkerProcess", Worker)
    return Worker.started


def _look(workspace: Workspace) -> Look:
    return look_at(workspace.config, workspace.ledger, workspace.config.tables)


@contextmanager
def _once_a_worker_is_there(contract: TableContract) -> Iterator[OnProgress]:
    """Its start takes longer than many tables on a machine that has other work."""
    if len(Worker.started) == 1:
        assert Worker.ready.wait(60)
    yield lambda _: None


def _sync(
    workspace: Workspace, watch: Watch = _once_a_worker_is_there
) -> dict[str, Outcome[SyncResult]]:
    look = _look(workspace)
    left = [c for c in workspace.config.tables if c.name not in look.unchanged]
    found = list(sync_tables(workspace, left, jobs=2, look=look, watch=watch))
    assert len(found) == len(left)
    return {one.name.rpartition(".")[2]: one for one in found}


def _assert_all_exact(server: EmbeddedServer, workspace: Workspace, database: str) -> None:
    for contract in workspace.config.tables:
        assert_exact(server, workspace, database, contract.table, ("id",))


def test_two_processes_are_as_exact_as_one(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    workspace: Workspace,
    workers: list[Worker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    sql("DROP TABLE t09", "ALTER TABLE t07 ADD COLUMN later POINT NULL INVISIBLE")
    seen: list[str] = []

    @contextmanager
    def watch(contract: TableContract) -> Iterator[OnProgress]:
        with _once_a_worker_is_there(contract):
            yield lambda progress: seen.append(contract.table) if progress.rows else None

    with caplog.at_level(logging.INFO):
        found = _sync(workspace, watch)
    [worker] = workers
    assert 0 < len(worker.done) < COUNT
    assert any(record.process == worker.pid for record in caplog.records), "its log is shown here"
    assert {name for name, one in found.items() if one.error} == {"t09"}
    assert isinstance(found["t09"].error, SchemaError)
    assert set(seen) == set(CONTRACTS) - {"t09"}
    for name in worker.done:
        result = found[name].result
        assert result is not None or name == "t09"
        assert result is None or (result.rows, result.folded) == (3, 1)
    sql("CREATE TABLE t09 LIKE t08")
    assert not [one.error for one in _sync(workspace).values() if one.error]
    _assert_all_exact(server, workspace, database)


@pytest.mark.full
def test_a_worker_that_is_killed_costs_the_tables_that_it_was_at(
    server: EmbeddedServer, database: str, workspace: Workspace, workers: list[Worker]
) -> None:
    @contextmanager
    def watch(contract: TableContract) -> Iterator[OnProgress]:
        with _once_a_worker_is_there(contract) as report:
            if threading.current_thread().name == "sync-0" and workers[0].done == []:
                os.kill(workers[0].pid, signal.SIGKILL)
            yield report

    found = _sync(workspace, watch)
    [worker] = workers
    lost = [one for one in found.values() if one.error]
    assert {one.name.rpartition(".")[2] for one in lost} == set(worker.done)
    assert 1 <= len(lost) <= LANES
    for one in lost:
        assert isinstance(one.error, MachineError)
        assert one.error.retryable
        assert f"mirrorlake sync {one.name}" in str(one.error)
    assert not [one.error for one in _sync(workspace).values() if one.error]
    _assert_all_exact(server, workspace, database)


@pytest.mark.full
def test_a_worker_that_can_not_start_is_done_without(
    server: EmbeddedServer,
    database: str,
    workspace: Workspace,
    workers: list[Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start_helpers()  # readers need that one
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert all(one.result for one in _sync(workspace).values())
    assert [worker.done for worker in workers] == [[]]
    _assert_all_exact(server, workspace, database)


@pytest.mark.full
def test_an_end_ends_the_worker(workspace: Workspace, workers: list[Worker]) -> None:
    """As Ctrl-C does: the caller's loop ends, and with it every process."""
    begun = threading.Event()

    @contextmanager
    def watch(contract: TableContract) -> Iterator[OnProgress]:
        with _once_a_worker_is_there(contract) as report:
            if threading.current_thread().name == "sync-0":
                begun.set()
            yield report

    look = _look(workspace)
    running = sync_tables(workspace, workspace.config.tables, jobs=2, look=look, watch=watch)
    next(running)
    assert begun.wait(60)
    running.close()  # type: ignore[attr-defined]
    [worker] = workers
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)
    states = [workspace.ledger.last_load(c.name) for c in workspace.config.tables]
    assert {load.state for load in states if load} <= {"success", "errored"}
    assert None in states
    assert all(one.result for one in _sync(workspace).values())


@pytest.mark.full
def test_a_worker_ends_with_the_sync_that_started_it(
    workspace: Workspace, workers: list[Worker]
) -> None:
    orders = Orders(workspace.config, workspace.run_id, _look(workspace), False, logging.WARNING)
    worker = Worker(LANES)
    worker.begin(orders)
    contracts = workspace.config.tables
    for lane, contract in zip(worker.lanes, contracts, strict=False):
        assert lane.wait_until_ready(lambda: False)
        lane.send(contract)
    worker.close()  # as the death of a process does it
    for contract in contracts:
        load = workspace.ledger.last_load(contract.name)
        assert load is None or load.state in {"success", "errored"}
    assert all(one.result for one in _sync(workspace).values())


@pytest.mark.parametrize(
    ("contract", "source"),
    [
        ({}, {"rows_per_second": 10_000}),
        ({}, {"connections": 1}),
        ({"clean": "table"}, {}),
        ({"mode": "binlog"}, {}),
    ],
    ids=["limited", "one connection", "clean table", "log"],
)
def test_tables_that_no_worker_gets(
    sql: Sql,
    engine_for: EngineFor,
    workers: list[Worker],
    monkeypatch: pytest.MonkeyPatch,
    contract: dict[str, Any],
    source: dict[str, Any],
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("mirrorlake.operations.loading.workers._WORTH_A_WORKER", 1)
    names = ("t1", "t2")
    for name in names:
        sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    workspace = engine_for(
        {name: {"mode": "full", "key": ["id"]} | contract for name in names}, source
    )
    assert all(one.result for one in _sync(workspace).values())
    assert not workers


@pytest.mark.full
def test_a_table_that_needs_spark_after_all(
    server: EmbeddedServer, database: str, sql: Sql, workspace: Workspace, workers: list[Worker]
) -> None:
    """A zero date has its row folded by Spark: the worker starts one of its own."""
    sql("SET SESSION sql_mode = ''", *(f"UPDATE t{n:02} SET day = '0000-00-00' WHERE id = 2" for n in range(3)))  # fmt: skip
    assert all(one.result for one in _sync(workspace).values())
    [worker] = workers
    assert "t00" in worker.done
    _assert_all_exact(server, workspace, database)


@pytest.mark.full
def test_processes_read_on_no_more_connections_than_a_source_has(
    workspace: Workspace, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each counts its reads by itself: a worker by one, this process by those that it leaves."""
    look = _look(workspace)
    mine: list[int] = []

    @contextmanager
    def watch(contract: TableContract) -> Iterator[OnProgress]:
        with _once_a_worker_is_there(contract) as report:
            yield report

    def count(self: _Work) -> Workspace:
        shared = sharing(self)
        [source] = shared.config.sources.values()
        mine.append(source.connections)
        return shared

    sharing = _Work._sharing
    monkeypatch.setattr(_Work, "_sharing", count)
    workspace = replace(workspace, config=with_connections(workspace.config, lambda _: 3))
    contracts = workspace.config.tables
    found = list(sync_tables(workspace, contracts, jobs=2, look=look, watch=watch))
    assert all(one.result for one in found)
    assert Worker.started[0].done
    assert set(mine) == {2}
    [source] = Worker.told[0].config.sources.values()
    assert source.connections == 1


def test_a_worker_that_was_told_nothing_ends_at_once() -> None:
    worker = WorkerProcess(LANES)
    assert worker.alive
    worker.close()
    assert not worker.alive


def test_two_lanes_that_lose_their_worker_close_what_is_their_own() -> None:
    """Both threads once closed both connections, and one of them ended the sync with EBADF."""
    contract: Any = SimpleNamespace(name="s.d.t")
    for _ in range(20):
        worker = WorkerProcess(2)
        os.kill(worker.pid, signal.SIGKILL)
        together = threading.Barrier(2)

        def lose(lane: WorkerLane, together: threading.Barrier = together) -> BaseException:
            together.wait()
            assert lane._next(lambda: False) is None
            return lane._died(contract)

        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lose, worker.lanes))
        assert [type(one) for one in found] == [MachineError, MachineError]
        assert "(code -9)" in str(found[0])
        worker.close()
