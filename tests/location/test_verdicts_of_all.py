"""Verdicts on landed copies and tables of tenants stay shown while what they are about is as it was,
as those of mirrored tables do; what was wiped of them comes back."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest

from dagster_mirrorlake.assets.targets import target_of
from dagster_mirrorlake.build import Mirror, build_asset_checks
from dagster_mirrorlake.checks.checked_assets import CheckedAsset, checked_assets
from dagster_mirrorlake.checks.shown_again import materialized_since, show_again
from mirrorlake.config import Config, load_config
from mirrorlake.landing.ledger import FileRecord, LandedSnapshots, SeenSnapshot
from mirrorlake.ledger import Ledger, Tenant
from mirrorlake.operations.tenants.reports import record_shown

TEXT = """
version: 1
ledger: {url: "sqlite:///ledger.db"}
sources:
  s:
    host: 127.0.0.1
    user: u
    password: ${env:TEST_PASSWORD}
    databases: {d: {tables: {t: {mode: full, key: [id]}}}}
  feed:
    landing: {url: landed}
    databases: {d: {tables: {f: {mode: snapshot, key: [id], snapshot: {complete: marker}}}}}
tenants:
  shops: {sources: [s], databases: ["shop_%"], tables: {orders: {key: [id]}}}
"""
SNAPSHOTS = (20260130000000, 20260131000000)


@dataclass
class Place:
    """A ledger, an instance of Dagster, and one asset whose verdicts are followed."""

    ledger: Ledger
    instance: dg.DagsterInstance
    asset: CheckedAsset

    def materialize(self) -> None:
        """A report of something that was there before."""
        self.instance.report_runless_asset_event(dg.AssetMaterialization(self.asset.key))

    def verdict(self, name: str) -> None:
        """What the check's step reports."""
        as_of = self.asset.as_of(self.ledger, name)
        assert as_of is not None

        @dg.op(out=dg.Out(dg.Nothing))
        def check() -> Iterator[Any]:
            yield dg.AssetCheckEvaluation(
                asset_key=self.asset.key,
                check_name=name,
                passed=True,
                metadata=as_of.metadata,
                target_materialization_data=target_of(self.instance, self.asset.key, None),
            )
            yield dg.Output(None)

        @dg.job
        def checks() -> None:
            check()

        assert checks.execute_in_process(instance=self.instance).success

    def is_shown(self, name: str) -> bool:
        key = dg.AssetCheckKey(self.asset.key, name)
        (record,) = self.instance.event_log_storage.get_latest_asset_check_execution_by_key(
            [key]
        ).values()
        return asyncio.run(
            record.targets_latest_materialization(LoadingContextForTest(self.instance))
        )

    def look(self) -> int:
        """A look of the sensor at what was materialised."""
        found, _ = materialized_since(self.instance, 0)
        return show_again(self.instance, self.ledger, [self.asset], found)


def land(ledger: Ledger, number: int) -> None:
    LandedSnapshots(ledger).see_snapshots("feed.d.f", [SeenSnapshot(number, "f", 1, 10)])
    LandedSnapshots(ledger).land_snapshot(
        "feed.d.f", number, number, "x", [FileRecord("p", 10, "", "", 3)]
    )
    LandedSnapshots(ledger).publish_snapshots("feed.d.f", [number])


def show_tenants(ledger: Ledger, load: int) -> None:
    tenant = Tenant("s", f"shop_{load}", datetime.now(UTC), folded=f"load {load}")
    record_shown(ledger, "shops.orders", [tenant], "view", "run")


CHANGES: dict[str, tuple[str, Callable[[Ledger, int], None]]] = {
    "deduped/feed/d/f": ("exact_match", lambda ledger, n: land(ledger, SNAPSHOTS[n])),
    "deduped/shops/orders": ("exact_match", show_tenants),
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("TEST_PASSWORD", "p")
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(TEXT)
    return load_config(path)


def stays_until_changed(
    ledger: Ledger, asset: CheckedAsset, check: str, change: Callable[[Ledger, int], None]
) -> None:
    """A verdict that a report hid is shown again, until what it is about is another."""
    change(ledger, 0)
    with dg.DagsterInstance.ephemeral() as instance:
        place = Place(ledger, instance, asset)
        place.materialize()
        place.verdict(check)
        assert place.is_shown(check)
        place.materialize()
        assert not place.is_shown(check)
        assert place.look() == 1
        assert place.is_shown(check)
        assert place.look() == 0
        change(ledger, 1)
        place.materialize()
        assert place.look() == 0
        assert not place.is_shown(check)


@pytest.mark.parametrize("name", CHANGES)
def test_a_report_keeps_a_verdict_until_its_rows_are_others(config: Config, name: str) -> None:
    check, change = CHANGES[name]
    mirror = Mirror(config)
    found = checked_assets(mirror.tables, mirror.snapshots, mirror.tenants)
    (asset,) = (one for one in found if one.key.to_user_string() == name)
    stays_until_changed(Ledger(config.ledger.url), asset, check, change)


def test_every_check_of_a_mirror_stays_shown_by_some_rule(config: Config) -> None:
    """Or is of an asset that nobody materialises."""
    mirror = Mirror(config)
    found = checked_assets(mirror.tables, mirror.snapshots, mirror.tenants)
    ruled = {check for asset in found for check in asset.checks}
    every = {spec.key for one in build_asset_checks(mirror) for spec in one.check_specs}
    assert every - ruled == set()
    assert len(every) >= 20
