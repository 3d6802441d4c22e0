"""Checks by day in a run from the UI, which requests all checks: what is known of each day, and no
more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import Location

TODAY = datetime.now(UTC).date()
# More rows than one chunk of the exact check, over twenty days; and one day without a row.
FIRST = TODAY - timedelta(days=40)
EMPTY = TODAY - timedelta(days=5)
ROWS, CHUNK, SECONDS = 210_000, 100_000, 8
LATE = FIRST + timedelta(seconds=(2 * CHUNK + 5_000) * SECONDS)
CHECKS = ("raw/s/days/many:gaps_by_day", *(
    f"deduped/s/days/many:{name}_by_day" for name in ("row_count", "exact_match")
))  # fmt: skip
EXACT = "deduped/s/days/many:exact_match_by_day"
ROW_COUNT = "deduped/s/days/many:row_count_by_day"
LATE_COUNT = "deduped/s/days/late:row_count_by_day"
CONTRACTS: dict[str, Any] = {
    "days": {
        "tables": {
            "many": {
                "mode": "append", "key": ["id"], "cursor": "at", "partitions_from": str(FIRST),
            },
            "keyed": {"mode": "append", "key": ["id"], "cursor": "id", "partitions_from": str(EMPTY)},
            "late": {"mode": "append", "key": ["id"], "cursor": "at", "partitions_from": str(EMPTY)},
        }
    }
}  # fmt: skip
STEPS: list[dict[str, Any]] = [
    {"tables": ["many"], "days": [str(FIRST), str(TODAY)], "all checks": True},
    {
        "tables": ["many"],
        "layers": ["deduped"],
        "day": str(LATE),
        "all checks": True,
        "sql": [f"DELETE FROM days.many WHERE id = {2 * CHUNK + 5_000}"],
    },
    {"tables": [], "checks": CHECKS},
    {"tables": ["many"], "day": str(EMPTY), "all checks": True},
    {"tables": ["keyed"], "days": [str(EMPTY), str(TODAY)], "all checks": True},
    {"tables": [], "checks": [LATE_COUNT], "day": str(EMPTY)},
    {"tables": ["late"], "day": str(TODAY)},
    {
        "tables": ["keyed"],
        "day": str(TODAY),
        "layers": ["deduped"],
        "plant": {"lose": "keyed"},
        "all checks": True,
    },
]
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def runs(
    server: MariaDB, location_for: Callable[[dict[str, Any]], Location]
) -> list[dict[str, Any]]:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE days")
        cursor.execute("USE days")
        cursor.execute(
            "CREATE TABLE days.many (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))"
        )
        cursor.execute("CREATE TABLE days.keyed (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO days.keyed SELECT seq FROM seq_1_to_50")
        cursor.execute(
            "CREATE TABLE days.late (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))"
        )
        cursor.execute(f"INSERT INTO days.late VALUES (1, '{EMPTY} 10:00')")
        cursor.execute(
            f"INSERT INTO days.many SELECT seq, '{FIRST}' + INTERVAL seq * {SECONDS} SECOND "
            f"FROM seq_1_to_{ROWS}"
        )
        admin.commit()
    return location_for(CONTRACTS).run(STEPS)


def skipped(run: dict[str, Any], name: str) -> set[str]:
    """Requested days without a verdict."""
    return {day for check, day in run["unanswered"] if check == name}


def test_dagster_shows_each_verdict_on_its_partition(runs: list[dict[str, Any]]) -> None:
    """One that does not name the partition's newest materialisation is "missing" there."""
    assert [run["hidden"] for run in runs] == [[]] * len(STEPS)
    assert all(run["success"] for run in runs[:-1])


def test_each_requested_day_is_counted(runs: list[dict[str, Any]]) -> None:
    days = {str(FIRST + timedelta(days=n)) for n in range((TODAY - FIRST).days + 1)}
    for name in CHECKS[:2]:
        assert days <= set(runs[0]["days"][name]), name
        assert not skipped(runs[0], name)


def test_days_that_are_not_proved_are_skipped_and_named(runs: list[dict[str, Any]]) -> None:
    """A chunk of keys proves no day; the newest seven are compared by themselves."""
    exact, words = runs[0]["days"][EXACT], runs[0]["words"][EXACT]
    assert len(exact) == 7
    assert all(exact.values())
    assert set(words.values()) == {"Every row of it was compared, by itself"}
    assert skipped(runs[0], EXACT) >= {str(FIRST), str(TODAY)}
    assert not skipped(runs[0], EXACT) & set(exact)
    said = runs[0]["checks"]["deduped/s/days/many:exact_match"]["metadata"]["days not proved"]
    # Right after midnight yesterday is too new to be compared as well: one of the others then.
    too_new = 2 if f"2 days from {TODAY - timedelta(days=1)} to {TODAY}: " in said else 1
    assert said.startswith(f"{34 - too_new} days from {FIRST} to ")
    assert "no proofs that are kept show all its rows to be equal" in said
    assert f"{TODAY}: rows of it may be too new" in said


def test_a_day_without_a_row_is_counted_as_such(runs: list[dict[str, Any]]) -> None:
    assert runs[3]["days"][ROW_COUNT][str(EMPTY)]
    assert runs[3]["words"][ROW_COUNT][str(EMPTY)] == "It has no row on either side"


def test_a_requested_day_is_compared_though_its_chunk_is_not_due(
    runs: list[dict[str, Any]],
) -> None:
    """A row was deleted that the chunk of this run does not hold."""
    assert not runs[1]["days"][EXACT][str(LATE)]
    assert runs[1]["words"][EXACT][str(LATE)].startswith("Rows that differ")


def test_a_table_whose_rows_have_no_day_has_no_verdict_by_day(
    runs: list[dict[str, Any]],
) -> None:
    """Its rows are counted as a whole. A location that knows its columns offers no such check."""
    count = "deduped/s/days/keyed:row_count_by_day"
    assert not runs[7]["checks"]["deduped/s/days/keyed:row_count"]["passed"]
    for run in (runs[4], runs[7]):
        assert count not in run["days"]
        assert str(TODAY) in skipped(run, count)


def test_a_day_is_counted_once_something_is_known_of_it(runs: list[dict[str, Any]]) -> None:
    assert LATE_COUNT not in runs[5]["days"]
    assert runs[6]["days"][LATE_COUNT][str(EMPTY)]
