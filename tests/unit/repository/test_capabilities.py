"""Capabilities: what each adds is there, at seams that there are; each can be taken out."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from mirrorlake.capabilities import CAPABILITIES, additions
from mirrorlake.cli.main import SECTIONS, cli
from mirrorlake.config import config_schema

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("mirrorlake", "dagster_mirrorlake")
SEAM = re.compile(r"Seam(?:\[.*?\])?\(\s*f?\"([^\"]+)\"")
"""How a seam is made; a name may have a part that is filled in."""
TITLES = {f"commands: {title}" for title in SECTIONS}
IMPORT_ALL = """
import importlib, json, pkgutil
import dagster_mirrorlake, mirrorlake
for package in (mirrorlake, dagster_mirrorlake):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from mirrorlake.cli.main import cli
from mirrorlake.config import config_schema
print(json.dumps([sorted(cli.commands), sorted(config_schema()["properties"])]))
"""


def take_out(names: tuple[str, ...], into: Path) -> None:
    """A copy of the tree without some capabilities: their folders, and their names in the list."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, into / package)  # with what was compiled of it
        for name in names:
            if (into / package / name).exists():
                shutil.rmtree(into / package / name)
    listed = into / "mirrorlake" / "capabilities.py"
    text = listed.read_text("utf-8")
    kept = tuple(name for name in CAPABILITIES if name not in names)
    changed = re.sub(
        r"^CAPABILITIES: Final(.*?) = \(.*?\)$",
        lambda found: f"CAPABILITIES: Final{found[1]} = {kept!r}",
        text,
        count=1,
        flags=re.MULTILINE | re.DOTALL,
    )
    assert changed != text
    listed.write_text(changed, "utf-8")


def with_those_above(name: str) -> tuple[str, ...]:
    """A capability, and those that say in ``NEEDS`` that they stand on it."""
    found = [name]
    for other in CAPABILITIES:
        needs = getattr(import_module(f"mirrorlake.{other}"), "NEEDS", ())
        if other not in found and set(needs) & set(found):
            found += with_those_above(other)
    return tuple(dict.fromkeys(found))


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_added_is_there_and_has_its_seam(package: str) -> None:
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / package).rglob("*.py"))
    seams = [re.sub(r"\\{.*?\\}", ".*", re.escape(name)) for name in SEAM.findall(source)]
    for capability, adds in additions(package).items():
        for seam, references in adds.items():
            assert any(re.fullmatch(one, seam) for one in seams), f"{capability}: no seam {seam}"
            for reference in references.values():
                module, _, attribute = reference.partition(":")
                assert module.startswith(f"{package}.{capability}."), reference
                assert hasattr(import_module(module), attribute), reference


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "cuts" else [pytest.mark.full])
        for name in CAPABILITIES
    ],
)
def test_one_can_be_taken_out(name: str, tmp_path: Path) -> None:
    """Every other module can be imported; its commands and its sections are gone, no other."""
    gone = with_those_above(name)
    take_out(gone, tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{IMPORT_ALL}"
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    commands, sections = json.loads(done.stdout)
    added: dict[str, set[str]] = {}
    for one in gone:
        for seam, some in additions()[one].items():
            added.setdefault(seam, set()).update(some)
    without = {n for seam, some in added.items() for n in some if seam in TITLES}
    assert set(commands) == set(cli.commands) - without
    assert set(sections) == set(config_schema()["properties"]) - added.get("config.sections", set())
