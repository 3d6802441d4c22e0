"""Models that are published in BigQuery, as Dagster shows and drives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.location import load_definitions
from mirrorlake.bigquery.loads.open_clients import open_for
from mirrorlake.bigquery.loads.publish import publish_table
from mirrorlake.bigquery.models import models_in_bigquery
from mirrorlake.config import load_config
from mirrorlake.workspace import Workspace
from tests.location.bigquery.test_bigquery import with_section
from tests.location.test_sensors import Ticks
from tests.support.bigquery.emulator import google_cloud
from tests.support.bigquery.shim import shim_before

MODEL, KEY = dg.AssetKey(["d", "x"]), dg.AssetKey(["bigquery", "d", "x"])
TABLES = {"there": {"tables": {"t": {"mode": "full", "key": ["id"]}}}}
TEXT = """---
for: {{day: [2026-01-01, 2026-01-02]}}
owner: data@example.com
publish: [lake, bigquery]
---
SELECT {n} AS n, day AS at"""


@pytest.fixture
def path(contract_file: Callable[[Any], Path]) -> Path:
    """A contract file with one model beside it."""
    found = with_section(contract_file(TABLES))
    write(found, 1)
    return found


def write(path: Path, n: int) -> None:
    model = path.parent / "models" / "d" / "x.sql"
    model.parent.mkdir(parents=True, exist_ok=True)
    model.write_text(TEXT.format(n=n))


def test_a_published_model_has_an_asset_below_it(path: Path) -> None:
    defs = load_definitions(path)
    graph = defs.resolve_asset_graph()
    found = graph.get(KEY)
    assert found.parent_keys == {MODEL}
    assert (found.kinds, found.group_name) == ({"bigquery"}, "d__bigquery")
    assert found.metadata["dagster/table_name"] == "local.d.x"
    assert (found.partitions_def, list(found.owners)) == (None, ["data@example.com"])
    assert dg.AssetCheckKey(KEY, "equals_lake") in graph.asset_check_keys
    assert defs.resolve_sensor_def("unpublished").name == "unpublished"


def test_a_location_of_models_alone_reports_what_was_loaded(
    contract_file: Callable[[Any], Path],
) -> None:
    path = with_section(contract_file({}))
    write(path, 1)
    defs = load_definitions(path)
    with dg.DagsterInstance.ephemeral() as instance:
        assert Ticks(defs, instance, "partitions").reported(KEY) == []


def made(defs: dg.Definitions, instance: dg.DagsterInstance, **chosen: Any) -> Any:
    """A run of some assets, or checks alone."""
    job = dg.define_asset_job("chosen", **chosen)
    found = job.resolve(asset_graph=defs.get_repository_def().asset_graph)
    return found.execute_in_process(
        instance=instance,
        resources=dict(defs.resources or {}),
        raise_on_error=False,
        tags={
            "dagster/asset_partition_range_start": "2026-01-01",
            "dagster/asset_partition_range_end": "2026-01-02",
        }
        if chosen["selection"] == dg.AssetSelection.assets(MODEL)
        else {},
    )


@pytest.mark.alone
@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_model_that_was_computed_is_published_and_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defs = load_definitions(path)
    there = dg.AssetSelection.assets(KEY)
    with (
        google_cloud() as cloud,
        shim_before(cloud.bigquery) as shim,
        dg.DagsterInstance.ephemeral() as instance,
    ):
        for name, value in (cloud.environment() | {"BIGQUERY_EMULATOR_HOST": shim.url}).items():
            monkeypatch.setenv(name, value)
        cloud.client().create_dataset("d")
        due, heard = Ticks(defs, instance, "unpublished"), Ticks(defs, instance, "partitions")
        assert due.requests() == []
        assert made(defs, instance, selection=dg.AssetSelection.assets(MODEL)).success
        [request] = due.requests()
        assert list(request.asset_selection or ()) == [KEY]
        assert request.tags["mirrorlake/reason"] == "it was never loaded into BigQuery"

        found = made(defs, instance, selection=there)
        [event] = found.get_asset_materialization_events()
        shown = {k: one.value for k, one in event.materialization.metadata.items()}
        assert (shown["this run"], shown["dagster/row_count"]) == ("loaded it", 2)
        assert (shown["views"], due.requests(), heard.reported(KEY)) == ("none", [], [])

        # Computed again by a run, published while jobs run for long, and settled by a command.
        write(path, 2)
        shim.running = True
        assert made(defs, instance, selection=dg.AssetSelection.assets(MODEL)).success
        found = made(defs, instance, selection=there)
        assert (found.success, found.get_asset_materialization_events()) == (True, [])
        shim.running = False
        config = load_config(path)
        with Workspace.open(config) as workspace:
            [model], _ = models_in_bigquery(config, lambda: workspace.lake)
            assert publish_table(workspace, model, open_for(workspace, [model])).rows == 2
        [event] = heard.reported(KEY)
        assert event.metadata["dagster/row_count"].value == 2
        check = dg.AssetSelection.checks(dg.AssetCheckKey(KEY, "equals_lake"))
        [verdict] = made(defs, instance, selection=check).get_asset_check_evaluations()
        assert verdict.passed

        # One that does not compile any more is not loaded.
        model_file = path.parent / "models" / "d" / "x.sql"
        model_file.write_text(model_file.read_text().replace("AS at", "AS at, nobody.knows"))
        (failure,) = [
            one for one in made(defs, instance, selection=there).all_events if one.is_step_failure
        ]
        assert "nobody" in str(failure.step_failure_data.user_failure_data.description)
