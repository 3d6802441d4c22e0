"""Tables that services write themselves: observed, checked, and never green where nobody knows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from tests.location.models.test_models import SALES, definitions

PRICES = """
format: parquet
path: prices
columns: {price: bigint}
freshness: {warn_after: 1h, fail_after: 2h}
min_rows: 3
"""
STOCK = "format: iceberg\ncolumns: {n: {type: bigint, nullable: false}}\n"
PRICES_KEY, STOCK_KEY = dg.AssetKey(["made", "prices"]), dg.AssetKey(["made", "stock"])
MINUTE, HOUR = 60, 3600


class Watched:
    """A location with two tables that are made elsewhere, and its sensor."""

    def __init__(self, path: Path, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self.folder = path.parent / "prices"
        self.lake = Lake(load_config(path).lake)
        self.defs = defs
        self.instance = instance
        self._cursor: str | None = None

    def tick(self) -> Any:
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self._cursor,
            repository_def=self.defs.get_repository_def(),
            resources=dict(self.defs.resources or {}),
        )
        with context:
            found = self.defs.resolve_sensor_def("made_elsewhere").evaluate_tick(context)
        self._cursor = found.cursor or self._cursor
        return found

    def write(self, name: str, rows: dict[str, list[Any]], ago: float) -> None:
        self.folder.mkdir(exist_ok=True)
        pq.write_table(pa.table(rows), self.folder / name)
        os.utime(self.folder / name, (time.time() - ago, time.time() - ago))

    def make_stock(self, rows: list[int]) -> None:
        self.lake.make_namespace("made")
        table = self.lake.catalog.create_table(
            ("made", "stock"), Schema(NestedField(1, "n", LongType(), required=True))
        )
        kinds = pa.schema([pa.field("n", pa.int64(), nullable=False)])
        table.append(pa.table({"n": rows}, schema=kinds))


@pytest.fixture
def watched(contract_file: Callable[[Any], Path]) -> Any:
    path = contract_file(SALES)
    folder = path.parent / "models" / "made"
    folder.mkdir(parents=True)
    (folder / "prices.yaml").write_text(PRICES)
    (folder / "stock.yaml").write_text(STOCK)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Watched(path, definitions(path, {}), instance)


def observed(tick: Any) -> dict[dg.AssetKey, dict[str, Any]]:
    events = [one for one in tick.asset_events if isinstance(one, dg.AssetObservation)]
    return {one.asset_key: {n: v.value for n, v in one.metadata.items()} for one in events}


def verdicts(tick: Any) -> dict[str, tuple[bool, str]]:
    events = [one for one in tick.asset_events if isinstance(one, dg.AssetCheckEvaluation)]
    return {
        f"{one.asset_key.path[-1]} {one.check_name}": (one.passed, one.severity.value)
        for one in events
    }


def test_what_changed_is_observed_and_checked(watched: Watched) -> None:
    watched.write("a.parquet", {"price": [1, 2, 3]}, 10 * MINUTE)
    watched.make_stock([5, 6])
    first = watched.tick()
    assert {key: one["dagster/row_count"] for key, one in observed(first).items()} == {
        PRICES_KEY: 3,
        STOCK_KEY: 2,
    }
    times = {k: one["dagster/last_updated_timestamp"] for k, one in observed(first).items()}
    assert times[PRICES_KEY] == pytest.approx(time.time() - 10 * MINUTE, abs=5 * MINUTE)
    passed = (True, "WARN")
    assert verdicts(first) == {
        "prices contract": passed,
        "prices fresh": passed,
        "prices row_count": passed,
        "stock contract": passed,
    }
    assert watched.tick().skip_message == "None of 2 tables changed"
    # It grows late without anybody writing it: that alone is told, and once.
    at = time.time() - 90 * MINUTE
    pq_file = watched.folder / "a.parquet"
    os.utime(pq_file, (at, at))
    assert verdicts(watched.tick())["prices fresh"] == (False, "WARN")
    os.utime(pq_file, (at - 2 * HOUR, at - 2 * HOUR))
    assert verdicts(watched.tick())["prices fresh"] == (False, "ERROR")
    watched.write("a.parquet", {"price": [1]}, 0)
    assert verdicts(watched.tick())["prices row_count"] == (False, "ERROR")


@pytest.mark.full
def test_drift_is_a_verdict_and_rows_are_not_counted_then(watched: Watched) -> None:
    watched.write("a.parquet", {"price": [1, 2, 3]}, 0)
    watched.make_stock([5])
    watched.tick()
    watched.write("b.parquet", {"price": ["x"]}, 0)
    tick = watched.tick()
    assert "dagster/row_count" not in observed(tick)[PRICES_KEY]
    assert verdicts(tick) == {
        "prices contract": (False, "ERROR"),
        "prices fresh": (True, "WARN"),
        "prices row_count": (False, "WARN"),
    }
    with watched.lake.catalog.load_table(("made", "stock")).update_schema() as update:
        update.add_column("more", LongType())
    (event,) = watched.tick().asset_events
    assert event.passed
    assert event.description == "1 column as declared; there and not declared: more"


def test_a_table_that_cannot_be_looked_at_keeps_no_green_verdict(watched: Watched) -> None:
    watched.write("a.parquet", {"price": [1, 2, 3]}, 0)
    watched.make_stock([5])
    watched.tick()
    (watched.folder / "a.parquet").unlink()
    tick = watched.tick()
    (request,) = tick.run_requests
    keys = {dg.AssetCheckKey(PRICES_KEY, name) for name in ("contract", "fresh", "row_count")}
    assert (set(request.asset_check_keys), request.asset_selection) == (keys, [])
    assert tick.asset_events == []
    # That run is an error of its step: no check of it is said to be passed, or failed.
    job = watched.defs.resolve_job_def(request.job_name).get_subset(
        asset_selection=frozenset(), asset_check_selection=frozenset(keys)
    )
    run = job.execute_in_process(
        instance=watched.instance,
        resources=dict(watched.defs.resources or {}),
        raise_on_error=False,
    )
    assert not run.success
    assert not run.get_asset_check_evaluations()
    (failed,) = [one for one in run.all_events if one.is_step_failure]
    assert failed.step_failure_data.error is not None
    assert "made.prices" in failed.step_failure_data.error.message
    # Requested once; and when it can be looked at again, all is told again.
    again = watched.tick()
    assert again.skip_message == "None of 2 tables changed; 1 could not be looked at"
    watched.write("a.parquet", {"price": [1, 2, 3]}, 0)
    assert verdicts(watched.tick())["prices fresh"] == (True, "WARN")


@pytest.mark.full
def test_where_no_table_can_be_looked_at_the_tick_fails(watched: Watched) -> None:
    assert len(watched.tick().run_requests) == 2
    with pytest.raises(dg.Failure, match="there is no folder"):
        watched.tick()


@pytest.mark.full
def test_a_person_runs_one_check(watched: Watched) -> None:
    watched.write("a.parquet", {"price": [1, 2]}, 0)
    key = dg.AssetCheckKey(PRICES_KEY, "row_count")
    run = watched.defs.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=frozenset(), asset_check_selection=frozenset({key})
    )
    (found,) = run.execute_in_process(
        instance=watched.instance, resources=dict(watched.defs.resources or {})
    ).get_asset_check_evaluations()
    assert (found.check_name, found.passed, found.description) == (
        "row_count",
        False,
        "2 rows, fewer than 3",
    )
