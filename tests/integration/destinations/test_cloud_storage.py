"""A lake in a bucket: every layer, changes, a kill, maintenance and a lost ledger, by commands in
processes of their own, against an emulator of Cloud Storage."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.cloud import storage

from demo.oracle import compare_table
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.storage.durable import IMPLEMENTATION
from mirrorlake.errors import LakeError
from mirrorlake.operations.upkeep.orphans import OrphanTerms, remove_orphans
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.files.gcs_store import gcs_client
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.support.command import COMMAND
from tests.support.gcs_process import emulator_process
from tests.support.rest_catalog import CREDENTIAL, running_catalog

pytestmark = pytest.mark.full

BUCKET = "company-lake"
HOSTILE = "a/b #c%2F ü"
TABLES: dict[str, Any] = {
    "t": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "at",
        "verify": True,
        "clean": "table",
        "columns": {"mail": {"pii": "mask"}, "a": {"pii": "show"}},
    },
    HOSTILE: {"mode": "full", "key": ["id"]},
}
CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(10,2), mail VARCHAR(40),"
    " at DATETIME(6) NOT NULL DEFAULT UTC_TIMESTAMP(6), KEY (at))",
    f"CREATE TABLE `{HOSTILE}` (id INT PRIMARY KEY, b TEXT)",
    "INSERT INTO t (id, a, mail) VALUES (1, 1.10, 'ann@x'), (2, NULL, ''), (3, -3, NULL)",
    f"INSERT INTO `{HOSTILE}` VALUES (1, 'one'), (2, '')",
)
MORE = (
    "INSERT INTO t (id, a, mail) VALUES (4, 4, 'dan@x')",
    "UPDATE t SET a = a + 1, at = UTC_TIMESTAMP(6) WHERE id = 1",
    f"DELETE FROM `{HOSTILE}` WHERE id = 2",
)
OF_THE_LAKE = 6
EVEN_MORE = "INSERT INTO t (id, a, mail) VALUES (5, 5, 'eve@x')"


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with emulator_process(BUCKET) as endpoint:
        yield endpoint


@pytest.fixture
def bucket(host: str) -> storage.Bucket:
    """The bucket, by Google's own client."""
    return gcs_client(host).bucket(BUCKET)


@pytest.fixture
def contract_of(
    tmp_path: Path, server: EmbeddedServer, database: str, place: Place
) -> Callable[[dict[str, Any]], Path]:
    """A contract of both tables, with a catalog."""

    def write(catalog: dict[str, Any]) -> Path:
        return write_contract(
            tmp_path / "mirrorlake.yaml",
            server.port,
            {database: {"tables": TABLES}},
            lake={"warehouse": f"gs://{BUCKET}/{database} ü", "catalog": catalog},
        )

    return write


@pytest.fixture
def config_path(contract_of: Callable[[dict[str, Any]], Path], host: str) -> Path:
    return contract_of({"uri": "sqlite:///catalog.db", "properties": {"gcs.service.host": host}})


def run(config_path: Path, *words: str, failpoint: str = "", code: int = 0) -> str:
    """A command in a process of its own, that ends with a code; what it printed."""
    command = [*COMMAND, *words, "--config", str(config_path)]
    environment = {**os.environ, "MIRRORLAKE_FAILPOINT": failpoint}
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def assert_exact(config_path: Path, server: EmbeddedServer, database: str) -> None:
    """Deduped is MySQL's rows in every table, and raw has each load once."""
    workspace = Workspace.open(load_config(config_path))
    for contract in workspace.config.tables:
        deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
        with server.admin() as admin:
            verdict = compare_table(admin, database, contract.table, contract.key, deduped)
        assert verdict.equal, verdict.describe()
        loads = {load.load_id for load in workspace.ledger.successful_loads(contract.name, 0)}
        for name in {x.raw_table for x in workspace.ledger.successful_loads(contract.name, 0)}:
            raw = workspace.lake.load(Identifier(contract.namespaces.raw, name))
            assert raw is not None
            rows = raw.scan().to_arrow()
            assert set(rows["_mirror_load"].to_pylist()) <= loads
            assert rows.group_by(["id", "_mirror_load"]).aggregate([]).num_rows == rows.num_rows
        assert not workspace.ledger.unsettled_loads(contract.name)


def test_a_lake_in_a_bucket(
    config_path: Path,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    bucket: storage.Bucket,
) -> None:
    sql(*CREATE)
    run(config_path, "sync")
    assert_exact(config_path, server, database)
    sql(*MORE)
    run(config_path, "sync")
    assert_exact(config_path, server, database)

    sql(EVEN_MORE)
    run(config_path, "sync", f"s.{database}.t", failpoint="commit.after", code=-signal.SIGKILL)
    run(config_path, "sync")
    assert_exact(config_path, server, database)
    assert "equal" in run(config_path, "check", f"s.{database}.t", "--full")

    orphans, others = plant_files(config_path, bucket)
    run(config_path, "maintain", "--grace", "0")
    left = {blob.name for blob in bucket.list_blobs()}
    assert not orphans & left
    assert others <= left
    assert_exact(config_path, server, database)
    assert not list(config_path.parent.rglob("*.parquet"))

    remove_a_data_file(config_path, bucket)
    assert "is not there" in run(config_path, "check", f"s.{database}.t", code=OF_THE_LAKE)
    run(config_path, "refold", f"s.{database}.t")
    (config_path.parent / "ledger.db").unlink()
    run(config_path, "ledger", "rebuild")
    run(config_path, "sync")
    assert_exact(config_path, server, database)


def test_a_rest_catalog_over_a_bucket(
    tmp_path: Path,
    contract_of: Callable[[dict[str, Any]], Path],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    host: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CATALOG_CREDENTIAL", CREDENTIAL)
    of_server = {"gcs.service.host": host, "py-io-impl": IMPLEMENTATION}
    with running_catalog(tmp_path, f"gs://{BUCKET}/unused", **of_server) as catalog:
        properties = {
            "credential": "${env:CATALOG_CREDENTIAL}",
            "oauth2-server-uri": f"{catalog.uri}/v1/oauth/tokens",
            "gcs.service.host": host,
        }
        config_path = contract_of({"uri": catalog.uri, "properties": properties})
        sql(*CREATE)
        run(config_path, "sync")
        sql(*MORE)
        run(config_path, "sync")
        assert_exact(config_path, server, database)
    assert not list(config_path.parent.rglob("*.parquet"))


def test_orphans_of_a_bucket_are_found_by_their_names_as_they_are_written(
    config_path: Path, bucket: storage.Bucket
) -> None:
    lake = Lake(load_config(config_path).lake)
    identifier = Identifier("space", HOSTILE)
    lake.make_namespace(identifier.namespace)
    place = lake.location(identifier)
    table = lake.catalog.create_table(identifier.path, pa.schema([("a", pa.int64())]), place)
    for number in (1, 2):
        table.append(pa.table({"a": [number]}))
    folder = place.removeprefix(f"gs://{BUCKET}/")
    bucket.blob(f"{folder}/data/left.parquet").upload_from_string(b"left")
    bucket.blob(f"{folder}-other/data/left.parquet").upload_from_string(b"left")
    now = datetime.now(UTC)
    assert remove_orphans(lake, table, OrphanTerms(now - timedelta(hours=1))) == []
    assert remove_orphans(lake, table, OrphanTerms(now + timedelta(hours=1))) == [4]
    assert bucket.blob(f"{folder}-other/data/left.parquet").exists()
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [1, 2]

    paths = table.inspect.data_files()["file_path"].to_pylist()
    bucket.blob(paths[0].removeprefix(f"gs://{BUCKET}/")).delete()
    bucket.blob(f"{folder}/data/left.parquet").upload_from_string(b"left")
    with pytest.raises(LakeError, match="1 of its files are not where it says"):
        remove_orphans(lake, table, OrphanTerms(now + timedelta(hours=1)))
    assert bucket.blob(f"{folder}/data/left.parquet").exists()


def test_without_the_bucket_nothing_is_begun(config_path: Path) -> None:
    text = config_path.read_text(encoding="utf-8")
    config_path.write_text(text.replace(BUCKET, "another-lake"), encoding="utf-8")
    said = run(config_path, "sync", code=OF_THE_LAKE)
    assert "the bucket gs://another-lake is not there" in said
    assert "gcloud storage buckets create gs://another-lake" in said
    assert not (config_path.parent / "catalog.db").exists()
    with closing(sqlite3.connect(config_path.parent / "ledger.db")) as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM loads").fetchone() == (0,)


def layer(config_path: Path, name: str) -> LakeTable:
    workspace = Workspace.open(load_config(config_path))
    [contract] = [one for one in workspace.config.tables if one.table == "t"]
    space, table = getattr(contract.namespaces, name), "t"
    if name == "raw":
        table = workspace.ledger.successful_loads(contract.name, 0)[0].raw_table
    found = workspace.lake.load(Identifier(space, table))
    assert found is not None
    return found


def plant_files(config_path: Path, bucket: storage.Bucket) -> tuple[set[str], set[str]]:
    """Objects that no snapshot names, in tables' folders, and some in folders whose names only
    begin alike."""
    orphans: set[str] = set()
    others: set[str] = set()
    for name in ("raw", "deduped", "clean"):
        place = layer(config_path, name).location().removeprefix(f"gs://{BUCKET}/")
        orphans |= {f"{place}/data/_mirror_day=2026-01-01/x.parquet", f"{place}/metadata/x.avro"}
        others |= {f"{place}-other/data/x.parquet", f"{place}/else/x.parquet"}
    for one in orphans | others:
        bucket.blob(one).upload_from_string(b"planted")
    return orphans, others


def remove_a_data_file(config_path: Path, bucket: storage.Bucket) -> None:
    paths = layer(config_path, "deduped").inspect.data_files()["file_path"].to_pylist()
    bucket.blob(paths[0].removeprefix(f"gs://{BUCKET}/")).delete()
