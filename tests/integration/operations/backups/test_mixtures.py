"""Ledger, catalog and files of different ages: what is said is a step that works, and after it the
mirror is exact. The table is docs/backup.md's.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from tests.integration.operations.backups.conftest import KEYS
from tests.integration.projects import Project

AGES = ("same", "older", "lost")
OFTEN = {("older", "older", "same"), ("same", "same", "older"), ("lost", "lost", "same")}
STEPS = re.compile(r"`mirrorlake (ledger rebuild|lake find|restore)`")


@dataclass
class Parts:
    """Copies of a project's parts, of two ages, and a backup of the older one."""

    folder: Path
    project: Project
    backup: str = ""

    def keep(self, age: str) -> None:
        shutil.copytree(self.project.folder, self.folder / age)

    def mix(self, ledger: str, catalog: str, lake: str) -> None:
        """Put parts of some ages where the project's were."""
        project = self.project
        project.sessions.clear()
        shutil.rmtree(project.lake, ignore_errors=True)
        if lake != "lost":
            shutil.copytree(self.folder / lake / "lake", project.lake)
            for path in project.lake.glob("catalog.db*"):
                path.unlink()
        elif catalog != "lost":
            project.lake.mkdir()
        for age, name in ((ledger, "ledger.db"), (catalog, "lake/catalog.db")):
            (project.folder / name).unlink(missing_ok=True)
            if age != "lost":
                shutil.copy(self.folder / age / name, project.folder / name)


def heal(parts: Parts) -> list[str]:
    """Sync, and do what each error says, until a sync has none; the steps that it took."""
    done: list[str] = []
    for _ in range(5):
        result = parts.project.run("sync", "--json")
        said = f"{result.output} {result.exception or ''}"
        if result.exit_code == 0:
            return done
        steps = [step for step in STEPS.findall(said) if step not in done]
        assert steps, f"after {done}: {said}"
        step = steps[0]
        done.append(step)
        if step == "restore":
            parts.project.lose()
            parts.project.ok("restore", parts.backup)
        else:
            again = parts.project.run(*step.split())
            assert again.exit_code in (0, 6), again.output
    raise AssertionError(f"not healed by {done}")


@pytest.fixture
def parts(project: Project, change: Callable[[], None], tmp_path: Path) -> Parts:
    made = Parts(tmp_path / "parts", project)
    project.sync()
    change()
    project.sync()
    made.backup = project.ok("backup", str(tmp_path / "backups"))["where"]
    made.keep("older")
    for _ in range(2):
        change()
        project.sync()
    made.keep("same")
    return made


def _mixtures() -> list[tuple[str, str, str]]:
    return list(product(AGES, AGES, AGES))


def test_mixtures_of_ages(parts: Parts, change: Callable[[], None]) -> None:
    for ages in sorted(OFTEN):
        _is_healed(parts, ages, change)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_every_mixture_of_ages(parts: Parts, change: Callable[[], None]) -> None:
    failed: list[str] = []
    for ages in _mixtures():
        try:
            _is_healed(parts, ages, change)
        except AssertionError as error:
            failed.append(f"{ages}: {error}")
    assert not failed, "\n".join(failed)


def _is_healed(parts: Parts, ages: tuple[str, str, str], change: Callable[[], None]) -> None:
    parts.mix(*ages)
    change()
    steps = heal(parts)
    print(ages, steps)
    try:
        parts.project.assert_exact(KEYS)
    except AssertionError as error:
        raise AssertionError(f"{ages} healed by {steps}: {error}") from error
