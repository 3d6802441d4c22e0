"""Tables that are published in BigQuery, as Dagster shows and drives them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from dagster_mirrorlake.checks.as_of import AS_OF
from dagster_mirrorlake.location import load_definitions
from mirrorlake.bigquery.ledger import Publications
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location import run_steps
from tests.location.conftest import ROOT, Location
from tests.location.models.test_models import node
from tests.location.test_sensors import Ticks
from tests.support.bigquery.access_server import Datasets, datasets_server
from tests.support.bigquery.emulator import BUCKET, PROJECT, GoogleCloud, google_cloud
from tests.support.bigquery.shim import Shim, shim_before

TODAY = str(datetime.now(UTC).date())
CHAIN = ["raw", "deduped", "clean", "bigquery"]
SECTION = {"project": PROJECT, "bucket": BUCKET}
THERE = {"mode": "incremental", "key": ["id"], "cursor": "at", "publish": ["lake", "bigquery"]}
DATABASES: dict[str, Any] = {
    "there": {
        "tables": {
            "t": {**THERE, "columns": {"a": {"pii": "drop"}}},
            "v": {**THERE, "publish": ["lake"]},
        }
    },
    # Nobody made its dataset.
    "nowhere": {"tables": {"u": THERE}},
}
EQUALS = "bigquery/s/there/t:equals_lake"
PERMISSIONS = """
datasets:
  s_there: {principals: {"group:owners@example.com": owner}}
  s_there__views_clean: {principals: {"group:owners@example.com": owner}}
"""
OWNER = {"role": "OWNER", "groupByEmail": "owners@example.com"}
KEY = dg.AssetKey(["bigquery", "s", "there", "t"])


def with_section(path: Path, **also: Any) -> Path:
    """A contract file, and the section of BigQuery in it."""
    found = yaml.safe_load(path.read_text()) | {"bigquery": SECTION} | also
    path.write_text(yaml.safe_dump(found))
    return path


@pytest.fixture
def defs(contract_file: Callable[[Any], Path]) -> dg.Definitions:
    return load_definitions(with_section(contract_file(DATABASES)))


def test_a_published_table_has_an_asset_below_deduped(defs: dg.Definitions) -> None:
    found = node(defs, "bigquery/s/there/t")
    assert found.parent_keys == {dg.AssetKey(["deduped", "s", "there", "t"])}
    assert (found.kinds, found.group_name) == ({"bigquery"}, "s_there__bigquery")
    assert found.metadata["dagster/table_name"] == "local.s_there.t"
    assert found.partitions_def is None
    assert found.tags["mirrorlake/layer"] == "bigquery"
    keys = defs.resolve_asset_graph().get_all_asset_keys()
    assert dg.AssetKey(["bigquery", "s", "there", "v"]) not in keys


@pytest.mark.full
def test_a_location_loads_without_google(contract_file: Callable[[Any], Path]) -> None:
    script = "import sys, definitions; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["google.cloud.bigquery", "google.auth", "pyarrow", "mirrorlake.workspace"]
    path = with_section(contract_file(DATABASES))
    environment = {**os.environ, "MIRRORLAKE_CONFIG": str(path)}
    ended = subprocess.run(
        [sys.executable, "-c", script, *heavy],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "[]"


def test_what_is_billed_is_off_where_all_else_is_on(
    contract_file: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORLAKE_SENSORS", "on")
    path = with_section(contract_file(DATABASES))
    (path.parent / "permissions.yaml").write_text(PERMISSIONS)
    repository = load_definitions(path).get_repository_def()
    on = {one.name: one.default_status.value for one in repository.schedule_defs}
    assert (on["bigquery_checks"], on["permissions"], on["proofs"]) == (
        "STOPPED",
        "RUNNING",
        "RUNNING",
    )
    assert repository.get_sensor_def("unpublished").default_status.value == "RUNNING"


@pytest.fixture
def granted(
    contract_file: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Datasets, dg.Definitions]]:
    """A server of datasets, and a location whose permissions file declares one of them."""
    path = with_section(contract_file({"there": DATABASES["there"]}))
    (path.parent / "permissions.yaml").write_text(PERMISSIONS)
    with datasets_server() as there:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", there.url)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", there.url)
        yield there, load_definitions(path)


def verified(defs: dg.Definitions) -> dict[str, Any]:
    """A run of the check of permissions alone."""
    key = dg.AssetCheckKey(dg.AssetKey(["permissions"]), "as_declared")
    return run_steps._checks(defs, [key], None)


def test_permissions_that_drifted_are_a_failed_check(
    granted: tuple[Datasets, dg.Definitions],
) -> None:
    there, defs = granted
    views = {"dataset": {"projectId": PROJECT, "datasetId": "s_there__views_clean"}}
    authorised = {"dataset": {**views, "targetTypes": ["VIEWS"]}}
    there.put("s_there", [OWNER, authorised])
    there.put("s_there__views_clean", [OWNER])
    found = verified(defs)["checks"]["permissions:as_declared"]
    assert found["passed"], found
    there.put("s_there", [OWNER, authorised, {"role": "READER", "userByEmail": "eve@x.com"}])
    found = verified(defs)["checks"]["permissions:as_declared"]
    assert (found["passed"], found["severity"]) == (False, "ERROR")
    assert found["words"] == "Not as declared: s_there"
    assert "user:eve@x.com reader" in found["metadata"]["access"]


@pytest.mark.full
def test_access_that_is_not_shown_is_an_error_and_no_verdict(
    granted: tuple[Datasets, dg.Definitions],
) -> None:
    there, defs = granted
    there.put("s_there", [OWNER])
    there.hidden = True
    found = verified(defs)
    assert (found["success"], found["checks"]) == (False, {})
    assert "does not show who has access" in found["failed"]["permissions__checks"]


@dataclass(frozen=True)
class There:
    """A location whose tables go to BigQuery, and what Google would have."""

    location: Location
    cloud: GoogleCloud
    shim: Shim

    def run(self, *tables: str, **also: Any) -> dict[str, Any]:
        """A run over the chains of some tables."""
        step = {"tables": list(tables), "layers": CHAIN, "day": TODAY, **also}
        return self.location.run([step])[0]


@pytest.fixture(scope="module")
def there(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Iterator[There]:
    with server.admin() as admin, admin.cursor() as cursor:
        for name in ("there.t", "there.v", "nowhere.u"):
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name[:-2]}")
            cursor.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, a VARCHAR(20), at DATETIME(6) NOT "
                "NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at))"
            )
            cursor.execute(f"USE {name[:-2]}")
            cursor.execute(f"INSERT INTO {name} SELECT seq, 'a', '2026-01-02' FROM seq_1_to_50")
    with (
        google_cloud() as cloud,
        shim_before(cloud.bigquery) as shim,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in (cloud.environment() | {"BIGQUERY_EMULATOR_HOST": shim.url}).items():
            patch.setenv(name, value)
        for dataset in ("s_there", "s_there__views_clean"):
            cloud.client().create_dataset(dataset)
        location = location_for(DATABASES)
        with_section(location.path, bigquery={**SECTION, "wait": "30s"})
        yield There(location, cloud, shim)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_chain_publishes_and_a_failure_there_is_its_alone(there: There) -> None:
    found = there.run("t", "u")
    assert list(found["failed"]) == ["bigquery__s__nowhere__u"]
    assert "there is no dataset local.s_nowhere in BigQuery" in found["failed"].popitem()[1]
    assert {f"{layer}/s/nowhere/u" for layer in CHAIN[:3]} <= set(found["made"])
    [(partition, shown)] = found["made"]["bigquery/s/there/t"].items()
    assert (partition, shown["dagster/row_count"], shown["columns"]) == ("None", 50, True)
    assert (shown["this run"], shown["loaded"]) == ("loaded it", "all rows")
    assert shown["because"] == "it is the first load"
    assert shown["views"] == "clean: made"
    alone = there.run("t", layers=["bigquery"])
    again = alone["made"]["bigquery/s/there/t"]["None"]
    assert EQUALS not in alone["checks"]
    assert (again["this run"], again["jobs"]) == ("found it as the lake shows it", shown["jobs"])


@pytest.mark.full
@pytest.mark.timeout(600)
def test_jobs_that_still_run_are_not_green_and_are_reported_when_they_ended(there: There) -> None:
    there.run("t")
    there.shim.running = True
    found = there.run("t", sql=["INSERT INTO there.t (id) VALUES (100)"])
    assert found["success"]
    assert "bigquery/s/there/t" not in found["made"]
    [said] = found["observed"]["bigquery/s/there/t"]
    assert said["this run"].startswith("jobs still run")
    assert "dagster/row_count" not in said
    defs = load_definitions(there.location.path)
    with dg.DagsterInstance.ephemeral() as instance:
        due, heard = Ticks(defs, instance, "unpublished"), Ticks(defs, instance, "partitions")
        [request] = due.requests()
        assert KEY in (request.asset_selection or [])
        assert "jobs in BigQuery are not settled" in request.tags["mirrorlake/reason"]
        assert {key.name for key in request.asset_check_keys or []} == {"contract", "unique_key"}
        assert due.requests() == []
        earlier = heard.reported(KEY)
        there.shim.running = False
        there.location.command("bigquery", "publish", "t")
        [event] = heard.reported(KEY)
        assert event.metadata["dagster/row_count"].value == 51
        assert [one.metadata["dagster/row_count"].value for one in earlier] == [50]
        assert heard.reported(KEY) == []


@pytest.mark.full
@pytest.mark.timeout(900)
def test_rows_are_compared_where_it_is_asked_for(there: There) -> None:
    assert there.run("t")["failed"] == {}
    step = {"tables": [], "checks": [EQUALS]}
    [found] = there.location.run([step])
    check = found["checks"][EQUALS]
    assert (check["passed"], check["metadata"]["bytes billed"]) == (True, "unknown")
    assert AS_OF in check["metadata"]
    address = f"{PROJECT}.s_there.t"
    there.cloud.client().query_and_wait(f"DELETE FROM `{address}` WHERE id = 1")
    [found] = there.location.run([step])
    assert (found["checks"][EQUALS]["passed"], found["checks"][EQUALS]["severity"]) == (
        False,
        "ERROR",
    )
    there.cloud.client().delete_table(address)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_what_a_check_of_deduped_finds_is_not_published(there: There) -> None:
    """The last one: the row stays doubled."""
    there.run("t")
    before = Publications(Ledger(there.location.config.ledger.url)).of_table("s.there.t")
    found = there.run("t", plant={"duplicate": "t"})
    assert not found["checks"]["deduped/s/there/t:unique_key"]["passed"]
    assert "bigquery__s__there__t" in found["skipped"] or not found["success"]
    assert "bigquery/s/there/t" not in found["made"]
    assert Publications(Ledger(there.location.config.ledger.url)).of_table("s.there.t") == before
