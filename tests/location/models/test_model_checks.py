"""What a model expects of its rows, as Dagster has it: checks of its asset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.build import build_definitions
from mirrorlake.config import load_config
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.location.contracts import write_contracts

DAILY = """---
for:
  sold_day: TIMESERIES('2024-02-28', '2024-03-02', 'P1D')
expect:
  where: {not_below_zero: amount >= 0}
warn:
  rows: {max: 1}
tests:
  of_nothing:
    for: {sold_day: 2024-02-28}
    inputs: {s_m.sales: []}
    expected: []
---
SELECT product, SUM(amount) AS amount FROM s_m.sales WHERE DATE(sold_at) = sold_day GROUP BY product
"""
BELOW = """---
expect: {rows: {min: 1}}
---
SELECT COUNT(*) AS n FROM made.daily
"""
SALES = {"m": {"tables": {"sales": {"mode": "full", "key": ["id"]}}}}
DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
DAILY_KEY, BELOW_KEY = dg.AssetKey(["made", "daily"]), dg.AssetKey(["made", "below"])


def definitions(path: Path, models: Mapping[str, str]) -> dg.Definitions:
    for name, text in models.items():
        file = path.parent / "models" / f"{name}.sql"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return build_definitions(load_config(path))


def test_each_expectation_is_a_check_and_no_test_is(contract_file: Callable[[Any], Path]) -> None:
    defs = definitions(contract_file(SALES), {"made/daily": DAILY, "made/below": BELOW})
    graph = defs.get_repository_def().asset_graph
    found = {
        key.name: graph.get(key) for key in graph.asset_check_keys if key.asset_key == DAILY_KEY
    }
    assert {name: (one.blocking, one.description) for name, one in found.items()} == {
        "not_below_zero": (True, "amount >= 0"),
        "rows_max": (False, "at most 1 row"),
    }
    assert found["rows_max"].partitions_def == graph.get(DAILY_KEY).partitions_def
    (below,) = [key for key in graph.asset_check_keys if key.asset_key == BELOW_KEY]
    assert below.name == "rows_min"


@pytest.fixture
def world(server: MariaDB, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Statements run in MySQL, and the mirror after them."""
    path = write_contracts(tmp_path, server.port, SALES)

    def synced(*statements: str) -> Path:
        with server.admin() as admin, admin.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        with Workspace.open(load_config(path)) as workspace:
            sync_table(workspace, workspace.config.table("s.m.sales"))
        return path

    yield synced
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS m")


def verdicts(
    instance: dg.DagsterInstance, run_id: str, key: dg.AssetKey, *names: str
) -> dict[tuple[str, str | None], str]:
    """(check, partition) → its status in a run."""
    return {
        (name, one.partition): one.status.value
        for name in names
        for one in instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(key, name), limit=50
        )
        if one.run_id == run_id
    }


def counts(instance: dg.DagsterInstance, name: str, partition: str) -> dict[str, Any]:
    """The metadata of the newest evaluation of a partition."""
    history = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(DAILY_KEY, name), limit=50
    )
    record = next(one for one in history if one.partition == partition)
    assert record.event is not None
    said: Any = record.event.dagster_event.event_specific_data
    return {key: value.value for key, value in said.metadata.items()}


def range_of(days: list[str]) -> dict[str, str]:
    return {
        "dagster/asset_partition_range_start": days[0],
        "dagster/asset_partition_range_end": days[-1],
    }


def failures(result: dg.ExecuteInProcessResult) -> list[str]:
    found: list[Any] = [e.event_specific_data for e in result.all_events if e.is_step_failure]
    return [one.error.message for one in found]


@pytest.mark.full
@pytest.mark.alone
def test_a_run_reports_each_partition_and_what_is_below_waits(world: Callable[..., Any]) -> None:
    path = world(
        "CREATE DATABASE m",
        "CREATE TABLE m.sales (id INT PRIMARY KEY, sold_at DATETIME, product VARCHAR(9), amount INT)",
        "INSERT INTO m.sales VALUES (1, '2024-02-28', 'tea', 1), (2, '2024-02-28', 'cup', 1),"
        " (3, '2024-02-29', 'tea', -2)",
    )
    defs = definitions(path, {"made/daily": DAILY, "made/below": BELOW})
    graph = defs.get_repository_def().asset_graph
    with dg.DagsterInstance.ephemeral() as instance:

        def run(chosen: dg.AssetSelection, days: bool = True) -> dg.ExecuteInProcessResult:
            job = dg.define_asset_job("chosen", selection=chosen)
            return job.resolve(asset_graph=graph).execute_in_process(
                instance=instance,
                resources=dict(defs.resources or {}),
                tags=range_of(DAYS) if days else {},
                raise_on_error=False,
            )

        daily, below = dg.AssetSelection.assets(DAILY_KEY), dg.AssetSelection.assets(BELOW_KEY)
        first = run(daily | below)
        assert not first.success
        (failure,) = failures(first)
        assert "2024-02-29: not_below_zero (amount >= 0): 1 of 1 rows" in failure
        # What is below begins only where all is published, and says neither yes nor no.
        assert set(verdicts(instance, first.run_id, BELOW_KEY, "rows_min").values()) == {"PLANNED"}
        # What is not published is not green, and what is, is.
        assert instance.get_materialized_partitions(DAILY_KEY) == {DAYS[0], DAYS[2]}
        found = verdicts(instance, first.run_id, DAILY_KEY, "not_below_zero", "rows_max")
        assert found == {
            ("not_below_zero", DAYS[0]): "SUCCEEDED",
            ("not_below_zero", DAYS[1]): "FAILED",
            ("not_below_zero", DAYS[2]): "SUCCEEDED",
            ("rows_max", DAYS[0]): "FAILED",
            ("rows_max", DAYS[1]): "SUCCEEDED",
            ("rows_max", DAYS[2]): "SUCCEEDED",
        }
        said = counts(instance, "not_below_zero", DAYS[1])
        assert (said["rows looked at"], said["rows not as expected"], said["published"]) == (
            1,
            1,
            False,
        )
        assert counts(instance, "rows_max", DAYS[0])["rows looked at"] == 2

        world("UPDATE m.sales SET amount = 3 WHERE id = 3")
        again = run(daily | below)
        assert again.success
        assert instance.get_materialized_partitions(DAILY_KEY) == set(DAYS)
        found = verdicts(instance, again.run_id, DAILY_KEY, "not_below_zero")
        assert found == {("not_below_zero", day): "SUCCEEDED" for day in DAYS}
        # Dagster plans the check of what has no partitions for each partition of the run, too.
        below_says = verdicts(instance, again.run_id, BELOW_KEY, "rows_min")
        assert below_says["rows_min", None] == "SUCCEEDED"
        assert set(below_says.values()) == {"SUCCEEDED", "PLANNED"}
        assert counts(instance, "not_below_zero", DAYS[1])["published"] is True

        # The checks alone look at what is published.
        looked = run(dg.AssetSelection.checks(dg.AssetCheckKey(DAILY_KEY, "not_below_zero")))
        assert looked.success
        assert not looked.get_asset_materialization_events()
        assert verdicts(instance, looked.run_id, DAILY_KEY, "not_below_zero", "rows_max") == {
            ("not_below_zero", day): "SUCCEEDED" for day in DAYS
        }

        # An instance that never ran it hears of its partitions, then of the verdicts on them.
        with dg.DagsterInstance.ephemeral() as other:

            def reported() -> list[Any]:
                context = dg.build_sensor_context(
                    instance=other,
                    repository_def=defs.get_repository_def(),
                    resources=dict(defs.resources or {}),
                )
                with context:
                    events = defs.resolve_sensor_def("models").evaluate_tick(context).asset_events
                for one in events:
                    other.report_runless_asset_event(one)
                return list(events)

            kinds = {type(one) for one in reported()}
            assert kinds == {dg.AssetMaterialization}
            told = {
                (one.asset_key, one.check_name, one.partition): one.passed for one in reported()
            }
            assert {key for key in told if not told[key]} == {(DAILY_KEY, "rows_max", DAYS[0])}
            assert {day for key, name, day in told if name == "not_below_zero"} == set(DAYS)
            assert (BELOW_KEY, "rows_min", None) in told
            assert reported() == []
            assert counts(other, "not_below_zero", DAYS[1])["rows looked at"] == 1
            # A run plans its checks again, is waited for, and dies before it comes to them.
            waiting = other.create_run_for_job(
                dg.define_asset_job("chosen", selection=daily).resolve(asset_graph=graph),
                tags=range_of(DAYS),
                asset_selection=frozenset({DAILY_KEY}),
            )
            planned = verdicts(other, waiting.run_id, DAILY_KEY, "not_below_zero")
            assert set(planned.values()) == {"PLANNED"}
            assert reported() == []
            other.report_run_failed(waiting)
            assert reported() == []

        # The engine fails: no check says that rows are not as expected.
        broken = DAILY.replace("amount >= 0", "CAST(product AS INT) > 0")
        (path.parent / "models" / "made" / "daily.sql").write_text(broken)
        world("UPDATE m.sales SET amount = 4 WHERE id = 3")
        failed = run(daily)
        assert not failed.success
        (failure,) = failures(failed)
        assert "not_below_zero (CAST(product AS INT) > 0) can't be evaluated" in failure
        found = verdicts(instance, failed.run_id, DAILY_KEY, "not_below_zero", "rows_max")
        assert set(found.values()) == {"PLANNED"}
