"""What a step of a chain says in its run's log: where it begins, what it came to, and whose table
failed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.location import load_definitions
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import Location

TODAY = str(datetime.now(UTC).date())
TABLES = {
    "log": {"mode": "append", "key": ["id"], "cursor": "id"},
    "gone": {"mode": "append", "key": ["id"], "cursor": "id"},
}


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE spoken")
        cursor.execute("CREATE TABLE spoken.log (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO spoken.log VALUES (1), (2), (3)")
    return location_for({"spoken": {"tables": TABLES}})


def run_raw(location: Location, table: str) -> tuple[dg.ExecuteInProcessResult, list[str]]:
    """A run of raw, and what its step logged itself, among the engine's events and Dagster's."""
    with dg.DagsterInstance.ephemeral() as instance:
        result = (
            load_definitions(location.path)
            .resolve_implicit_global_asset_job_def()
            .execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey(["raw", "s", "spoken", table])],
                tags={
                    "dagster/asset_partition_range_start": TODAY,
                    "dagster/asset_partition_range_end": TODAY,
                    "mirrorlake/load": "live",
                },
                raise_on_error=False,
            )
        )
        logs = instance.all_logs(result.run_id)
    return result, [entry.user_message for entry in logs if not entry.dagster_event]


def test_a_step_says_where_it_begins_and_what_it_came_to(location: Location) -> None:
    _, said = run_raw(location, "log")
    # Dagster's own line on days of which a check had nothing to say.
    first, last = [line for line in said if "did not yield or return expected" not in line]
    assert first == f"table s.spoken.log: raw begins: {TODAY} (live)"
    assert last.startswith("table s.spoken.log: raw ended: 3 rows read, 3 rows in all, ")
    assert last.endswith(" s")


def test_a_step_that_fails_names_its_table_first(location: Location) -> None:
    result, _ = run_raw(location, "gone")
    (event,) = [event for event in result.all_events if event.is_step_failure]
    data = event.step_failure_data.user_failure_data
    assert data is not None
    assert str(data.description).startswith("table s.spoken.gone: ")
    assert str(data.description).count("s.spoken.gone") == 1
