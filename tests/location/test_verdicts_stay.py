"""A report of rows that did not change keeps every verdict that Dagster shows; one of rows that
did, none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from dagster_mirrorlake.checks import build_checks
from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.table import LAYERS, MirroredTable
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.location.conftest import Location
from tests.location.partitions_tick import tick_partitions

TODAY = datetime.now(UTC).date()
FIRST = TODAY - timedelta(days=70)  # more days than a step reports beside its own
TABLES: dict[str, Any] = {
    "moves": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "at",
        "partitions_from": str(FIRST),
    },
}
pytestmark = [pytest.mark.timeout(900), pytest.mark.alone]


@pytest.fixture
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS stay")
        cursor.execute("CREATE DATABASE stay")
        cursor.execute("USE stay")
        cursor.execute(
            "CREATE TABLE stay.moves (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))"
        )
        cursor.execute(
            f"INSERT INTO stay.moves SELECT seq, '{FIRST}' + INTERVAL seq DAY FROM seq_1_to_60"
        )
        admin.commit()
    return location_for({"stay": {"tables": TABLES}})


class Place:
    """A location with an instance of its own: runs, ticks of the sensor, and what its pages show."""

    def __init__(self, location: Location, instance: dg.DagsterInstance) -> None:
        self.location, self.instance, self.cursor = location, instance, ""
        self.defs = load_definitions(location.path)
        self.table = MirroredTable(location.config.table("moves"), first_day=FIRST)

    def tick(self) -> int:
        made, self.cursor = tick_partitions(self.instance, self.defs, self.cursor, None)
        return len(made)

    def run(self, selection: dg.AssetSelection, **more: Any) -> None:
        job = dg.define_asset_job("chosen", selection).resolve(
            asset_graph=self.defs.get_repository_def().asset_graph
        )
        resources = dict(self.defs.resources or {})
        assert job.execute_in_process(instance=self.instance, resources=resources, **more).success

    def materialize(self) -> None:
        """The open day by hand, with every check."""
        keys = [self.table.key(layer) for layer in LAYERS]
        self.run(dg.AssetSelection.assets(*keys), partition_key=str(TODAY))

    def check(self, name: str) -> None:
        self.run(dg.AssetSelection.checks(dg.AssetCheckKey(self.table.key("deduped"), name)))

    def shown(self) -> dict[str, bool]:
        """Each check that has a verdict, and whether its page shows it: else it is "not
        evaluated"."""
        keys = {spec.key for one in build_checks(self.table) for spec in one.check_specs}
        whole = [key for key in keys if not key.name.endswith("_by_day")]
        storage, found = self.instance.event_log_storage, dict[str, bool]()
        for key, record in storage.get_latest_asset_check_execution_by_key(whole).items():
            if isinstance(record.evaluation, dg.AssetCheckEvaluation):
                found[f"{key.asset_key.path[0]}:{key.name}"] = self._is_shown(record)
        by_day = [key for key in keys if key.name.endswith("_by_day")]
        for one in storage.get_asset_check_partition_info(by_day):
            if one.latest_target_materialization_storage_id is not None:
                found[f"{one.check_key.name}:{one.partition_key}"] = one.is_current
        return found

    def _is_shown(self, record: AssetCheckExecutionRecord) -> bool:
        """As the UI's query ``executionForLatestMaterialization`` answers."""
        context = LoadingContextForTest(self.instance)
        return asyncio.run(record.targets_latest_materialization(context))

    def sync(self) -> None:
        with Workspace.open(self.location.config) as workspace:
            load_table(workspace, self.table.contract)
            fold_table(workspace, self.table.contract)


@pytest.fixture
def place(location: Location) -> Iterator[Place]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Place(location, instance)


@pytest.mark.full
def test_no_verdict_is_lost_to_reports_of_what_did_not_change(
    place: Place, server: MariaDB
) -> None:
    place.sync()
    place.materialize()
    place.check("exact_match")
    before = place.shown()
    assert {name for name in before if ":exact_match" in name} == {"deduped:exact_match"}
    assert all(before.values())
    assert len(before) >= 12
    assert place.tick() > 60  # the history, in one look with what it hid
    assert [name for name, shown in place.shown().items() if not shown] == []
    assert set(place.shown()) >= set(before)
    # The sweep of a delete, and the report of its own repair.
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("DELETE FROM stay.moves WHERE id IN (3, 7)")
        admin.commit()
    place.check("exact_match")
    (record,) = place.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [dg.AssetCheckKey(place.table.key("deduped"), "exact_match")]
    ).values()
    assert record.evaluation is not None
    assert "now equal" in str(record.evaluation.description)
    assert place.tick() > 0
    shown = place.shown()
    assert shown["deduped:exact_match"]
    # Rows of it went: what did not look at them since is not of this version.
    assert not shown["deduped:row_count"]
    (again,) = place.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [record.key]
    ).values()
    assert (again.id, again.run_id) == (record.id, record.run_id)
    assert again.evaluation is not None
    assert "no load of these rows since" in str(again.evaluation.metadata["shown again"].value)


def test_a_load_of_new_rows_takes_the_verdicts_away(place: Place, server: MariaDB) -> None:
    place.materialize()
    place.check("exact_match")
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"INSERT INTO stay.moves VALUES (99, '{TODAY}')")
        admin.commit()
    place.sync()
    assert place.tick() > 0
    shown = place.shown()
    assert not shown["deduped:exact_match"]
    assert not shown["deduped:unique_key"]
    assert not shown["clean:no_pii"]
    place.tick()
    assert shown == place.shown()
