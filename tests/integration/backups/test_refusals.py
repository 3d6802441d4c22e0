"""What a backup, a restore and a move refuse, by one clear error and with nothing changed; and what
they leave when they are killed at each step. Raw alone is loaded: no Spark is started.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LakeError, LedgerError, MirrorlakeError
from mirrorlake.failpoints import OF_BACKUPS
from mirrorlake.ledger import Ledger
from tests.integration.projects import Project, RawProject
from tests.soak.runs import Runner

Sql = Callable[..., Any]


@pytest.fixture
def backup(raw_project: RawProject, tmp_path: Path) -> Path:
    return Path(
        raw_project.ok("backup", str(tmp_path / "backups"))["where"].removeprefix("file://")
    )


def raw_rows(project: Project) -> int:
    return len(project.rows("t", "raw"))


@pytest.mark.full
def test_a_second_backup_takes_room_for_what_is_new(
    raw_project: RawProject, backup: Path, sql: Sql
) -> None:
    sql("INSERT INTO t VALUES (5, 1)")
    raw_project.load()
    second = raw_project.ok("backup", str(backup.parent))
    first = {p.relative_to(backup): p.stat().st_ino for p in backup.rglob("*") if p.is_file()}
    there = Path(second["where"].removeprefix("file://"))
    again = {p.relative_to(there): p.stat().st_ino for p in there.rglob("*") if p.is_file()}
    assert there != backup
    same = [name for name, inode in first.items() if again.get(name) == inode]
    assert len(same) >= len([n for n in first if n.suffix == ".parquet"]) + 2


def test_what_is_said(raw_project: RawProject, tmp_path: Path) -> None:
    said = raw_project.run("backup", str(tmp_path / "backups"))
    assert re.search(r"^Backed up to file://.*/backups/\d{8}T\d{6}Z$", said.stdout, re.MULTILINE)
    assert re.search(
        r"^1 lake tables and views, \d+ files, .* MB, \d+ of them", said.stdout, re.MULTILINE
    )
    where = re.findall(r"Backed up to (.*)", said.stdout)[0]
    copy = raw_project.beside("copy")
    said = copy.run("restore", where)
    assert "Restored the lake of 20" in said.stdout
    assert "`mirrorlake sync` brings what MySQL changed since; `mirrorlake check`" in said.stdout
    said = copy.run("lake", "move", str(tmp_path / "n"))
    assert (
        f"Nothing was moved: `mirrorlake lake move {tmp_path / 'n'} --yes` does it." in said.stdout
    )
    said = copy.run("lake", "move", str(tmp_path / "n"), "--yes")
    assert f"Now set lake.warehouse to {tmp_path}/n, then `mirrorlake sync`." in said.stdout
    linked = re.findall(r"of which (\d+) are linked, not copied", said.stdout)
    assert int(linked[0]) > 0
    assert "The old place is as it was" in said.stdout
    lake = Lake(load_config(raw_project.config).lake)
    [raw] = [
        name for space in lake.catalog.list_namespaces() for name in lake.catalog.list_tables(space)
    ]
    lake.catalog.load_table(raw).delete("id = 1")
    said = raw_project.run("backup", str(tmp_path / "backups"))
    assert re.search(r"not as the ledger knows it: table s\..*: .*raw", said.stderr), said.stderr


def test_what_is_not_empty_or_not_whole_is_refused(
    raw_project: RawProject, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is not empty" in raw_project.refused("restore", str(backup))
    with Ledger(f"sqlite:///{raw_project.folder}/ledger.db").lease("s.x", "run"):
        assert "is being written by run" in raw_project.refused("restore", str(backup))
        assert "is being written by run" in raw_project.refused("lake", "move", str(tmp_path / "n"))
    copy = raw_project.beside("copy")
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
    said = json.loads((backup / "manifest.json").read_bytes())
    (backup / "manifest.json").rename(backup / "m")
    (backup / "manifest.json").write_text(json.dumps(said | {"ledger_version": 9_999}))
    assert "newer than this one" in copy.refused("restore", str(backup))
    (backup / "m").rename(backup / "manifest.json")
    named = copy.config.read_text("utf-8")
    copy.config.write_text(named.replace(raw_project.database, "other"))
    assert "of another project" in copy.refused("restore", str(backup))
    copy.config.write_text(named)
    shutil.copy(raw_project.folder / "ledger.db", copy.folder / "ledger.db")
    assert "ledger.db is not empty: its table" in copy.refused("restore", str(backup))
    (copy.folder / "ledger.db").unlink()
    catalog = {"uri": f"sqlite:///{raw_project.lake}/catalog.db"}
    copy.set(lake={"warehouse": "lake", "catalog": catalog})
    assert "is not empty: it has 1 of the backup's tables" in copy.refused("restore", str(backup))
    assert "needs a place of its own" in raw_project.refused("backup", str(raw_project.lake / "b"))
    monkeypatch.chdir(raw_project.lake.parent)
    assert "needs a place of its own" in raw_project.refused("backup", f"{raw_project.lake.name}/b")
    assert "needs a place of its own" in raw_project.refused(
        "lake", "move", str(raw_project.lake / "b")
    )


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("journal", marks=pytest.mark.full),
        "wal",
        pytest.param("shm", marks=pytest.mark.full),
    ],
)
def test_what_a_lost_database_left_is_not_applied_to_the_restored_one(
    raw_project: RawProject, backup: Path, end: str
) -> None:
    copy = raw_project.beside("copy")
    copy.set(lake={"warehouse": "lake", "catalog": {"uri": "sqlite:///own.db"}})
    for name in ("ledger.db", "own.db"):
        left = copy.folder / f"{name}-{end}"
        left.write_bytes(b"pages of a database that is gone")
        said = copy.refused("restore", str(backup))
        assert f"{left.name} of an older one was left" in said
        assert "Move it away with its" in said
        left.unlink()
    # What an interrupted restore itself was writing is made again.
    (copy.folder / f"ledger.db.restored-{end}").write_bytes(b"pages")
    copy.ok("restore", str(backup))
    assert not list(copy.folder.glob("*.restored*"))
    assert copy.load() == 4


@pytest.mark.full
def test_the_doctor_makes_nothing_that_a_restore_would_refuse(
    raw_project: RawProject, backup: Path
) -> None:
    copy = raw_project.beside("copy")
    copy.set(lake={"warehouse": "lake", "catalog": {"uri": "sqlite:///own.db"}})
    raw_project.lose()
    for project in (raw_project, copy):
        before = project.files()
        assert '"not made yet' in project.run("doctor", "--json").stdout
        assert project.files() == before
        assert not project.lake.exists()
        project.ok("restore", str(backup))
        assert project.load() == 4


@pytest.mark.full
def test_a_restore_over_a_finished_one_says_so(
    raw_project: RawProject, backup: Path, sql: Sql
) -> None:
    """In its own place and beside it, also after a sync; the parent folder names its backups."""
    copy = raw_project.beside("copy")
    raw_project.lose()
    for project in (copy, raw_project):
        said = project.refused("restore", str(backup.parent))
        assert f"is no backup itself; it has 1 backup: {backup.name}" in said
        step = re.findall(r"`mirrorlake (restore \S+)`", said)[0]
        project.ok(*step.split())
        assert "is restored already" in project.refused("restore", str(backup))
        assert project.load() == 4
        assert "is restored already" in project.refused("restore", str(backup))
    new = copy.folder / "new place"
    copy.ok("lake", "move", str(new), "--yes")
    copy.set_warehouse(str(new))
    assert "is restored already" in copy.refused("restore", str(backup))
    second = copy.ok("backup", str(backup.parent))["where"]
    assert "is of another lake than the backup's" in raw_project.refused("restore", second)
    assert "is not empty" in copy.refused("restore", second)


def test_what_was_open_sees_the_restored_lake(
    raw_project: RawProject, backup: Path, sql: Sql
) -> None:
    """A long-lived process keeps connections to the SQLite files of catalog and ledger."""
    config = load_config(raw_project.config)
    lake, ledger = Lake(config.lake), Ledger(config.ledger.url)
    (space, name), *_ = (head.name for head in ledger.lake_heads())
    at, seq = Identifier(space, name), ledger.highest_seq()
    assert lake.count_rows(at) == 4
    sql("INSERT INTO t VALUES (5, 1)")
    raw_project.load()
    assert lake.count_rows(at) == 5
    raw_project.lose()
    with pytest.raises(LakeError, match=r"catalog\.db is not there any more"):
        lake.count_rows(at)
    with pytest.raises(LedgerError, match=r"ledger\.db is not there any more"):
        ledger.highest_seq()
    assert not (raw_project.folder / "ledger.db").exists()
    raw_project.ok("restore", str(backup))
    assert lake.count_rows(at) == 4
    assert ledger.highest_seq() == seq
    assert raw_project.load() == 5
    assert lake.count_rows(at) == 5


@pytest.mark.full
def test_a_restore_is_killed_at_each_step_and_continued(
    raw_project: RawProject, runner: Runner, backup: Path, sql: Sql
) -> None:
    copy = raw_project.beside("copy")
    for step in (name for name in OF_BACKUPS if name.startswith("restore.")):
        copy.killed_at(runner, step, "restore", str(backup))
        said = str(copy.run("sync").exception)
        assert "is not whole: `mirrorlake restore" in said, f"{step}: {said}"
        assert "is not whole" in str(copy.run("status").exception)
    assert copy.ok("restore", str(backup))["moved"]
    assert raw_rows(copy) == 4
    sql("INSERT INTO t VALUES (5, 1)")
    assert copy.load() == 5
    assert raw_project.load() == 5


def test_a_backup_that_is_killed_is_none(
    raw_project: RawProject, runner: Runner, tmp_path: Path
) -> None:
    raw_project.killed_at(runner, "backup.copied", "backup", str(tmp_path / "backups"))
    (left,) = (tmp_path / "backups").iterdir()
    raw_project.lose()
    assert "is no complete backup" in raw_project.refused("restore", str(left))


def test_a_move_is_killed_at_each_step_and_continued(
    raw_project: RawProject, runner: Runner, tmp_path: Path, sql: Sql
) -> None:
    new = tmp_path / "new"
    before = {p: p.read_bytes() for p in raw_project.lake.rglob("*") if p.is_file()}
    for step in (name for name in OF_BACKUPS if name.startswith("move.")):
        raw_project.killed_at(runner, step, "lake", "move", str(new), "--yes")
        assert {p: p.read_bytes() for p in raw_project.lake.rglob("*") if p.is_file()} == before
        if step in ("move.ledger", "move.catalog"):
            assert "is not whole: `mirrorlake lake move" in str(raw_project.run("gaps").exception)
        else:
            assert raw_project.run("gaps").exit_code == 0
        raw_project.set(lake={"warehouse": str(new)})
        assert "is not whole: `mirrorlake lake move" in str(raw_project.run("gaps").exception)
        raw_project.set(lake={"warehouse": "lake"})
    assert raw_project.ok("lake", "move", str(new), "--yes")["done"]
    said = str(raw_project.run("lake", "move", str(new)).exception)
    assert "is in" in said
    assert "Set lake.warehouse" in said
    shutil.rmtree(raw_project.lake)
    raw_project.set(lake={"warehouse": str(new)})
    assert raw_rows(raw_project) == 4
    sql("INSERT INTO t VALUES (5, 1)")
    assert raw_project.load() == 5


@pytest.mark.parametrize("changed_first", [True, pytest.param(False, marks=pytest.mark.full)])
def test_a_folder_that_was_moved_by_hand(
    raw_project: RawProject, runner: Runner, changed_first: bool, tmp_path: Path
) -> None:
    """The refusal names a step that works, whether lake.warehouse was changed before it or not."""
    new = tmp_path / "by hand"
    known = Ledger(f"sqlite:///{raw_project.folder}/ledger.db").lake()
    raw_project.lake.rename(new)
    if changed_first:
        raw_project.set(lake={"warehouse": str(new)})
    with pytest.raises(MirrorlakeError, match="mirrorlake lake move"):
        raw_project.load()
    if not changed_first:
        assert "is not there" in raw_project.refused("lake", "find")
        assert not raw_project.lake.exists(), "nothing was made where it was"
    raw_project.killed_at(runner, "move.rewritten", "lake", "move", str(new), "--yes")
    assert not raw_project.ok("lake", "move", str(new))["copied"]
    raw_project.killed_at(runner, "move.ledger", "lake", "move", str(new), "--yes")
    assert raw_project.ok("lake", "move", str(new), "--yes")["done"]
    raw_project.set(lake={"warehouse": str(new)})
    assert raw_rows(raw_project) == 4
    assert raw_project.load() == 4
    now = Ledger(f"sqlite:///{raw_project.folder}/ledger.db").lake()
    assert known
    assert now
    assert now[0] == known[0]


def test_a_copied_project_becomes_one_of_its_own(raw_project: RawProject, tmp_path: Path) -> None:
    copy = RawProject(tmp_path / "copy", raw_project.server, raw_project.database)
    shutil.copytree(raw_project.folder, copy.folder)
    before = raw_project.files()
    with pytest.raises(MirrorlakeError, match="mirrorlake lake move") as refused:
        copy.load()
    step = re.findall(r"`mirrorlake (lake move [^`]*)`", str(refused.value))[0]
    assert copy.ok(*step.split(" ", 2), "--yes")["done"]
    assert raw_rows(copy) == 4
    assert copy.load() == 4
    assert raw_project.files() == before
    ids = {
        json.loads((p.lake / "mirrorlake-lake.json").read_bytes())["lake"]
        for p in (copy, raw_project)
    }
    assert len(ids) == 2
    assert raw_project.load() == 4
