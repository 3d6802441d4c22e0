"""Whatever dies between two steps: each record is in the files once, and in the queue at least
once, under the same id."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.ledger.tables import LEASES
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.records.ledger import RecordPlaces
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.operations.test_follow_log import LOG
from tests.integration.operations.test_follower import follow_once
from tests.integration.records.published import (
    applied,
    publish,
    read_files,
    read_spool,
    strays,
    with_records,
)
from tests.integration.records.test_records import TABLE, in_mysql
from tests.soak.runs import Order, Runner

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
STEPS = (
    *("records.begun", "records.file", "records.file:2", "records.manifest"),
    *("records.sent", "records.sent:2"),
)


def assert_once(workspace: Workspace, folder: Path, sql: Sql) -> None:
    records = read_files(folder / "files")
    assert applied(records) == in_mysql(sql)
    assert strays(folder / "files") == []
    texts = [json.dumps(one) for one in records]
    assert max(Counter(texts).values()) == 1
    raw = sum(
        load.receipt.committed
        for load in workspace.ledger.successful_loads(workspace.config.table("t").name)
        if load.receipt is not None
    )
    assert len(records) == raw
    messages = list(read_spool(folder / "spool"))
    # The same files come again, so even a spool has each once.
    assert [json.loads(one["body"]) for one in messages] == records
    assert len({one["id"] for one in messages}) == len(messages)


def test_a_run_that_is_killed_at_any_step(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path, runner: Runner
) -> None:
    places = {
        "files": {"kind": "files", "to": str(tmp_path / "files"), "max_rows": 3},
        "spool": {"kind": "spool", "to": str(tmp_path / "spool")},
    }
    sql(TABLE, *(f"INSERT INTO t VALUES ({n}, 'n', {n})" for n in range(5)))
    workspace = with_records(engine_for({"t": LOG}), place, places)
    for number, step in enumerate(STEPS):
        load_table(workspace, workspace.config.table("t"))
        order = Order(
            workspace.config.path,
            act="command",
            failpoint=step,
            arguments=("records",),
            spark=False,
        )
        run = runner.run(order)
        if step.endswith("sent:2"):  # one message file is all that there is to send
            assert run.code in (0, -signal.SIGKILL)
        else:
            assert run.code == -signal.SIGKILL, (step, run.code, run.error)
        at = 100 * (number + 1)
        if number % 2:  # what comes meanwhile is no part of what was begun
            sql(f"INSERT INTO t VALUES ({at}, 'late', 0)")
            load_table(workspace, workspace.config.table("t"))
        publish(workspace)
        assert_once(workspace, tmp_path, sql)
        sql(
            *(f"INSERT INTO t VALUES ({at + n}, 'n', {n})" for n in range(1, 5)),
            f"UPDATE t SET id = id + 50 WHERE id = {at + 1}",
            f"DELETE FROM t WHERE id = {at - 98}",
        )


def test_a_follower_publishes_within_its_rounds(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    places = {
        "files": {"kind": "files", "to": str(tmp_path / "files")},
        "spool": {"kind": "spool", "to": str(tmp_path / "spool")},
    }
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1)")
    workspace = with_records(engine_for({"t": LOG}), place, places)
    follow_once(workspace)
    sql("INSERT INTO t VALUES (2, 'b', 2)", "UPDATE t SET amount = 3")
    follow_once(workspace)
    assert_once(workspace, tmp_path, sql)
    # A destination that fails stops neither the round nor the other one, and is named.
    (tmp_path / "files").rename(tmp_path / "away")
    (tmp_path / "files").write_text("no folder")
    sql("DELETE FROM t WHERE id = 1")
    rounds = follow_once(workspace)
    [failed] = [str(error) for one in rounds for error in one.failed.values()]
    assert "its records can't be published" in failed
    assert len(list(read_spool(tmp_path / "spool"))) == 5
    name = workspace.config.table("t").name
    assert RecordPlaces(workspace.ledger).of_tables([name])[name, "files"].error == failed
    (tmp_path / "files").unlink()
    (tmp_path / "away").rename(tmp_path / "files")
    follow_once(workspace)
    assert_once(workspace, tmp_path, sql)
    assert RecordPlaces(workspace.ledger).of_tables([name])[name, "files"].error is None


@pytest.mark.parametrize(
    "step", [pytest.param("records.file!stop", marks=pytest.mark.full), "records.manifest!stop"]
)
def test_a_run_that_stalled_writes_nothing_over(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path, runner: Runner, step: str
) -> None:
    """It wakes up once another one has taken over and gone on."""
    places = {
        "files": {"kind": "files", "to": str(tmp_path / "files"), "max_rows": 3},
        "spool": {"kind": "spool", "to": str(tmp_path / "spool")},
    }
    sql(TABLE, *(f"INSERT INTO t VALUES ({n}, 'n', {n})" for n in range(8)))
    workspace = with_records(engine_for({"t": LOG}), place, places)
    load_table(workspace, workspace.config.table("t"))
    path, name = workspace.config.path, workspace.config.table("t").name
    order = Order(path, act="command", failpoint=step, arguments=("records",), spark=False)
    run = runner.start(order)
    try:
        wait_until(lambda: state_of(run.pid) == "T")
        assert [one.state for one in publish(workspace)] == ["busy", "busy"]
        expired = datetime(2020, 1, 1)
        with workspace.ledger.database.begin() as connection:
            mine = LEASES.c.table_name == f"records {name}"
            assert connection.execute(
                LEASES.update().where(mine).values(expires_at=expired)
            ).rowcount
        states = [one.state for one in publish(workspace)]
        there = step.startswith("records.manifest")  # the files are there by their own word
        assert states == ["nothing new" if there else "published", "published"]
        sql("UPDATE t SET name = 'm'")
        load_table(workspace, workspace.config.table("t"))
        publish(workspace)
    finally:
        os.kill(run.pid, signal.SIGCONT)
    assert runner.wait(run, 60) is not None
    assert_once(workspace, tmp_path, sql)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
