"""A table whose partitions are hours, as the UI, the sensors and the schedule request it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.sensors.requests import request_chains
from dagster_mirrorlake.table import LAYERS, MirroredTable
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import Location
from tests.location.test_partitions import Daemon

NOW = datetime.now(UTC)
TODAY = NOW.date()
YESTERDAY = TODAY - timedelta(days=1)
FIRST = TODAY - timedelta(days=2)
TABLES: dict[str, Any] = {
    "ticks": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "at",
        "partition": "hour",
        "partitions_from": str(FIRST),
    },
    "idle": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "at",
        "partition": "hour",
        "partitions_from": str(FIRST),
    },
    "days": {"mode": "incremental", "key": ["id"], "cursor": "at", "partitions_from": str(FIRST)},
}
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE hours")
        cursor.execute("USE hours")
        for name in TABLES:
            cursor.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))"
            )
            cursor.execute(
                f"INSERT INTO {name} VALUES (1, '{FIRST} 05:00'), (2, '{FIRST} 05:59:59'), "
                f"(3, '{YESTERDAY} 23:30'), (4, UTC_TIMESTAMP())"
            )
        admin.commit()
    place = location_for({"hours": {"tables": TABLES}})
    place.command("sync")
    return place


@pytest.fixture
def daemon(location: Location) -> Iterator[Daemon]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Daemon(location, instance)


@pytest.mark.full
def test_what_the_command_line_loaded_is_green_by_the_hour(daemon: Daemon) -> None:
    daemon.tick()
    shown = daemon.rows("ticks")
    assert shown[f"{FIRST}-05:00"] == 2
    assert shown[f"{YESTERDAY}-23:00"] == 1
    assert shown[f"{FIRST}-06:00"] == 0
    assert sum(shown.values()) == 4
    assert set(daemon.rows("days")) == {str(FIRST), str(YESTERDAY), str(TODAY)}
    for layer in LAYERS:
        assert daemon.green("ticks", layer) == set(shown)
        # The clock may have struck since the sync: that hour is not in the lake.
        at = datetime.now(UTC)
        assert daemon.missing("ticks", layer) <= {f"{at.date()}-{at.hour:02}:00"}, layer
    assert daemon.tick() == []


def test_hours_that_are_requested_load_their_day_once(location: Location) -> None:
    """From the UI: two hours of a past day. Its other hours are reported by the run, too."""
    first, last = f"{FIRST}-05:00", f"{FIRST}-06:00"
    (done,) = location.run([{"tables": ["ticks"], "days": [first, last]}])
    assert done["success"], done["failed"]
    for layer in LAYERS:
        made = done["made"][f"{layer}/s/hours/ticks"]
        assert {first, last} <= set(made)
        assert {key[:10] for key in made} == {str(FIRST)}, layer
    raw = done["made"]["raw/s/hours/ticks"]
    # The rows that the first load brought, and those of the reload: it only adds.
    assert raw[first]["dagster/partition_row_count"] == 4
    assert raw[last]["dagster/partition_row_count"] == 0
    assert len(raw) == 24
    [observed] = done["observed"]["raw/s/hours/ticks"]
    assert observed["window"] == "reload"


@pytest.mark.full
def test_the_hour_that_runs_is_loaded_by_its_next_window(
    location: Location, server: MariaDB
) -> None:
    with server.admin("hours") as admin, admin.cursor() as cursor:
        cursor.execute("INSERT INTO ticks VALUES (5, UTC_TIMESTAMP())")
        admin.commit()
    at = datetime.now(UTC)
    key = f"{at.date()}-{at.hour:02}:00"
    (done,) = location.run([{"tables": ["ticks"], "day": key, "tags": {"mirrorlake/load": "live"}}])
    assert done["success"], done["failed"]
    raw = done["made"]["raw/s/hours/ticks"]
    assert raw[key]["window"] == "live"
    assert raw[key]["dagster/partition_row_count"] >= 1
    assert key in done["made"]["clean/s/hours/ticks"]


def test_a_day_is_requested_as_its_hours(location: Location) -> None:
    """Tables of days and of hours do not share a run: a run has one range."""
    tables = [MirroredTable(location.config.table(name)) for name in ("ticks", "days")]
    with dg.DagsterInstance.ephemeral() as instance:
        ended = request_chains(instance, tables, YESTERDAY, "k", "daily", "daily")
        at = datetime.now(UTC)
        running = request_chains(instance, tables, at.replace(tzinfo=None), "k", "moved", "live")
    ranges = {
        key.path[-1]: (
            request.tags["dagster/asset_partition_range_start"],
            request.tags["dagster/asset_partition_range_end"],
        )
        for request in ended
        for key in request.asset_selection or ()
    }
    assert ranges == {
        "days": (str(YESTERDAY), str(YESTERDAY)),
        "ticks": (f"{YESTERDAY}-00:00", f"{YESTERDAY}-23:00"),
    }
    assert len({request.run_key for request in ended}) == 2
    hour = f"{at.date()}-{at.hour:02}:00"
    assert {request.tags["dagster/asset_partition_range_start"] for request in running} == {
        str(at.date()),
        hour,
    }


def test_an_hour_that_is_not_in_the_lake_does_not_turn_green(location: Location) -> None:
    """A fold is requested for an hour that began after the newest load: Dagster makes an output that
    a step owes, and with it every partition of the run green."""
    with sqlite3.connect(location.folder / "ledger.db") as ledger:
        query = "SELECT seq, receipt FROM loads WHERE table_name = 's.hours.idle'"
        for seq, text in ledger.execute(query).fetchall():
            receipt = json.loads(text)
            moment = datetime.fromisoformat(receipt["moment"]) - timedelta(hours=2)
            receipt["moment"] = moment.isoformat()
            ledger.execute("UPDATE loads SET receipt = ? WHERE seq = ?", (json.dumps(receipt), seq))
    at = datetime.now(UTC)
    key = f"{at.date()}-{at.hour:02}:00"
    step = {"tables": ["idle"], "day": key, "layers": ["deduped", "clean"]}
    (done,) = location.run([{**step, "tags": {"mirrorlake/load": "none"}}])
    assert done["success"], done["failed"]
    assert key not in done["made"].get("deduped/s/hours/idle", {})
    assert key not in done["made"].get("clean/s/hours/idle", {})
    assert any("clean" in name for name in done["skipped"])


def test_hours_have_no_checks_by_day(location: Location) -> None:
    defs = load_definitions(location.path)
    graph = defs.resolve_asset_graph()
    names = {
        (key.asset_key.path[-1], key.name)
        for key in graph.asset_check_keys
        if key.asset_key.path[0] == "deduped"
    }
    assert ("days", "exact_match_by_day") in names
    assert not any(name.endswith("_by_day") for table, name in names if table == "ticks")
