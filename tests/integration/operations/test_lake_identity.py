"""The lake is the one that the ledger knows: lost catalogs, changed warehouses, copied folders and
second projects are refused by name before anything is made, and no file goes on a catalog's word.

Raw alone is loaded, into a lake of each test's own: no Spark is started.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from pyiceberg.catalog.sql import SqlCatalog

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LakeError, LedgerError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract

Sql = Callable[..., Any]


@dataclass
class Project:
    """A project folder: its contract file, its ledger and its lake."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "mirrorlake.yaml"

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def load(self, table: str = "") -> int:
        """Load a table (by default the first), complete; the rows that were read."""
        config = load_config(self.config)
        with Workspace.open(config) as workspace:
            contract = config.table(table) if table else config.tables[0]
            return load_table(workspace, contract).rows

    def raw_rows(self) -> int:
        config = load_config(self.config)
        with Workspace.open(config) as workspace:
            contract = config.tables[0]
            versions = workspace.ledger.schema_versions(contract.name)
            raw = Identifier(contract.namespaces.raw, versions[-1].raw_table)
            table = workspace.lake.load(raw)
            return table.scan().to_arrow().num_rows if table is not None else 0

    def recover(self) -> int:
        config = load_config(self.config)
        with Workspace.open(config) as workspace:
            return recover_table(workspace, config.tables[0], timedelta(0)).orphans

    def set(self, **sections: Any) -> None:
        text = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        self.config.write_text(yaml.safe_dump({**text, **sections}), encoding="utf-8")

    def files(self) -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, "--config", str(self.config)])


@pytest.fixture
def project(server: MariaDB, place: Place, database: str, sql: Sql, tmp_path: Path) -> Project:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)",
    )
    folder = tmp_path / "original"
    folder.mkdir()
    tables = {"t": {"mode": "full"}}
    write_contract(folder / "mirrorlake.yaml", server.port, {database: {"tables": tables}})
    made = Project(folder)
    assert made.load() == 3
    sql("INSERT INTO t VALUES (4, 1)")
    assert made.load() == 4
    return made


def add_table(project: Project, name: str, contract: dict[str, Any]) -> None:
    text = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    (section,) = text["sources"]["s"]["databases"].values()
    section["tables"][name] = contract
    project.config.write_text(yaml.safe_dump(text), encoding="utf-8")


def lose_catalog(project: Project) -> None:
    for path in project.lake.glob("catalog.db*"):
        path.unlink()


def test_a_lost_catalog_is_refused_before_one_is_made_and_the_tables_are_found(
    project: Project,
) -> None:
    rows = project.raw_rows()
    lose_catalog(project)
    before = project.files()
    for refused in (project.load, project.recover):
        with pytest.raises(LakeError, match=r"has none of the 1 tables.*mirrorlake lake find"):
            refused()
    for command in ("status", "gaps"):
        result = project.run(command)
        assert isinstance(result.exception, LakeError), result.output
    doctor = project.run("doctor", "--json")
    assert doctor.exit_code == 3
    pieces = {one["name"]: one["state"] for one in json.loads(doctor.stdout)}
    assert (pieces["lake"], pieces["lake and ledger"]) == ("broken", "broken")
    assert project.files() == before
    found = json.loads(project.run("lake", "find", "--json").stdout)
    assert [one["what"] for one in found] == ["registered"]
    assert project.raw_rows() == rows
    assert json.loads(project.run("lake", "find", "--json").stdout) == []
    assert project.load() == 4
    assert project.recover() == 0


@pytest.mark.full
def test_raw_that_was_renamed_is_renamed_back_not_registered_twice(
    project: Project, sql: Sql
) -> None:
    """Two names over the same files would remove each other's."""
    lake, config = Lake(load_config(project.config).lake), load_config(project.config)
    ((space, name),) = lake.catalog.list_tables(config.tables[0].namespaces.raw)
    # A catalog that has none of our tables was lost.
    sql("CREATE TABLE u (id INT PRIMARY KEY)")
    add_table(project, "u", {"mode": "full"})
    assert project.load("u") == 0
    lake.catalog.rename_table((space, name), (space, "theirs"))
    said = rf"it is there as {space}\.theirs.*Rename that table back to {space}\.{name}"
    for _ in range(2):
        with pytest.raises(LakeError, match=said):
            project.load()
        result = project.run("lake", "find", "--json")
        assert result.exit_code == 6
        [found] = json.loads(result.stdout)
        assert (found["table"], found["what"]) == (f"{space}.{name}", "left")
        assert f"the catalog has it as {space}.theirs: rename that back" in found["why"]
    assert (space, name) not in lake.catalog.list_tables(space)
    lake.catalog.rename_table((space, "theirs"), (space, name))
    assert json.loads(project.run("lake", "find", "--json").stdout) == []
    assert project.load() == 4


@pytest.mark.full
def test_an_empty_catalog_is_refused_as_a_lost_one_is(project: Project) -> None:
    with closing(sqlite3.connect(project.lake / "catalog.db")) as catalog:
        catalog.execute("DELETE FROM iceberg_tables")
        catalog.commit()
    with pytest.raises(LakeError, match="has none of the 1 tables"):
        project.load()


@pytest.mark.full
def test_the_catalog_and_the_ledger_are_lost_together(project: Project) -> None:
    """Refused, not begun again; then `lake find` and `ledger rebuild`: by the newest metadata of
    each folder."""
    rows = project.raw_rows()
    lose_catalog(project)
    for path in project.folder.glob("ledger.db*"):
        path.unlink()
    before = {str(path) for path in project.lake.rglob("*")}
    for refused in (project.load, project.recover):
        with pytest.raises(LakeError, match=r"both were lost.*`mirrorlake lake find`.*rebuild`"):
            refused()
    for command in ("status", "gaps"):
        assert isinstance(project.run(command).exception, LakeError)
    assert project.run("doctor").exit_code == 3
    assert {str(path) for path in project.lake.rglob("*")} == before
    # An empty catalog says no more than none.
    Lake(load_config(project.config).lake)
    with pytest.raises(LakeError, match="both were lost"):
        project.load()
    assert project.run("lake", "find").exit_code == 0
    assert project.run("ledger", "rebuild").exit_code == 0
    assert project.raw_rows() == rows
    assert project.load() == 4


def lose_ledger(project: Project) -> None:
    for path in project.folder.glob("ledger.db*"):
        path.unlink()


def test_a_lost_ledger_is_refused_by_whatever_comes_first(project: Project) -> None:
    """`test_kinds` has every command, and tables of every kind."""
    before = {str(path): path.read_bytes() for path in project.lake.rglob("*.*")}
    for act in (project.load, project.recover, project.raw_rows):
        lose_ledger(project)
        for _ in range(2):
            with pytest.raises(LedgerError, match=r"knows nothing of the lake .*t_v_.*rebuild`"):
                act()
    for command in ("status", "gaps", "status"):
        result = project.run(command)
        assert isinstance(result.exception, LedgerError), result.output
        assert "knows nothing of the lake" in str(result.exception)
        assert "mirrorlake ledger rebuild" in str(result.exception)
    assert {str(path): path.read_bytes() for path in project.lake.rglob("*.*")} == before
    lose_ledger(project)
    before = project.files()
    assert project.run("doctor").exit_code == 3
    (project.lake / "mirrorlake-lake.json").rename(project.folder / "identity")
    assert project.run("doctor", "--json").stdout
    (project.folder / "identity").rename(project.lake / "mirrorlake-lake.json")
    assert project.files() == before
    assert project.run("ledger", "rebuild").exit_code == 0
    assert project.run("status").exit_code == 0
    assert project.load() == 4


@pytest.mark.full
def test_a_ledger_that_is_lost_while_a_workspace_is_open(project: Project) -> None:
    config = load_config(project.config)
    with Workspace.open(config) as workspace:
        load_table(workspace, config.tables[0])
        lose_ledger(project)
        with pytest.raises(LedgerError, match="is not there any more"):
            load_table(workspace, config.tables[0])
        assert not (project.folder / "ledger.db").exists()
        Ledger(config.ledger.url)  # as another process makes it
        with pytest.raises(LedgerError, match="knows nothing of the lake"):
            load_table(workspace, config.tables[0])


def test_a_new_project_in_a_lake_that_others_fill(project: Project, sql: Sql) -> None:
    """Its ledger knows nothing either, and none of its own tables is there."""
    sql("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (7), (8)")
    other = Project(project.folder.parent / "other")
    other.folder.mkdir()
    text = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    (section,) = text["sources"]["s"]["databases"].values()
    section["tables"] = {"u": {"mode": "full"}}
    text["lake"] = {"warehouse": str(project.lake)}
    other.config.write_text(yaml.safe_dump(text), encoding="utf-8")
    assert other.run("status").exit_code == 0
    assert other.load() == 2
    assert project.load() == 4
    lose_ledger(other)
    with pytest.raises(LedgerError, match=r"knows nothing of the lake .*u_v_"):
        other.load()
    assert project.load() == 4
    assert other.run("ledger", "rebuild").exit_code == 0
    assert other.load() == 2


def test_an_older_ledger_is_refused_by_whatever_comes_first(project: Project, sql: Sql) -> None:
    """As the second one of two copies of a project is, on two machines or in a bucket: before it
    reads, writes or removes anything."""
    kept = (project.folder / "ledger.db").read_bytes()
    sql("INSERT INTO t VALUES (5, 1)")
    assert project.load() == 5
    lose_ledger(project)
    (project.folder / "ledger.db").write_bytes(kept)
    before = {str(path): path.read_bytes() for path in project.lake.rglob("*.*")}
    for act in (project.load, project.recover):
        with pytest.raises(LedgerError, match=r"holds load .* which the ledger does not know"):
            act()
    aside = str(project.folder / "backups")
    for command in (("status",), ("gaps",), ("maintain",), ("refold", "t"), ("backup", aside)):
        result = project.run(*command)
        assert result.exit_code != 0, command
        said = f"{result.exception} {result.output}"
        assert "which the ledger does not know" in said, (command, said)
    assert {str(path): path.read_bytes() for path in project.lake.rglob("*.*")} == before
    assert project.run("ledger", "rebuild").exit_code == 0
    assert project.load() == 5


def test_doctor_names_a_file_that_the_catalog_names_and_that_is_gone(project: Project) -> None:
    """The ledger knows no other one, and MySQL is quiet: nothing else opens it."""

    def said() -> tuple[str, str]:
        pieces = {one["name"]: one for one in json.loads(project.run("doctor", "--json").stdout)}
        return pieces["lake and ledger"]["state"], pieces["lake and ledger"]["detail"]

    assert said()[0] == "ok"
    (raw,) = project.lake.glob("*__raw")
    shutil.rmtree(raw)
    state, words = said()
    assert state == "broken"
    assert "is not there" in words
    assert raw.name in words


@pytest.mark.parametrize("known", [pytest.param(True, marks=pytest.mark.full), False])
def test_an_older_ledger_gives_out_no_number_that_the_lake_has(
    project: Project, sql: Sql, known: bool
) -> None:
    """Else what is loaded with it, before anybody sees that it is one, has the number of a load of
    another table, and no rebuild can write both down."""
    sql("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (7), (8)")
    text = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    (section,) = text["sources"]["s"]["databases"].values()
    section["tables"]["u"] = {"mode": "full"}
    project.config.write_text(yaml.safe_dump(text), encoding="utf-8")
    if known:
        assert project.load("u") == 2
    kept = (project.folder / "ledger.db").read_bytes()
    sql("INSERT INTO u VALUES (9)")
    assert project.load("u") == 3
    lose_ledger(project)
    (project.folder / "ledger.db").write_bytes(kept)
    sql("INSERT INTO t VALUES (5, 1)")
    assert project.load("t") == 5
    with pytest.raises(LedgerError, match=r"holds load .* which the ledger does not know"):
        project.load("u")
    result = project.run("ledger", "rebuild")
    assert result.exit_code == 0, result.exception
    sql("INSERT INTO u VALUES (10)")
    assert (project.load("t"), project.load("u")) == (5, 4)


def test_nothing_of_a_lost_catalog_is_removed_as_an_orphan(project: Project) -> None:
    """Whatever the ledger knows: a new catalog with a new table in the same folder, which an older
    release made, or which does not say that it is a lake's."""
    lose_catalog(project)
    for path in project.folder.glob("ledger.db*"):
        path.unlink()
    (project.lake / "mirrorlake-lake.json").unlink()
    assert project.load() == 4  # nobody knows that there was more
    before = {path for path in project.lake.rglob("*") if path.is_file()}
    with pytest.raises(LakeError, match="is of another table, which the catalog does not know"):
        project.recover()
    assert before <= {path for path in project.lake.rglob("*") if path.is_file()}


@pytest.mark.full
def test_an_old_catalog_removes_nothing_either(project: Project, sql: Sql) -> None:
    """Of a ledger that is as old, too."""
    kept = {p: p.read_bytes() for p in (project.lake / "catalog.db", project.folder / "ledger.db")}
    for number in (5, 6):
        sql(f"INSERT INTO t VALUES ({number}, 1)")
        project.load()
    before = {path for path in project.lake.rglob("*") if path.is_file()}
    for path, content in kept.items():
        path.write_bytes(content)
    with pytest.raises(LakeError, match="is newer than what the catalog names"):
        project.recover()
    assert before == {path for path in project.lake.rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", ["registered", "made"])
def test_what_another_catalogs_table_has_in_the_folder_stops_the_removal(
    project: Project, sql: Sql, how: str
) -> None:
    """Its metadata is there, whoever else knows of it; our catalog knows nothing."""
    config = load_config(project.config)
    lake = Lake(config.lake)
    (name,) = lake.catalog.list_tables(config.tables[0].namespaces.raw)
    ours = lake.catalog.load_table(name)
    theirs = SqlCatalog("theirs", uri=f"sqlite:///{project.folder}/theirs.db")
    theirs.create_namespace("x")
    if how == "registered":
        table = theirs.register_table(("x", "t"), ours.metadata_location)
    else:
        table = theirs.create_table(("x", "t"), ours.schema(), ours.location())
    table.append(ours.scan().to_arrow())
    files = {task.file.file_path for task in table.refresh().scan().plan_files()}
    words = "is newer than" if how == "registered" else "is of another table"
    with pytest.raises(LakeError, match=f"nothing was removed from its folder: .* {words}"):
        project.recover()
    planned = json.loads(project.run("maintain", "--grace", "0", "--dry-run", "--json").stdout)
    assert [(one["planned"], words in one["error"]) for one in planned["tables"]] == [([], True)]
    assert all(Path(file.removeprefix("file://")).is_file() for file in files)
    # As the refusal says: with its metadata moved away they are orphans.
    for path in (project.lake / name[0] / name[1] / "metadata").glob("*.metadata.json"):
        if json.loads(path.read_text())["last-updated-ms"] >= table.metadata.last_updated_ms:
            path.rename(project.folder / path.name)
    assert project.recover() > 0
    assert project.load() == 4


def test_another_warehouse_is_refused(project: Project) -> None:
    before = project.files()
    project.set(lake={"warehouse": "elsewhere"})
    with pytest.raises(LakeError, match=r"is of the lake in file://.*lake.*put it back"):
        project.load()
    assert not (project.folder / "elsewhere").exists()
    project.set(lake={"warehouse": "lake"})
    assert {k: v for k, v in project.files().items() if not k.endswith(".yaml")} == {
        k: v for k, v in before.items() if not k.endswith(".yaml")
    }
    # However its path is spelled, it is the same one.
    (project.folder / "link").symlink_to(project.lake)
    project.set(lake={"warehouse": "link"})
    assert project.load() == 4


def test_a_copied_project_leaves_the_original_alone(project: Project) -> None:
    copy = Project(project.folder.parent / "copy")
    shutil.copytree(project.folder, copy.folder)
    before = project.files()
    for refused in (copy.load, copy.recover):
        with pytest.raises(LakeError, match=r"A copied project, or a second one, needs a ledger"):
            refused()
    # With a ledger of its own, its catalog still names the original's files.
    copy.set(ledger={"url": "sqlite:///own.db"})
    with pytest.raises(LakeError, match=r"names tables in .*original/lake"):
        copy.load()
    assert project.files() == before
    assert project.load() == 4


def test_a_second_project_on_one_ledger_is_refused(project: Project) -> None:
    other = Project(project.folder.parent / "other")
    other.folder.mkdir()
    shutil.copy(project.config, other.config)
    other.set(ledger={"url": f"sqlite:///{project.folder / 'ledger.db'}"})
    with pytest.raises(LakeError, match="is of the lake in"):
        other.load()
    assert not other.lake.exists()
    assert project.load() == 4


def test_a_second_catalog_over_one_folder_is_refused(project: Project) -> None:
    other = Project(project.folder.parent / "other")
    other.folder.mkdir()
    shutil.copy(project.config, other.config)
    other.set(lake={"warehouse": str(project.lake), "catalog": {"uri": "sqlite:///own.db"}})
    with pytest.raises(LakeError, match=r"was made with the catalog sqlite:.*which has no table"):
        other.load()
    assert project.load() == 4


def test_a_lake_of_an_older_release_is_taken_as_it_is(project: Project, sql: Sql) -> None:
    """One whose ledger knows no lake and no heads."""
    (project.lake / "mirrorlake-lake.json").unlink()
    with closing(sqlite3.connect(project.folder / "ledger.db")) as ledger:
        ledger.execute("DELETE FROM lakes")
        ledger.execute("DELETE FROM lake_heads")
        ledger.commit()
    sql("INSERT INTO t VALUES (5, 1)")
    assert project.load() == 5
    assert (project.lake / "mirrorlake-lake.json").is_file()
    with closing(sqlite3.connect(project.folder / "ledger.db")) as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM lake_heads").fetchone() == (1,)


def in_catalog(project: Project, statement: str, *values: str) -> list[Any]:
    with closing(sqlite3.connect(project.lake / "catalog.db")) as catalog:
        found = catalog.execute(statement, values).fetchall()
        catalog.commit()
        return found


SAID = (
    "SELECT DISTINCT property_value FROM iceberg_namespace_properties"
    " WHERE property_key = 'mirrorlake.lake'"
)


def test_the_catalog_says_which_lake_it_is_of(project: Project) -> None:
    said = json.loads((project.lake / "mirrorlake-lake.json").read_bytes())["lake"]
    assert in_catalog(project, SAID) == [(said,)]
    # One that an older release made says so after the next sync.
    in_catalog(project, "UPDATE iceberg_namespace_properties SET property_key = 'exists'")
    assert in_catalog(project, SAID) == []
    assert project.run("status").exit_code == 0
    assert in_catalog(project, SAID) == [], "who only looks writes nothing"
    assert project.load() == 4
    assert in_catalog(project, SAID) == [(said,)]
    # It names our tables as we left them: it is ours, whatever a namespace says.
    in_catalog(
        project,
        "UPDATE iceberg_namespace_properties SET property_value = 'theirs'"
        " WHERE property_key = 'mirrorlake.lake'",
    )
    assert project.load() == 4
    assert (said,) in in_catalog(project, SAID)


def test_another_lakes_catalog_is_refused(project: Project) -> None:
    """With tables of the same names: none of them is taken for one that stands in ours' place."""
    other = Project(project.folder.parent / "other")
    other.folder.mkdir()
    shutil.copy(project.config, other.config)
    assert other.load() == 4
    ours = project.lake / "catalog.db"
    ours.rename(project.folder / "kept.db")
    shutil.copy(other.lake / "catalog.db", ours)
    theirs = json.loads((other.lake / "mirrorlake-lake.json").read_bytes())["lake"]
    before = project.files()
    with pytest.raises(LakeError, match=rf"is that of another lake: it says {theirs}"):
        project.load()
    for command in ("status", "gaps", "recover"):
        assert "is that of another lake" in str(project.run(command).exception), command
    doctor = json.loads(project.run("doctor", "--json").stdout)
    assert "is that of another lake" in str([one["detail"] for one in doctor])
    assert project.files() == before
    # Its own is lost: with an empty one, which the tables are found for.
    lose_catalog(project)
    found = json.loads(project.run("lake", "find", "--json").stdout)
    assert [one["what"] for one in found] == ["registered"]
    assert project.load() == 4
    for path in project.lake.glob("catalog.db*"):
        path.unlink()
    (project.folder / "kept.db").replace(ours)
    assert project.load() == 4, "its own, found again: it is set forward"


@pytest.mark.full
def test_other_namespaces_are_another_beginning(project: Project) -> None:
    """What was loaded stays where it is, and nothing of it is missed in the new place."""
    text = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    (section,) = text["sources"]["s"]["databases"].values()
    section["namespaces"] = {"raw": "second__raw", "deduped": "second", "clean": "second__clean"}
    project.config.write_text(yaml.safe_dump(text), encoding="utf-8")
    assert project.load() == 4
    assert project.raw_rows() == 4
    del section["namespaces"]
    project.config.write_text(yaml.safe_dump(text), encoding="utf-8")
    assert project.load() == 4


def test_loads_that_raw_lost_are_not_forgotten_where_they_cannot_be_read_again(
    project: Project,
) -> None:
    """Refused once, it is refused again: not taken as it is."""
    text = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    (section,) = text["sources"]["s"]["databases"].values()
    windows = {"mode": "append", "key": ["id"], "cursor": "id", "deletes": "flag"}
    section["tables"]["t"] = windows
    project.config.write_text(yaml.safe_dump(text), encoding="utf-8")
    old, *newer = sorted(project.lake.glob("*__raw/*/metadata/*.metadata.json"))[1:]
    with closing(sqlite3.connect(project.lake / "catalog.db")) as catalog:
        catalog.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{old}",))
        catalog.commit()
    assert newer
    kept = {path: path.read_bytes() for path in newer}
    for path in newer:
        path.unlink()
    lost = r"raw lost 1 load .*deletes: flag.*folder \(file:.*from a backup.*`mirrorlake lake find`"
    for _ in range(2):
        with pytest.raises(LakeError, match=lost):
            project.load()
    # What it was is not known any more, and is said of its days.
    gaps = project.run("gaps", "--json")
    assert isinstance(gaps.exception, LakeError)
    days = json.loads(gaps.stdout)
    assert {one["state"] for one in days} == {"unknown"}
    assert "is older than Mirrorlake's last commit" in days[0]["reason"]
    (state,) = json.loads(project.run("status", "--json").stdout)
    assert state["state"] == "moved"
    # There is nothing to find, and that is said with what is missing and what comes next.
    find = project.run("lake", "find")
    assert "1 older" in find.output
    assert "Next: `mirrorlake sync`" in find.output
    # The backup comes: the step that was named works.
    for path, content in kept.items():
        path.write_bytes(content)
    (found,) = json.loads(project.run("lake", "find", "--json").stdout)
    assert found["what"] == "set forward"
    project.load()
    with closing(sqlite3.connect(project.folder / "ledger.db")) as ledger:
        states = ledger.execute("SELECT state, COUNT(*) FROM loads GROUP BY state").fetchall()
    assert dict(states) == {"success": 3}
