"""Models that keep partitions for a time, as Dagster has them: what is kept no more is no partition,
and none is green that was not computed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import deserialize_value, serialize_value

from mirrorlake.config import load_config
from mirrorlake.models.contract_models import compile_project
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.location.contracts import write_contracts
from tests.location.models.test_models import SALES, definitions, node

DAILY = """---
{kept}
for:
  day: TIMESERIES('2024-02-28', {until}, 'P1D')
---
SELECT product, SUM(amount) AS amount FROM s_m.sales WHERE DATE(sold_at) = day GROUP BY product
"""
GRID = """---
retention: 30d
for:
  day: TIMESERIES('2024-02-28', CURRENT_DATE, 'P1D')
  shop: [Paris, Detroit]
---
SELECT product FROM s_m.sales WHERE DATE(sold_at) = day AND store = shop
"""
READER = """---
for: {{of_day: "TIMESERIES('2024-02-28', {until}, 'P1D')"}}
---
SELECT SUM(amount) AS amount FROM made.daily WHERE day = of_day
"""


def test_days_that_are_kept_no_more_are_no_partitions(
    contract_file: Callable[[Any], Path], caplog: pytest.LogCaptureFixture
) -> None:
    kept = DAILY.format(kept="retention: 30d", until="CURRENT_DATE")
    models = {
        "made/daily": kept,
        "made/grid": GRID,
        "made/reader": READER.format(until="CURRENT_DATE"),
        "made/wrong": "---\nretention: 30d\n---\nSELECT product FROM s_m.sales",
    }
    defs = definitions(contract_file(SALES), models)
    days = node(defs, "made/daily").partitions_def
    today = datetime.now(UTC).date()
    assert isinstance(days, dg.DailyPartitionsDefinition)
    # Of 30 days ago the end is 29 days ago.
    assert days.get_first_partition_key() == (today - timedelta(days=30)).isoformat()
    assert days.get_last_partition_key() == (today - timedelta(days=1)).isoformat()
    grid = node(defs, "made/grid").partitions_def
    assert isinstance(grid, dg.MultiPartitionsDefinition)
    assert len(grid.get_partition_keys()) == 60
    assert (
        "wrong.sql:2:12: a model with a retention is partitioned by one date or timestamp, and this one by none"
        in caplog.text
    )
    snapshot = RepositorySnap.from_def(defs.get_repository_def())
    sent = deserialize_value(serialize_value(snapshot), RepositorySnap)
    (found,) = [one for one in sent.asset_nodes if one.asset_key == dg.AssetKey(["made", "daily"])]
    assert found.partitions is not None
    assert found.partitions.get_partitions_definition() == days


def test_a_reader_s_older_days_read_days_that_are_gone(
    contract_file: Callable[[Any], Path],
) -> None:
    path = contract_file(SALES)
    of_days = "TIMESERIES('2024-02-28', CURRENT_DATE, 'P1D')"
    models = {
        "made/daily": f'---\nretention: 30d\nfor: {{day: "{of_days}"}}\n---\nSELECT 1 AS amount',
        "made/reader": READER.format(until="CURRENT_DATE"),
    }
    definitions(path, models)
    with Workspace.open(load_config(path)) as workspace:
        project, _ = compile_project(workspace.config, workspace.lake)
    assert not project.problems
    defs = definitions(path, models)
    below, above = (node(defs, f"made/{name}").partitions_def for name in ("reader", "daily"))
    mapping = node(defs, "made/reader").partition_mappings[dg.AssetKey(["made", "daily"])]
    kept = above.get_first_partition_key()
    for key, read in (("2024-03-01", []), (kept, [kept])):
        found = mapping.get_upstream_mapped_partitions_result_for_partitions(
            below.subset_with_partition_keys([key]), below, above
        )
        assert [*found.partitions_subset.get_partition_keys()] == read
        assert not found.required_but_nonexistent_subset.get_partition_keys()


@pytest.mark.full
@pytest.mark.alone
def test_no_partition_is_green_that_is_kept_no_more_or_was_missed(
    server: MariaDB, tmp_path: Path
) -> None:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE m")
        cursor.execute(
            "CREATE TABLE m.sales (id INT PRIMARY KEY, sold_at DATETIME, store VARCHAR(9),"
            " product VARCHAR(9), amount INT)"
        )
        cursor.execute(
            "INSERT INTO m.sales VALUES (1, '2024-02-28 10:00', 'Paris', 'tea', 1),"
            " (2, '2024-02-29 10:00', 'Paris', 'tea', 2), (3, '2024-03-01', 'Paris', 'tea', 4)"
        )
    path = write_contracts(tmp_path, server.port, SALES)
    until = "'2024-03-02'"
    before = definitions(path, {"made/daily": DAILY.format(kept="description: all", until=until)})
    with Workspace.open(load_config(path)) as workspace:
        sync_table(workspace, workspace.config.table("s.m.sales"))
    with dg.DagsterInstance.ephemeral() as instance:

        def run(defs: dg.Definitions, key: str, first: str) -> tuple[str, set[str], dict[str, Any]]:
            """Why it failed, the partitions that are green, and what is said of one."""
            asset = dg.AssetKey(["made", key])
            job = dg.define_asset_job("chosen", selection=[asset])
            done = job.resolve(
                asset_graph=defs.get_repository_def().asset_graph
            ).execute_in_process(
                instance=instance,
                resources=dict(defs.resources or {}),
                tags={
                    "dagster/asset_partition_range_start": first,
                    "dagster/asset_partition_range_end": "2024-03-01",
                },
                raise_on_error=False,
            )
            failed = [e.event_specific_data for e in done.all_events if e.is_step_failure]
            made = [one.materialization for one in done.get_asset_materialization_events()]
            said = {k: v.value for one in made for k, v in one.metadata.items()}
            return str(failed or ""), {str(one.partition) for one in made}, said

        three = {"2024-02-28", "2024-02-29", "2024-03-01"}
        failed, green, _ = run(before, "daily", "2024-02-28")
        assert (failed, green) == ("", three)
        # The file says more by now than the location that is loaded.
        days = (datetime.now(UTC).date() - date(2024, 2, 29)).days
        kept = DAILY.format(kept=f"retention: {days}d", until=until)
        after = definitions(path, {"made/daily": kept, "made/reader": READER.format(until=until)})
        failed, green, said = run(before, "daily", "2024-02-28")
        assert f"has no partition 2024-02-28 any more: it keeps partitions for {days}d" in failed
        assert (green, said["partitions dropped"]) == ({"2024-02-29", "2024-03-01"}, 1)
        failed, green, said = run(after, "daily", "2024-02-29")
        assert (failed, green, said["partitions dropped"]) == ("", green, 0)
        # A reader that came late: its first day can't be computed any more.
        failed, green, _ = run(after, "reader", "2024-02-28")
        assert (
            "of_day=2024-02-28 can't be computed any more: never computed, and made.dai" in failed
        )
        assert green == {"2024-02-29", "2024-03-01"}
        context = dg.build_sensor_context(
            instance=instance,
            repository_def=after.get_repository_def(),
            resources=dict(after.resources or {}),
        )
        with context:
            tick = after.resolve_sensor_def("models").evaluate_tick(context)
        assert tick.skip_message == "All partitions of 2 models are computed"
