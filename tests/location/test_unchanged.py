"""Full copies that did not change: the daily run does not read them, and no partition turns green
for a copy that was not made."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.changes.change_stamps import BLUR
from tests.location.conftest import Location
from tests.location.test_partitions import Daemon
from tests.support.command import COMMAND

TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)
DAILY = {"mirrorlake/load": "daily"}
ALL = ["still", "moved", "same", "windows"]
TABLES: dict[str, Any] = {
    "still": {"mode": "full", "key": ["id"]},
    "moved": {"mode": "full"},
    "same": {"mode": "full", "key": ["id"], "verify": True},
    "windows": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "at",
        "partitions_from": str(YESTERDAY),
    },
}
STEPS: list[dict[str, Any]] = [
    {"tables": ALL, "day": str(TODAY), "tags": DAILY},
    {
        "tables": ALL,
        "day": str(YESTERDAY),  # which has no copy, and may not show one
        "tags": DAILY,
        "sql": [
            "INSERT INTO quiet.moved VALUES (9, 'nine', DEFAULT)",
            "UPDATE quiet.same SET v = 'other', at = at WHERE id = 1",
            "UPDATE quiet.same SET v = 'one', at = at WHERE id = 1",
        ],
    },
    {"tables": ["still"], "day": str(TODAY)},
    {"tables": ["still"], "day": str(TODAY), "tags": {"mirrorlake/load": "live"}},
    {"tables": ["still", "moved"], "day": str(TODAY), "tags": DAILY},
]
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def place(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE quiet")
        for table in TABLES:
            cursor.execute(
                f"CREATE TABLE quiet.{table} (id INT PRIMARY KEY, v VARCHAR(20), at TIMESTAMP(6) "
                "NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (at))"
            )
            cursor.execute(f"INSERT INTO quiet.{table} (id, v) VALUES (1, 'one'), (2, 'two')")
        admin.commit()
    time.sleep(BLUR.total_seconds() + 1.2)
    return location_for({"quiet": {"tables": TABLES}})


@pytest.fixture(scope="module")
def runs(place: Location) -> list[dict[str, Any]]:
    return place.run(STEPS)


def layers(table: str) -> list[str]:
    return [f"{layer}/s/quiet/{table}" for layer in ("raw", "deduped", "clean")]


def test_the_first_run_reads_all(runs: list[dict[str, Any]]) -> None:
    first = runs[0]
    assert first["success"], first["failed"]
    for table in ALL:
        for key in layers(table):
            assert "unchanged" not in first["made"][key][str(TODAY)]
    assert first["made"]["raw/s/quiet/still"][str(TODAY)]["rows"] == 2


def test_what_did_not_move_is_not_read_and_its_copys_day_says_so(
    runs: list[dict[str, Any]], place: Location
) -> None:
    second = runs[1]
    assert second["success"], second["failed"]
    for table, evidence in (("still", {"server", "table"}), ("same", {"digest"})):
        for key in layers(table):
            (said,) = [second["made"][key]]
            assert set(said) == {str(TODAY)}
            assert said[str(TODAY)]["evidence"] in evidence, key
            assert said[str(TODAY)]["as of"].endswith("UTC")
            assert said[str(TODAY)]["unchanged"]
        assert second["made"][layers(table)[1]][str(TODAY)]["dagster/row_count"] == 2
    skipped = "\n".join(second["skipped"])
    assert "deduped__s__quiet__still" in skipped
    assert "clean__s__quiet__still" in skipped
    assert len(_loads(place, "still")) == 4, "one of each other run"


def _loads(place: Location, table: str) -> list[Any]:
    ledger = Ledger(place.config.ledger.url)
    return ledger.successful_loads(f"s.quiet.{table}")


def test_what_moved_is_read(runs: list[dict[str, Any]]) -> None:
    made = runs[1]["made"]
    assert set(made["raw/s/quiet/moved"]) == {str(TODAY)}, "the copy's day, not the run's"
    assert made["raw/s/quiet/moved"][str(TODAY)]["rows"] == 3
    assert "unchanged" not in made["raw/s/quiet/windows"][str(YESTERDAY)]


@pytest.mark.parametrize("run", [2, 3])
def test_what_is_asked_for_by_hand_or_by_the_sensor_is_read(
    runs: list[dict[str, Any]], run: int
) -> None:
    said = runs[run]["made"]["raw/s/quiet/still"][str(TODAY)]
    assert (said["rows"], "unchanged" in said) == (2, False)


@pytest.mark.full
@pytest.mark.usefixtures("runs")
def test_a_sync_of_the_command_line_that_finds_a_table_unchanged_makes_clean_fresh(
    place: Location,
) -> None:
    """Once, and only clean: nothing was loaded."""
    with dg.DagsterInstance.ephemeral() as instance:
        daemon = Daemon(place, instance)
        assert daemon.tick()
        command = [*COMMAND, "sync", "--config", place.path]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        # What it did read (a table that it can't call unchanged) is a report of its own.
        told = [event for event in daemon.tick() if "unchanged" in event.metadata]
        assert dg.AssetKey(["clean", "s", "quiet", "still"]) in {e.asset_key for e in told}
        assert {event.asset_key.path[0] for event in told} == {"clean"}
        assert {event.partition for event in told} == {str(TODAY)}
        assert all("as of" in event.metadata for event in told)
        daemon.tick()
        daemon.reload()
        assert daemon.tick() == []
