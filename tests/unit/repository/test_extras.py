"""The base installation is whole: what it imports it brings, and what it lacks is named by an extra
that there is."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mirrorlake.runtime import extras
from mirrorlake.runtime.extras import install_command, library
from tests.support.installed import link_base

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NAMED = {"yaml": "pyyaml"}
"""Modules whose distribution has another name."""
IMPORT_ALL = """
import importlib, pkgutil, sys, mirrorlake
for found in pkgutil.walk_packages(mirrorlake.__path__, "mirrorlake."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(mirrorlake.__file__, importlib.util.find_spec("pyspark"), importlib.util.find_spec("dagster"))
"""


def test_every_module_of_the_engine_is_imported_with_the_base_alone(tmp_path: Path) -> None:
    said = link_base(tmp_path).run("python", "-c", IMPORT_ALL, cwd=tmp_path)
    assert said == f"{ROOT / 'mirrorlake' / '__init__.py'} None None\n"


def test_what_is_imported_with_a_module_is_a_dependency() -> None:
    """By its own name: what others bring today they need not bring tomorrow."""
    declared = {Requirement(text).name.replace("-", "_") for text in PROJECT["dependencies"]}
    found = {
        name
        for path in (ROOT / "mirrorlake").rglob("*.py")
        for name in imported(ast.parse(path.read_text("utf-8")))
        if name not in sys.stdlib_module_names and name != "mirrorlake"
    }
    assert {NAMED.get(name, name) for name in found} == declared


def imported(node: ast.AST) -> Iterator[str]:
    """Packages that are imported when a module is: not within a function, nor for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (one.name.partition(".")[0] for one in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield str(child.module).partition(".")[0]
        typed = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not typed and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported(child)


def test_every_extra_that_is_named_is_there() -> None:
    there, named = set(PROJECT["optional-dependencies"]), set[str]()
    for folder in ("mirrorlake", "dagster_mirrorlake"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            named |= set(re.findall(r"mirrorlake\[([a-z]+)\]", text))
            for node in ast.walk(ast.parse(text)):
                named |= extra_of(node) if isinstance(node, ast.Call) else set()
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/**/*")):
        text = page.read_text("utf-8") if page.is_file() else ""
        named |= {n for one in re.findall(r"mirrorlake\[([a-z,]+)\]", text) for n in one.split(",")}
    assert named >= {"spark", "bigquery", "gcs", "pubsub", "s3", "postgres", "models", "delta"}
    assert named <= there


PLACES = {"library": 1, "require": 1, "lacking": 2, "install_command": 0}
"""Functions that are given an extra → which argument it is."""


def extra_of(call: ast.Call) -> set[str]:
    name = ast.unparse(call.func).rpartition(".")[2]
    given = call.args[PLACES[name] : PLACES[name] + 1] if name in PLACES else []
    return {str(one.value) for one in given if isinstance(one, ast.Constant)}


def test_all_is_every_extra_but_the_demos() -> None:
    """Those that others bring, by them."""
    optional = {
        name: [Requirement(text) for text in texts]
        for name, texts in PROJECT["optional-dependencies"].items()
    }

    def brought(extra: str) -> set[str]:
        own = {name for one in optional[extra] if one.name == "mirrorlake" for name in one.extras}
        return {extra}.union(*map(brought, own))

    assert brought("all") == optional.keys() - {"demo"}


@pytest.mark.parametrize(
    ("file", "pip", "command"),
    [
        (None, True, f"{shlex.quote(sys.executable)} -m pip install 'mirrorlake[spark]'"),
        (None, False, f"uv pip install --python {shlex.quote(sys.executable)} 'mirrorlake[spark]'"),
        ("pipx_metadata.json", True, "pipx runpip mirrorlake install 'mirrorlake[spark]'"),
        ("mirrorlake.home", True, "make clean setup"),
    ],
)
def test_the_command_fits_the_environment(
    file: str | None, pip: bool, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(extras, "is_there", lambda _: pip)
    if file is not None:
        (tmp_path / file).touch()
    assert install_command("spark") == command


def test_what_is_missing_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(extras.MirrorlakeError) as missing:
        library("polars", "polars", "an input")
    said = "an input needs polars (extra mirrorlake[polars]), which is not installed. Install it: "
    assert str(missing.value) == said + install_command("polars")
    assert missing.value.exit_code == 3
