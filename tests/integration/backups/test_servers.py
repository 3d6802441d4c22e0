"""Backups of ledgers and catalogs on Postgres, and of lakes in buckets: from each to each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.files.gcs_store import gcs_client
from tests.integration.backups.databases import on_postgres
from tests.integration.conftest import Place
from tests.integration.projects import RawProject
from tests.support.gcs_process import emulator_process
from tests.support.postgres import PASSWORD, Postgres, running_postgres

Sql = Callable[..., Any]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.mark.full
def test_from_sqlite_to_postgres_and_back(
    raw_project: RawProject,
    postgres: Postgres,
    database: str,
    sql: Sql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PG_PASSWORD", PASSWORD)
    first = raw_project.ok("backup", str(tmp_path / "one"))
    there = raw_project.beside("there")
    on_postgres(there, postgres, database)
    named = there.config.read_text("utf-8")
    there.config.write_text(named.replace(f"catalog_{database}", "catalog_of_nobody"))
    assert "catalog_of_nobody" in there.refused("restore", first["where"])
    there.config.write_text(named)
    assert there.run("doctor", "--json").stdout  # leaves tables without rows
    there.ok("restore", first["where"])
    assert "is restored already" in there.refused("restore", first["where"])
    sql("INSERT INTO t VALUES (5, 1)")
    assert there.load() == 5  # its numbers go on after the restored ones
    # Somebody else's table in the same catalog stays where it is, and out of the backup.
    lake = Lake(load_config(there.config).lake)
    lake.make_namespace("others")
    elsewhere = f"file://{tmp_path}/others/t"
    lake.catalog.create_table(("others", "t"), pa.schema([("id", pa.int64())]), elsewhere)
    monkeypatch.setenv("PATH", "")  # no tool of Postgres' own
    second = there.ok("backup", str(tmp_path / "two"))
    assert second["others"] == 1
    new = tmp_path / "moved"
    assert there.ok("lake", "move", str(new), "--yes")["tables"] == 1
    there.set_warehouse(str(new))
    assert there.load() == 5
    assert lake.catalog.load_table(("others", "t")).location() == elsewhere
    back = raw_project.beside("back")
    back.ok("restore", second["where"])
    assert len(back.rows("t", "raw")) == 5
    sql("INSERT INTO t VALUES (6, 1)")
    assert back.load() == 6
    seqs = [load.seq for load in Ledger(load_config(back.config).ledger.url).loads("s.x")]
    assert seqs == []


def test_from_a_bucket_to_a_bucket_and_to_a_folder(
    server: EmbeddedServer, place: Place, database: str, sql: Sql, raw_project: RawProject
) -> None:
    assert place
    with emulator_process("company-lake") as host:
        client = gcs_client(host)
        catalog = {"uri": "sqlite:///catalog.db", "properties": {"gcs.service.host": host}}
        cloud = raw_project.beside("cloud")
        cloud.set(lake={"warehouse": "gs://company-lake/a lake", "catalog": catalog})
        assert cloud.load() == 4
        made = cloud.ok("backup", "gs://company-lake/backups")
        assert made["where"].startswith("gs://company-lake/backups/")
        other = raw_project.beside("other")
        other.set(lake={"warehouse": "gs://company-lake/other", "catalog": catalog})
        assert other.ok("restore", made["where"])["moved"]
        here = raw_project.beside("here")
        here.set(lake={"warehouse": "lake", "catalog": catalog})
        # A backup in a folder, of a lake in a bucket.
        kept = cloud.ok("backup", str(here.folder / "kept"))
        assert here.ok("restore", kept["where"])["moved"]
        sql("INSERT INTO t VALUES (5, 1)")
        for blob in list(client.list_blobs("company-lake", prefix="a lake/")):
            blob.delete()
        assert other.load() == 5
        assert here.load() == 5
        assert other.ok("lake", "move", "gs://company-lake/third", "--yes")["copied"]
        other.set(lake={"warehouse": "gs://company-lake/third", "catalog": catalog})
        assert other.load() == 5


@pytest.mark.full
def test_two_copies_of_a_project_over_one_bucket(
    place: Place, sql: Sql, raw_project: RawProject
) -> None:
    """As on two machines: neither can see the other one's ledger. Whichever loads second is refused
    before it reads, writes or removes anything."""
    assert place
    with emulator_process("company-lake") as host:
        client = gcs_client(host)
        shared = raw_project.folder.parent / "shared.db"
        catalog = {"uri": f"sqlite:///{shared}", "properties": {"gcs.service.host": host}}
        original = raw_project.beside("first machine")
        original.set(lake={"warehouse": "gs://company-lake/lake", "catalog": catalog})
        assert original.load() == 4
        copy = original.beside("second machine")
        shutil.copy(original.folder / "ledger.db", copy.folder / "ledger.db")
        sql("INSERT INTO t VALUES (5, 1)")
        assert copy.load() == 5
        before = {blob.name: blob.generation for blob in client.list_blobs("company-lake")}
        for command in (("sync",), ("status",), ("gaps",), ("maintain",), ("plan", "sync")):
            result = original.run(*command)
            said = f"{result.exception} {result.output}"
            assert "which the ledger does not know" in said, (command, said)
            assert "such as a copy of this one" in said, (command, said)
            assert result.exit_code != 0, command
        after = {blob.name: blob.generation for blob in client.list_blobs("company-lake")}
        assert after == before
        # The copy is stopped, and the original goes on.
        original.ok("ledger", "rebuild")
        assert original.load() == 5
        assert len(original.rows("t", "raw")) == 5
