"""A backup that is restored after loss, beside its original, and a lake that is moved: exact after
the next sync, by the oracle, with the history in raw."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.integration.backups.conftest import KEYS
from tests.integration.lakes import by_duckdb
from tests.integration.projects import Project


def test_a_backup_is_restored_and_moved(
    project: Project, change: Callable[[], None], tmp_path: Path
) -> None:
    project.sync()
    change()
    project.sync()
    kept = {name: project.rows(name, "raw") for name in KEYS}
    made = project.ok("backup", str(tmp_path / "backups"))
    assert made["one_moment"]
    assert made["linked"]
    change()
    project.sync()

    # Beside the original, which does not notice.
    copy = project.beside("copy")
    before = project.files()
    restored = copy.ok("restore", made["where"])
    assert restored["moved"]
    assert restored["lake"] != made["lake"]
    assert {name: copy.rows(name, "raw") for name in KEYS} == kept
    change()
    copy.sync()
    copy.assert_exact(KEYS)
    assert kept["w"] <= copy.rows("w", "raw")  # of copies the newest alone stays
    for name in KEYS:
        assert by_duckdb(copy.table(name)).num_rows == copy.table(name).scan().to_arrow().num_rows
    assert project.files() == before
    copy.ok("maintain", "--grace", "0", "--keep-days", "0.05")

    # After loss, where it was.
    project.lose()
    restored = project.ok("restore", made["where"])
    assert not restored["moved"]
    assert restored["lake"] == made["lake"]
    project.sync()
    project.assert_exact(KEYS)
    assert project.ok("status")

    # The lake alone to another place.
    new = tmp_path / "new place"
    assert not project.ok("lake", "move", str(new))["done"]
    assert not new.exists()
    raw = {name: project.rows(name, "raw") for name in KEYS}
    old = {p: p.read_bytes() for p in project.lake.rglob("*") if p.is_file()}
    assert project.ok("lake", "move", str(new), "--yes")["done"]
    assert {p: p.read_bytes() for p in project.lake.rglob("*") if p.is_file()} == old
    shutil.rmtree(project.lake)
    project.set(lake={"warehouse": str(new)})
    assert {name: project.rows(name, "raw") for name in KEYS} == raw
    change()
    project.sync()
    project.assert_exact(KEYS)
    assert project.ok("doctor") is not None
