"""Several tables synced at once: each is what it would be by itself, and an end ends them all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED
from mirrorlake.destinations.iceberg.model import snapshot_property
from mirrorlake.errors import SchemaError
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.operations.loading.workers import default_jobs
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.table.progress import OnProgress
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows
from tests.integration.sources.mysql.test_types import assert_exact

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
COUNT = 8
CONTRACTS: dict[str, Any] = {
    f"t{n}": (
        {"mode": "full", "key": ["id"], "verify": n % 4 == 0}
        if n % 2 == 0
        else {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
    )
    for n in range(COUNT)
}


@pytest.fixture
def workspace(sql: Sql, engine_for: EngineFor) -> Workspace:
    for n in range(COUNT):
        sql(
            f"CREATE TABLE t{n} (id INT PRIMARY KEY, v VARCHAR(20), modified_at TIMESTAMP(6) NOT "
            "NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))",
            f"INSERT INTO t{n} (id, v) VALUES (1, 'a{n}'), (2, 'b{n}'), ({n + 10}, NULL)",
        )
    return engine_for(CONTRACTS)


@pytest.mark.full
def test_each_table_is_what_it_would_be_alone(
    server: EmbeddedServer, database: str, sql: Sql, workspace: Workspace
) -> None:
    contracts = workspace.config.tables
    threads: dict[str, int] = {}

    @contextmanager
    def watch(contract: TableContract) -> Iterator[OnProgress]:
        threads[contract.name] = threading.get_ident()
        yield lambda _: None

    for _ in range(2):
        look = look_at(workspace.config, workspace.ledger, contracts)
        found = list(sync_tables(workspace, contracts, jobs=4, look=look, watch=watch))
        assert {s.name for s in found if s.result} == {c.name for c in contracts}
        for contract in contracts:
            assert_exact(server, workspace, database, contract.table, ("id",))
            _holds_its_own_load(workspace, contract)
        # Updates, so that the second round merges.
        for n in range(COUNT):
            sql(f"UPDATE t{n} SET v = 'new' WHERE id = 2", f"DELETE FROM t{n} WHERE id = 1 AND {n} % 2 = 0")  # fmt: skip
    assert len(set(threads.values())) > 1
    assert threading.get_ident() not in threads.values()


def _holds_its_own_load(workspace: Workspace, contract: TableContract) -> None:
    """The newest version of deduped is told to be of this table's load: the setting that says it
    is a session's, and each thread has one of its own."""
    load = workspace.ledger.last_load(contract.name, "success")
    table = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    assert load is not None
    assert table is not None
    head = table.current_snapshot()
    assert head is not None
    assert snapshot_property(head, FOLDED) == str(load.seq)


def test_one_that_fails_stops_no_other(
    sql: Sql, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nor what others do in the same Spark, however long a thread takes to end.
    monkeypatch.setattr(workspace.spark, "cancel", lambda: pytest.fail("cancelled others' jobs"))
    rejoin = workspace.spark.rejoin
    monkeypatch.setattr(workspace.spark, "rejoin", lambda: (time.sleep(0.5), rejoin()))
    sql("ALTER TABLE t3 DROP COLUMN modified_at", "DROP TABLE t5")
    found = {
        s.name.rpartition(".")[2]: s
        for s in sync_tables(workspace, workspace.config.tables, jobs=3)
    }
    assert {name for name, s in found.items() if s.error} == {"t3", "t5"}
    assert isinstance(found["t5"].error, SchemaError)
    assert all(s.result for name, s in found.items() if name not in ("t3", "t5"))


@pytest.mark.full
def test_an_end_gives_up_what_has_begun_and_begins_nothing_more(
    database: str, sql: Sql, workspace: Workspace
) -> None:
    """As Ctrl-C does: the caller's loop ends, and with it every thread."""
    begun = threading.Semaphore(0)
    go_on = threading.Event()

    @contextmanager
    def watch(contract: TableContract) -> Iterator[OnProgress]:
        def report(_: Any) -> None:
            if contract.table != "t0":
                begun.release()
                go_on.wait(30)

        yield report

    running = sync_tables(workspace, workspace.config.tables, jobs=2, watch=watch)
    first = next(running)
    assert first.name.rpartition(".")[2] == "t0"
    assert begun.acquire(timeout=30)
    threading.Timer(0.5, go_on.set).start()
    running.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name.startswith("sync-")]
    loads = {c.table: workspace.ledger.last_load(c.name) for c in workspace.config.tables}
    states = {name: load.state for name, load in loads.items() if load}
    assert states["t0"] == "success"
    assert set(states.values()) == {"success", "errored"}
    assert len(states) < COUNT
    for synced in sync_tables(workspace, workspace.config.tables, jobs=2):
        assert synced.result, synced.error
    spaces = workspace.config.tables[0].namespaces
    for n in range(COUNT):
        assert len(lake_rows(workspace, spaces.deduped, f"t{n}")) == 3


def test_a_fault_of_ours_in_a_thread_reaches_the_caller(workspace: Workspace) -> None:
    @contextmanager
    def watch(_: TableContract) -> Iterator[OnProgress]:
        raise ZeroDivisionError
        yield lambda _: None

    with pytest.raises(ZeroDivisionError):
        list(sync_tables(workspace, workspace.config.tables, jobs=2, watch=watch))


def test_a_session_is_a_threads_own_and_as_exact(place: Place) -> None:
    first = place.spark.get()
    found: list[Any] = []

    def work() -> None:
        with place.spark.own_session():
            own = place.spark.get()
            assert own is place.spark.get()
            own.conf.set("spark.sql.shuffle.partitions", "7")
            own.range(1).createOrReplaceTempView("only_mine")
            found.append(own)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found
    assert found[0] is not first
    assert place.spark.get() is first
    assert first.conf.get("spark.sql.shuffle.partitions") != "7"
    assert not first.catalog.tableExists("only_mine")
    for name, value in first.sparkContext.getConf().getAll():
        if name.startswith(("spark.sql.catalog", "spark.sql.ansi", "spark.sql.session")):
            assert found[0].conf.get(name) == value, name


@pytest.mark.parametrize(
    ("connections", "tables", "cores", "jobs"),
    [(2, 8, 4, 2), (9, 8, 4, 4), (9, 1, 4, 1), (9, 8, 1, 1)],
)
def test_how_many_at_once(
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
    connections: int,
    tables: int,
    cores: int,
    jobs: int,
) -> None:
    config = engine_for(CONTRACTS, {"connections": connections}).config
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert default_jobs(config, config.tables[:tables]) == jobs
    spark = config.spark.model_copy(update={"connect": "sc://nowhere"})
    assert default_jobs(config.model_copy(update={"spark": spark}), config.tables[:tables]) == 1


@pytest.mark.full
def test_what_became_of_a_table_is_told_with_it(workspace: Workspace) -> None:
    [one] = sync_tables(workspace, workspace.config.tables[:1])
    assert one == Outcome(workspace.config.tables[0].name, one.result)
