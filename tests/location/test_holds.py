"""A source that is held: nothing is asked of it, and what was missed comes afterwards, in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from dagster_mirrorlake.assets.steps import _load_days
from dagster_mirrorlake.checks.structure_verdicts import gaps_verdict
from dagster_mirrorlake.checks.verdicts import Look
from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.location.conftest import Location
from tests.location.test_sensors import Ticks

TODAY = datetime.now(UTC).date()
DAY = timedelta(days=1)
TABLES = {
    "a": {"mode": "incremental", "key": ["id"], "cursor": "at"},
    "b": {"mode": "append", "key": ["id"], "cursor": "id"},
    "k": {"mode": "full", "key": ["id"]},
}


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE held")
        cursor.execute("USE held")
        cursor.execute("CREATE TABLE a (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))")
        cursor.execute("CREATE TABLE b (id INT PRIMARY KEY)")
        cursor.execute("CREATE TABLE k (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO a VALUES (1, UTC_TIMESTAMP())")
        cursor.execute("INSERT INTO b VALUES (1)")
    return location_for({"held": {"tables": TABLES}})


@pytest.fixture
def ledger(location: Location) -> Iterator[Ledger]:
    ledger = Ledger(location.config.ledger.url)
    yield ledger
    ledger.release("s")


@pytest.fixture
def workspace(location: Location) -> Iterator[Workspace]:
    with Workspace.open(location.config) as workspace:
        yield workspace


@pytest.fixture
def sql(server: MariaDB) -> Iterator[Callable[[str], None]]:
    with server.admin("held") as admin, admin.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        yield lambda statement: cursor.execute(statement)


def hold(ledger: Ledger, days: int = 1) -> None:
    ledger.hold("s", datetime.now(UTC) + days * DAY, "new disks")


def asked_daily(location: Location, instance: dg.DagsterInstance, hour: int) -> list[str | None]:
    """The run keys that the daily schedule asks for at an hour of today."""
    defs = load_definitions(location.path)
    at = datetime.combine(TODAY, datetime.min.time(), UTC) + timedelta(hours=hour)
    with dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=at,
        repository_def=defs.get_repository_def(),
        resources=dict(defs.resources or {}),
    ) as context:
        data = defs.resolve_schedule_def("daily").evaluate_tick(context)
    return [r.run_key for r in data.run_requests or []]


def test_sensors_ask_nothing_of_a_held_source_and_everything_afterwards(
    location: Location, ledger: Ledger, workspace: Workspace, sql: Callable[[str], None]
) -> None:
    defs = load_definitions(location.path)
    with dg.DagsterInstance.ephemeral() as instance:
        moved, unfolded = (Ticks(defs, instance, name) for name in ("moved_s", "unfolded"))
        moved.tick()
        load_table(workspace, location.config.table("b"))
        hold(ledger)
        sql("INSERT INTO b VALUES (2)")
        # No session is opened either: the server may be gone.
        config = defs.resources["mysql"].contracts.sources["s"]  # type: ignore[index]
        port = config.port
        config.__dict__["port"] = 1
        try:
            assert moved.tick() == []
            assert unfolded.tick() == []
        finally:
            config.__dict__["port"] = port
        ledger.release("s")
        assert [tables for _, tables in moved.tick()] == [{"b"}]
        assert [tables for _, tables in unfolded.tick()] == [{"b"}]


def test_the_daily_run_is_asked_for_in_the_first_hour_after_the_hold(
    location: Location, ledger: Ledger
) -> None:
    with dg.DagsterInstance.local_temp() as instance:
        hold(ledger)
        assert asked_daily(location, instance, 4) == []
        ledger.release("s")
        later = [asked_daily(location, instance, hour) for hour in (5, 6)]
    # The daemon asks once for a key.
    assert later == [[f"daily-s-{TODAY}", f"daily-full-s-{TODAY}"]] * 2


def test_the_backlog_drains_in_order_after_the_hold(
    location: Location, ledger: Ledger, workspace: Workspace, sql: Callable[[str], None]
) -> None:
    """Three days in which nothing could be read: the days that were open come first, then now."""
    contract = location.config.table("a")
    load_table(workspace, contract)
    days_ago(location, contract.name, 4)
    sql(f"INSERT INTO a VALUES (2, '{TODAY - 3 * DAY} 23:59:59')")
    load_table(workspace, contract)
    days_ago(location, contract.name, 2)
    hold(ledger)
    # Too old for the next window's overlap, and on the day that was read last while it was open.
    sql(f"INSERT INTO a VALUES (3, '{TODAY - 3 * DAY} 05:00:00')")
    sql("INSERT INTO a VALUES (4, UTC_TIMESTAMP())")
    asked = TODAY - DAY
    with pytest.raises(SourceError, match=r"source s is held until .* \(new disks\)"):
        _load_days(workspace, contract, [asked], "daily", accept_smaller=False, look=None)
    ledger.release("s")
    before = workspace.ledger.highest_seq()
    done = _load_days(workspace, contract, [asked], "daily", accept_smaller=False, look=None)
    assert (done.refused, done.owed) == ({}, {})
    windows = [x.window for x in workspace.ledger.successful_loads(contract.name, before)]
    read = [(w.kind, w.lo and w.lo[:10], w.hi and w.hi[:10]) for w in windows]
    assert read[:2] == [
        ("reload", str(TODAY - 6 * DAY), str(TODAY - DAY)),
        ("reload", str(TODAY - DAY), str(TODAY)),
    ]
    assert [w.kind for w in windows[2:]] == ["live"]
    assert sum(r.rows for r in done.results[:2]) == 2
    again = _load_days(workspace, contract, [asked], "daily", accept_smaller=False, look=None)
    assert [r.window for r in again.results] == ["reload", "live"]


def days_ago(location: Location, table: str, days: int) -> None:
    """All loads of a table as if they had been made earlier."""
    database = sa.create_engine(location.config.ledger.url)
    with database.begin() as connection:
        where = sa.text("SELECT seq, receipt FROM loads WHERE table_name = :t AND receipt NOT NULL")
        for seq, receipt in connection.execute(where, {"t": table}).all():
            said = json.loads(receipt)
            for name in ("moment", "hi"):
                said[name] = str(datetime.fromisoformat(said[name]) - days * DAY)
            change = "UPDATE loads SET receipt = :r WHERE seq = :s"
            connection.execute(sa.text(change), {"r": json.dumps(said), "s": seq})
            change = "UPDATE windows SET hi = :h WHERE load_id = (SELECT load_id FROM loads WHERE seq = :s)"
            connection.execute(sa.text(change), {"h": said["hi"], "s": seq})
    database.dispose()


def test_the_gaps_check_lists_what_failed_and_what_was_never_asked(
    location: Location, workspace: Workspace, ledger: Ledger
) -> None:
    contract = location.config.table("k")
    look = Look(workspace, MirroredTable(contract), "raw", whole=True)
    never = gaps_verdict(look)
    assert (never.passed, never.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert never.words == "0 stretches of days failed, 1 were never requested"
    load_table(workspace, contract)
    assert gaps_verdict(look).passed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mirrorlake.load.protocol.protocol.run_chunks", _lost)
        with pytest.raises(SourceError):
            load_table(workspace, contract)
    failed = gaps_verdict(look)
    assert (failed.passed, failed.severity) == (False, dg.AssetCheckSeverity.ERROR)
    (record,) = failed.metadata["days"].records
    assert record.data == {
        "from": str(TODAY),
        "to": str(TODAY),
        "state": "errored",
        "reason": "the line was cut",
    }


def _lost(*_: Any, **__: Any) -> Any:
    raise SourceError("the line was cut")
