"""What `make check` says of a tree that is not laid out as ours is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_layout

ROOT = Path(__file__).resolve().parents[3]

LAYERS = """
[[tool.importlinter.contracts]]
name = "layers of the engine"
type = "layers"
layers = ["mirrorlake.cli | mirrorlake.load", "mirrorlake.errors"]
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check_layout, "ROOT", tmp_path)
    monkeypatch.setattr(check_layout, "ENGINE", tmp_path / "mirrorlake")
    monkeypatch.delitem(sys.modules, "mirrorlake", raising=False)  # it would be found first
    words = '"""Loads. What belongs\nhere: loading. What doesn\'t: folding."""'
    for file, text in {
        "pyproject.toml": LAYERS,
        "mirrorlake/__init__.py": "",
        "mirrorlake/errors.py": "",
        "mirrorlake/load/__init__.py": words,
        "mirrorlake/load/protocol.py": "",
        "checks/__init__.py": words,
    }.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_tree_as_ours_is_fine(tree: Path) -> None:
    assert check_layout.main() == 0


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("mirrorlake/more.py", "no module belongs here"),
        ("mirrorlake/load/deeper/__init__.py", "says not What belongs here"),
        ("checks/more/__init__.py", "says not What belongs here"),
        ("mirrorlake/other/one.py", "is in no layer"),
    ],
)
def test_what_is_not_is_named(
    tree: Path, capsys: pytest.CaptureFixture[str], file: str, words: str
) -> None:
    (tree / file).parent.mkdir(parents=True, exist_ok=True)
    (tree / file).write_text("")
    assert check_layout.main() == 1
    assert f"{file}: {words}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("mirrorlake/load/protocol.py", "from pyiceberg.table import Table"),
        ("checks/counts.py", "def look():\n    import pyiceberg.io"),
        ("definitions.py", "import pyiceberg"),
    ],
)
def test_a_library_stays_in_its_room(
    tree: Path, capsys: pytest.CaptureFixture[str], file: str, text: str
) -> None:
    (tree / file).write_text(text)
    assert check_layout.main() == 1
    assert f"{file}: imports pyiceberg; only mirrorlake/destinations" in capsys.readouterr().err


def test_its_room_may_use_it(tree: Path) -> None:
    room = tree / "mirrorlake" / "destinations" / "iceberg"
    room.mkdir(parents=True)
    (room / "model.py").write_text("from pyiceberg.table import Table")
    (tree / "pyproject.toml").write_text(LAYERS.replace("cli", "destinations.iceberg"))
    assert check_layout.main() == 0


@pytest.mark.parametrize(
    "text", ['x = t.mode == "full"', 'x = "full" != t.mode', 'x = t.mode in ("full", "append")']
)
def test_a_modes_name_is_compared_nowhere(
    tree: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tree / "checks" / "counts.py").write_text(text)
    assert check_layout.main() == 1
    assert "checks/counts.py:1: compares a mode's name" in capsys.readouterr().err
    (tree / "checks" / "counts.py").write_text("x = t.mode == other.mode")
    assert check_layout.main() == 0


def test_a_second_destination_is_kept_apart(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    room = tree / "mirrorlake" / "destinations" / "heap"
    room.mkdir(parents=True)
    shutil.copy(tree / "mirrorlake" / "load" / "__init__.py", room)
    assert check_layout.main() == 1
    assert "heap/__init__.py: no contract of independence" in capsys.readouterr().err
    contract = """
[[tool.importlinter.contracts]]
name = "apart"
type = "independence"
modules = ["mirrorlake.destinations.heap"]
"""
    (tree / "pyproject.toml").write_text(LAYERS + contract)
    assert check_layout.main() == 0


@pytest.mark.parametrize(
    "text", ["class Found: ...", "Found: TypeAlias = int", 'Found = Literal["a", "b"]']
)
def test_a_name_is_one_type(tree: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (tree / "mirrorlake" / "errors.py").write_text("class Found: ...")
    (tree / "mirrorlake" / "load" / "protocol.py").write_text(text)
    assert check_layout.main() == 1
    words = "mirrorlake/load/protocol.py: type Found is in mirrorlake/errors.py already"
    assert words in capsys.readouterr().err


def test_values_may_share_a_name(tree: Path) -> None:
    (tree / "mirrorlake" / "errors.py").write_text("MOST = 1")
    (tree / "mirrorlake" / "load" / "protocol.py").write_text("MOST = 2\nmost: int = 3")
    assert check_layout.main() == 0


def test_an_environment_that_git_holds_is_named(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    shutil.copy(ROOT / ".gitignore", tree)
    (tree / ".venv").symlink_to(tree)
    subprocess.run(["git", "add", "--force", "."], cwd=tree, check=True)
    assert check_layout.main() == 1
    assert ".venv: .gitignore names it, git holds it" in capsys.readouterr().err
