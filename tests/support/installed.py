"""Environments with Mirrorlake in them, beside the clone's: with an extra, or with none.

What belongs here: how one is made. What doesn't: what is run in it.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mirrorlake.runtime.cache import cache_path

ROOT = Path(__file__).parents[2]
_BUILD = (
    *("build", "--quiet", "--require-hashes"),
    *("--build-constraints", str(ROOT / "deploy" / "build-requirements.txt")),
)
_ELSEWHERE = ("PYTHONPATH", "DAGSTER_HOME", "MIRRORLAKE_CONFIG", "VIRTUAL_ENV")
"""Variables that would point into the clone."""


@dataclass(frozen=True)
class Installed:
    """An environment, and variables that its commands have."""

    home: Path
    variables_too: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    def run(self, command: str, *arguments: object, cwd: Path, **variables: str) -> str:
        """What a command of the environment prints, on both streams."""
        ended = self.end(command, *arguments, cwd=cwd, **variables)
        assert ended.returncode == 0, ended.stdout[-4000:]
        return ended.stdout

    def end(
        self, command: str, *arguments: object, cwd: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """The same of a command that may fail."""
        return subprocess.run(
            [self.home / "bin" / command, *map(str, arguments)],
            cwd=cwd,
            env=self.variables(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def variables(self, more: dict[str, str]) -> dict[str, str]:
        """Nothing that points into the clone."""
        known = {k: v for k, v in os.environ.items() if k not in _ELSEWHERE}
        path = f"{self.home / 'bin'}{os.pathsep}{known['PATH']}"
        named = {"PATH": path, "VIRTUAL_ENV": str(self.home), "DAGSTER_DISABLE_TELEMETRY": "1"}
        return {**known, **named, **self.variables_too, **more}


def install_wheel(
    place: Path, extras: str = "", *beside: str, python: str = sys.executable
) -> Installed:
    """`pip install mirrorlake[extras]` of a wheel that is built here, and of packages ``beside``,
    in the versions of the lock file."""
    uv = str(sorted(cache_path().glob("tools/uv-*/bin/uv"))[-1])
    pins = re.findall(
        r"^([\w.\-]+==[^\s;\\]+) \\$", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    (place / "pins.txt").write_text("\n".join(pins))
    home = place / "environment"
    for command in (
        [*_BUILD, "--wheel", "--out-dir", str(place), str(ROOT)],
        ["venv", "--quiet", "--python", python, str(home)],
    ):
        subprocess.run([uv, *command], check=True)
    (wheel,) = place.glob("*.whl")
    wanted = [f"{wheel}[{extras}]" if extras else str(wheel), *beside]
    install = [uv, "pip", "install", "--quiet", "-c", str(place / "pins.txt"), "--python"]
    subprocess.run([*install, str(home / "bin" / "python"), *wanted], check=True)
    return Installed(home)


def link_base(place: Path) -> Installed:
    """An environment with what `pip install mirrorlake` brings and nothing else, in a moment and
    without network: its packages are links to this environment's, the engine is the clone's."""
    home = place / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = (home / "lib").glob("python3.*/site-packages")
    for name in sorted(base_distributions()):
        distribution = importlib.metadata.distribution(name)
        where = Path(str(distribution.locate_file("")))
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            (site / top).symlink_to(where / top)
    (site / "mirrorlake.pth").write_text(f"{ROOT}\n")
    command = home / "bin" / "mirrorlake"
    command.write_text(
        f"#!{home / 'bin' / 'python'}\nfrom mirrorlake.cli.main import main\nmain()\n"
    )
    command.chmod(0o755)
    return Installed(home)


def _pythons() -> Iterator[tuple[str, str]]:
    """A Python of each version that Mirrorlake is for, as far as they are here."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield own, sys.executable
    for version in {"3.11", "3.12", "3.13"} - {own}:
        # One that pyenv built but does not show: its shim would only say so.
        built = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        found = str(built[-1]) if built else shutil.which(f"python{version}")
        if found is not None:
            yield version, found


BASES: Final = (
    "links",
    *(
        pytest.param(python, marks=pytest.mark.full, id=f"wheel on {version}")
        for version, python in sorted(_pythons())
    ),
)
"""What `base_of` takes: our packages as links, and in full runs the wheel on each Python."""


def base_of(kind: str, place: Path) -> Installed:
    """What `pip install mirrorlake` brings, and nothing else.

    Args:
        kind: of `BASES`.
    """
    return link_base(place) if kind == "links" else install_wheel(place, python=kind)


def base_distributions() -> set[str]:
    """Every distribution that the base's dependencies bring, as it is installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = dict[str, set[str]]()
    waiting = [Requirement(text) for text in project["dependencies"]]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        extras = {"", *one.extras}
        if extras <= found.get(name, set()):
            continue
        found[name] = found.get(name, set()) | extras
        for text in importlib.metadata.requires(name) or ():
            needs = Requirement(text)
            if needs.marker is None or any(needs.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(needs)
    return set(found)
