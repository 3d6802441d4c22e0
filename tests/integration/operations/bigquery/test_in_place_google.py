"""What Google's documentation leaves open of tables that BigQuery reads in the lake: it is asked of
Google Cloud alone, and nowhere else. Until somebody ran this, none of it is promised.

Beside what all live tests need: `gcloud`, the BigLake API, and roles/biglake.admin on the project.
``MIRRORLAKE_LIVE_GCP_READER`` names a service account that may run jobs and nothing else, and that
the account of the run may act as: without it, whether authorised views hold is not asked.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google.auth
import pytest
from google.auth import impersonated_credentials
from google.cloud import bigquery

from demo.embedded import EmbeddedServer
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from tests.integration.contract_files import write_contract
from tests.integration.operations.bigquery.every_type import COLUMNS, ROWS
from tests.support.bigquery.live import LiveCloud
from tests.support.command import COMMAND

pytestmark = pytest.mark.live
URI = "https://biglake.googleapis.com/iceberg/v1/restcatalog"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TABLE = """CREATE TABLE t (id INT PRIMARY KEY, mail VARCHAR(40),
    at DATETIME(6) NOT NULL DEFAULT UTC_TIMESTAMP(6), KEY (at))"""
FIRST = "INSERT INTO t (id, mail) SELECT seq, CONCAT('ann', seq, '@x.example') FROM seq_1_to_500"
MORE = (
    "UPDATE t SET mail = 'changed@x.example', at = UTC_TIMESTAMP(6) WHERE id IN (3, 77)",
    "INSERT INTO t (id, mail) VALUES (501, NULL)",
)


@dataclass(frozen=True)
class GooglesLake:
    """A catalog over the run's bucket, and how contracts name it."""

    cloud: LiveCloud

    @property
    def section(self) -> dict[str, Any]:
        google = {"uri": URI, "auth": "google", "project": self.cloud.project}
        return {"warehouse": f"gs://{self.cloud.bucket}", "catalog": google}

    def gcloud(self, *words: str) -> None:
        command = ["gcloud", "biglake", "iceberg", "catalogs", *words]
        subprocess.run([*command, f"--project={self.cloud.project}", "--quiet"], check=True)


@pytest.fixture(scope="module")
def googles_lake(running_cloud: LiveCloud) -> Iterator[GooglesLake]:
    """The catalog has the bucket's name; it goes before the bucket does."""
    found = GooglesLake(running_cloud)
    what = ("--catalog-type=gcs-bucket", "--credential-mode=end-user")
    where = running_cloud.location
    primary = (f"--primary-location={where}",) if where in ("EU", "US") else ()
    found.gcloud("create", running_cloud.bucket, *what, *primary)
    yield found
    found.gcloud("delete", running_cloud.bucket)


@pytest.fixture
def run(
    googles_lake: GooglesLake,
    cloud: LiveCloud,
    dataset: str,
    database: str,
    server: EmbeddedServer,
    place: Any,
    tmp_path: Path,
) -> Iterator[Callable[..., str]]:
    """Commands over a contract of one table: ``run(terms, "sync")``."""
    path = tmp_path / "mirrorlake.yaml"

    def command(terms: dict[str, Any], *words: str) -> str:
        table = {"mode": "incremental", "key": ["id"], "cursor": "at", "clean": "table"}
        said = {**table, "bigquery": {"load": "none"}, **terms}
        write_contract(
            path,
            server.port,
            {database: {"tables": {"t": {k: v for k, v in said.items() if v is not None}}}},
            lake=googles_lake.section,
            bigquery=cloud.section(),
            defaults={"verify": False, "publish": ["lake", "bigquery"]},
        )
        ran = subprocess.run(
            [*COMMAND, *words, "--config", str(path)], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    yield command
    catalog = Lake(load_config(path).lake).catalog
    for namespace in catalog.list_namespaces():
        for name in catalog.list_tables(namespace):
            catalog.drop_table(name)
        with suppress(Exception):
            catalog.drop_namespace(namespace)


def delete_files(tmp_path: Path, dataset: str) -> int:
    table = Lake(load_config(tmp_path / "mirrorlake.yaml").lake).load(Identifier(dataset, "t"))
    assert table is not None
    return sum(content != 0 for content in table.inspect.files()["content"].to_pylist())


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_positional_deletes_are_applied(
    run: Callable[..., str], sql: Callable[..., Any], tmp_path: Path, dataset: str, mode: str
) -> None:
    """By the digest of every row; of copy-on-write there are none to apply."""
    terms = {"write_mode": mode}
    sql(TABLE, FIRST)
    run(terms, "sync")
    sql(*MORE)
    run(terms, "sync")
    assert (delete_files(tmp_path, dataset) > 0) is (mode == "merge-on-read")
    [found] = json.loads(run(terms, "bigquery", "check", "--json"))
    assert (found["verdict"], found["rows"]) == ("equal", 501), found


def test_every_type_is_read_exactly(run: Callable[..., str], sql: Callable[..., Any]) -> None:
    sql(f"CREATE TABLE t ({COLUMNS})", *(f"INSERT INTO t VALUES {row}" for row in ROWS))
    terms = {"mode": "full", "cursor": None}
    run(terms, "sync")
    [found] = json.loads(run(terms, "bigquery", "check", "--json"))
    assert found["verdict"] == "equal", found


def test_a_view_over_a_name_of_four_parts(
    run: Callable[..., str], sql: Callable[..., Any], cloud: LiveCloud, dataset: str
) -> None:
    """Google's page on troubleshooting once said that there can be none."""
    sql(TABLE, FIRST)
    out = run({"columns": {"mail": {"pii": "mask"}}}, "sync", "--json")
    [found] = json.loads(out)["bigquery"]
    assert (found["state"], found["views"]) == ("in place", {"clean": "made"})
    view = f"`{cloud.project}.{dataset}__views_clean.t`"
    rows = [*cloud.client().query_and_wait(f"SELECT mail, COUNT(*) AS n FROM {view} GROUP BY 1")]
    assert [(row["mail"], row["n"]) for row in rows] == [("********le", 500)]


@pytest.mark.skipif(
    "MIRRORLAKE_LIVE_GCP_READER" not in os.environ, reason="MIRRORLAKE_LIVE_GCP_READER is not set"
)
def test_a_reader_of_the_view_needs_no_right_on_the_table(
    run: Callable[..., str], sql: Callable[..., Any], cloud: LiveCloud, dataset: str
) -> None:
    """Authorised views: the table is in no dataset of BigQuery that could let them in."""
    sql(TABLE, FIRST)
    run({"columns": {"mail": {"pii": "mask"}}}, "sync")
    reader = os.environ["MIRRORLAKE_LIVE_GCP_READER"]
    views, client = f"{cloud.project}.{dataset}__views_clean", cloud.client()
    there = client.get_dataset(views)
    entry = bigquery.AccessEntry("READER", "userByEmail", reader)
    there.access_entries = [*there.access_entries, entry]
    client.update_dataset(there, ["access_entries"])
    ours, _ = google.auth.default(scopes=[SCOPE])
    theirs = impersonated_credentials.Credentials(ours, reader, [SCOPE])
    as_reader = bigquery.Client(cloud.project, credentials=theirs, location=cloud.location)
    [row] = as_reader.query_and_wait(f"SELECT COUNT(*) AS n FROM `{views}.t`")
    assert row["n"] == 500
    four_part = f"{cloud.project}.{cloud.bucket}.{dataset}.t"
    with pytest.raises(Exception, match=r"(?i)denied|permission"):
        as_reader.query_and_wait(f"SELECT COUNT(*) AS n FROM `{four_part}`")
