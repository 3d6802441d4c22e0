"""Snapshots that the command line or a job took: partitions in Dagster, once, by the ledger's word."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.test_utils import create_run_for_test

from dagster_mirrorlake.checks.repair_links import repair_links
from dagster_mirrorlake.table import LAYERS, Layer, MirroredTable
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.landing.ledger import FileRecord, LandedSnapshots, SeenSnapshot
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.ledger import Ledger
from mirrorlake.table.lake_tables import deduped_of
from tests.location.partitions_tick import tick_partitions
from tests.location.test_snapshots import IDS, Feed
from tests.support.command import COMMAND

NAME = "feed.d.t"


class Watched(Feed):
    """The location, and the sensor `partitions` with what the daemon does with its answer."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        super().__init__(folder)
        self.instance, self.cursor = instance, ""
        self.table = MirroredTable(self.contract)

    @property
    def ledger(self) -> Ledger:
        return Ledger(load_config(self.folder / "mirrorlake.yaml").ledger.url)

    def publish(self, *ids: str) -> None:
        """As `mirrorlake land` writes it down; nothing is folded."""
        ledger = self.ledger
        for one in map(int, ids):
            LandedSnapshots(ledger).see_snapshots(NAME, [SeenSnapshot(one, "f", 1, 10)])
            LandedSnapshots(ledger).land_snapshot(
                NAME, one, one, f"digest {one}", [FileRecord("p", 10, "", "", 3)]
            )
            LandedSnapshots(ledger).publish_snapshots(NAME, [one])

    def report(self, *, killed_after: int | None = None) -> list[dg.AssetMaterialization]:
        made, self.cursor = tick_partitions(
            self.instance, self.definitions, self.cursor, killed_after
        )
        return made

    def green(self, layer: Any) -> set[str]:
        """Partitions of a layer that the UI shows as materialised."""
        keys = set(self.instance.get_dynamic_partitions(self.table.dynamic_name))
        return keys & self.instance.get_materialized_partitions(self.table.key(layer))

    def do(self, job: str, **config: Any) -> dg.ExecuteInProcessResult:
        return self.definitions.resolve_job_def(job).execute_in_process(
            instance=self.instance,
            run_config={"ops": {job: {"config": config}}},
            raise_on_error=False,
        )


@pytest.fixture
def feed(tmp_path: Path) -> Any:
    home = tmp_path / "home"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        yield Watched(tmp_path, instance)


def test_what_the_command_line_took_is_green_once(feed: Watched) -> None:
    feed.publish(IDS[0])
    made = feed.report()
    assert {(e.asset_key, e.partition) for e in made} == {
        (feed.table.key(layer), IDS[0]) for layer in LAYERS
    }
    raw = next(e for e in made if e.asset_key == feed.table.key("raw"))
    assert raw.metadata["dagster/partition_row_count"].value == 3
    assert not feed.report()
    feed.publish(IDS[1])
    assert {e.partition for e in feed.report()} == {IDS[1]}
    assert all(feed.green(layer) == set(IDS) for layer in LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_that_was_wiped_is_green_again(feed: Watched, layer: Layer) -> None:
    feed.publish(*IDS)
    feed.report()
    feed.instance.wipe_assets([feed.table.key(layer)])
    assert {(e.asset_key, e.partition) for e in feed.report()} == {
        (feed.table.key(layer), one) for one in IDS
    }
    assert all(feed.green(one) == set(IDS) for one in LAYERS)
    assert not feed.report()


@pytest.mark.parametrize(
    "events", [0, *(pytest.param(n, marks=pytest.mark.full) for n in (1, 2, 3, 5)), 6]
)
def test_a_killed_daemon_reports_each_once(feed: Watched, events: int) -> None:
    feed.publish(*IDS)
    before = feed.report(killed_after=events)
    after = feed.report()
    assert len(before) + len(after) == 2 * len(LAYERS)
    assert all(feed.green(layer) == set(IDS) for layer in LAYERS)


def test_a_table_that_a_run_is_at_work_on_is_left_to_it(feed: Watched) -> None:
    feed.publish(IDS[0])
    run = create_run_for_test(
        feed.instance,
        asset_selection=frozenset(feed.table.chain_keys),
        status=DagsterRunStatus.STARTED,
    )
    assert not feed.report()
    feed.instance.report_run_failed(run)
    assert len(feed.report()) == len(LAYERS)


def test_a_snapshot_that_was_left_out_for_good_is_no_partition(feed: Watched) -> None:
    """And is one again when somebody takes it again: it keeps its first publication's time."""
    feed.publish(*IDS)
    feed.report()
    SnapshotNotices(feed.ledger).withdraw_snapshots(NAME, [int(IDS[0])])
    assert SnapshotNotices(feed.ledger).skip_snapshot(NAME, int(IDS[0]))
    feed.report()
    assert all(feed.green(layer) == {IDS[1]} for layer in LAYERS)
    LandedSnapshots(feed.ledger).publish_snapshots(NAME, [int(IDS[0])])
    assert not feed.report()
    assert all(feed.green(layer) == set(IDS) for layer in LAYERS)


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_jobs_take_what_landed_and_hold_it_against_the_files(feed: Watched) -> None:
    feed.land(IDS[0], (1, 1), (2, 2))
    (feed.folder / "landed/json/feed/d/t/dq/20260129").mkdir(parents=True)
    waits = feed.folder / "landed/json/feed/d/t/dq/20260129/20260129000000_0.json"
    waits.write_text('{"id": 9, "n": 9, "memo": ""}')
    done = feed.do("sync")
    assert done.success
    [line] = _lines(done)
    assert line.startswith(f"| {NAME} | landed | 1 snapshot published; 20260129000000 waits for")
    assert {e.partition for e in feed.report()} == {IDS[0]}
    assert not feed.tick(feed.instance).run_requests
    # The sensor's own run reports what it did: nothing is left to report.
    feed.land(IDS[1], (1, 1), (2, 2), (3, 3))
    feed.instance.add_dynamic_partitions(feed.table.dynamic_name, [IDS[1]])
    assert feed.run(feed.instance, IDS[1]).success
    assert not feed.report()
    assert feed.green("clean") == set(IDS)
    # All tables: one that must be read as a whole is left out, and says so.
    assert "left out" in _lines(feed.do("prove"))[0]
    equal = feed.do("prove", tables=[NAME])
    assert equal.success
    [verdict] = equal.get_asset_check_evaluations()
    assert (verdict.check_name, verdict.passed) == ("exact_match", True)
    table = Lake(load_config(feed.folder / "mirrorlake.yaml").lake).load(deduped_of(feed.contract))
    assert table is not None
    table.delete("id = 2")
    wrong = feed.do("prove", tables=[NAME])
    assert not wrong.success
    [verdict] = wrong.get_asset_check_evaluations()
    assert not verdict.passed
    assert verdict.metadata["rows missing"].value == 1
    assert "put it right" not in verdict.metadata
    assert not repair_links(wrong.dagster_run, feed.table, "exact_match", None)


def test_a_clock_that_went_back_hides_no_snapshot(feed: Watched) -> None:
    """Its partition is there already: the sensor on the landing adds it before the run that died."""
    feed.publish(IDS[0])
    with sa.create_engine(
        load_config(feed.folder / "mirrorlake.yaml").ledger.url
    ).begin() as ledger:
        ledger.execute(sa.text("UPDATE landed_snapshots SET published_at = '2099-01-01 00:00:00'"))
    feed.report()
    feed.instance.add_dynamic_partitions(feed.table.dynamic_name, [IDS[1]])
    feed.publish(IDS[1])
    assert {e.partition for e in feed.report()} == {IDS[1]}
    assert feed.green("raw") == set(IDS)


def test_a_lost_ledger_reports_nothing_again(feed: Watched) -> None:
    feed.publish(*IDS)
    feed.report()
    url = load_config(feed.folder / "mirrorlake.yaml").ledger.url
    with sa.create_engine(url).begin() as ledger:
        ledger.execute(sa.text("DELETE FROM landed_snapshots"))
    feed.publish(*IDS)
    assert not feed.report()


def test_the_sync_job_says_what_readers_do_not_see(feed: Watched) -> None:
    feed.publish(IDS[0])  # the lake has no version that holds it
    done = feed.do("sync")
    assert done.success
    [line] = _lines(done)
    assert line.startswith(f"| {NAME} | withdrawn | ")
    assert f"snapshots {IDS[0]} were published, and readers see a version without them" in line


def test_a_lost_ledger_of_snapshots_alone_says_what_takes_them_again(feed: Watched) -> None:
    command = [*COMMAND, "ledger", "rebuild"]
    ended = subprocess.run(command, cwd=feed.folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Next: `mirrorlake land`, then `mirrorlake check`" in ended.stdout


def test_jobs_that_need_a_server_are_not_offered_without_one(feed: Watched) -> None:
    names = {job.name for job in feed.definitions.get_repository_def().get_all_jobs()}
    assert names == {"__ASSET_JOB", "sync", "prove"}


def _lines(done: dg.ExecuteInProcessResult) -> list[str]:
    """The lines of a job's report."""
    [output] = [e for e in done.all_events if e.event_type_value == "STEP_OUTPUT"]
    text = str(output.step_output_data.metadata["tables"].value)
    return text.splitlines()[2:]
