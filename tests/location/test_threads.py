"""Steps of a run side by side: a slow table delays nobody, each step keeps its own lines, and a run
that is terminated ends."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from dagster_mirrorlake.executor import threads_executor
from dagster_mirrorlake.step_tags import THREAD_TAG
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import ROOT, Location

QUICK = [f"quick{n}" for n in range(4)]
TABLES = {
    name: {"mode": "append", "key": ["id"], "cursor": "id", "overlap_keys": 2}
    for name in ["a_slow", *QUICK]
}
CHECKS = {"contract", "gaps", "no_pii", "row_count", "unique_key"}


@pytest.fixture
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS many")
        cursor.execute("CREATE DATABASE many")
        for name in TABLES:
            cursor.execute(f"CREATE TABLE many.{name} (id INT PRIMARY KEY, v VARCHAR(20))")
            cursor.execute(f"INSERT INTO many.{name} VALUES (1, 'a'), (2, 'b'), (3, '{name}')")
        admin.commit()
    place = location_for({"many": {"tables": TABLES}})
    home = place.folder / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    return place


@pytest.fixture
def instance(location: Location) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(location.folder / "dagster")) as instance:
        yield instance


def start(location: Location, run_id: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.location.run_job", str(location.path), run_id]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DAGSTER_HOME": str(location.folder / "dagster"),
    }
    log = (location.folder / f"{run_id}.log").open("wb")
    return subprocess.Popen(
        [*command, *TABLES], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
    )


def key(location: Location, name: str, layer: Any) -> dg.AssetKey:
    return MirroredTable(location.config.table(name)).key(layer)


def wait_for(what: Callable[[], bool], run: subprocess.Popen[bytes], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "never came"
        assert run.poll() is None, "the run ended first"
        time.sleep(0.2)


@pytest.mark.full
def test_a_slow_table_delays_nobody(
    location: Location, instance: dg.DagsterInstance, server: MariaDB
) -> None:
    run_id = str(uuid.uuid4())
    with server.admin("many") as admin, admin.cursor() as cursor:
        cursor.execute("LOCK TABLES a_slow WRITE")
        run = start(location, run_id)
        try:
            wait_for(
                lambda: all(
                    instance.get_latest_materialization_event(key(location, name, "clean"))
                    for name in QUICK
                ),
                run,
            )
            assert not instance.get_latest_materialization_event(key(location, "a_slow", "raw"))
        finally:
            cursor.execute("UNLOCK TABLES")
        assert run.wait(180) == 0
    assert instance.get_latest_materialization_event(key(location, "a_slow", "clean"))
    ledger = Ledger(location.config.ledger.url)
    loads = [load for name in TABLES for load in ledger.successful_loads(f"s.many.{name}")]
    assert sorted(load.table for load in loads) == sorted(f"s.many.{name}" for name in TABLES)
    assert all(load.receipt is not None and load.receipt.rows == 3 for load in loads)
    logs = instance.all_logs(run_id)
    verdicts = [
        entry.dagster_event.asset_check_evaluation_data
        for entry in logs
        if entry.dagster_event is not None
        and entry.dagster_event.event_type_value == "ASSET_CHECK_EVALUATION"
    ]
    passed = {(one.asset_key.path[-1], one.check_name) for one in verdicts if one.passed}
    assert {(name, check) for name in TABLES for check in CHECKS} <= passed
    # What a step logs stands in that step.
    for entry in logs:
        if entry.user_message.startswith("table s.many.") and entry.step_key:
            table = entry.user_message.split()[1].removeprefix("s.many.").rstrip(":")
            assert table in entry.step_key, (entry.step_key, entry.user_message)


@pytest.mark.full
def test_a_run_that_is_terminated_ends(
    location: Location, instance: dg.DagsterInstance, server: MariaDB
) -> None:
    """With one table's read that waits for a lock: what was committed stays, the rest is loaded by
    the next run."""
    run_id, again = str(uuid.uuid4()), str(uuid.uuid4())
    with server.admin("many") as admin, admin.cursor() as cursor:
        cursor.execute("LOCK TABLES a_slow WRITE")
        run = start(location, run_id)
        wait_for(
            lambda: bool(
                instance.get_latest_materialization_event(key(location, QUICK[0], "clean"))
            ),
            run,
        )
        began = time.monotonic()
        run.terminate()
        run.wait(90)
        took = time.monotonic() - began
        cursor.execute("UNLOCK TABLES")
    said = (location.folder / f"{run_id}.log").read_text()
    assert took < 60, said[-3000:]
    ended = instance.get_run_by_id(run_id)
    assert ended is not None
    assert ended.status in (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE), said[-3000:]
    second = start(location, again)
    assert second.wait(180) == 0, (location.folder / f"{again}.log").read_text()[-3000:]
    for name in TABLES:
        assert instance.get_latest_materialization_event(key(location, name, "clean")), name


def test_a_limit_that_would_run_nothing_is_refused() -> None:
    make = threads_executor.executor_creation_fn
    assert make is not None
    with pytest.raises(dg.DagsterInvariantViolationError, match="at least 1"):
        make(cast("Any", SimpleNamespace(executor_config={"max_concurrent": 0})))


BOTH = threading.Barrier(2)


def speaking(name: str) -> dg.OpDefinition:
    """Says its name to the engine's logger while the other one is under way."""

    @dg.op(name=name, tags={THREAD_TAG: "true"})
    def speak() -> None:
        BOTH.wait(30)
        for _ in range(3):
            logging.getLogger("mirrorlake.load").info("%s speaks", name)
        BOTH.wait(30)

    return speak


@dg.op
def mine() -> None:
    assert threading.current_thread() is threading.main_thread()


def two_and_one() -> dg.JobDefinition:
    ops = [speaking("one"), speaking("two"), mine]
    nodes = {dg.NodeInvocation(op.name): {} for op in ops}
    graph = dg.GraphDefinition("speaking", node_defs=ops, dependencies=nodes)
    return graph.to_job(executor_def=threads_executor)


def test_what_the_engine_logs_stands_in_its_own_step(tmp_path: Path) -> None:
    """And a step of somebody else's is in the main thread."""
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        result = dg.execute_job(dg.reconstructable(two_and_one), instance)
        assert result.success
        said = [
            (entry.step_key, entry.user_message)
            for entry in instance.all_logs(result.run_id)
            if "speaks" in entry.user_message
        ]
    assert sorted(said) == [("one", "one speaks")] * 3 + [("two", "two speaks")] * 3
