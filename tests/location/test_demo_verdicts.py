"""Every check of the demo's chains is followed through sweeps, a history that is reported late,
folds, repairs and loads of other tables: no report of rows that did not change takes a verdict away.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest

from dagster_mirrorlake.assets.reported import partition_event
from dagster_mirrorlake.checks.series import BY_DAY, EXACT
from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.sensors.requests import RANGE_END, RANGE_START, open_copies
from dagster_mirrorlake.table import LAYERS, MirroredTable, mirrored_tables
from demo.computed import put_models
from demo.contract import demo_contract
from demo.nyc import load_nyc
from demo.run import USER
from mirrorlake.config import Config, load_config
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.trial.shop import create_shop
from mirrorlake.workspace import Workspace
from tests.location.partitions_tick import tick_partitions

PASSWORD = "the demo's"
QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
TODAY = datetime.now(UTC).date()
OLD = TODAY - timedelta(days=9)
pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.timeout(1800)]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MariaDB]:
    monkeypatch.setenv("MIRRORLAKE_DEMO_PASSWORD", PASSWORD)
    monkeypatch.setenv("MIRRORLAKE_HASH_KEY", "the demo's own key, no secret")
    with MariaDB.start(tmp_path / "mysql") as server:
        server.create_user(USER, PASSWORD)
        with server.admin() as admin, admin.cursor() as cursor:
            load_nyc(admin)
            # As many days, with fewer rows.
            cursor.execute("DELETE FROM nyc.flights WHERE flight % 50 > 0")
            admin.commit()
            create_shop(admin, customers=60)
        yield server


@pytest.fixture
def config(tmp_path: Path, server: MariaDB) -> Config:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(demo_contract(server.port), encoding="utf-8")
    put_models(tmp_path)
    return load_config(path)


class Demo:
    """The demo's location: its runs, looks of its sensor, and what its pages show."""

    def __init__(self, config: Config, instance: dg.DagsterInstance) -> None:
        self.config, self.instance, self.cursor = config, instance, ""
        self.defs = load_definitions(config.path)
        self.tables = {t.contract.name: t for t in mirrored_tables(config.tables)}
        self.checks = [
            key
            for key in self.defs.resolve_asset_graph().asset_check_keys
            if any(key.asset_key in table.chain_keys for table in self.tables.values())
        ]

    def materialize(self) -> None:
        """All chains and all their checks, in one run, as `make demo ONCE=1` does."""
        open_copies(self.instance, list(self.tables.values()), TODAY)
        done = self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            asset_selection=[key for table in self.tables.values() for key in table.chain_keys],
            tags={RANGE_START: str(TODAY), RANGE_END: str(TODAY)},
            run_config=QUIET,
        )
        assert done.success

    def check(self, *keys: dg.AssetCheckKey) -> None:
        """Execute these checks alone, as a person does."""
        job = dg.define_asset_job("chosen", dg.AssetSelection.checks(*keys)).resolve(
            asset_graph=self.defs.get_repository_def().asset_graph
        )
        resources = dict(self.defs.resources or {})
        assert job.execute_in_process(
            instance=self.instance, resources=resources, run_config=QUIET
        ).success

    def of(self, *names: str) -> list[dg.AssetCheckKey]:
        """The checks of these tables, but for those by day, which nobody executes alone."""
        keys = {key for name in names for key in self.tables[name].chain_keys}
        return [c for c in self.checks if c.asset_key in keys and not c.name.endswith(BY_DAY)]

    def load(self, *names: str) -> None:
        """Load and fold by the command line."""
        with Workspace.open(self.config) as workspace:
            for name in names:
                load_table(workspace, self.config.table(name))
                fold_table(workspace, self.config.table(name))

    def tick(self) -> int:
        """Look until all is reported."""
        count = 0
        while made := self._tick():
            count += len(made)
        return count

    def _tick(self) -> list[dg.AssetMaterialization]:
        made, self.cursor = tick_partitions(self.instance, self.defs, self.cursor, None)
        return made

    def shown(self) -> dict[str, bool]:
        """Each check that has a verdict, and whether its page shows it, as the UI decides: else it
        is "not evaluated"."""
        storage, found = self.instance.event_log_storage, dict[str, bool]()
        by_day = [key for key in self.checks if key.name.endswith(BY_DAY)]
        whole = [key for key in self.checks if key not in by_day]
        for key, record in storage.get_latest_asset_check_execution_by_key(whole).items():
            shown = record.targets_latest_materialization(LoadingContextForTest(self.instance))
            found[f"{key.asset_key.to_user_string()}:{key.name}"] = asyncio.run(shown)
        for one in storage.get_asset_check_partition_info(by_day):
            if one.latest_target_materialization_storage_id is not None:
                name = f"{one.check_key.asset_key.to_user_string()}:{one.check_key.name}"
                found[f"{name}:{one.partition_key}"] = one.is_current
        return found

    def hidden(self) -> set[str]:
        return {name for name, shown in self.shown().items() if not shown}


def test_no_check_of_the_demo_is_not_evaluated_for_a_mere_report(
    config: Config, server: MariaDB
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        demo = Demo(config, instance)
        demo.load(*demo.tables)
        demo.materialize()
        before = demo.shown()
        assert len([c for c in demo.checks if not c.name.endswith(BY_DAY)]) >= 120
        assert {c.asset_key for c in demo.checks} <= {
            dg.AssetKey(name.partition(":")[0].split("/")) for name in before
        }
        assert demo.hidden() == set()
        # The history: each day of a year, of each layer.
        assert demo.tick() > 1000
        assert demo.hidden() == set()
        assert demo.shown().keys() >= before.keys()
        # Sweeps that find all equal.
        exact = [c for c in demo.checks if c.name == EXACT]
        demo.check(*exact)
        demo.tick()
        assert demo.hidden() == set()
        # Old days, reported late and one by one, of every layer of every table.
        for event in _late(list(demo.tables.values())):
            instance.report_runless_asset_event(event)
        assert len(demo.hidden()) > 100
        demo.tick()
        assert demo.hidden() == set()
        # A load, and its fold, of one table: its verdicts go, and no other's.
        _insert(server)
        demo.load("shop.shop.events")
        assert demo.tick() > 0
        hidden = demo.hidden()
        assert {"deduped/shop/shop/events:exact_match", "raw/shop/shop/events:intact"} <= hidden
        assert {name.split(":")[0].split("/", 1)[1] for name in hidden} == {"shop/shop/events"}
        demo.check(*demo.of("shop.shop.events"))
        demo.tick()
        assert {name for name in demo.hidden() if BY_DAY not in name} == set()
        # A sweep that finds a deleted row and repairs it, and the report of the repair.
        _run(server, "DELETE FROM shop.payments WHERE id = 7")
        demo.check(dg.AssetCheckKey(demo.tables["shop.shop.payments"].key("deduped"), EXACT))
        assert demo.tick() > 0
        hidden = demo.hidden()
        assert "deduped/shop/shop/payments:exact_match" not in hidden
        assert "deduped/shop/shop/payments:row_count" in hidden
        tables = {name.split(":")[0].split("/", 1)[1] for name in hidden}
        assert tables <= {"shop/shop/payments", "shop/shop/events"}
        demo.check(*demo.of("shop.shop.payments"))
        demo.tick()
        assert {name for name in demo.hidden() if BY_DAY not in name} == set()


def _late(tables: list[MirroredTable]) -> Iterator[dg.AssetMaterialization]:
    for table in tables:
        for layer in LAYERS:
            partition = table.partition_of(OLD if table.has_days else TODAY)
            yield partition_event(table, layer, partition, {}, 0)


def _run(server: MariaDB, *statements: str) -> None:
    with server.admin() as admin, admin.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        admin.commit()


def _insert(server: MariaDB) -> None:
    """One row more, as the newest one is."""
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema ="
            " 'shop' AND table_name = 'events' AND column_name <> 'id'"
        )
        names = ", ".join(f"`{row[0]}`" for row in cursor.fetchall())
        cursor.execute(
            f"INSERT INTO shop.events ({names}) SELECT {names} FROM shop.events "
            "ORDER BY id DESC LIMIT 1"
        )
        admin.commit()
