"""Backups of a lake whose catalog a REST server keeps: restored into an empty server, beside the
original, to and from SQLite; moved; and what is refused by name."""

from __future__ import annotations

import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.backups import make
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.views import read_view
from tests.integration.backups.conftest import KEYS
from tests.integration.projects import Project, RawProject
from tests.support.rest_catalog import CREDENTIAL, RestCatalogServer, running_catalog

Sql = Callable[..., Any]
NewServer = Callable[[], RestCatalogServer]


@pytest.fixture
def new_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewServer]:
    """Makes a server that knows no table."""
    monkeypatch.setenv("CATALOG_CREDENTIAL", CREDENTIAL)
    with ExitStack() as running:

        def make_one() -> RestCatalogServer:
            folder = tmp_path / f"server{len(list(tmp_path.glob('server*')))}"
            folder.mkdir()
            return running.enter_context(running_catalog(folder, f"file://{folder}/unused"))

        yield make_one


def on_rest(project: Project, server: RestCatalogServer, warehouse: str = "lake") -> None:
    """Let a project have its catalog in a REST server."""
    properties = {
        "credential": "${env:CATALOG_CREDENTIAL}",
        "oauth2-server-uri": f"{server.uri}/v1/oauth/tokens",
    }
    catalog = {"uri": server.uri, "properties": properties}
    project.set(lake={"warehouse": warehouse, "catalog": catalog})


@pytest.fixture
def served(raw_project: RawProject, new_server: NewServer, sql: Sql) -> RawProject:
    """A project with two loads in a lake of a REST server's."""
    project = raw_project.beside("served")
    on_rest(project, new_server())
    assert project.load() == 4
    sql("INSERT INTO t VALUES (5, 1)")
    assert project.load() == 5
    return project


@pytest.mark.full
def test_lost_with_its_server_and_put_back(
    served: RawProject, new_server: NewServer, tmp_path: Path, sql: Sql
) -> None:
    made = served.ok("backup", str(tmp_path / "backups"))
    assert made["one_moment"]
    shutil.rmtree(served.lake)
    assert "lake's folder" in (said := served.fails_to_load())
    assert "`mirrorlake restore`" in said
    assert not served.lake.exists()
    served.lose()
    assert "is not empty: it has 1 of the backup's tables" in served.refused(
        "restore", made["where"]
    )
    shutil.rmtree(served.lake, ignore_errors=True)
    on_rest(served, new_server())
    assert not served.ok("restore", made["where"])["moved"]
    assert len(served.rows("t", "raw")) == 5
    sql("INSERT INTO t VALUES (6, 1)")
    assert served.load() == 6


@pytest.mark.full
def test_a_lost_ledger_is_told_from_a_new_project(served: RawProject, sql: Sql) -> None:
    """By the names that the server lists: no database names the tables here."""
    rows = served.rows("t", "raw")
    for path in served.folder.glob("ledger.db*"):
        path.unlink()
    for _ in range(2):
        assert "knows nothing of the lake" in served.fails_to_load()
        assert "knows nothing of the lake" in str(served.run("status").exception)
    sql("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (7)")
    other = served.beside("other")
    other.set_warehouse(str(served.lake))
    other.set(sources=with_tables(other, {"u": {"mode": "full"}}))
    assert other.run("status").exit_code == 0
    assert other.load() == 1
    served.ok("ledger", "rebuild")
    assert served.rows("t", "raw") == rows
    assert served.load() == 5


def with_tables(project: RawProject, tables: dict[str, Any]) -> Any:
    """The sources of a project's contract file, with other tables."""
    sources = yaml.safe_load(project.config.read_text(encoding="utf-8"))["sources"]
    sources["s"]["databases"][project.database]["tables"] = tables
    return sources


@pytest.mark.full
def test_beside_the_original_and_on_sqlite_and_back(
    served: RawProject, new_server: NewServer, tmp_path: Path, sql: Sql
) -> None:
    made = served.ok("backup", str(tmp_path / "backups"))
    before = served.files()
    beside = served.beside("beside")
    on_rest(beside, new_server())
    assert beside.ok("restore", made["where"])["moved"]
    on_sqlite = served.beside("sqlite")
    on_sqlite.set(lake={"warehouse": "lake"})
    on_sqlite.ok("restore", made["where"])
    again = on_sqlite.ok("backup", str(tmp_path / "of sqlite"))
    back = served.beside("back")
    on_rest(back, new_server())
    back.ok("restore", again["where"])
    sql("INSERT INTO t VALUES (6, 1)")
    for project in (beside, on_sqlite, back):
        assert project.load() == 6
    assert served.files() == before
    assert served.load() == 6


def test_moved(served: RawProject, tmp_path: Path, sql: Sql) -> None:
    new = tmp_path / "new"
    assert served.ok("lake", "move", str(new), "--yes")["done"]
    shutil.rmtree(served.lake)
    served.set_warehouse(str(new))
    assert len(served.rows("t", "raw")) == 5
    sql("INSERT INTO t VALUES (6, 1)")
    assert served.load() == 6


@pytest.mark.full
def test_a_folder_that_was_moved_by_hand_is_put_back_first(
    served: RawProject, tmp_path: Path
) -> None:
    by_hand, new = tmp_path / "by hand", tmp_path / "new"
    served.lake.rename(by_hand)
    said = served.refused("lake", "move", str(by_hand))
    assert "reads a table's metadata where it was" in said
    assert f"Put the folder back to file://{served.lake}" in said
    by_hand.rename(served.lake)
    assert served.ok("lake", "move", str(new), "--yes")["done"]
    served.set_warehouse(str(new))
    assert served.load() == 5


def test_a_login_that_is_lent_for_tables_alone_is_refused(served: RawProject) -> None:
    text = served.config.read_text("utf-8")
    uri = re.findall(r"uri: (http\S+)", text)[0]
    served.set(lake={"warehouse": "gs://nobodys-bucket/lake", "catalog": {"uri": uri}})
    commands = (("backup", "b"), ("restore", "b"), ("lake", "move", "b"))
    for command in commands:
        said = served.refused(*command)
        assert "needs a login to gs://nobodys-bucket/lake of its own" in said
        assert "docs/backup.md" in said


@pytest.mark.full
def test_the_order_of_copies_by_hand(served: RawProject, tmp_path: Path, sql: Sql) -> None:
    """Ledger, catalog, files, each by the tool of its kind, while a load is made between them; put
    back in the same places."""
    kept = tmp_path / "kept"
    kept.mkdir()
    database = tmp_path / "server0" / "rest.db"

    def copy(name: str, source: Path) -> None:
        with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(kept / name)) as to:
            here.backup(to)

    copy("ledger.db", served.folder / "ledger.db")
    sql("INSERT INTO t VALUES (6, 1)")
    assert served.load() == 6
    copy("rest.db", database)
    shutil.copytree(served.lake, kept / "lake")
    sql("INSERT INTO t VALUES (7, 1)")
    assert served.load() == 7
    served.lose()
    shutil.copy(kept / "ledger.db", served.folder / "ledger.db")
    shutil.copy(kept / "rest.db", database)
    shutil.copytree(kept / "lake", served.lake)
    assert "ledger rebuild" in served.fails_to_load()
    served.ok("ledger", "rebuild")
    assert served.load() == 7
    ids = served.table("t", "raw").scan().to_arrow()["id"].to_pylist()
    assert sorted(ids) == list(range(1, 8))


@pytest.mark.full
def test_a_lake_that_is_never_at_rest_is_refused(
    served: RawProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table by table no moment of a server can be had that is not one of rest."""
    monkeypatch.setattr(make, "_LOOKS", 2)
    monkeypatch.setattr(make, "_PAUSE", 0.0)
    copied = make.copy_ledger

    def busy(*given: Any) -> None:
        copied(*given)
        served.load()

    monkeypatch.setattr(make, "copy_ledger", busy)
    result = served.run("backup", str(tmp_path / "backups"))
    assert "was never at rest" in str(result.exception)
    assert not list(tmp_path.glob("backups/*/manifest.json"))
    monkeypatch.setattr(make, "copy_ledger", copied)
    assert served.ok("backup", str(tmp_path / "backups"))["one_moment"]


@pytest.mark.full
def test_syncs_go_on_while_it_is_backed_up(
    project: Project, new_server: NewServer, change: Callable[[], None], tmp_path: Path
) -> None:
    """Folds, views and all; restored beside it, synced and exact by the oracle."""
    on_rest(project, new_server())
    project.sync()
    stop = threading.Event()

    def writes() -> None:
        while not stop.wait(0.2):
            change()

    writer = threading.Thread(target=writes, daemon=True)
    writer.start()
    try:
        for number in range(3):
            project.sync()
            made = project.ok("backup", str(tmp_path / "backups"))
            copy = project.beside(f"copy{number}")
            on_rest(copy, new_server())
            copy.ok("restore", made["where"])
    finally:
        stop.set()
        writer.join(60)
    for number in range(3):
        copy = type(project)(
            tmp_path / f"copy{number}", project.server, project.database, project.sessions
        )
        copy.sync()
        copy.assert_exact(KEYS)
        config = load_config(copy.config)
        space = config.table("w").namespaces.clean
        assert read_view(Lake(config.lake), Identifier(space, "w")) is not None
