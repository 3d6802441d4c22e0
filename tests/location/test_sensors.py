"""Sensors and the schedule on an ephemeral instance, against a real MariaDB."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.execution.plan.objects import StepFailureData, StepSuccessData

from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.sensors.moved import interval_of
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.cursors import cursor_text, read_cursor
from mirrorlake.operations.days.unfolded import FoldCursor
from mirrorlake.operations.loading.detect import Mark
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.operations.other_writers.moved_lake import HeadsInTurn
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.location.conftest import Location
from tests.location.partitions_tick import events_since, newest_event

TABLES = {
    "a": {"mode": "incremental", "key": ["id"], "cursor": "at", "partitions_from": "2026-01-01"},
    "b": {
        "mode": "append",
        "key": ["id"],
        "cursor": "id",
        "overlap_keys": 5,
        "partitions_from": "2026-01-01",
    },
    "c": {"mode": "full", "key": ["id"]},
}


class Ticks:
    """One sensor and its cursor, as the daemon keeps it."""

    def __init__(
        self, defs: dg.Definitions, instance: dg.DagsterInstance, name: str = "moved_s"
    ) -> None:
        self.defs, self.instance = defs, instance
        self.sensor = defs.resolve_sensor_def(name)
        self.repository = defs.get_repository_def()
        self.cursor: str | None = None
        self.observed: list[dg.AssetObservation] = []

    def tick(self, *, keep: bool = True) -> list[tuple[str | None, set[str]]]:
        """The run key and the tables of each request; the cursor moves on unless not kept."""
        return [
            (r.run_key, {key.path[-1] for key in r.asset_selection or []})
            for r in self.requests(keep=keep)
        ]

    def requests(self, *, keep: bool = True) -> list[dg.RunRequest]:
        data = self._looked()
        if keep and data.cursor:
            self.cursor = data.cursor
        self.observed += [e for e in data.asset_events if isinstance(e, dg.AssetObservation)]
        return list(data.run_requests or [])

    def reported(self, key: dg.AssetKey) -> list[dg.AssetMaterialization]:
        """What one look reports of an asset; the cursor moves on."""
        start = newest_event(self.instance)
        self.cursor = self._looked().cursor
        events = events_since(self.instance, start)
        return [one for one in events if one.asset_key == key]

    def _looked(self) -> Any:
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            repository_def=self.repository,
            resources=dict(self.defs.resources or {}),
        )
        with context:
            return self.sensor.evaluate_tick(context)


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE watched")
        cursor.execute("USE watched")
        cursor.execute("CREATE TABLE a (id INT PRIMARY KEY, n INT, at DATETIME NOT NULL, KEY (at))")
        cursor.execute("CREATE TABLE b (id INT PRIMARY KEY, n INT)")
        cursor.execute("CREATE TABLE c (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO a VALUES (1, 1, UTC_TIMESTAMP()), (2, 2, UTC_TIMESTAMP())")
        cursor.execute("INSERT INTO b VALUES (1, 1), (2, 2)")
    return location_for({"watched": {"tables": TABLES}})


@pytest.fixture
def ticks(location: Location, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ticks]:
    def no_jvm(_: LazySpark) -> None:
        pytest.fail("a sensor asked for Spark")

    monkeypatch.setattr(LazySpark, "get", no_jvm)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Ticks(load_definitions(location.path), instance)


@pytest.fixture
def unfolded(ticks: Ticks) -> Ticks:
    return Ticks(ticks.defs, ticks.instance, "unfolded")


@pytest.fixture
def sql(server: MariaDB) -> Iterator[Callable[[str], None]]:
    with server.admin("watched") as admin, admin.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        yield lambda statement: cursor.execute(statement)


def test_the_first_tick_asks_for_every_chain_in_one_run(ticks: Ticks) -> None:
    (request,) = ticks.tick()
    assert request[1] == {"a", "b", "c"}
    assert ticks.tick() == []


def test_what_moved_is_asked_for_and_nothing_else(ticks: Ticks, sql: Callable[[str], None]) -> None:
    ticks.tick()
    sql("INSERT INTO b VALUES (3, 3)")
    ((_, tables),) = ticks.tick()
    assert tables == {"b"}
    assert ticks.tick() == []


def test_what_a_command_writes_to_is_requested_when_it_has_ended(
    ticks: Ticks, sql: Callable[[str], None], location: Location
) -> None:
    """A run for it would wait as long, and keep others of its source from being started."""
    ticks.tick()
    sql("INSERT INTO b VALUES (60, 3)")
    with Ledger(location.config.ledger.url).lease("s.watched.b", "another"):
        assert ticks.tick() == []
    assert [tables for _, tables in ticks.tick()] == [{"b"}]
    sql("DELETE FROM b WHERE id = 60")


def test_an_update_within_the_same_second_is_seen(ticks: Ticks, sql: Callable[[str], None]) -> None:
    """COUNT and MAX stay as they are: only the digest over key and cursor can tell."""
    sql("UPDATE a SET at = UTC_TIMESTAMP() - INTERVAL 60 SECOND WHERE id = 1")
    ticks.tick()
    sql("UPDATE a SET at = at + INTERVAL 1 SECOND WHERE id = 1")
    ((_, tables),) = ticks.tick()
    assert tables == {"a"}


def test_what_a_catalog_says_of_tables_in_turn_is_requested(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A REST catalog; one that can't be asked keeps nothing from being requested."""
    looks: list[frozenset[str] | LakeError] = [frozenset({"s.watched.b"}), LakeError("it is away")]

    def look(*_: object) -> frozenset[str]:
        said = looks.pop(0)
        if isinstance(said, LakeError):
            raise said
        return said

    ticks.tick()
    old = "2026-01-01T00:00:00"
    asked = {
        name: replace(mark, asked_at=old)
        for name, mark in read_cursor(dict[str, Mark], ticks.cursor, {}).items()
    }
    monkeypatch.setattr(
        "mirrorlake.operations.other_writers.moved_lake.named_otherwise", lambda *_: None
    )
    monkeypatch.setattr(HeadsInTurn, "look", look)
    reasons: list[dict[str, str | None]] = []
    while looks:
        ticks.cursor, ticks.observed = cursor_text(asked), []
        ticks.tick(keep=False)
        reasons.append({one.asset_key.path[-1]: one.description for one in ticks.observed})
    unanswered = dict.fromkeys("abc", "the last request brought no load")
    moved = {"b": "its lake tables are not as they were left"}
    assert reasons == [{**unanswered, **moved}, unanswered]


def test_a_tick_that_is_tried_again_asks_for_the_same_tables(
    ticks: Ticks, sql: Callable[[str], None]
) -> None:
    """The daemon died before it kept the cursor: nothing that moved is forgotten."""
    ticks.tick()
    sql("INSERT INTO b VALUES (4, 4)")
    ((_, first),) = ticks.tick(keep=False)
    ((_, again),) = ticks.tick()
    assert first == again == {"b"}


def test_the_request_names_the_open_day_and_the_source(ticks: Ticks) -> None:
    with dg.build_sensor_context(
        instance=ticks.instance,
        repository_def=ticks.repository,
        resources=dict(ticks.defs.resources or {}),
    ) as context:
        (request,) = ticks.sensor.evaluate_tick(context).run_requests or []
    assert request.tags["dagster/asset_partition_range_end"] == str(datetime.now(UTC).date())
    assert request.tags["mirrorlake/source"] == "s"
    assert request.tags["mirrorlake/load"] == "live"


def test_a_sources_version_is_of_what_was_seen_and_of_no_clock(
    ticks: Ticks, sql: Callable[[str], None]
) -> None:
    """What nobody wrote to has the version that it had, also after its cursor was lost and in the
    look after overlap and settle; what was written to has another."""

    def versions() -> dict[str, str]:
        seen, ticks.observed = ticks.observed, []
        return {e.asset_key.path[-1]: e.tags["dagster/data_version"] for e in seen}

    ticks.tick()
    first = versions()
    assert set(first) == {"a", "b", "c"}
    marks = read_cursor(dict[str, Mark], ticks.cursor, {})
    old = "2026-01-01T00:00:00"
    quiet = {name: replace(mark, moved_at=old) for name, mark in marks.items()}
    ticks.cursor = cursor_text(quiet)
    ticks.tick()
    assert versions() == {name: first[name] for name in ("a", "b")}
    ticks.cursor = None
    ticks.tick()
    assert versions() == first
    sql("INSERT INTO b VALUES (50, 3)")
    ticks.tick()
    sql("DELETE FROM b WHERE id = 50")
    (second,) = versions().items()
    ticks.tick()
    (third,) = versions().items()
    assert {second[0], third[0]} == {"b"}
    assert len({first["b"], second[1], third[1]}) == 3


def test_a_table_that_is_seen_shows_its_columns(ticks: Ticks) -> None:
    """Before anything is materialised: as MySQL has them."""
    ticks.tick()
    seen = {event.asset_key.path[-1]: event.metadata for event in ticks.observed}
    assert set(seen) == {"a", "b", "c"}
    schema = seen["a"]["dagster/column_schema"].value
    assert isinstance(schema, dg.TableSchema)
    assert [(c.name, c.type, c.constraints.nullable) for c in schema.columns] == [
        ("id", "int(11)", False),
        ("n", "int(11)", True),
        ("at", "datetime", False),
    ]


def test_a_run_under_way_is_waited_for(ticks: Ticks, sql: Callable[[str], None]) -> None:
    ticks.tick()
    sql("INSERT INTO b VALUES (5, 5)")
    job = ticks.defs.resolve_implicit_global_asset_job_def()
    run = ticks.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags={"mirrorlake/source": "s"}
    )
    assert ticks.tick() == []
    ticks.instance.report_run_failed(run)
    ((_, tables),) = ticks.tick()
    assert tables == {"b"}


def test_a_source_that_is_down_fails_the_tick_and_is_recovered_from(
    ticks: Ticks, sql: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks.tick()
    before = ticks.cursor
    sql("INSERT INTO b VALUES (6, 6)")
    with monkeypatch.context() as patch:
        config = ticks.defs.resources["mysql"].contracts.sources["s"]  # type: ignore[index]
        patch.setitem(config.__dict__, "port", 1)
        with pytest.raises(Exception, match=r"source s \(127\.0\.0\.1:1\) answered") as raised:
            ticks.tick()
        assert "p@ss" not in str(raised.value)
    assert ticks.cursor == before
    ((_, tables),) = ticks.tick()
    assert tables == {"b"}


def test_a_missing_table_keeps_no_other_from_being_seen(
    ticks: Ticks, sql: Callable[[str], None]
) -> None:
    ticks.tick()
    sql("RENAME TABLE a TO a_gone")
    try:
        sql("INSERT INTO b VALUES (7, 7)")
        ((_, tables),) = ticks.tick()
    finally:
        sql("RENAME TABLE a_gone TO a")
    assert tables == {"b"}


def test_the_daily_schedule_asks_for_the_day_that_ended(location: Location) -> None:
    """Full tables have no past: the day that is open, in a run of their own."""
    defs = load_definitions(location.path)
    schedule = defs.resolve_schedule_def("daily")
    at = datetime(2026, 5, 2, 4, tzinfo=UTC)
    with (
        dg.DagsterInstance.local_temp() as instance,
        dg.build_schedule_context(
            instance=instance,
            scheduled_execution_time=at,
            repository_def=defs.get_repository_def(),
            resources=dict(defs.resources or {}),
        ) as context,
    ):
        requests = schedule.evaluate_tick(context).run_requests or []
    assert [
        (
            r.run_key,
            r.tags["dagster/asset_partition_range_start"],
            sorted({key.path[-1] for key in r.asset_selection or []}),
        )
        for r in requests
    ] == [
        ("daily-s-2026-05-02", "2026-05-01", ["a", "b"]),
        ("daily-full-s-2026-05-02", "2026-05-02", ["c"]),
    ]
    assert {r.tags["mirrorlake/load"] for r in requests} == {"daily"}
    assert [len(r.asset_selection or []) for r in requests] == [6, 3]


def test_a_failed_run_is_told_in_one_line(
    location: Location, caplog: pytest.LogCaptureFixture
) -> None:
    """A day that can't be loaded: the line begins with the table, has the engine's reason and names
    the step."""
    defs = load_definitions(location.path)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("copies/s.watched.c", ["2026-05-02"])
        result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(["raw", "s", "watched", "c"])],
            partition_key="2026-05-02",
            raise_on_error=False,
        )
        context = dg.build_run_status_sensor_context(
            "failed_runs",
            result.get_run_failure_event(),
            instance,
            result.dagster_run,
        ).for_run_failure()
        defs.resolve_sensor_def("failed_runs")(context)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "mirrorlake.runs"]
    assert line.startswith("table s.watched.c: ")
    assert "raw__s__watched__c" in line
    assert "mode full" in line
    assert "\n" not in line


# --- the sensor on raw's new snapshots ------------------------------------------------------------


def load(location: Location, table: str) -> int:
    """One load of a table by another process than any run, not folded; its sequence number."""
    config = location.config
    with Workspace.open(config) as workspace:
        load_table(workspace, config.table(table))
        last = workspace.ledger.last_load(config.table(table).name)
    assert last is not None
    return last.seq


def fold(location: Location, table: str) -> None:
    """What a fold tells the ledger when it is done."""
    config = location.config
    ledger = Ledger(config.ledger.url)
    name = config.table(table).name
    ledger.record_folds(name, "deduped", [found.seq for found in ledger.successful_loads(name)])


@pytest.fixture
def folded(location: Location) -> Iterator[None]:
    """Nothing waits for a fold, before and after."""
    for table in TABLES:
        fold(location, table)
    yield
    for table in TABLES:
        fold(location, table)


@pytest.mark.usefixtures("folded")
def test_a_load_that_nothing_folded_is_asked_for_once(unfolded: Ticks, location: Location) -> None:
    assert unfolded.requests() == []
    load(location, "b")
    (request,) = unfolded.requests()
    assert [key.to_user_string() for key in request.asset_selection or []] == [
        "deduped/s/watched/b",
        "clean/s/watched/b",
    ]
    assert request.tags["dagster/asset_partition_range_end"] == str(datetime.now(UTC).date())
    assert request.tags["mirrorlake/source"] == "s"
    assert unfolded.requests() == []
    fold(location, "b")
    assert unfolded.requests() == []
    load(location, "b")
    assert unfolded.tick()[0][1] == {"b"}


@pytest.mark.usefixtures("folded")
def test_the_tick_after_a_lost_one_asks_for_the_same_run(
    unfolded: Ticks, location: Location
) -> None:
    load(location, "a")
    load(location, "b")
    first = unfolded.tick(keep=False)
    assert [tables for _, tables in first] == [{"a", "b"}]
    assert unfolded.tick(keep=False) == first
    # Of a ledger that was put back from a backup Dagster remembers runs that are undone.
    Ledger(location.config.ledger.url).renew_identity()
    ((again, tables),) = unfolded.tick(keep=False)
    assert tables == {"a", "b"}
    assert again != first[0][0]


@pytest.mark.usefixtures("folded")
def test_a_fold_that_does_not_come_is_asked_for_again(unfolded: Ticks, location: Location) -> None:
    load(location, "b")
    ((first, _),) = unfolded.tick()
    marks = read_cursor(FoldCursor, unfolded.cursor, FoldCursor())
    old = {
        name: replace(a, at=(datetime.fromisoformat(a.at) - timedelta(minutes=16)).isoformat())
        for name, a in marks.asked.items()
    }
    unfolded.cursor = cursor_text(replace(marks, asked=old))
    ((again, tables),) = unfolded.tick()
    assert tables == {"b"}
    assert again != first


@pytest.mark.usefixtures("folded")
def test_a_run_under_way_will_fold_what_it_loads(unfolded: Ticks, location: Location) -> None:
    load(location, "b")
    job = unfolded.defs.resolve_implicit_global_asset_job_def()
    run = unfolded.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags={"mirrorlake/source": "s"}
    )
    assert unfolded.tick() == []
    unfolded.instance.report_run_failed(run)
    assert [tables for _, tables in unfolded.tick()] == [{"b"}]


@pytest.mark.usefixtures("folded")
def test_a_table_that_another_process_holds_is_left_to_it(
    unfolded: Ticks, location: Location
) -> None:
    load(location, "b")
    name = location.config.table("b").name
    with Ledger(location.config.ledger.url).lease(name, "another"):
        assert unfolded.tick() == []
    assert [tables for _, tables in unfolded.tick()] == [{"b"}]


@pytest.mark.usefixtures("folded")
@pytest.mark.full
def test_a_load_whose_run_died_after_its_commit_is_found_in_raw(
    unfolded: Ticks, location: Location, sql: Callable[[str], None]
) -> None:
    """The ledger calls it pending: only raw's own snapshots know. A death before it is nothing."""
    assert unfolded.requests() == []
    sql("INSERT INTO b VALUES (900, 900)")
    die(location, "commit.before")
    assert unfolded.tick() == []
    die(location, "commit.after")
    assert [tables for _, tables in unfolded.tick()] == [{"b"}]


def die(location: Location, failpoint: str) -> None:
    """`mirrorlake sync b`, killed at a step of its load."""
    ended = subprocess.run(
        [Path(sys.executable).parent / "mirrorlake", "sync", "b", "--config", location.path],
        env={**os.environ, "MIRRORLAKE_FAILPOINT": failpoint},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


# --- a contract that goes while its run waits -------------------------------------------------------


def test_a_contract_removed_while_its_run_waits_loses_nothing(
    ticks: Ticks, location: Location, tmp_path: Path
) -> None:
    """The waiting run is refused whole and by name; what stays in the contract is asked for again."""
    (request,) = ticks.requests()
    said = yaml.safe_load(location.path.read_text())
    del said["sources"]["s"]["databases"]["watched"]["tables"]["b"]
    said["lake"]["warehouse"] = str(location.folder / "lake")
    said["ledger"]["url"] = f"sqlite:///{location.folder / 'ledger.db'}"
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(said))
    before = loads_of(location)
    fewer = load_definitions(path)
    with pytest.raises(dg.DagsterInvalidSubsetError, match=r"'raw/s/watched/b'.* were selected"):
        fewer.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=ticks.instance,
            asset_selection=list(request.asset_selection or []),
            tags=dict(request.tags),
        )
    assert loads_of(location) == before
    later = Ticks(fewer, ticks.instance)
    marks = json.loads(str(ticks.cursor))
    for mark in marks.values():
        asked = datetime.fromisoformat(mark["asked_at"]) - timedelta(minutes=16)
        mark["asked_at"] = asked.isoformat()
    later.cursor = json.dumps(marks)
    ((_, tables),) = later.tick()
    assert "b" not in tables
    assert "c" in tables
    assert set(json.loads(str(later.cursor))) == {"s.watched.a", "s.watched.c"}


def loads_of(location: Location) -> int:
    return Ledger(location.config.ledger.url).highest_seq()


@pytest.mark.parametrize(("every", "seconds"), [(900, 59), (10, 9), (5, 4), (1, 1), (0, 1)])
def test_no_look_is_a_moment_too_early_for_the_daemon(every: int, seconds: int) -> None:
    """It comes every five seconds, and a tick begins after it came: five would be passed by."""
    assert interval_of(timedelta(seconds=every)) == seconds


def test_a_run_that_is_done_with_a_table_does_not_hold_it_up(
    ticks: Ticks, sql: Callable[[str], None]
) -> None:
    """One of a backfill or a person, who set no tag: `a` is still to be folded, `b` is through."""
    ticks.tick()
    sql("UPDATE a SET n = n + 1, at = at + INTERVAL 1 SECOND WHERE id = 2")
    sql("INSERT INTO b VALUES (5000, 1)")
    job = ticks.defs.resolve_implicit_global_asset_job_def()
    chosen = frozenset(
        dg.AssetKey([layer, "s", "watched", table])
        for layer in ("raw", "deduped")
        for table in ("a", "b")
    )
    run = ticks.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, asset_selection=chosen
    )
    assert ticks.tick() == []
    for step in ("raw__s__watched__b", "deduped__s__watched__b", "raw__s__watched__a"):
        for kind in (dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_SUCCESS):
            data = StepSuccessData(1.0) if kind is dg.DagsterEventType.STEP_SUCCESS else None
            event = dg.DagsterEvent(kind.value, job.name, step_key=step, event_specific_data=data)
            ticks.instance.report_dagster_event(event, run.run_id)
    ((_, tables),) = ticks.tick()
    assert tables == {"b"}
    assert ticks.tick() == [], "a is still to be folded"
    failed = dg.DagsterEvent(
        dg.DagsterEventType.STEP_FAILURE.value,
        job.name,
        step_key="deduped__s__watched__a",
        event_specific_data=StepFailureData(None, None),
    )
    ticks.instance.report_dagster_event(failed, run.run_id)
    ((_, tables),) = ticks.tick()
    assert tables == {"a"}
