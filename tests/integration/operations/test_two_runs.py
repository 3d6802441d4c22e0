"""Two runs of one table at once, and an owner that stalls until another has taken over.

The runs are real processes, stopped and woken up by signals; a lease ends when the test says so in
the ledger, not by the clock: a live run may be slow on a busy machine, and keeps its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from demo.oracle import compare_table
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.commits.commit import FOLDED, LOAD_ID, was_overtaken
from mirrorlake.destinations.iceberg.model import snapshot_property
from mirrorlake.errors import CommitConflict, LeaseHeld
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.soak import judge
from tests.soak.runs import Order, Run, Runner
from tests.soak.steps import Watcher

KEYED = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "0s"}


@dataclass
class World:
    """One table with its contract, loaded once."""

    server: MariaDB
    config: Path
    workspace: Workspace
    runner: Runner
    watcher: Watcher
    sql: Callable[..., Any]

    def order(self, act: str, failpoint: str = "", *, spark: bool = False) -> Order:
        name = self.watcher.contract.name
        return Order(self.config, name, act, (), failpoint, spark)

    def stall(self, act: str, failpoint: str, *, spark: bool = False) -> Run:
        """A run that was stopped at a failpoint, and whose lease has ended meanwhile."""
        run = self.runner.start(self.order(act, f"{failpoint}!stop", spark=spark))
        wait_for(lambda: state_of(run.pid) == "T", run)
        ended = "UPDATE leases SET expires_at = '2000-01-01 00:00:00.000000' WHERE table_name = ?"
        assert len(self.watcher.ask(f"{ended} RETURNING token")) == 1
        return run

    def wake(self, run: Run) -> Run:
        os.kill(run.pid, signal.SIGCONT)
        self.runner.wait(run)
        return run

    def change(self) -> None:
        self.sql("INSERT INTO t (v) VALUES (1), (2)", "UPDATE t SET v = v + 1 ORDER BY id LIMIT 3")

    def assert_exact(self) -> None:
        contract = self.watcher.contract
        with self.server.admin() as admin:
            deduped = self.watcher.layer("deduped")
            verdict = compare_table(admin, contract.database, "t", contract.key, deduped)
        assert verdict.equal, verdict.describe()
        found = judge.find_open(self.watcher)
        found += judge.find_disagreements(self.watcher)
        assert found.none, found

    def loads(self) -> list[str]:
        """The load ids in the history of raw."""
        found = [
            snapshot_property(s, LOAD_ID) for t in self.watcher.raw_tables() for s in t.snapshots()
        ]
        return [load_id for load_id in found if load_id]


def state_of(pid: int) -> str:
    """The kernel's letter for what a process is doing; '' if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def wait_for(happened: Callable[[], bool], run: Run) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, f"the run did not stop: {run.error}"
        assert state_of(run.pid) not in ("", "Z"), f"the run ended: {run.error}"
        time.sleep(0.02)


@pytest.fixture
def world(
    mariadb: MariaDB, place: Place, database: str, sql: Callable[..., Any], runner: Runner
) -> World:
    sql(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, modified_at DATETIME(6) NOT NULL "
        "DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))",
        "INSERT INTO t (v) SELECT seq FROM seq_1_to_500",
    )
    config = write_contract(
        place.folder / f"{database}.yaml",
        mariadb.port,
        {database: {"tables": {"t": KEYED}}},
        ledger={"url": "sqlite:///ledger.db", "wait": "120s"},
    )
    loaded = load_config(config)
    watcher = Watcher(place.folder / "ledger.db", place.lake, loaded.table(f"s.{database}.t"))
    workspace = Workspace.open(loaded, spark=place.spark)
    load_table(workspace, watcher.contract)
    return World(mariadb, config, workspace, runner, watcher, sql)


def test_two_runs_at_once_load_one_after_the_other(world: World) -> None:
    """Both wait for the lease, neither reads what the other is writing; each load id is once."""
    world.change()
    runs = [world.runner.start(world.order("load")) for _ in range(3)]
    codes = [world.runner.wait(run) for run in runs]
    assert codes == [0, 0, 0], [run.error for run in runs]
    ids = world.loads()
    assert len(ids) == len(set(ids))
    query = "SELECT state, token FROM loads WHERE table_name = ?"
    states = world.watcher.ask(query)
    assert [state for state, _ in states] == ["success"] * 4
    assert len({token for _, token in states}) == 4
    fold_table(world.workspace, world.watcher.contract)
    world.assert_exact()


def test_a_run_beside_a_live_one_is_refused_by_name(world: World) -> None:
    world.change()
    first = world.runner.start(
        Order(
            world.config, world.watcher.contract.name, "load", (), "chunk.written!stop", spark=False
        )
    )
    wait_for(lambda: state_of(first.pid) == "T", first)
    impatient = write_contract(
        world.config.with_name(f"{world.config.stem}_impatient.yaml"),
        world.server.port,
        {world.watcher.contract.database: {"tables": {"t": KEYED}}},
        ledger={"url": "sqlite:///ledger.db", "wait": "1s"},
    )
    second = world.runner.run(Order(impatient, world.watcher.contract.name, "load", spark=False))
    assert second.code == LeaseHeld.exit_code
    assert "is being written by run" in second.error
    assert f"(process {first.pid})" in second.error
    assert "Try again when it is done" in second.error
    assert world.wake(first).code == 0, first.error
    fold_table(world.workspace, world.watcher.contract)
    world.assert_exact()


def test_a_stalled_load_commits_nothing(world: World) -> None:
    """Who took over committed nothing itself: the raw table is as the stalled run left it, and only
    the lease tells that it must not go on."""
    world.change()
    before = world.loads()
    stalled = world.stall("load", "chunk.written")
    recover_table(world.workspace, world.watcher.contract, timedelta())
    assert world.wake(stalled).code == LeaseHeld.exit_code, stalled.error
    assert world.loads() == before
    sync_table(world.workspace, world.watcher.contract)
    recover_table(world.workspace, world.watcher.contract, timedelta())
    assert not judge.find_orphans(world.watcher)
    world.assert_exact()


def test_a_load_that_stalls_in_its_commit_does_not_commit_over_another(world: World) -> None:
    """It has looked at its lease already: the parent of its commit tells."""
    world.change()
    stalled = world.stall("load", "commit.before")
    world.change()
    sync_table(world.workspace, world.watcher.contract)
    after = world.loads()
    assert world.wake(stalled).code == CommitConflict.exit_code, stalled.error
    assert "CommitConflict" in stalled.error
    assert world.loads() == after
    world.assert_exact()


@pytest.mark.full
def test_a_stalled_fold_writes_nothing(world: World) -> None:
    """Rows that another run has folded since would become old again."""
    fold_table(world.workspace, world.watcher.contract)
    world.change()
    load_table(world.workspace, world.watcher.contract)
    stalled = world.stall("fold", "fold.before", spark=True)
    world.change()
    sync_table(world.workspace, world.watcher.contract)
    world.assert_exact()
    assert world.wake(stalled).code == LeaseHeld.exit_code, stalled.error
    world.assert_exact()


@pytest.mark.full
def test_a_fold_that_stalled_after_its_last_look_is_put_right(world: World, place: Place) -> None:
    """Between the look at the lease and the MERGE there is a moment: what it did then is found."""
    contract = world.watcher.contract
    fold_table(world.workspace, contract)
    world.change()
    sync_table(world.workspace, contract)
    spark = place.spark.get()
    setting = f"spark.sql.iceberg.snapshot-property.{FOLDED}"
    deduped = f"lake.`{contract.namespaces.deduped}`.`t`"
    for statement in ("UPDATE {} SET v = 0 WHERE id < 4", "DELETE FROM {} WHERE id > 500"):
        sync_table(world.workspace, contract)
        spark.conf.set(setting, "1")
        try:
            spark.sql(statement.format(deduped))
        finally:
            spark.conf.unset(setting)
        fold_table(world.workspace, contract)
        world.assert_exact()
        assert not was_overtaken(world.watcher.layer("deduped"))
