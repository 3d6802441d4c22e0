"""A run that is killed between any two steps of a load: the next one brings the same rows there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.failpoints import OF_BIGQUERY
from mirrorlake.operations.recover import recover_table
from mirrorlake.operations.status import status_of
from mirrorlake.operations.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.operations.bigquery.published import (
    FIFTY,
    INCREMENTAL,
    TABLE,
    checked,
    left_over,
    published,
    rows_there,
    synced,
)
from tests.support.bigquery.emulator import GoogleCloud

SHORT = ("bigquery.write_submitted",)
STEPS = [
    pytest.param(name, id=name, marks=[] if name in SHORT else pytest.mark.full)
    for name in OF_BIGQUERY
]


def killed(path: Path, name: str) -> None:
    """Publish in a process of its own that is killed at a failpoint; its lease is free then."""
    pid = os.fork()
    if pid == 0:
        os.environ["MIRRORLAKE_FAILPOINT"] = name
        try:
            published(Workspace.open(load_config(path)))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("name", STEPS)
def test_the_next_run_brings_the_same_rows(
    name: str,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: GoogleCloud,
    dataset: str,
    place: Place,
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    synced(workspace)
    place.spark.get().sql(f"DELETE FROM lake.{dataset}.t WHERE id <= 5")
    place.spark.get().sql(f"UPDATE lake.{dataset}.t SET a = 'new' WHERE id = 9")
    killed(workspace.config.path, name)
    again = published(workspace)
    assert (again.how, again.rows) == ("changes", 45)
    assert rows_there(cloud, dataset) == dict.fromkeys(range(6, 51), "old") | {9: "new"}
    assert left_over(cloud, dataset) == []
    assert checked(workspace).verdict == "equal"
    assert published(workspace).state == "unchanged"


def test_recover_settles_what_was_submitted(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: GoogleCloud, dataset: str
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    killed(workspace.config.path, "bigquery.load_submitted")
    [pending] = status_of(workspace.config, workspace.ledger, [contract])
    assert pending.bigquery is not None
    assert pending.bigquery.state == "pending"
    assert recover_table(workspace, contract).bigquery == "success"
    assert len(rows_there(cloud, dataset)) == 50
    assert left_over(cloud, dataset) == []
    assert published(workspace).state == "unchanged"
