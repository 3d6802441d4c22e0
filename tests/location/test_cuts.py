"""Cuts under Dagster: a job, an asset of which each cut is a materialisation, and its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.events.log import EventLogEntry

from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.cuts.checks import equal_verdict, keys_verdict
from dagster_mirrorlake.cuts.reports import build_reporters
from dagster_mirrorlake.cuts.schedule import cron_of
from dagster_mirrorlake.location import load_definitions
from mirrorlake.cuts.ledger import Cut, CutKey, CutKeys, Cuts, CutTable
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.table.lake_tables import deduped_of
from tests.location.conftest import Location
from tests.location.partitions_tick import tick_partitions

CUTS = dg.AssetKey(["cuts", "s"])
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
NOW = datetime(2026, 11, 30, 8, 15, tzinfo=UTC)


@pytest.fixture
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SET foreign_key_checks = 0")
        cursor.execute("CREATE OR REPLACE DATABASE bank")
        cursor.execute("SET foreign_key_checks = 1")
        cursor.execute("CREATE TABLE bank.accounts (id INT PRIMARY KEY, amount INT)")
        cursor.execute(
            "CREATE TABLE bank.bookings (id INT PRIMARY KEY, account INT,"
            " CONSTRAINT of_account FOREIGN KEY (account) REFERENCES bank.accounts (id))"
        )
        cursor.execute("INSERT INTO bank.accounts VALUES (1, 10), (2, 20)")
        cursor.execute("INSERT INTO bank.bookings VALUES (1, 1), (2, NULL)")
        admin.commit()
    tables = {"accounts": LOG, "bookings": LOG, "other": {"mode": "full"}}
    return location_for({"bank": {"tables": tables}})


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def run(
    defs: dg.Definitions, instance: dg.DagsterInstance, **config: Any
) -> dg.ExecuteInProcessResult:
    job = defs.resolve_job_def("cut_s")
    return job.execute_in_process(
        instance=instance,
        run_config={"ops": {"cut_s": {"config": config}}},
        raise_on_error=False,
    )


def checked(done: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {one.check_name: one for one in done.get_asset_check_evaluations()}


def looks_at(
    defs: dg.Definitions, instance: dg.DagsterInstance, name: str
) -> list[dg.AssetCheckEvaluation]:
    """What a check says that is executed by itself."""
    check = defs.get_asset_checks_def(dg.AssetCheckKey(CUTS, name))
    job = dg.define_asset_job("looks", dg.AssetSelection.checks(check))
    looks = dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("looks")
    return looks.execute_in_process(instance=instance).get_asset_check_evaluations()


@pytest.mark.alone
def test_the_job_makes_a_cut_shows_it_and_ends_red_where_a_table_differs(
    location: Location, instance: dg.DagsterInstance
) -> None:
    defs = load_definitions(location.path)
    graph = defs.resolve_asset_graph()
    assert graph.get(CUTS).parent_keys == {
        dg.AssetKey(["deduped", "s", "bank", name]) for name in ("accounts", "bookings")
    }
    done = run(defs, instance, name="first", keep="7d")
    assert done.success
    [record] = instance.fetch_materializations(CUTS, limit=5).records
    assert record.asset_materialization is not None
    shown = {n: value.value for n, value in record.asset_materialization.metadata.items()}
    assert (shown["cut"], shown["tag"], shown["tables"]) == ("first", "cut_first", 2)
    assert shown["dagster/row_count"] == 4
    assert "bin.0" in str(shown["place in the log"])
    assert shown["GTID"]
    assert shown["foreign keys"] == "1 foreign key: 1 without an orphan."
    [line] = [x for x in str(shown["lake tables"]).splitlines() if "s.bank.accounts" in x]
    assert line.endswith("| 2 | equal: 2 rows, all compared |")
    assert "FROM lake.s_bank.bookings VERSION AS OF 'cut_first';" in str(shown["read it (Spark)"])
    assert {n: one.passed for n, one in checked(done).items()} == {
        "equals_mysql": True,
        "foreign_keys": True,
    }
    again = run(defs, instance, name="first")
    assert "there is a cut first already" in str(again.get_step_failure_events())
    [still] = looks_at(defs, instance, "still_as_proved")
    assert (still.passed, still.description) == (True, "2 versions: as proved")
    assert "s.bank.accounts" in str(still.metadata["versions"].value)

    # Somebody takes a row that others refer to: what the cut then has is not MySQL's.
    config = location.config
    table = Lake(config.lake).load(deduped_of(config.table("accounts")))
    assert table is not None
    table.delete("id = 1", snapshot_properties={"mirrorlake.by": "mirrorlake"})
    done = run(defs, instance, name="second")
    assert not done.success
    [failure] = done.get_step_failure_events()
    assert "table s.bank.accounts: different from MySQL" in str(failure)
    found = checked(done)
    assert {n: (one.passed, one.severity.name) for n, one in found.items()} == {
        "equals_mysql": (False, "ERROR"),
        "foreign_keys": (False, "ERROR"),
    }
    assert found["foreign_keys"].metadata["orphans"].value == 1
    table.refresh().manage_snapshots().remove_tag("cut_second").commit()
    [still] = looks_at(defs, instance, "still_as_proved")
    assert (still.passed, still.severity.name) == (False, "ERROR")
    assert "2 versions: changed; s.bank.accounts (deduped): its tag" in str(still.description)
    assert len(instance.fetch_materializations(CUTS, limit=5).records) == 2


def test_checks_say_what_the_ledger_has_and_a_cut_that_is_not_made_is_an_error(
    location: Location, instance: dg.DagsterInstance
) -> None:
    defs = load_definitions(location.path)
    ledger = Ledger(location.config.ledger.url)
    for name in ("equals_mysql", "still_as_proved"):
        [none] = looks_at(defs, instance, name)
        assert (none.passed, none.description) == (False, "There is no cut yet: the job makes one")
    Cuts(ledger).begin(CUT)
    Cuts(ledger).add(CUT.name, list(CUT.tables))
    Cuts(ledger).finish(CUT.name)
    [found] = looks_at(defs, instance, "equals_mysql")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "s.bank.accounts" in str(found.description)  # in the contract, and not in this cut
    refused = run(defs, instance, name="No!")
    assert "is no name of a cut" in str(refused.get_step_failure_events())
    assert "keep: " in str(run(defs, instance, keep="soon").get_step_failure_events())


def list_cut(ledger: Ledger, cut: Cut) -> None:
    Cuts(ledger).begin(cut)
    Cuts(ledger).add(cut.name, list(cut.tables))
    Cuts(ledger).finish(cut.name)


def test_cuts_that_no_run_made_are_reported_once_and_their_verdicts_after_them(
    location: Location, instance: dg.DagsterInstance
) -> None:
    ledger = Ledger(location.config.ledger.url)
    list_cut(ledger, CUT)
    list_cut(ledger, replace(CUT, name="d"))
    mirror = Mirror(location.config)
    [reporter] = build_reporters(mirror)
    resources = SimpleNamespace(ledger=SimpleNamespace(ledger=ledger))
    events, none = reporter.find(instance, resources, verdicts=True)
    assert ([str(one.metadata["cut"].value) for one in events], none) == (["c", "d"], [])
    assert "s.bank.accounts" in str(events[0].metadata["left out"].value)
    for one in events:
        instance.report_runless_asset_event(one)
    found, verdicts = reporter.find(instance, resources, verdicts=True)
    assert (found, sorted(one.check_name for one in verdicts)) == (
        [],
        ["equals_mysql", "foreign_keys"],
    )
    assert reporter.find(instance, resources, verdicts=False) == ([], [])
    list_cut(ledger, replace(CUT, name="e"))
    run = instance.create_run_for_job(load_definitions(location.path).resolve_job_def("cut_s"))
    instance.handle_new_event(started(run))
    assert reporter.find(instance, resources, verdicts=False) == ([], [])  # it reports its own


def started(run: dg.DagsterRun) -> EventLogEntry:
    event = DagsterEvent(DagsterEventType.RUN_START.value, run.job_name)
    return EventLogEntry(None, 10, "", run.run_id, 0.0, job_name=run.job_name, dagster_event=event)


def test_cuts_that_are_due_have_a_schedule_and_a_freshness(
    location: Location, instance: dg.DagsterInstance
) -> None:
    path = location.path
    path.write_text(path.read_text() + "\ncuts: {sources: {s: {every: 2h, keep: 1d}}}\n")
    defs = load_definitions(path)
    schedule = defs.resolve_schedule_def("cut_s_schedule")
    assert (schedule.cron_schedule, schedule.job_name) == ("0 */2 * * *", "cut_s")
    spec = next(s for s in defs.resolve_all_asset_specs() if s.key == CUTS)
    assert spec.freshness_policy is not None
    assert run(defs, instance, due=True, prove=False).success
    [record] = instance.fetch_materializations(CUTS, limit=5).records
    assert record.asset_materialization is not None
    assert record.asset_materialization.metadata["orphans"].value == 0
    again = run(defs, instance, due=True)
    assert again.success
    assert len(instance.fetch_materializations(CUTS, limit=5).records) == 1


@pytest.mark.parametrize(
    ("minutes", "cron"),
    [(1, "* * * * *"), (25, "*/20 * * * *"), (60, "0 * * * *"), (300, "0 */4 * * *"),
     (3000, "0 0 * * *")],
)  # fmt: skip
def test_a_schedule_ticks_at_least_as_often_as_cuts_are_wanted(minutes: int, cron: str) -> None:
    assert cron_of(timedelta(minutes=minutes)) == cron


@pytest.mark.full
@pytest.mark.alone
def test_a_model_says_at_which_cut_it_was_computed(
    location: Location, instance: dg.DagsterInstance, server: MariaDB
) -> None:
    model = location.folder / "models" / "made" / "booked.sql"
    model.parent.mkdir(parents=True)
    model.write_text(
        "SELECT a.amount FROM s_bank.accounts AS a JOIN s_bank.bookings AS b ON b.account = a.id"
    )
    text = yaml.safe_load(location.path.read_text())
    text["cuts"] = {"sources": {"s": {"every": "1h", "keep": "1d"}}}
    location.path.write_text(yaml.safe_dump(text))
    defs = load_definitions(location.path)
    assert run(defs, instance, name="first").success
    with server.admin("bank") as admin, admin.cursor() as cursor:
        cursor.execute("UPDATE accounts SET amount = 11 WHERE id = 1")
        admin.commit()
    key = dg.AssetKey(["made", "booked"])
    job = dg.define_asset_job("chosen", selection=[key])
    chosen = dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("chosen")
    assert chosen.execute_in_process(instance=instance).success
    [record] = instance.fetch_materializations(key, limit=5).records
    assert record.asset_materialization is not None
    shown = {n: value.value for n, value in record.asset_materialization.metadata.items()}
    [cut] = Cuts(Ledger(location.config.ledger.url)).all()
    at = f"{cut.at:%Y-%m-%d %H:%M:%S}"
    assert (shown["cut"], shown["as of (UTC)"], shown["rows computed"]) == ("first", at, 1)
    # One that another instance did is reported with it, too.
    with dg.DagsterInstance.ephemeral() as other:
        found, _ = tick_partitions(other, defs, "", None)
    [told] = [one for one in found if one.asset_key == key]
    assert {n: told.metadata[n].value for n in ("cut", "as of (UTC)")} == {
        "cut": "first",
        "as of (UTC)": at,
    }


TABLE = CutTable("s.shop.a", "deduped", "s_shop", "a", 7, 3, "equal", "3 rows, all compared")
CUT = Cut(
    "c", "s", "bin.000003:81220", None, NOW, NOW, None, (TABLE, replace(TABLE, layer="clean"))
)
KEY = CutKey("s.shop.a", "of", ("b",), "s.shop.b", ("id",), "holds", 0)


@pytest.mark.parametrize(
    ("proved", "followed", "passed", "severity", "words"),
    [
        ("equal", ["s.shop.a"], True, "ERROR", "1 table equals MySQL at bin.000003:81220"),
        ("different", ["s.shop.a"], False, "ERROR", "1 table differs: s.shop.a"),
        ("not compared", ["s.shop.a"], False, "WARN", "1 table was not compared: s.shop.a"),
        ("equal", ["s.shop.a", "s.shop.b"], False, "WARN", "1 table is not in the cut: s.shop.b"),
    ],
)
def test_what_was_not_compared_has_not_passed(
    proved: Any, followed: list[str], *, passed: bool, severity: str, words: str
) -> None:
    found = equal_verdict(replace(CUT, tables=(replace(TABLE, proved=proved),)), followed)
    assert (found.passed, found.severity.name, found.words) == (passed, severity, words)


@pytest.mark.parametrize(
    ("keys", "passed", "severity"),
    [
        (None, False, "WARN"),
        (CutKeys(), True, "ERROR"),
        (CutKeys((KEY,)), True, "ERROR"),
        (CutKeys((KEY,), ("s.shop.c",)), False, "WARN"),
        (CutKeys((KEY, replace(KEY, verdict="not compared", orphans=None))), False, "WARN"),
        (CutKeys((replace(KEY, verdict="as in MySQL", orphans=2, in_mysql=2),)), True, "ERROR"),
        (CutKeys((replace(KEY, verdict="orphans", orphans=2),)), False, "WARN"),
        (CutKeys((replace(KEY, verdict="orphans", orphans=2, in_mysql=0),)), False, "ERROR"),
    ],
)
def test_a_key_that_was_not_compared_does_not_hold(
    keys: CutKeys | None, *, passed: bool, severity: str
) -> None:
    found = keys_verdict(replace(CUT, foreign_keys=keys))
    assert (found.passed, found.severity.name) == (passed, severity)
