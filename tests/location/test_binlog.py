"""A table that follows its server's log, under Dagster: its open day by ticks, no past day again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.detect import find_moved
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.lake_tables import deduped_of
from tests.location.conftest import Location

NOW = datetime.now(UTC)
TODAY, YESTERDAY = str(NOW.date()), str(NOW.date() - timedelta(days=1))
pytestmark = [pytest.mark.timeout(600), pytest.mark.full]


@pytest.fixture
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE logged")
        cursor.execute("CREATE TABLE logged.t (id INT PRIMARY KEY, n INT)")
        cursor.execute("INSERT INTO logged.t VALUES (1, 1), (2, 2)")
        admin.commit()
    table = {"mode": "binlog", "key": ["id"], "partitions_from": YESTERDAY}
    return location_for({"logged": {"tables": {"t": table}}})


def test_ticks_follow_the_log(location: Location) -> None:
    live = {"mirrorlake/load": "live"}
    whole = {"tables": ["t"], "day": TODAY, "tags": live}
    change = ["DELETE FROM logged.t WHERE id = 1", "INSERT INTO logged.t VALUES (3, 3)"]
    first, second, idle, past = location.run(
        [
            whole,
            {**whole, "sql": change},
            whole,
            {"tables": ["t"], "layers": ["raw"], "day": YESTERDAY},
        ]
    )
    for one in (first, second, idle):
        assert one["success"], one["failed"]
    assert TODAY in second["made"]["raw/s/logged/t"]
    assert not past["success"]
    assert "the log has them once" in str(past["failed"])
    table = Lake(location.config.lake).load(deduped_of(location.config.table("t")))
    assert table is not None
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3]
    config = location.config
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    source = config.sources["s"]
    with session(source) as connection:
        found = find_moved(connection, source, config.tables, {}, ledger)
    assert [one.contract.table for one in found.moved] == ["t"]
