"""Green is what is in the lake: partitions in Dagster against raw itself, whoever loaded it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import duckdb
import pytest

from dagster_mirrorlake.assets.reported import THROUGH_TAG
from dagster_mirrorlake.checks.exact import exact_verdict, report_verdict
from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.sensors import partitions
from dagster_mirrorlake.table import LAYERS, MirroredTable
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing.evidence import prove_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.proof.ranges.ranges import Range
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace
from tests.location.conftest import Location
from tests.location.partitions_tick import tick_partitions

TODAY = datetime.now(UTC).date()
DAY = timedelta(days=1)
FIRST = TODAY - 9 * DAY
TABLES: dict[str, Any] = {
    "moves": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "at",
        "partitions_from": str(FIRST),
    },
    "grows": {"mode": "append", "key": ["id"], "cursor": "id", "overlap_keys": 5},
    "copied": {"mode": "full", "key": ["id"]},
}
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    """Rows on three of ten days, synced by the command line: Dagster knows of nothing."""
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE green")
        cursor.execute("USE green")
        cursor.execute("CREATE TABLE moves (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))")
        cursor.execute("CREATE TABLE grows (id INT PRIMARY KEY, n INT)")
        cursor.execute("CREATE TABLE copied (id INT PRIMARY KEY)")
        cursor.execute(
            f"INSERT INTO moves VALUES (1, '{FIRST} 05:00'), (2, '{FIRST} 06:00'), "
            f"(3, '{TODAY - 4 * DAY} 23:59:59'), (4, '{TODAY - 2 * DAY} 00:00')"
        )
        cursor.execute("INSERT INTO grows VALUES (1, 1), (2, 2)")
        cursor.execute("INSERT INTO copied VALUES (1), (2), (3)")
        admin.commit()
    place = location_for({"green": {"tables": TABLES}})
    place.command("sync")
    return place


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


class Daemon:
    """The sensor, and what the daemon does with its answer; it may be killed on the way."""

    def __init__(self, location: Location, instance: dg.DagsterInstance) -> None:
        self.location, self.instance, self.cursor = location, instance, ""
        self.reload()

    def reload(self) -> None:
        self.defs = load_definitions(self.location.path)

    def tick(self, *, killed_after: int | None = None) -> list[dg.AssetMaterialization]:
        """One tick; killed after so many events, before the cursor is kept."""
        made, self.cursor = tick_partitions(self.instance, self.defs, self.cursor, killed_after)
        return made

    def table(self, name: str) -> MirroredTable:
        return MirroredTable(self.location.config.table(name))

    def green(self, name: str, layer: Any) -> set[str]:
        """The partitions that the UI shows as materialised."""
        return self.instance.get_materialized_partitions(self.table(name).key(layer))

    def missing(self, name: str, layer: Any) -> set[str]:
        """What a backfill of "missing" would launch."""
        partitions = self.defs.resolve_asset_graph().get(self.table(name).key(layer)).partitions_def
        assert partitions is not None
        keys = partitions.get_partition_keys(dynamic_partitions_store=self.instance)
        return set(keys) - self.green(name, layer)

    def rows(self, name: str) -> dict[str, int]:
        """What raw's newest events say, by partition."""
        key, found = self.table(name).key("raw"), {}
        for record in self.instance.fetch_materializations(key, limit=1000, ascending=True).records:
            event = record.asset_materialization
            assert event is not None
            metadata = event.metadata["dagster/partition_row_count"]
            found[str(event.partition)] = metadata.value
        return found

    def events(self, name: str, layer: Any) -> list[tuple[str | None, str | None]]:
        """Partition and ``through`` of each event there ever was."""
        key = self.table(name).key(layer)
        records = self.instance.fetch_materializations(key, limit=1000).records
        found = [record.asset_materialization for record in records]
        return [(e.partition, (e.tags or {}).get(THROUGH_TAG)) for e in found if e]


@pytest.fixture
def daemon(location: Location, instance: dg.DagsterInstance) -> Daemon:
    return Daemon(location, instance)


def raw_rows(location: Location, name: str) -> dict[str, int]:
    """Rows of raw by day, counted by DuckDB in the files: no code of ours."""
    folder = location.folder / "lake" / "s_green__raw"
    files = [
        str(p) for p in folder.rglob("*.parquet") if p.is_relative_to(folder) and name in str(p)
    ]
    query = "SELECT _mirror_day::DATE::VARCHAR, count(*) FROM read_parquet(?) GROUP BY 1"
    return dict(duckdb.execute(query, [files]).fetchall())


def test_the_history_of_the_command_line_is_green(daemon: Daemon, location: Location) -> None:
    daemon.tick()
    days = {str(FIRST + n * DAY) for n in range(10)}
    for layer in LAYERS:
        assert daemon.green("moves", layer) == days, layer
        assert daemon.green("copied", layer) == {str(TODAY)}, layer
        assert str(TODAY) in daemon.green("grows", layer)
    told = daemon.rows("moves")
    counted = raw_rows(location, "moves")
    assert {day: rows for day, rows in told.items() if rows} == counted
    assert len(counted) == 3
    assert set(told) == days
    assert daemon.rows("copied") == {str(TODAY): 3}


def test_a_backfill_of_missing_launches_nothing(daemon: Daemon) -> None:
    daemon.tick()
    daemon.reload()
    for name in TABLES:
        for layer in LAYERS:
            assert daemon.missing(name, layer) == set(), (name, layer)


def test_a_second_tick_reports_nothing(daemon: Daemon) -> None:
    assert daemon.tick()
    assert daemon.tick() == []


@pytest.mark.parametrize(
    "events", [pytest.param(0, marks=pytest.mark.full), pytest.param(1, marks=pytest.mark.full), 7]
)
def test_a_killed_daemon_reports_each_once(daemon: Daemon, events: int) -> None:
    daemon.tick(killed_after=events)
    daemon.tick()
    daemon.tick()
    for name in TABLES:
        for layer in LAYERS:
            found = daemon.events(name, layer)
            assert found
            assert len(found) == len(set(found)) == len({p for p, _ in found}), (name, layer)


def test_a_load_is_reported_for_its_days_and_no_other(
    daemon: Daemon, location: Location, server: MariaDB
) -> None:
    daemon.tick()
    with server.admin("green") as admin, admin.cursor() as cursor:
        cursor.execute("INSERT INTO grows SELECT MAX(id) + 1, 0 FROM grows")
        admin.commit()
    config = location.config
    with Workspace.open(config) as workspace:
        load_table(workspace, config.table("grows"))
    events = daemon.tick()
    assert {(e.asset_key.path[0], e.asset_key.path[-1], e.partition) for e in events} == {
        ("raw", "grows", str(TODAY))
    }
    assert daemon.rows("grows") == raw_rows(location, "grows")


def test_what_a_run_loads_is_left_to_it_until_it_ends(
    daemon: Daemon, location: Location, instance: dg.DagsterInstance
) -> None:
    """A run that was killed between its commit and its event: the next tick reports it, once."""
    daemon.tick()
    job = daemon.defs.resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    config = location.config
    with Workspace.open(config, run.run_id) as workspace:
        load_table(workspace, config.table("moves"))
    assert daemon.tick() == []
    instance.report_run_failed(run)
    events = daemon.tick()
    assert {(e.asset_key.path[0], e.partition) for e in events} >= {("raw", str(TODAY))}
    assert daemon.tick() == []


@pytest.mark.full
def test_a_tick_ends_by_time_and_the_next_goes_on(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is to report: no other sensor waits for it."""
    monkeypatch.setattr(partitions, "PAGE", 6)
    monkeypatch.setattr(partitions, "BOUND_SECONDS", -1.0)
    reported: list[tuple[Any, Any]] = []
    while made := daemon.tick():
        assert len(made) <= 6
        reported += [(event.asset_key, event.partition) for event in made]
    assert len(reported) == len(set(reported)) > 30
    # Of the open day an earlier test left a load that is not folded.
    assert daemon.missing("moves", "clean") <= {str(TODAY)}


def test_what_was_wiped_in_the_ui_is_there_again(
    daemon: Daemon, instance: dg.DagsterInstance
) -> None:
    """Whole assets at once; the keys of copies' partitions too. Each once."""
    daemon.tick()
    names = ("moves", "copied")
    before = {(name, layer): daemon.green(name, layer) for name in names for layer in LAYERS}
    assert daemon.tick() == []
    instance.wipe_assets([daemon.table(name).key(layer) for name in names for layer in LAYERS[1:]])
    copies = daemon.table("copied").dynamic_name
    instance.delete_dynamic_partition(copies, str(TODAY))
    assert daemon.green("moves", "deduped") == set()
    made = [(e.asset_key, e.partition) for e in daemon.tick()]
    assert len(made) == len(set(made))
    assert {key.path[0] for key, _ in made} == {"deduped", "clean"}
    after = {(name, layer): daemon.green(name, layer) for name in names for layer in LAYERS}
    assert after == before
    assert str(TODAY) in instance.get_dynamic_partitions(copies)
    assert daemon.tick() == []
    assert daemon.missing("moves", "deduped") <= {str(TODAY)}


def test_a_sensor_of_another_ledger_begins_again(daemon: Daemon, location: Location) -> None:
    """An edited cursor is forgotten; nothing that is green is reported twice."""
    daemon.tick()
    before = {(n, layer): daemon.events(n, layer) for n in TABLES for layer in LAYERS}
    daemon.cursor = "{"
    daemon.tick()
    assert {(n, layer): daemon.events(n, layer) for n in TABLES for layer in LAYERS} == before
    assert Ledger(location.config.ledger.url).highest_seq() > 0


def test_a_day_without_a_copy_is_no_partition(daemon: Daemon, instance: dg.DagsterInstance) -> None:
    """A day that was requested and not copied is gone with the next day's first look."""
    name = daemon.table("copied").dynamic_name
    old = str(TODAY - 3 * DAY)
    instance.add_dynamic_partitions(name, [old])
    daemon.tick()
    assert instance.get_dynamic_partitions(name) == [str(TODAY)]


@pytest.mark.full
@pytest.mark.alone  # a browser's event loop may run in the worker's thread
def test_what_is_made_of_clean_is_due_when_a_sync_changed_it(
    daemon: Daemon, location: Location, server: MariaDB, instance: dg.DagsterInstance
) -> None:
    """Dagster's automation knows what the sensor reported, wherever the sync ran."""
    clean = daemon.table("grows").key("clean")

    @dg.asset(deps=[clean], automation_condition=dg.AutomationCondition.any_deps_updated())
    def weekly() -> None: ...

    mine = dg.Definitions([*(daemon.defs.assets or ()), weekly], resources=daemon.defs.resources)
    daemon.tick()
    before = dg.evaluate_automation_conditions(mine, instance)
    quiet = dg.evaluate_automation_conditions(mine, instance, cursor=before.cursor)
    assert quiet.get_num_requested(weekly.key) == 0
    with server.admin("green") as admin, admin.cursor() as cursor:
        cursor.execute("INSERT INTO grows SELECT MAX(id) + 1, 0 FROM grows")
        admin.commit()
    location.command("sync", "grows")
    daemon.tick()
    due = dg.evaluate_automation_conditions(mine, instance, cursor=quiet.cursor)
    assert due.get_num_requested(weekly.key) == 1


@pytest.mark.full
@pytest.mark.parametrize("sensor", ["after each", "at the end"])
def test_the_page_has_the_lakes_numbers_whatever_was_done(
    daemon: Daemon, location: Location, server: MariaDB, sensor: str
) -> None:
    """Every partition of every layer after a sync, a reload, a backfill, a repair, maintenance with
    retention, a refold and a rebuilt ledger: rows as PyIceberg counts them in raw."""

    def sql(statement: str) -> None:
        with server.admin("green") as admin, admin.cursor() as cursor:
            cursor.execute(statement)
            admin.commit()

    def compare() -> None:
        daemon.tick()
        for name in TABLES:
            counted = lake_rows(location, name)
            told = {day: rows for day, rows in daemon.rows(name).items() if rows}
            assert told == counted, (name, sensor)
            for layer in LAYERS:
                assert daemon.green(name, layer) >= set(counted), (name, layer)
                assert daemon.missing(name, layer) == set(), (name, layer)

    old = TODAY - 4 * DAY
    moves: list[tuple[str, ...] | str] = [
        f"INSERT INTO moves VALUES (70, '{old} 08:00')",
        ("backfill", "moves", "--from", str(old), "--to", str(old), "--all"),
        "INSERT INTO grows SELECT MAX(id) + 1, 5 FROM grows",
        "UPDATE copied SET id = id + 100 WHERE id = 3",
        ("sync",),
        f"DELETE FROM moves WHERE id = 70 AND at > '{FIRST}'",
        ("repair", "moves", "--yes"),
        ("maintain",),
        ("refold", "moves"),
        ("ledger", "rebuild"),
        ("sync",),
    ]
    location.command("sync")  # other tests leave loads that no fold followed
    daemon.tick()
    for move in moves:
        if isinstance(move, str):
            sql(move)
            continue
        if move[0] == "ledger":
            for file in location.folder.glob("ledger.db*"):
                file.unlink()
        location.command(*move)
        if sensor == "after each":
            compare()
    compare()


def lake_rows(location: Location, name: str) -> dict[str, int]:
    """Rows of raw by day as PyIceberg reads them; of copies, of the newest of each day."""
    contract = location.config.table(name)
    lake = Lake(location.config.lake)
    found: Counter[str] = Counter()
    for one in lake.catalog.list_tables(contract.namespaces.raw):
        if one[-1] == name or one[-1].startswith(f"{name}_v_"):
            rows = lake.catalog.load_table(one).scan(selected_fields=("_mirror_day",)).to_arrow()
            found.update(str(day) for day in rows["_mirror_day"].to_pylist())
    return dict(found)


# --- proof as a colour ----------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.alone
def test_a_day_is_unproved_then_proved_then_stale_then_different(
    location: Location, server: MariaDB
) -> None:
    """Each look at all keys; what is reported of one day, as the table goes on."""
    config = location.config
    table = MirroredTable(config.table("moves"), first_day=FIRST)
    old = str(TODAY - 4 * DAY)
    with Workspace.open(config) as workspace:
        assert workspace.ledger.proofs(table.contract.name) == []
        first = exact_verdict(workspace, table)
        assert first[0], first[2]
        assert first[4][old].passed
        assert str(FIRST) in first[4]
        assert str(FIRST) not in exact_verdict(workspace, table)[4], "reported already"
        with server.admin("green") as admin, admin.cursor() as cursor:
            cursor.execute(f"INSERT INTO moves VALUES (90, '{old} 12:00')")
            admin.commit()
        reload_days(workspace, table.contract, TODAY - 4 * DAY, TODAY - 4 * DAY)
        fold_table(workspace, table.contract)
        report, evidence = prove_table(workspace, table.contract, Ask("keys", keys=Range(500, 600)))
        stale = report_verdict(workspace, table, report, evidence)[4]
        assert (stale[old].passed, stale[old].severity) == (False, dg.AssetCheckSeverity.WARN)
        assert "since it was proved" in str(stale[old].words)
        deduped = workspace.lake.load(deduped_of(table.contract))
        assert deduped is not None
        deduped.delete("id = 90")
        different = exact_verdict(workspace, table)[4]
        assert (different[old].passed, different[old].severity) == (
            False,
            dg.AssetCheckSeverity.ERROR,
        )


@pytest.mark.full
@pytest.mark.alone
def test_days_that_dagster_forgot_are_reported_again(location: Location) -> None:
    """Their partitions were materialised since, as a history is reported, or in another instance."""
    table = MirroredTable(location.config.table("moves"), first_day=FIRST)
    key, day = table.key("deduped"), str(FIRST)  # beyond the newest, which are always reported

    def look(instance: dg.DagsterInstance) -> set[str]:
        with Workspace.open(location.config) as workspace:
            return set(exact_verdict(workspace, table, instance=instance)[4])

    with dg.DagsterInstance.ephemeral() as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=str(TODAY)))
        assert day in look(instance)
        assert day not in look(instance)
        instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=day))
        assert day in look(instance)
        assert day not in look(instance)
    with dg.DagsterInstance.ephemeral() as another:
        assert day in look(another)


@pytest.mark.full
@pytest.mark.alone
def test_what_was_loaded_since_a_whole_comparison_is_not_proved(
    location: Location, server: MariaDB
) -> None:
    """Whichever other rows are compared meanwhile; nor is what was loaded while it compared."""
    config = location.config
    table = MirroredTable(config.table("moves"), first_day=FIRST)
    day = TODAY - 4 * DAY
    with Workspace.open(config) as workspace:
        assert exact_verdict(workspace, table)[4][str(day)].passed
        for number, during in ((91, False), (92, True)):
            if during:
                report, evidence = prove_table(workspace, table.contract, Ask("full"))
            with server.admin("green") as admin, admin.cursor() as cursor:
                cursor.execute(f"INSERT INTO moves VALUES ({number}, '{day} 12:00')")
                admin.commit()
            reload_days(workspace, table.contract, day, day)
            fold_table(workspace, table.contract)
            deduped = workspace.lake.load(deduped_of(table.contract))
            assert deduped is not None
            deduped.delete(f"id = {number}")
            if during:
                found = report_verdict(workspace, table, report, evidence)[4]
                assert str(day) not in found or not found[str(day)].passed
            for _ in range(3):
                other = Ask("partition", day=TODAY - 2 * DAY)
                found = exact_verdict(workspace, table, ask=other)[4]
                assert str(day) not in found or not found[str(day)].passed
                # After the reload no proof of all keys holds it: it was compared by itself.
                assert found[str(TODAY - 2 * DAY)].passed
            assert not exact_verdict(workspace, table)[4][str(day)].passed
            deduped = workspace.lake.load(deduped_of(table.contract))
            repair_table(workspace, table.contract, Ask("full"))
            assert exact_verdict(workspace, table)[4][str(day)].passed
