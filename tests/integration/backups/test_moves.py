"""What a move leaves for what comes after it: the next backup, a second try, another tool's tables.

Raw alone is loaded: no Spark is started.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.file_store import FileStore
from mirrorlake.destinations.iceberg.lake import Lake
from tests.integration.projects import RawProject
from tests.soak.runs import Runner

Sql = Callable[..., Any]


def move(project: RawProject, to: Path) -> None:
    project.ok("lake", "move", str(to), "--yes")
    project.set_warehouse(str(to))


@pytest.mark.parametrize("disk", ["the lake's", "another"])
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


@pytest.mark.parametrize("catalog", ["in the lake", "elsewhere"])
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


def test_a_copy_that_names_the_lake_of_its_original_is_found_by_the_second_to_load(
    raw_project: RawProject, sql: Sql
) -> None:
    """Until then nothing tells the copied ledger from the original's. One of them keeps the lake."""
    raw_project.set_warehouse(str(raw_project.lake))
    copy = raw_project.beside("copy")
    shutil.copy(raw_project.folder / "ledger.db", copy.folder / "ledger.db")
    sql("INSERT INTO t VALUES (5, 1)")
    assert copy.load() == 5
    said = raw_project.fails_to_load()
    assert "which the ledger does not know" in said
    assert "such as a copy of this one) loads into this lake: give that a lake of its own" in said
    assert raw_project.run("ledger", "rebuild").exit_code == 0
    sql("INSERT INTO t VALUES (6, 1)")
    assert raw_project.load() == 6
    assert "which the ledger does not know" in copy.fails_to_load()
