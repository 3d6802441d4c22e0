"""Rows change all the time, and Google fails at random: BigQuery has a version of the lake at every
moment, and MySQL's rows in the end.

``MIRRORLAKE_SOAK_MINUTES`` says how long it goes on; half a minute by default.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.errors import BigQueryError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.runtime.google import clients
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import (
    FIFTY,
    TABLE,
    checked,
    killed,
    published,
    rows_there,
    synced,
)
from tests.support.bigquery.emulator import GoogleCloud
from tests.support.bigquery.shim import BACKEND, TOO_FAST, USED_UP, Shim, shim_before

MINUTES = float(os.environ.get("MIRRORLAKE_SOAK_MINUTES", "0.5"))
STEPS = ("bigquery.staged", "bigquery.load_submitted", "bigquery.write_submitted")
CHANGES = (
    "INSERT INTO t (id, a) SELECT COALESCE(MAX(id), 0) + 1, 'new' FROM t",
    "UPDATE t SET a = CONCAT('u', RAND()) ORDER BY RAND() LIMIT 5",
    "UPDATE t SET a = NULL ORDER BY RAND() LIMIT 1",
    "DELETE FROM t ORDER BY RAND() LIMIT 2",
    "DELETE FROM t",
    "REPLACE INTO t (id, a) SELECT seq, 'again' FROM seq_1_to_40",
)


@pytest.fixture
def shim(cloud: GoogleCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shim]:
    """The emulator, whose jobs and requests fail as Google's do."""
    monkeypatch.setattr(clients, "JOB_PATIENCE", 2.0)
    with shim_before(cloud.bigquery) as found:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", found.url)
        yield found


def trouble(chance: random.Random, shim: Shim) -> None:
    """What Google refuses of the next load."""
    shim.running = chance.random() < 0.1
    of_jobs = [(step, why) for step in ("_load", "_write") for why in (BACKEND, TOO_FAST, USED_UP)]
    shim.jobs = chance.sample(of_jobs, chance.choice((0, 0, 1, 2)))
    requests = [("POST /bigquery/v2/projects/local/jobs", BACKEND), ("GET ", TOO_FAST)]
    shim.requests = chance.sample(requests, chance.choice((0, 0, 1)))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_live_changes_while_google_fails(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    cloud: GoogleCloud,
    dataset: str,
    shim: Shim,
) -> None:
    chance, became = random.Random(int(MINUTES * 60)), Counter[str]()  # noqa: S311 - no secret
    sql(TABLE, FIFTY)
    workspace = mirror({"t": {"mode": "full", "key": ["id"], "shrink_limit": None}}, wait="1s")
    synced(workspace)
    deadline = time.monotonic() + MINUTES * 60
    while time.monotonic() < deadline:
        sql(*chance.choices(CHANGES, (5, 5, 2, 3, 0.3, 1), k=3))
        trouble(chance, shim)
        if chance.random() < 0.1:
            shim.running, shim.jobs, shim.requests = False, [], []
            synced_or_killed(chance, workspace, became)
        else:
            try:
                became[synced(workspace).state] += 1
            except BigQueryError:
                became["refused"] += 1
        # Each id once, whatever failed.
        rows_there(cloud, dataset)
    shim.running, shim.jobs, shim.requests = False, [], []
    synced(workspace)
    assert published(workspace).state in ("success", "unchanged")
    with server.admin(database) as admin, admin.cursor() as cursor:
        cursor.execute("SELECT id, a FROM t")
        rows: Any = cursor.fetchall()
    assert rows_there(cloud, dataset) == dict(rows)
    assert checked(workspace).verdict == "equal"
    print(f"seed {int(MINUTES * 60)}: {dict(became)}")
    assert became["refused"]
    assert became["success"]


def synced_or_killed(chance: random.Random, workspace: Workspace, became: Counter[str]) -> None:
    """A run that is killed at a step, if it gets there."""
    path = workspace.config.path
    assert path is not None
    sync_table(workspace, workspace.config.table("t"))
    try:
        killed(path, chance.choice(STEPS))
        became["killed"] += 1
    except AssertionError:
        became["had nothing to do"] += 1
