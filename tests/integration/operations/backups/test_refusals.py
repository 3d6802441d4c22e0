"""What a backup, a restore and a move refuse, by one clear error and with nothing changed; and what
they leave when they are killed at each step. Raw alone is loaded: no Spark is started.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo.embedded import EmbeddedServer
from mirrorlake.config import load_config
from mirrorlake.errors import MirrorlakeError
from mirrorlake.failpoints import OF_BACKUPS
from mirrorlake.ledger import Ledger
from mirrorlake.operations.sync import load_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.projects import Project

Sql = Callable[..., Any]


class RawProject(Project):
    """A project whose table is loaded and never folded."""

    def load(self) -> int:
        config = load_config(self.config)
        with Workspace.open(config) as workspace:
            return load_table(workspace, config.tables[0]).rows

    def refused(self, *arguments: str) -> str:
        """The error of a command, which changes no file of this project's."""
        before = self.files()
        result = self.run(*arguments)
        assert isinstance(result.exception, MirrorlakeError), result.output
        assert self.files() == before
        return str(result.exception)

    def killed_at(self, step: str, *arguments: str) -> None:
        """Run a command in a process that dies at a step."""
        command = "from mirrorlake.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", command, *arguments, "--config", str(self.config)],
            env={**os.environ, "MIRRORLAKE_FAILPOINT": step},
            capture_output=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()


@pytest.fixture
def project(
    server: EmbeddedServer, place: Place, database: str, sql: Sql, tmp_path: Path
) -> RawProject:
    """Two loads of a table, in a project of the test's own."""
    assert place
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)")
    folder = tmp_path / "original"
    folder.mkdir()
    tables = {"t": {"mode": "full"}}
    write_contract(folder / "mirrorlake.yaml", server.port, {database: {"tables": tables}})
    made = RawProject(folder, server, database)
    assert made.load() == 3
    sql("INSERT INTO t VALUES (4, 1)")
    assert made.load() == 4
    return made


@pytest.fixture
def backup(project: RawProject, tmp_path: Path) -> Path:
    return Path(project.ok("backup", str(tmp_path / "backups"))["where"].removeprefix("file://"))


def raw_rows(project: Project) -> int:
    return len(project.rows("t", "raw"))


def test_a_second_backup_takes_room_for_what_is_new(
    project: RawProject, backup: Path, sql: Sql
) -> None:
    sql("INSERT INTO t VALUES (5, 1)")
    project.load()
    second = project.ok("backup", str(backup.parent))
    first = {p.relative_to(backup): p.stat().st_ino for p in backup.rglob("*") if p.is_file()}
    there = Path(second["where"].removeprefix("file://"))
    again = {p.relative_to(there): p.stat().st_ino for p in there.rglob("*") if p.is_file()}
    assert there != backup
    same = [name for name, inode in first.items() if again.get(name) == inode]
    assert len(same) >= len([n for n in first if n.suffix == ".parquet"]) + 2


def test_what_is_not_empty_or_not_whole_is_refused(
    project: RawProject, backup: Path, tmp_path: Path
) -> None:
    assert "is not empty" in project.refused("restore", str(backup))
    with Ledger(f"sqlite:///{project.folder}/ledger.db").lease("s.x", "run"):
        assert "is being written by run" in project.refused("restore", str(backup))
        assert "is being written by run" in project.refused("lake", "move", str(tmp_path / "n"))
    copy = RawProject(project.beside("copy").folder, project.server, project.database)
    copy.lake.mkdir()
    (copy.lake / "x").write_bytes(b"")
    assert "place" in (said := copy.refused("restore", str(backup)))
    assert "is not empty" in said
    (copy.lake / "x").unlink()
    copy.lake.rmdir()
    for name in ("ledger.db", f"lake/{next((backup / 'lake').rglob('*.parquet')).name}"):
        path = next(backup.rglob(name.rpartition("/")[2]))
        content = path.read_bytes()
        path.unlink()  # it may be a link to the original's
        assert "is damaged" in copy.refused("restore", str(backup))
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        assert "is not what it was" in copy.refused("restore", str(backup))
        path.write_bytes(content)
    (backup / "manifest.json").rename(backup / "m")
    assert "is no complete backup" in copy.refused("restore", str(backup))
    (backup / "m").rename(backup / "manifest.json")
    copy.config.write_text(copy.config.read_text("utf-8").replace(project.database, "other"))
    assert "of another project" in copy.refused("restore", str(backup))
    assert "needs a place of its own" in project.refused("backup", str(project.lake / "b"))
    assert "needs a place of its own" in project.refused("lake", "move", str(project.lake / "b"))


def test_a_restore_is_killed_at_each_step_and_continued(
    project: RawProject, backup: Path, sql: Sql
) -> None:
    copy = RawProject(project.beside("copy").folder, project.server, project.database)
    for step in (name for name in OF_BACKUPS if name.startswith("restore.")):
        copy.killed_at(step, "restore", str(backup))
        said = str(copy.run("sync").exception)
        assert "is not whole: `mirrorlake restore" in said, f"{step}: {said}"
        assert "is not whole" in str(copy.run("status").exception)
    assert copy.ok("restore", str(backup))["moved"]
    assert raw_rows(copy) == 4
    sql("INSERT INTO t VALUES (5, 1)")
    assert copy.load() == 5
    assert project.load() == 5


def test_a_backup_that_is_killed_is_none(project: RawProject, tmp_path: Path) -> None:
    project.killed_at("backup.copied", "backup", str(tmp_path / "backups"))
    (left,) = (tmp_path / "backups").iterdir()
    project.lose()
    assert "is no complete backup" in project.refused("restore", str(left))


def test_a_move_is_killed_at_each_step_and_continued(
    project: RawProject, tmp_path: Path, sql: Sql
) -> None:
    new = tmp_path / "new"
    before = {p: p.read_bytes() for p in project.lake.rglob("*") if p.is_file()}
    for step in (name for name in OF_BACKUPS if name.startswith("move.")):
        project.killed_at(step, "lake", "move", str(new), "--yes")
        assert {p: p.read_bytes() for p in project.lake.rglob("*") if p.is_file()} == before
        if step in ("move.ledger", "move.catalog"):
            assert "is of the lake in" in str(project.run("gaps").exception)
        else:
            assert project.run("gaps").exit_code == 0
        project.set(lake={"warehouse": str(new)})
        assert "is not whole: `mirrorlake lake move" in str(project.run("gaps").exception)
        project.set(lake={"warehouse": "lake"})
    assert project.ok("lake", "move", str(new), "--yes")["done"]
    said = str(project.run("lake", "move", str(new)).exception)
    assert "is in" in said
    assert "Set lake.warehouse" in said
    shutil.rmtree(project.lake)
    project.set(lake={"warehouse": str(new)})
    assert raw_rows(project) == 4
    sql("INSERT INTO t VALUES (5, 1)")
    assert project.load() == 5


@pytest.mark.parametrize("changed_first", [True, False])
def test_a_folder_that_was_moved_by_hand(
    project: RawProject, changed_first: bool, tmp_path: Path
) -> None:
    """The refusal names a step that works, whether lake.warehouse was changed before it or not."""
    new = tmp_path / "by hand"
    known = Ledger(f"sqlite:///{project.folder}/ledger.db").lake()
    project.lake.rename(new)
    if changed_first:
        project.set(lake={"warehouse": str(new)})
    with pytest.raises(MirrorlakeError, match="mirrorlake lake move"):
        project.load()
    project.killed_at("move.rewritten", "lake", "move", str(new), "--yes")
    assert not project.ok("lake", "move", str(new))["copied"]
    project.killed_at("move.ledger", "lake", "move", str(new), "--yes")
    assert project.ok("lake", "move", str(new), "--yes")["done"]
    project.set(lake={"warehouse": str(new)})
    assert raw_rows(project) == 4
    assert project.load() == 4
    now = Ledger(f"sqlite:///{project.folder}/ledger.db").lake()
    assert known
    assert now
    assert now[0] == known[0]


def test_a_copied_project_becomes_one_of_its_own(project: RawProject, tmp_path: Path) -> None:
    copy = RawProject(tmp_path / "copy", project.server, project.database)
    shutil.copytree(project.folder, copy.folder)
    before = project.files()
    with pytest.raises(MirrorlakeError, match="mirrorlake lake move") as refused:
        copy.load()
    step = re.findall(r"`mirrorlake (lake move [^`]*)`", str(refused.value))[0]
    assert copy.ok(*step.split(" ", 2), "--yes")["done"]
    assert raw_rows(copy) == 4
    assert copy.load() == 4
    assert project.files() == before
    ids = {
        json.loads((p.lake / "mirrorlake-lake.json").read_bytes())["lake"] for p in (copy, project)
    }
    assert len(ids) == 2
    assert project.load() == 4
