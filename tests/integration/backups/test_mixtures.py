"""Ledger, catalog and files of different ages: what is said is a step that works, and after it raw
has MySQL's rows. The steps are those of the table in docs/backup.md.

Raw alone is loaded: no Spark is started. `test_hands` has what follows for deduped and clean.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.errors import LakeDamaged
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.backups.conftest import START, TABLES
from tests.integration.backups.databases import Databases, on_postgres
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.projects import RawProject
from tests.support.postgres import PASSWORD, Postgres, running_postgres

Sql = Callable[..., Any]
AGES = ("same", "older", "lost")
OFTEN: dict[tuple[str, str, str], list[str]] = {
    ("same", "older", "same"): [],
    ("older", "older", "same"): [],
    ("same", "older", "older"): [],
    ("older", "same", "same"): ["ledger rebuild"],
    ("older", "lost", "same"): ["lake find"],
    ("same", "same", "older"): ["restore"],
    ("same", "lost", "lost"): ["restore"],
}
STEPS = re.compile(r"`mirrorlake (ledger rebuild|lake find|restore)`")


@dataclass
class Parts:
    """Copies of a project's parts, of two ages, and a backup of the older one."""

    folder: Path
    project: RawProject
    sql: Sql
    databases: Databases
    backup: str = ""
    number: int = 100

    def change(self) -> None:
        self.number += 1
        self.sql(
            f"INSERT INTO w VALUES ({self.number}, 1, NOW(6))",
            f"UPDATE w SET v = v + 1, at = NOW(6) WHERE id = {self.number % 20 + 1}",
        )

    def keep(self, age: str) -> None:
        shutil.copytree(self.project.folder, self.folder / age)
        self.databases.keep(age)

    def mix(self, ledger: str, catalog: str, lake: str) -> None:
        """Put parts of some ages where the project's were."""
        project = self.project
        shutil.rmtree(project.lake, ignore_errors=True)
        if lake != "lost":
            shutil.copytree(self.folder / lake / "lake", project.lake)
            (project.lake / "catalog.db").unlink(missing_ok=True)
        self.databases.put("ledger", ledger, self.folder)
        self.databases.put("catalog", catalog, self.folder)

    def heal(self) -> list[str]:
        """Load, and do what each error says, until there is none; the steps that it took."""
        done: list[str] = []
        said = self.project.fails_to_load()
        while said:
            steps = [step for step in STEPS.findall(said) if step not in done]
            assert steps, f"after {done}: {said}"
            done.append(steps[0])
            if done[-1] == "restore":
                self.mix("lost", "lost", "lost")
                self.project.ok("restore", self.backup)
                said = self.project.fails_to_load()
            else:
                result = self.project.run(*done[-1].split())
                # A step that finds what it can't read says what to do then.
                damaged = isinstance(result.exception, LakeDamaged)
                assert damaged or result.exit_code in (0, 6), result.output
                said = str(result.exception) if damaged else self.project.fails_to_load()
        return done

    def differences(self) -> set[Any]:
        """Rows that MySQL or raw alone has, by the newest version of each key in raw."""
        newest: dict[int, dict[str, Any]] = {}
        raw: list[Any] = self.project.table("w", "raw").scan().to_arrow().to_pylist()
        for row in raw:
            if row["_mirror_seq"] >= newest.get(row["id"], row)["_mirror_seq"]:
                newest[row["id"]] = row
        there = {(r["id"], r["v"], r["at"]) for r in newest.values() if not r["_mirror_deleted"]}
        return there ^ set(self.sql("SELECT id, v, at FROM w"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def databases(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Postgres | None]:
    with ExitStack() as running:
        server = None
        if request.param == "postgres":
            server = running.enter_context(running_postgres())
            monkeypatch.setenv("PG_PASSWORD", PASSWORD)
        yield server


@pytest.fixture
def parts(
    server: EmbeddedServer,
    place: Place,
    database: str,
    sql: Sql,
    databases: Postgres | None,
    tmp_path: Path,
) -> Parts:
    assert place
    rows = ", ".join(f"({n}, 0, '{START} 01:00')" for n in range(1, 41))
    sql(
        "CREATE TABLE w (id INT PRIMARY KEY, v INT, at DATETIME(6) NOT NULL, KEY (at))",
        f"INSERT INTO w VALUES {rows}",
    )
    folder = tmp_path / "project"
    folder.mkdir()
    tables = {"w": TABLES["w"]}
    write_contract(folder / "mirrorlake.yaml", server.port, {database: {"tables": tables}})
    project = RawProject(folder, server, database)
    if databases is not None:
        on_postgres(project, databases, "now")
    made = Parts(tmp_path / "parts", project, sql, Databases(project, databases))
    project.load()
    made.change()
    project.load()
    made.backup = project.ok("backup", str(tmp_path / "backups"))["where"]
    made.keep("older")
    for _ in range(2):
        made.change()
        project.load()
    made.keep("same")
    return made


def assert_healed(parts: Parts, ages: tuple[str, str, str]) -> list[str]:
    parts.mix(*ages)
    parts.change()
    steps = parts.heal()
    assert not (found := parts.differences()), f"{ages} after {steps}: {found}"
    return steps


@pytest.mark.full
def test_mixtures_of_ages(parts: Parts) -> None:
    for ages, steps in OFTEN.items():
        assert assert_healed(parts, ages) == steps, ages


@pytest.mark.full
def test_every_mixture_of_ages(parts: Parts) -> None:
    failed: list[str] = []
    for ages in product(AGES, AGES, AGES):
        try:
            assert_healed(parts, ages)
        except AssertionError as error:
            failed.append(f"{ages}: {error}")
    assert not failed, "\n".join(failed)
