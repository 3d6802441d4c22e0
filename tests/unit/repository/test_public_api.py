"""The public Python API: what is exported is documented, and nothing is imported before its use."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dagster_mirrorlake
import mirrorlake

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(\w+)(?:\.open)?(\(.*?\))?` \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", mirrorlake.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    found = getattr(mirrorlake, name)
    assert inspect.getdoc(found)
    assert f"`{name}" in PAGE or f".{name}" in PAGE
    assert name in dir(mirrorlake)


def test_the_page_names_nothing_else() -> None:
    assert {name for name, _ in ROWS} <= {*mirrorlake.__all__}
    assert len(ROWS) > 20


@pytest.mark.parametrize(("name", "call"), [row for row in ROWS if row[1]])
def test_calls_take_what_the_page_gives_them(name: str, call: str) -> None:
    found = getattr(mirrorlake, name)
    wanted = found.open if name == "Workspace" else found
    given = [part.strip() for part in call[1:-1].replace("()", "").split(",")]
    takes = inspect.signature(wanted).parameters
    assert len(given) <= len(takes)
    for parameter in list(takes.values())[len(given) :]:
        assert parameter.default is not inspect.Parameter.empty, f"{name} needs {parameter.name}"


@pytest.mark.parametrize("package", [mirrorlake, dagster_mirrorlake])
def test_a_path_may_be_a_text(package: ModuleType) -> None:
    """Our own functions; what Pydantic and Dagster add to a class is theirs."""
    ours = {name: getattr(package, name) for name in package.__all__}
    ours |= {f"{n}.open": found.open for n, found in ours.items() if hasattr(found, "open")}
    narrow = [
        f"{name}({taken.name}: {taken.annotation})"
        for name, found in ours.items()
        if callable(found) and not (inspect.isclass(found) or inspect.isbuiltin(found))
        for taken in inspect.signature(found).parameters.values()
        if (str(taken.annotation) + taken.name).lower().count("path")
        and not ("PathLike" in str(taken.annotation) and "str |" in str(taken.annotation))
    ]
    assert narrow == []


def test_a_contract_file_is_found_by_a_text_or_a_path(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", str(tmp_path / "none.yaml")):
        with pytest.raises(mirrorlake.ConfigError, match="mirrorlake init"):
            mirrorlake.load_config(path)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sync_everything'"):
        _ = mirrorlake.sync_everything  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, mirrorlake; print(sorted(m for m in sys.modules if m in sys.argv[1:]))"
    heavy = ["pydantic", "pyarrow", "pyiceberg", "pyspark", "sqlalchemy", "pymysql"]
    told = subprocess.run(
        [sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "mirrorlake" / "py.typed").is_file()
