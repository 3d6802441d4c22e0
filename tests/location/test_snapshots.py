"""Snapshots under Dagster: what lands becomes a partition and a run, once, and is published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from dagster_mirrorlake.checks.as_of import AS_OF
from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import load_config
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.ledger import Ledger

IDS = ["20260130000000", "20260131000000"]
SCHEMA = (
    '{"version": 1, "columns": [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}, '
    '{"name": "memo", "type": "string"}]}'
)


class Feed:
    """A code location with one table that lands."""

    def __init__(self, folder: Path, fresh_within: str = "1h") -> None:
        self.folder = folder
        (folder / "dagster").mkdir()
        text = {
            "version": 1,
            "sources": {"feed": {"landing": {"url": "landed"}, "databases": {"d": {"tables": {
                "t": {"mode": "snapshot", "key": ["id"], "snapshot": {"complete": "marker", "fresh_within": fresh_within}}}}}}},
        }  # fmt: skip
        path = folder / "mirrorlake.yaml"
        path.write_text(json.dumps(text))
        schema = folder / "landed/schemas/feed/d/t.json"
        schema.parent.mkdir(parents=True)
        schema.write_text(SCHEMA)
        self.contract = load_config(path).snapshot_table("t")
        self.definitions = load_definitions(path)

    def land(self, snapshot: str, *rows: tuple[int, int]) -> None:
        folder = self.folder / "landed/json/feed/d/t/dq" / snapshot[:8]
        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"id": a, "n": b, "memo": f"ask p{a}@example.com"}) for a, b in rows]
        (folder / f"{snapshot}_0.json").write_text("\n".join(lines))
        (folder / f"{snapshot}_SUCCESS").touch()

    def tick(self, instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
        sensor = self.definitions.get_repository_def().get_sensor_def("landed_feed_d_t")
        # As the daemon makes it: only with an instance's reference are partitions looked up.
        context = dg.SensorEvaluationContext(
            instance_ref=instance.get_ref(),
            last_tick_completion_time=None,
            last_run_key=None,
            cursor=cursor,
            log_key=None,
            repository_name=None,
            repository_def=self.definitions.get_repository_def(),
            resources=dict(self.definitions.resources or {}),
        )
        with context:
            return sensor.evaluate_tick(context)

    def run(self, instance: dg.DagsterInstance, *snapshots: str) -> dg.ExecuteInProcessResult:
        job = self.definitions.get_implicit_global_asset_job_def()
        first, last = snapshots[0], snapshots[-1]
        tags = {
            "dagster/asset_partition_range_start": first,
            "dagster/asset_partition_range_end": last,
        }
        chosen = MirroredTable(self.contract).chain_keys
        return job.execute_in_process(
            instance=instance, asset_selection=chosen, tags=tags, raise_on_error=False,
        )  # fmt: skip

    def check_exact(self, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
        key = dg.AssetCheckKey(MirroredTable(self.contract).key("deduped"), "exact_match")
        selection = dg.AssetSelection.checks(key)
        job = self.definitions.get_repository_def().asset_graph
        made = dg.define_asset_job("exact", selection=selection).resolve(asset_graph=job)
        return made.execute_in_process(
            instance=instance, resources=dict(self.definitions.resources or {})
        )


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path)


@pytest.mark.full
@pytest.mark.alone
def test_a_snapshot_that_lands_is_requested_once_and_published(feed: Feed) -> None:
    with dg.DagsterInstance.local_temp(str(feed.folder / "dagster")) as instance:
        feed.land(IDS[1], (1, 2), (3, 3))
        feed.land(IDS[0], (1, 1), (2, 2))
        asked = feed.tick(instance)
        (request,) = asked.run_requests
        assert request.partition_key == IDS[0]  # the oldest first
        assert feed.tick(instance).run_requests[0].run_key == request.run_key
        (added,) = asked.dynamic_partitions_requests
        assert added.partition_keys == [IDS[0]]
        instance.add_dynamic_partitions(added.partitions_def_name, IDS)
        # A backfill of several folds them in order, in one run.
        done = feed.run(instance, *IDS)
        assert done.success
        told = {
            event.partition: event.materialization.metadata
            for event in done.get_asset_materialization_events()
            if event.asset_key == MirroredTable(feed.contract).key("deduped")
        }
        assert {k: m["rows changed"].value for k, m in told.items()} == {IDS[0]: 0, IDS[1]: 1}
        assert {k: m["keys missing"].value for k, m in told.items()} == {IDS[0]: 0, IDS[1]: 1}
        assert all(m["in time"].value for m in told.values())
        assert all(AS_OF in e.metadata for e in done.get_asset_check_evaluations())
        checks = {e.check_name: e.passed for e in done.get_asset_check_evaluations()}
        names = ("published", "unique_key", "fresh", "row_count", "exact_match")
        assert checks == {**dict.fromkeys(names, True), "suspected_pii": False}
        [warned] = [
            e for e in done.get_asset_check_evaluations() if e.check_name == "suspected_pii"
        ]
        said = {name: value.value for name, value in warned.metadata.items()}
        assert warned.severity == dg.AssetCheckSeverity.WARN
        assert said["memo"] == "3 of 3 sampled values hold an e-mail address"
        assert "@example.com" not in str(said)
        after = feed.tick(instance, asked.cursor)
        assert not after.run_requests
        assert "Nothing new" in str(after.skip_message)
        # What the first snapshot alone held can't be compared once its file is gone.
        (feed.folder / f"landed/json/feed/d/t/dq/{IDS[0][:8]}/{IDS[0]}_0.json").unlink()
        (verdict,) = feed.check_exact(instance).get_asset_check_evaluations()
        assert (verdict.passed, verdict.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert verdict.metadata["rows undecided"].value == 1
        assert verdict.metadata["rows changed"].value == 0
        unread = verdict.metadata["snapshots that can't be read"].value
        assert str(unread).endswith("_0.json is not there any more")


def test_a_snapshot_that_is_refused_fails_its_run_and_is_not_asked_again(feed: Feed) -> None:
    """Its middle file goes between the look and the run."""
    with dg.DagsterInstance.local_temp(str(feed.folder / "dagster")) as instance:
        feed.land(IDS[0], (1, 1))
        folder = feed.folder / "landed/json/feed/d/t/dq" / IDS[0][:8]
        for number in (1, 2):
            (folder / f"{IDS[0]}_{number}.json").write_text("")
        (request,) = feed.tick(instance).run_requests
        instance.add_dynamic_partitions("snapshots/feed.d.t", [request.partition_key])
        (folder / f"{IDS[0]}_1.json").unlink()
        done = feed.run(instance, IDS[0])
        assert not done.success
        (failure,) = [e for e in done.all_events if e.is_step_failure]
        assert "lacks a file: there are the numbers 0, 2" in str(failure.step_failure_data)
        assert not feed.tick(instance).run_requests


def test_a_snapshot_that_waits_for_too_long_fails_its_check_once(feed: Feed) -> None:
    with dg.DagsterInstance.local_temp(str(feed.folder / "dagster")) as instance:
        feed.land(IDS[0], (1, 1))
        asked = feed.tick(instance)
        assert not asked.asset_events
        ledger = load_config(feed.folder / "mirrorlake.yaml").ledger.url
        workspace = sa.create_engine(ledger)
        with workspace.begin() as connection:  # an hour and a half ago
            early = sa.text(
                "UPDATE landed_snapshots SET seen_at = datetime(seen_at, '-90 minutes')"
            )
            assert connection.execute(early).rowcount == 1
        late = feed.tick(instance, asked.cursor)
        (verdict,) = late.asset_events
        assert (verdict.check_name, verdict.passed) == ("fresh", False)
        assert verdict.asset_key == MirroredTable(feed.contract).key("deduped")
        assert verdict.metadata["not published"].value == f"{IDS[0]} (not taken yet)"
        assert late.run_requests
        assert not feed.tick(instance, late.cursor).asset_events


def test_an_exporter_that_dies_before_its_marker_and_a_refusal_turn_a_check_red(feed: Feed) -> None:
    """Until somebody decides: then it passes again. Nothing new is requested over a rollback."""
    with dg.DagsterInstance.local_temp(str(feed.folder / "dagster")) as instance:
        feed.land(IDS[0], (1, 1))
        marker = feed.folder / f"landed/json/feed/d/t/dq/{IDS[0][:8]}/{IDS[0]}_SUCCESS"
        marker.unlink()
        first = feed.tick(instance)
        assert not first.asset_events
        assert f"waits for its marker {IDS[0]}_SUCCESS" in str(first.skip_message)
        config = load_config(feed.folder / "mirrorlake.yaml")
        with sa.create_engine(config.ledger.url).begin() as connection:
            connection.execute(
                sa.text("UPDATE landed_snapshots SET seen_at = datetime(seen_at, '-90 minutes')")
            )
        stuck = feed.tick(instance, first.cursor)
        (verdict,) = stuck.asset_events
        assert not verdict.passed
        assert f"{IDS[0]} (waits for its marker" in verdict.metadata["not published"].value
        marker.touch()
        folder = marker.parent
        folder.joinpath(f"{IDS[0]}_2.json").touch()  # 0 and 2: a file is missing
        refused = feed.tick(instance, stuck.cursor)
        assert not refused.run_requests
        ledger = Ledger(config.ledger.url)
        assert SnapshotNotices(ledger).skip_snapshot("feed.d.t", int(IDS[0]))
        (passed,) = feed.tick(instance, refused.cursor).asset_events
        assert passed.passed
        feed.land(IDS[1], (1, 1))
        with sa.create_engine(config.ledger.url).begin() as connection:
            connection.execute(sa.text("UPDATE landed_snapshots SET state = 'withdrawn'"))
        held = feed.tick(instance)
        assert not held.run_requests
        assert "nothing newer is folded until somebody says" in str(held.skip_message)


@pytest.mark.full
@pytest.mark.alone
def test_maintenance_tells_what_became_smaller(feed: Feed) -> None:
    with dg.DagsterInstance.local_temp(str(feed.folder / "dagster")) as instance:
        for number, snapshot in enumerate(IDS):
            feed.land(snapshot, *((n, n + (number if n == 3 else 0)) for n in range(9)))
        instance.add_dynamic_partitions("snapshots/feed.d.t", IDS)
        assert feed.run(instance, *IDS).success
        job = feed.definitions.get_implicit_global_asset_job_def()
        key = dg.AssetKey(["maintenance"])
        done = job.execute_in_process(instance=instance, asset_selection=[key])
        assert done.success
        (event,) = done.get_asset_materialization_events()
        told = {k: m.value for k, m in event.materialization.metadata.items()}
        assert (told["delete files before"], told["delete files after"]) == (1, 0)
        assert told["lake tables"] >= 2
        assert "| feed_d.t | deduped | " in told["tables"]
