"""What a move leaves for what comes after it: the next backup, a second try, another tool's tables.

Raw alone is loaded: no Spark is started.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from tests.integration.projects import RawProject
from tests.soak.runs import Runner

Sql = Callable[..., Any]


def move(project: RawProject, to: Path) -> None:
    project.ok("lake", "move", str(to), "--yes")
    project.set_warehouse(str(to))


@pytest.mark.parametrize("disk", ["the lake's", pytest.param("another", marks=pytest.mark.full)])
def test_the_backup_after_a_move_has_the_new_paths(
    raw_project: RawProject, disk: str, tmp_path: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files of the same names and sizes, too: one path is as long as the other."""
    if disk == "another":
        monkeypatch.setattr(FileStore, "is_on_disk_of", lambda *_: False)
    old, new = tmp_path / "lake1", tmp_path / "lake2"
    move(raw_project, old)
    raw_project.ok("backup", str(tmp_path / "backups"))
    move(raw_project, new)
    made = raw_project.ok("backup", str(tmp_path / "backups"))["where"]
    shutil.rmtree(old)
    shutil.rmtree(new)
    raw_project.lose()
    assert not raw_project.ok("restore", made)["moved"]
    assert len(raw_project.rows("t", "raw")) == 4
    sql("INSERT INTO t VALUES (5, 1)")
    assert raw_project.load() == 5


@pytest.mark.parametrize(
    "catalog", ["in the lake", pytest.param("elsewhere", marks=pytest.mark.full)]
)
def test_an_interrupted_move_says_with_which_setting_it_continues(
    raw_project: RawProject, runner: Runner, catalog: str, tmp_path: Path, sql: Sql
) -> None:
    project, old = raw_project, raw_project.lake
    if catalog == "elsewhere":
        project = raw_project.beside("other")
        old = project.lake
        project.set(lake={"warehouse": str(old), "catalog": {"uri": "sqlite:///catalog.db"}})
        assert project.load() == 4
    new, third = tmp_path / "new", tmp_path / "third"
    for step in ("move.begun", "move.ledger", "move.catalog"):
        project.killed_at(runner, step, "lake", "move", str(new), "--yes")
        moved = step != "move.begun"
        commands = (("gaps",), ("lake", "move", str(third), "--yes")) if moved else ()
        for command in commands:
            said = str(project.run(*command).exception)
            assert f"`mirrorlake lake move {new}` was interrupted" in said, command
            assert "Run that again, with lake.warehouse as it was" in said
        project.set_warehouse(str(new))
        said = str(project.run("lake", "move", str(new), "--yes").exception)
        assert f"the move to file://{new} was interrupted" in said
        assert "Set lake.warehouse back to where the lake was, run it again" in said
        said = str(project.run("lake", "move", str(third), "--yes").exception)
        assert ("was interrupted" if moved else "Put the setting back") in said
        assert not third.exists()
        project.set_warehouse(str(old))
    move(project, new)
    shutil.rmtree(old)
    assert len(project.rows("t", "raw")) == 4
    sql("INSERT INTO t VALUES (5, 1)")
    assert project.load() == 5


@pytest.mark.full
def test_tables_of_others_stay_where_they_are(raw_project: RawProject, tmp_path: Path) -> None:
    """Where a catalog names one that lies elsewhere as a lake's tables do, and the lake's folder
    was moved by hand."""
    theirs, new = f"file://{tmp_path}/theirs/others/t", tmp_path / "by hand"
    lake = Lake(load_config(raw_project.config).lake)
    lake.make_namespace("others")
    lake.catalog.create_table(("others", "t"), pa.schema([("id", pa.int64())]), theirs)
    raw_project.lake.rename(new)
    assert raw_project.ok("lake", "move", str(new), "--yes")["tables"] == 1
    raw_project.set_warehouse(str(new))
    assert raw_project.load() == 4
    lake = Lake(load_config(raw_project.config).lake)
    assert lake.catalog.load_table(("others", "t")).location() == theirs


@pytest.mark.full
def test_a_copy_that_names_the_lake_of_its_original_is_found_by_the_second_to_load(
    raw_project: RawProject, sql: Sql
) -> None:
    """On another machine, until then nothing tells the copied ledger from the original's. One of
    them keeps the lake."""
    copy = copied(raw_project)
    sql("INSERT INTO t VALUES (5, 1)")
    elsewhere(raw_project)
    assert copy.load() == 5
    elsewhere(raw_project)
    said = raw_project.fails_to_load()
    assert "which the ledger does not know" in said
    assert "such as a copy of this one) loads into this lake: give that a lake of its own" in said
    assert raw_project.run("ledger", "rebuild").exit_code == 0
    sql("INSERT INTO t VALUES (6, 1)")
    assert raw_project.load() == 6
    elsewhere(raw_project)
    assert "which the ledger does not know" in copy.fails_to_load()


@pytest.mark.full
def test_what_was_set_aside_stays_where_it_is(raw_project: RawProject, tmp_path: Path) -> None:
    """Neither a backup nor a move carries it."""
    (metadata,) = raw_project.lake.glob("*__raw/*/metadata")
    aside = metadata.parent / "removed" / "2026-01-01" / "data" / "a.parquet"
    kept = metadata.parent / "data" / "removed" / "a.parquet"
    for path in (aside, kept):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    made = Path(
        raw_project.ok("backup", str(tmp_path / "backups"))["where"].removeprefix("file://")
    )
    new = tmp_path / "new"
    move(raw_project, new)
    for place in (made, new):
        names = [p.relative_to(place).parts[-3:-1] for p in place.rglob("a.parquet")]
        assert names == [("data", "removed")]
    assert aside.exists()


def copied(project: RawProject) -> RawProject:
    """A copy of a project that names the original's lake."""
    project.set_warehouse(str(project.lake))
    copy = project.beside("copy")
    shutil.copy(project.folder / "ledger.db", copy.folder / "ledger.db")
    return copy


def last_ledger(project: RawProject) -> str:
    """The ledger by which the lake was written last, as it says."""
    return str(json.loads((project.lake / "mirrorlake-lake.json").read_bytes())["ledger"])


def elsewhere(project: RawProject) -> None:
    """The lake was written last by a ledger that is not on this machine."""
    path = project.lake / "mirrorlake-lake.json"
    said = json.loads(path.read_bytes())
    path.write_text(json.dumps(said | {"ledger": "/not/here/ledger.db"}))


def test_a_copied_ledger_is_refused_before_its_first_load(
    raw_project: RawProject, tmp_path: Path, sql: Sql
) -> None:
    """It says whose copy it is, and each of its steps works."""
    copy, original = copied(raw_project), raw_project.folder / "ledger.db"
    assert last_ledger(raw_project) == str(original)
    sql("INSERT INTO t VALUES (5, 1)")
    before = raw_project.files()
    said = copy.fails_to_load()
    assert f"is a copy of {original}, which is still there" in said
    for command in ("status", "gaps", "maintain"):
        result = copy.run(command)
        assert "is a copy of" in str(result.exception), result.output
    assert copy.run("doctor").exit_code == 3
    assert raw_project.files() == before
    assert raw_project.load() == 5, "the original goes on"
    new = str(tmp_path / "own lake")
    moved = copy.ok("lake", "move", new, "--yes")
    assert (moved["done"], moved["copied"]) == (True, True)
    copy.set_warehouse(new)
    assert "`mirrorlake ledger rebuild`" in copy.fails_to_load(), "the original had loaded since"
    copy.ok("ledger", "rebuild")
    sql("INSERT INTO t VALUES (6, 1)")
    assert (copy.load(), raw_project.load()) == (6, 6)
    ids = {
        json.loads((Path(place) / "mirrorlake-lake.json").read_bytes())["lake"]
        for place in (new, raw_project.lake)
    }
    assert len(ids) == 2
    assert last_ledger(raw_project) == str(original)


@pytest.mark.full
def test_a_ledger_that_takes_the_place_of_another_is_none_that_was_copied(
    raw_project: RawProject, tmp_path: Path
) -> None:
    """The old one is gone, or is the same file by another name; or it was restored."""
    copy = copied(raw_project)
    original = raw_project.folder / "ledger.db"
    original.rename(tmp_path / "kept.db")
    assert copy.load() == 4
    assert last_ledger(raw_project) == str(copy.folder / "ledger.db")
    original.symlink_to(copy.folder / "ledger.db")
    assert raw_project.load() == 4
    original.unlink()
    (tmp_path / "kept.db").rename(original)
    assert f"is a copy of {copy.folder / 'ledger.db'}" in raw_project.fails_to_load()
    (copy.folder / "ledger.db").write_bytes(b"no database")
    assert "is a copy of" not in raw_project.fails_to_load(), "the lake has loads of the other"
