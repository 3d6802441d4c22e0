"""The cleanup: what killed loads left is put right by its schedule's run, and gaps are told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.location import load_definitions
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.workspace import Workspace
from tests.location.conftest import Location
from tests.location.test_sensors import die

TABLES = {n: {"mode": "append", "key": ["id"], "cursor": "id"} for n in ("b", "busy")}


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE untidy")
        for table in TABLES:
            cursor.execute(f"CREATE TABLE untidy.{table} (id INT PRIMARY KEY)")
            cursor.execute(f"INSERT INTO untidy.{table} VALUES (1)")
    return location_for({"untidy": {"tables": TABLES}})


def data_files(location: Location) -> set[Path]:
    return set((location.folder / "lake").rglob("*.parquet"))


def test_the_cleanup_puts_right_what_died_and_leaves_what_lives(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_jvm(_: LazySpark) -> None:
        pytest.fail("the cleanup asked for Spark")

    monkeypatch.setattr(LazySpark, "get", no_jvm)
    die(location, "commit.before")
    orphans = data_files(location)
    assert orphans
    die(location, "commit.after")
    two_days_ago = time.time() - 2 * 86_400
    for path in orphans:
        os.utime(path, (two_days_ago, two_days_ago))
    with Ledger(location.config.ledger.url).lease("s.untidy.busy", "another"):
        result = run_cleanup(location)
    assert result.success
    (made,) = result.get_asset_materialization_events()
    told = {k: v.value for k, v in made.materialization.metadata.items()}
    # The load that died before its commit was settled by the sync that died after it.
    assert told.pop("bytes freed") > 0
    assert told == {
        "tables": 1,
        "loads found committed": 1,
        "loads marked errored": 0,
        "orphans removed": len(orphans),
        "left to runs": "s.untidy.busy",
    }
    assert not orphans & data_files(location)
    checks = {e.asset_key.path[-1]: e for e in result.get_asset_check_evaluations()}
    assert (checks["b"].passed, checks["busy"].passed) == (True, False)
    assert "1 were never requested" in str(checks["busy"].description)
    with Workspace.open(location.config) as workspace:
        (raw,) = raw_tables(workspace.lake, workspace.ledger, location.config.table("b"))
        assert raw.scan().count() == 1


def test_a_table_that_can_not_be_read_stops_no_other(location: Location) -> None:
    with Workspace.open(location.config) as workspace:
        load_table(workspace, location.config.table("busy"))
        (raw,) = raw_tables(workspace.lake, workspace.ledger, location.config.table("busy"))
        (file,) = raw.scan().plan_files()
    path = Path(file.file.file_path.removeprefix("file://"))
    path.rename(path.with_suffix(".away"))
    result = run_cleanup(location)
    path.with_suffix(".away").rename(path)
    assert not result.success
    (made,) = result.get_asset_materialization_events()
    told = {k: v.value for k, v in made.materialization.metadata.items()}
    assert (told["tables"], told["could not be read"]) == (1, "s.untidy.busy")


def run_cleanup(location: Location) -> dg.ExecuteInProcessResult:
    """The run that the schedule asks for."""
    defs = load_definitions(location.path)
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 5, 2, 3, 30, tzinfo=UTC),
        repository_def=defs.get_repository_def(),
    )
    (request,) = defs.resolve_schedule_def("cleanup").evaluate_tick(context).run_requests or []
    assert request.run_key == "cleanup-s-2026-05-02"
    selection = dg.AssetSelection.assets(*request.asset_selection or [])
    selection |= dg.AssetSelection.checks(*request.asset_check_keys or [])
    job = dg.define_asset_job("asked", selection).resolve(
        asset_graph=defs.get_repository_def().asset_graph
    )
    with dg.DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(
            instance=instance, resources=dict(defs.resources or {}), raise_on_error=False
        )
