"""A table whose raw is loaded into BigQuery, as Dagster shows and drives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dagster_mirrorlake.location import load_definitions
from demo.mariadb import MariaDB
from tests.location.conftest import Location
from tests.location.test_bigquery import SECTION, THERE, There, with_section
from tests.location.test_models import node
from tests.support.bigquery.emulator import google_cloud
from tests.support.bigquery.shim import shim_before

DATABASES: dict[str, Any] = {"history": {"tables": {"t": THERE | {"bigquery": {"load": "raw"}}}}}
ASSET = "bigquery/s/history/t"


def test_its_page_says_that_raw_is_loaded(contract_file: Callable[[Any], Path]) -> None:
    tables = {"history": {"tables": DATABASES["history"]["tables"] | {"u": THERE}}}
    defs = load_definitions(with_section(contract_file(tables)))
    over_raw, folded = (node(defs, f"bigquery/s/history/{name}") for name in "tu")
    assert over_raw.description.startswith("history.t of s: raw as BigQuery has it, a table")
    assert folded.description.startswith("history.u of s: deduped as BigQuery has it")
    assert over_raw.code_version != folded.code_version
    deduped = {node(defs, f"deduped/s/history/{name}").code_version for name in "tu"}
    assert len(deduped) == 1


@pytest.fixture
def there(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Iterator[There]:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE history")
        cursor.execute(
            "CREATE TABLE history.t (id INT PRIMARY KEY, a VARCHAR(20), at DATETIME(6) NOT NULL"
            " DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at))"
        )
        cursor.execute("USE history")
        cursor.execute("INSERT INTO t SELECT seq, 'a', '2026-01-02' FROM seq_1_to_50")
    with (
        google_cloud() as cloud,
        shim_before(cloud.bigquery) as shim,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in (cloud.environment() | {"BIGQUERY_EMULATOR_HOST": shim.url}).items():
            patch.setenv(name, value)
        for dataset in ("s_history", "s_history__raw", "s_history__views_clean"):
            cloud.client().create_dataset(dataset)
        location = location_for(DATABASES)
        with_section(location.path, bigquery={**SECTION, "wait": "30s"})
        yield There(location, cloud, shim)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_chain_loads_raw_and_its_check_compares_the_views(there: There) -> None:
    found = there.run("t")
    assert found["failed"] == {}
    [shown] = found["made"][ASSET].values()
    assert (shown["this run"], shown["rows of raw"], shown["columns"]) == ("loaded it", 50, True)
    assert "dagster/row_count" not in shown
    assert shown["raw tables"].startswith("t_v_")
    assert shown["views"] == "all versions: made, current rows: made, clean: made"
    found = there.run("t", sql=["UPDATE history.t SET a = 'b' WHERE id <= 3"])
    [shown] = found["made"][ASSET].values()
    assert (shown["loaded"], shown["rows loaded"], shown["rows of raw"]) == ("changes", 3, 53)
    step = {"tables": [], "checks": [f"{ASSET}:equals_lake"]}
    [checked] = there.location.run([step])
    assert checked["checks"][f"{ASSET}:equals_lake"]["passed"]
    rows = there.cloud.client().query_and_wait(
        "SELECT a, COUNT(*) AS n FROM s_history.t GROUP BY a"
    )
    assert {row["a"]: row["n"] for row in rows} == {"a": 47, "b": 3}
