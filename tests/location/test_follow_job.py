"""A source whose log is followed, under Dagster: the job, its lag as numbers, and ticks that cost
nothing when nothing happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.checks.log_lag import lag_verdict
from dagster_mirrorlake.location import load_definitions
from mirrorlake.ledger import Ledger
from mirrorlake.operations.following.lag import LogLag
from mirrorlake.operations.following.log_owner import follower_lease
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import Location

LOG = dg.AssetKey(["log", "s"])
TABLE = {"mode": "binlog", "key": ["id"], "freshness": {"warn_after": "1m", "fail_after": "5m"}}


@pytest.fixture
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE followed")
        cursor.execute("CREATE TABLE followed.t (id INT PRIMARY KEY)")
        cursor.execute("CREATE TABLE followed.other (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO followed.t VALUES (1), (2)")
        admin.commit()
    return location_for({"followed": {"tables": {"t": TABLE}}})


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


class Ticks:
    """The sensor of the source, tick by tick."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self._defs, self._instance = defs, instance
        self._cursor: str | None = None

    def tick(self) -> tuple[int, list[Any]]:
        """How many runs were requested, and what was said of the log."""
        context = dg.build_sensor_context(
            instance=self._instance,
            cursor=self._cursor,
            repository_def=self._defs.get_repository_def(),
            resources=dict(self._defs.resources or {}),
        )
        with context:
            found = self._defs.resolve_sensor_def("moved_s").evaluate_tick(context)
        self._cursor = found.cursor or self._cursor
        events = [one for one in found.asset_events if one.asset_key == LOG]
        return len(found.run_requests or []), events


def insert(server: MariaDB, table: str, number: int) -> None:
    with server.admin("followed") as admin, admin.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} VALUES ({number})")
        admin.commit()


def test_the_job_follows_and_ticks_ask_the_log_first(
    server: MariaDB, location: Location, instance: dg.DagsterInstance
) -> None:
    defs = load_definitions(location.path)
    job = defs.resolve_job_def("follow_s")
    assert not job.tags.keys() & {"mirrorlake/source"}
    done = job.execute_in_process(
        instance=instance, run_config={"ops": {"follow_s": {"config": {"minutes": 0.02}}}}
    )
    assert done.success
    [output] = [e for e in done.all_events if e.is_successful_output]
    shown = {n: value.value for n, value in output.step_output_data.metadata.items()}
    assert shown == {"rows": 2, "rounds": 1}
    [*_, seen] = instance.fetch_observations(LOG, limit=5).records
    assert seen.asset_observation is not None
    numbers = {name: one.value for name, one in seen.asset_observation.metadata.items()}
    assert 0 <= numbers["lag (s)"] < 60
    assert numbers["lag (bytes)"] == 0
    assert [(e.check_name, e.passed) for e in done.get_asset_check_evaluations()][-1:] == [
        ("lag", True)
    ]
    ticks = Ticks(defs, instance)
    assert ticks.tick()[0] == 1  # never seen
    assert ticks.tick() == (0, [])
    insert(server, "other", 1)
    assert ticks.tick() == (0, [])
    insert(server, "t", 3)
    ledger = Ledger(location.config.ledger.url)
    with ledger.lease(follower_lease("s"), "another run"):
        assert ticks.tick() == (0, [])
    runs, [observed] = ticks.tick()
    assert runs == 1
    assert observed.metadata["lag (bytes)"].value > 0


@pytest.mark.parametrize(
    ("seconds", "passed", "severity"),
    [
        (59.0, True, dg.AssetCheckSeverity.ERROR),
        (61.0, False, dg.AssetCheckSeverity.WARN),
        (301.0, False, dg.AssetCheckSeverity.ERROR),
    ],
)
def test_the_lag_is_compared_with_the_freshness_of_the_tables(
    location: Location, seconds: float, passed: bool, severity: dg.AssetCheckSeverity
) -> None:
    lag = LogLag(seconds, None, "s.followed.t", 1, ("s.followed.u",))
    found = lag_verdict(location.config.tables, lag)
    assert found[:2] == (passed, severity)
    assert found[3] == {
        "lag (s)": seconds,
        "tables": 1,
        "most behind": "s.followed.t",
        "without a copy": "s.followed.u",
    }
    assert ("s.followed.t" in found[2]) is not passed
    assert lag_verdict(location.config.tables, None)[0] is False
