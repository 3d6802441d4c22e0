"""A table of many databases as Dagster has it: one chain, its checks, its sensor, its jobs."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from dagster_mirrorlake.build import build_definitions
from dagster_mirrorlake.checks.as_of import AS_OF
from dagster_mirrorlake.checks.tenants import exact_verdict_of
from dagster_mirrorlake.tenants import MirroredTenants
from dagster_mirrorlake.translator import MirrorlakeTranslator, TenantLayerData
from mirrorlake.config import Config, load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Ledger, Tenant
from mirrorlake.operations.following.log_owner import follower_lease
from mirrorlake.operations.tenants.drift import look_for_drift
from mirrorlake.operations.tenants.looks import MassDrop, TenantLook, record_look
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.operations.tenants.verdicts import CleanChecked, TenantsChecked, TenantVerdict
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.schema.versions import schema_version
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace
from tests.location.contracts import PASSWORD, USER
from tests.location.partitions_tick import events_since, newest_event

LAYERS = ("mysql", "raw", "deduped", "clean")
COLUMNS = "id INT PRIMARY KEY, email VARCHAR(40)"
SETTLED_SECONDS = 3.2
"""After so long without a change, what a server shows says whether a table changed."""


@dataclass
class Shops:
    """Databases ``<prefix>_…`` of one server, and the location over their table ``orders``."""

    folder: Path
    port: int
    prefix: str = field(default_factory=lambda: f"l{uuid.uuid4().hex[:8]}")
    every: str = "0s"
    dropped: str = "keep"
    mode: str = "full"

    @property
    def config(self) -> Config:
        orders = {
            "key": ["id"],
            "mode": self.mode,
            "owners": ["team:shop"],
            "columns": {"email": {"pii": "mask"}},
            "freshness": {"fail_after": "2h"},
        }
        text = {
            "version": 1,
            "lake": {"warehouse": "lake"},
            "ledger": {"url": "sqlite:///ledger.db"},
            "sources": {
                "s": {
                    "host": "127.0.0.1",
                    "port": self.port,
                    "user": USER,
                    "password": "${env:TEST_PASSWORD}",
                }
            },
            "tenants": {
                "shops": {
                    "sources": ["s"],
                    "databases": [f"{self.prefix}_%"],
                    "every": self.every,
                    "dropped": self.dropped,
                    "tables": {"orders": orders},
                }
            },
        }
        path = self.folder / "mirrorlake.yaml"
        path.write_text(yaml.safe_dump(text), encoding="utf-8")
        return load_config(path, environ={"TEST_PASSWORD": PASSWORD})

    @property
    def definitions(self) -> dg.Definitions:
        return build_definitions(self.config)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.config.ledger.url)

    def run(
        self, instance: dg.DagsterInstance, *checks: str, config: dict[str, Any] | None = None
    ) -> dg.ExecuteInProcessResult:
        """The chain and all of its checks; or these checks alone."""
        defs = self.definitions
        key = dg.AssetKey(["deduped", "shops", "orders"])
        chosen: dg.AssetSelection = dg.AssetSelection.groups("shops")
        if checks:
            chosen = dg.AssetSelection.checks(*(dg.AssetCheckKey(key, name) for name in checks))
        job = dg.define_asset_job("chosen", selection=chosen)
        made = job.resolve(asset_graph=defs.get_repository_def().asset_graph)
        ops = {"tenants__shops__orders": {"config": config}} if config else {}
        return made.execute_in_process(
            instance=instance,
            resources=dict(defs.resources or {}),
            run_config={"ops": ops},
            raise_on_error=False,
        )

    def tick(
        self,
        instance: dg.DagsterInstance,
        cursor: str | None = None,
        sensor: str = "tenants_moved_shops__orders",
    ) -> Any:
        defs = self.definitions
        context = dg.build_sensor_context(
            instance=instance,
            cursor=cursor,
            repository_def=defs.get_repository_def(),
            resources=dict(defs.resources or {}),
        )
        with context:
            return defs.resolve_sensor_def(sensor).evaluate_tick(context)


@pytest.fixture
def shops(server: MariaDB, tmp_path: Path) -> Iterator[tuple[Shops, Callable[..., None]]]:
    """A location, and how statements are run in a tenant's database, which is made."""
    made = Shops(tmp_path, server.port)

    def run(tenant: str, *statements: str) -> None:
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {made.prefix}_{tenant}")
            cursor.execute(f"USE {made.prefix}_{tenant}")
            for statement in statements:
                cursor.execute(statement)

    yield made, run
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"SHOW DATABASES LIKE '{made.prefix}%'")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP DATABASE {name}")


def verdicts(result: dg.ExecuteInProcessResult) -> dict[str, tuple[bool, str]]:
    return {
        one.check_name: (one.passed, one.severity.value)
        for one in result.get_asset_check_evaluations()
    }


def made_by(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """What was materialised, by layer, and its metadata."""
    return {
        event.asset_key.path[0]: {k: v.value for k, v in event.materialization.metadata.items()}
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    }


def test_a_table_of_tenants_is_one_chain_without_partitions(tmp_path: Path) -> None:
    shops = Shops(tmp_path, 1)
    defs = shops.definitions
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    keys = [f"{layer}/shops/orders" for layer in LAYERS]
    assert set(specs) == {*keys, "maintenance", "report"}
    for before, after in pairwise(keys):
        assert [dep.asset_key.to_user_string() for dep in specs[after].deps] == [before]
    assert {specs[key].group_name for key in keys} == {"shops"}
    assert all(specs[key].partitions_def is None for key in keys)
    assert all(list(specs[key].owners) == ["team:shop"] for key in keys)
    assert specs[keys[2]].metadata["dagster/table_name"] == "shops.orders"
    assert specs[keys[3]].freshness_policy is not None
    assert defs.resolve_asset_graph().get(dg.AssetKey(["mysql", "shops", "orders"])).is_external
    assert {k.name for k in defs.resolve_asset_graph().asset_check_keys} == {
        *("exact_match", "tenants_mirrored", "schema_drift")
    }

    class Ours(MirrorlakeTranslator):
        def get_tenants_spec(self, data: TenantLayerData) -> dg.AssetSpec:
            spec = super().get_tenants_spec(data)
            return spec.replace_attributes(key=spec.key.with_prefix("lake"))

    ours = build_definitions(shops.config, translator=Ours()).resolve_asset_graph()
    clean = ours.get(dg.AssetKey(["lake", "clean", "shops", "orders"]))
    assert {key.path[1] for key in clean.parent_keys} == {"deduped"}


def test_the_sensor_requests_what_moved_once(
    shops: tuple[Shops, Callable[..., None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    location, sql = shops
    monkeypatch.setattr(LazySpark, "get", lambda _: pytest.fail("a sensor needs no Spark"))
    ledger, place = location.ledger, f"{location.prefix}_b"
    with dg.DagsterInstance.ephemeral() as instance:
        nothing = str(location.tick(instance).skip_message)
        assert "There is no tenant; left out: s: no database that this account may see" in nothing
        sql("a", f"CREATE TABLE orders ({COLUMNS})")
        sql("b", f"CREATE TABLE orders ({COLUMNS})")
        found = location.tick(instance)
        (request,) = found.run_requests
        assert request.tags["mirrorlake/reason"] == "2 new"
        assert {key.path[0] for key in request.asset_selection} == {"raw", "deduped", "clean"}
        assert {c.name for c in request.asset_check_keys} == {"tenants_mirrored", "schema_drift"}
        assert location.tick(instance).run_requests[0].run_key == request.run_key
        again = location.tick(instance, found.cursor)  # nothing has read them since
        assert again.run_requests[0].run_key != request.run_key
        # One that failed, and stands as it stood, is no reason for another run at once.
        now, failed = datetime.now(UTC), {"error": "no key", "failed_at": datetime.now(UTC)}
        known = [Tenant("s", f"{location.prefix}_{n}", now, **failed) for n in ("a", "b")]
        ledger.record_tenants("shops.orders", known)
        first = location.tick(instance, found.cursor)
        assert first.run_requests[0].tags["mirrorlake/reason"] == "2 never read"
        waits = location.tick(instance, first.cursor)
        assert not waits.run_requests
        assert "2 that the last run left as they were" in str(waits.skip_message)
        sql("b", "ALTER TABLE orders ADD n INT")
        assert location.tick(instance, first.cursor).run_requests
        # Between two requests the table's `every` passes; no server is queried.
        location.every = "1h"
        assert "looked at again at" in str(location.tick(instance, first.cursor).skip_message)
        location.every = "0s"
        # A tenant whose database is no more.
        sql("b", f"DROP DATABASE {place}")
        gone = location.tick(instance, first.cursor)
        assert "1 gone" in gone.run_requests[0].tags["mirrorlake/reason"]
        ledger.hold("s", datetime.now(UTC) + timedelta(hours=1), "an upgrade")
        held = location.tick(instance, first.cursor)
        assert "is held until" in str(held.skip_message)
        assert "an upgrade" in str(held.skip_message)


def test_an_unreachable_server_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PASSWORD", PASSWORD)
    location = Shops(tmp_path, 1)
    known = Tenant("s", f"{location.prefix}_a", datetime.now(UTC), version="v", load_id="l")
    location.ledger.record_tenants("shops.orders", [known])
    with dg.DagsterInstance.ephemeral() as instance:
        done = location.run(instance)
        assert not done.success
        assert not made_by(done)
        (event,) = [e for e in done.all_events if e.is_step_failure]
        failure = event.step_failure_data.user_failure_data
        assert "no source of table shops.orders could be queried" in str(failure.description)
        assert "p@ss" not in str(failure)
        checked = location.run(instance, "exact_match")
        assert not checked.success
        assert verdicts(checked) == {}
        with pytest.raises(Exception, match=r"source s \(127\.0\.0\.1:1\) answered"):
            location.tick(instance)
    # One server of several: what it has is undecided.
    mirrored = MirroredTenants(location.config.tenant_table("orders"))
    equal = TenantVerdict("s", "a", "equal", 1, 1, 0, "")
    lost = {"other": SourceError("no route", source="other")}
    partly = exact_verdict_of(
        mirrored, TenantsChecked("shops.orders", CleanChecked("view"), (equal,), (), lost)
    )
    assert (partly.passed, partly.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "| other | no route |" in str((partly.metadata or {})["sources not queried"].value)
    # A version that comes after the first look is new for a day.
    ledger, table = location.ledger, location.config.tenant_table("orders")
    ledger.record_schema_version(table.name, schema_version("orders", [("id", "int")]))
    assert not look_for_drift(ledger, table).new
    later = schema_version("orders", [("id", "bigint")])
    ledger.record_schema_version(table.name, later)
    now = datetime.now(UTC)
    assert set(look_for_drift(ledger, table).new) == {later.hash}
    assert set(look_for_drift(ledger, table, now + timedelta(hours=23)).new) == {later.hash}
    assert not look_for_drift(ledger, table, now + timedelta(hours=25)).new


@pytest.mark.full
@pytest.mark.alone
def test_tenants_are_mirrored_checked_and_looked_after(
    shops: tuple[Shops, Callable[..., None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each run has a session of its own; the JVM behind it stays, as a start costs as much as a run.
    monkeypatch.setattr(LazySpark, "stop", lambda spark: setattr(spark, "_session", None))
    location, sql = shops
    name = f"s.{location.prefix}_"
    for tenant in ("a", "b"):
        row = f"INSERT INTO orders VALUES (1, '{tenant}@example.com')"
        sql(tenant, f"CREATE TABLE orders ({COLUMNS})", row)
    sql("c", "CREATE TABLE orders (id INT, email VARCHAR(40))")
    sql("v", "CREATE VIEW orders AS SELECT 1 AS id")
    with dg.DagsterInstance.ephemeral() as instance:
        done = location.run(instance)
        assert done.success, done.all_events[-1]
        made = made_by(done)
        names = ("tenants", "tenants read", "tenants joined", "tenants failed", "rows read")
        assert [made["raw"][name] for name in names] == [3, 2, 2, 1, 2]
        assert (made["deduped"]["tenants mirrored"], made["deduped"]["tenants failed"]) == (2, 1)
        assert f"| {name}c |" in made["raw"]["failures"]
        assert made["raw"]["left out"] == 1
        assert f"| {name}v | orders is a view there" in made["raw"]["what was left out"]
        assert re.search(r"\| 2 \| 2 \| 2 \|$", made["raw"]["versions"], re.MULTILINE)
        assert made["deduped"]["dagster/row_count"] == 2
        columns = {c.name: c for c in made["clean"]["dagster/column_schema"].columns}
        assert dict(columns["email"].tags) == {"pii": "mask"}
        assert "_mirror_database" in columns
        assert "@example.com" not in str(made)
        assert verdicts(done) == {
            "exact_match": (False, "WARN"),  # c could not be compared
            "tenants_mirrored": (False, "WARN"),
            "schema_drift": (True, "WARN"),
        }
        assert all(AS_OF in one.metadata for one in done.get_asset_check_evaluations())
        said = next(
            one.description
            for one in done.get_asset_check_evaluations()
            if one.check_name == "tenants_mirrored"
        )
        assert f"left out: {name}v: orders is a view there" in str(said)
        sql("v", "DROP VIEW orders", f"DROP DATABASE {location.prefix}_v")
        # One tenant, as a person asks for it.
        sql("c", "ALTER TABLE orders ADD PRIMARY KEY (id)", "INSERT INTO orders VALUES (3, 'c@')")
        time.sleep(SETTLED_SECONDS)
        one = location.run(instance, config={"databases": [f"{location.prefix}_c"]})
        assert made_by(one)["raw"]["tenants read"] == 1
        assert made_by(one)["raw"]["run was about"] == f"{location.prefix}_c"
        assert verdicts(one)["exact_match"] == (True, "ERROR")
        assert verdicts(one)["tenants_mirrored"] == (True, "WARN")
        assert made_by(location.run(instance, config={"again": True}))["raw"]["tenants read"] == 3
        assert "None of 3 tenants moved" in str(location.tick(instance).skip_message)
        sql("a", "ALTER TABLE orders ADD n INT, MODIFY email VARCHAR(60)")
        # Not read yet: nobody says that it is equal.
        behind = location.run(instance, "exact_match")
        assert verdicts(behind) == {"exact_match": (False, "WARN")}
        assert location.tick(instance).run_requests[0].tags["mirrorlake/reason"] == ("1 altered")
        _lose_a_row(location)
        drifted = location.run(instance)
        healed = made_by(drifted)["raw"]["lake tables put right"]
        assert "was written to by other hands" in healed
        assert "it shows that version again" in healed
        [several] = made_by(drifted)["raw"]["columns of several types"].records
        assert several.data["in MySQL"] == "varchar(40) → varchar(60)"
        assert several.data["over all versions"] == "string"
        assert verdicts(drifted)["schema_drift"] == (False, "WARN")
        assert verdicts(drifted)["exact_match"] == (True, "ERROR")
        _lose_a_row(location)
        proved = location.definitions.resolve_job_def("prove_tenants").execute_in_process(
            instance=instance, raise_on_error=False
        )
        assert not proved.success
        (different,) = proved.get_asset_check_evaluations()
        assert (different.passed, different.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert f"{name}b" in str(different.metadata["not equal"].value)
        said = str(different.metadata["what other hands did"].value)
        assert "was written to by other hands" in said
        job = location.definitions.resolve_implicit_global_asset_job_def()
        kept = job.execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey("maintenance")]
        )
        (made,) = kept.asset_materializations_for_node("maintenance")
        assert made.metadata["lake tables"].value == 3  # raw of two versions, and deduped


def test_a_drop_that_was_refused_keeps_its_check_from_passing(tmp_path: Path) -> None:
    location, now = Shops(tmp_path, 1), datetime.now(UTC)
    table, ledger = location.config.tenant_table("orders"), location.ledger
    known = Tenant("s", f"{location.prefix}_a", now, load_id="l", folded="l")
    ledger.record_tenants(table.name, [known, replace(known, database="b", gone_at=now)])
    record_look(ledger, table, TenantLook(now))
    with dg.DagsterInstance.ephemeral() as instance:
        assert verdicts(location.run(instance, "tenants_mirrored")) == {
            "tenants_mirrored": (True, "WARN")
        }
        location.dropped = "remove"
        record_look(ledger, table, TenantLook(now, drops=(MassDrop("s", 1, 2, now),)))
        (found,) = location.run(instance, "tenants_mirrored").get_asset_check_evaluations()
        assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert "1 of 2 tenants of source s are gone; their rows stay" in str(found.description)
        assert "--accept-smaller" in str(found.metadata["refused of s"].value)


@pytest.mark.full
@pytest.mark.alone
def test_a_sync_of_the_command_line_is_reported(
    shops: tuple[Shops, Callable[..., None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LazySpark, "stop", lambda spark: setattr(spark, "_session", None))
    location, sql = shops
    location.dropped = "remove"
    for tenant in ("a", "b", "c"):
        sql(tenant, f"CREATE TABLE orders ({COLUMNS})", "INSERT INTO orders VALUES (1, 'x@y')")

    def sync() -> None:
        with Workspace.open(location.config) as workspace:
            sync_tenants(workspace, workspace.config.tenant_table("orders"))

    def reported(cursor: str | None) -> tuple[dict[str, dict[str, Any]], str]:
        """What the sensor on the ledger reports by layer, which Dagster then has; its cursor."""
        start = newest_event(instance)
        tick = location.tick(instance, cursor, "partitions")
        made = {
            e.asset_key.path[0]: {k: v.value for k, v in e.metadata.items()}
            for e in events_since(instance, start)
        }
        return made, tick.cursor

    with dg.DagsterInstance.ephemeral() as instance:
        assert reported(None)[0] == {}  # nothing was synced yet
        time.sleep(SETTLED_SECONDS)
        sync()
        made, cursor = reported(None)
        assert list(made) == ["raw", "deduped", "clean"]
        (load,) = location.ledger.successful_loads("shops.orders")
        assert (made["raw"]["tenants"], made["raw"]["loads"]) == (3, load.load_id)
        assert (made["deduped"]["tenants mirrored"], made["clean"]["dagster/row_count"]) == (3, 3)
        assert "dagster/column_schema" in made["clean"]
        assert reported(cursor)[0] == {}
        instance.wipe_assets([dg.AssetKey([layer, "shops", "orders"]) for layer in LAYERS[1:3]])
        assert list(reported(cursor)[0]) == ["raw", "deduped"]
        assert reported(cursor)[0] == {}
        assert reported(None)[0] == {}  # a cursor that was lost reports nothing a second time
        sync()  # nothing moved
        assert reported(cursor)[0] == {}
        sql("c", f"DROP DATABASE {location.prefix}_c")
        sync()  # no load, and other rows
        made, cursor = reported(cursor)
        assert (made["deduped"]["dagster/row_count"], made["raw"]["tenants"]) == (2, 2)
        sql("a", "INSERT INTO orders VALUES (2, 'x@y')")
        time.sleep(SETTLED_SECONDS)
        assert location.run(instance).success
        assert reported(cursor)[0] == {}  # its run reported it


def _lose_a_row(location: Shops) -> None:
    table = Lake(location.config.lake).load(deduped_of(location.config.tenant_table("orders")))
    assert table is not None
    table.delete(f"_mirror_database = '{location.prefix}_b'")


def test_of_a_log_there_is_a_job_and_its_lag(tmp_path: Path) -> None:
    """Though no plain table follows it."""
    assert "follow_s" not in {
        job.name for job in Shops(tmp_path, 1).definitions.resolve_all_job_defs()
    }
    defs = Shops(tmp_path, 1, mode="binlog").definitions
    assert "follow_s" in {job.name for job in defs.resolve_all_job_defs()}
    graph = defs.resolve_asset_graph()
    assert dg.AssetCheckKey(dg.AssetKey(["log", "s"]), "lag") in graph.asset_check_keys


@pytest.mark.full
def test_the_job_follows_tenants_and_the_sensor_leaves_them_to_it(
    shops: tuple[Shops, Callable[..., None]],
) -> None:
    made, run = shops
    made.mode = "binlog"
    for tenant in "ab":
        run(tenant, f"CREATE TABLE orders ({COLUMNS})", "INSERT INTO orders VALUES (1, 'x@y.z')")
    with dg.DagsterInstance.ephemeral() as instance:
        ledger = made.ledger
        with ledger.lease(follower_lease("s"), "another run"):
            found = made.tick(instance)
        assert isinstance(found.skip_message, str)
        assert "follow the logs of all sources" in found.skip_message
        assert made.tick(instance).run_requests
        done = made.definitions.resolve_job_def("follow_s").execute_in_process(
            instance=instance, run_config={"ops": {"follow_s": {"config": {"minutes": 0.2}}}}
        )
        assert done.success
        log = dg.AssetKey(["log", "s"])
        [*_, seen] = instance.fetch_observations(log, limit=5).records
        assert seen.asset_observation is not None
        numbers = {name: one.value for name, one in seen.asset_observation.metadata.items()}
        assert (numbers["tables"], numbers["most behind"]) == (1, "shops.orders")
    assert {t.state for t in ledger.tenants("shops.orders").values()} == {"mirrored"}
