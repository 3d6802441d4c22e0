"""A real MariaDB, a contract file over it, and runs in a process beside this one, as Dagster has
them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mirrorlake.config import Config, load_config
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.contracts import PASSWORD, USER, write_contracts
from tests.location.kept_process import KEPT
from tests.support.dagster_storage import read_scripts_once

ROOT = Path(__file__).parents[2]
ALONE = "MIRRORLAKE_TEST_ALONE"


def pytest_configure(config: pytest.Config) -> None:
    read_scripts_once()
    config.addinivalue_line("markers", "alone: runs in another process, with a Spark of its own")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test whose run starts Spark here would get the session of another test's lake, and stop
    it."""
    if pyfuncitem.get_closest_marker("alone") is None or os.environ.get(ALONE):
        return None
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    code, said = KEPT.run(
        *("pytest", "-q", "-m", "full or not full", pyfuncitem.nodeid),
        environment={**environment, ALONE: "1"},
    )
    assert code == 0, said[-6000:]
    return True


@pytest.fixture(autouse=True)
def no_spark_of_ours(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that starts Spark here passes or fails by what ran before it: it is `alone`."""
    before = SparkSession._instantiatedSession
    yield
    after = SparkSession._instantiatedSession
    assert os.environ.get(ALONE) or after is before, "mark it `alone`: it started Spark"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    os.environ["TEST_PASSWORD"] = PASSWORD
    with MariaDB.start(tmp_path_factory.mktemp("mysql")) as server:
        server.create_user(USER, PASSWORD)
        yield server


@dataclass(frozen=True)
class Location:
    """A code location over one folder, and its runs in a process beside this one."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "mirrorlake.yaml"

    @property
    def config(self) -> Config:
        return load_config(self.path)

    def run(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What each step (see ``run_steps.py``) did, in order."""
        asked, done = self.folder / "steps.json", self.folder / "done.json"
        asked.write_text(json.dumps(steps))
        home = self.folder / "dagster"
        home.mkdir(exist_ok=True)
        environment = {**os.environ, "DAGSTER_HOME": str(home)}
        code, said = KEPT.run("steps", self.path, asked, done, environment=environment)
        assert code == 0, said[-4000:]
        return json.loads(done.read_text())

    def command(self, *arguments: str) -> None:
        """A command of Mirrorlake's over it, which succeeds."""
        code, said = KEPT.run("mirrorlake", *arguments, "--config", self.path)
        assert code == 0, said[-4000:]


@pytest.fixture(scope="module")
def location_for(
    server: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[dict[str, Any]], Location]:
    """A location over one source ``s`` with these databases."""

    def make(databases: dict[str, Any]) -> Location:
        folder = tmp_path_factory.mktemp("location")
        write_contracts(folder, server.port, databases)
        return Location(folder)

    return make


@pytest.fixture
def contract_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Path]:
    """Write a mirrorlake.yaml that needs no server: a text, or a mapping of databases."""
    monkeypatch.setenv("TEST_PASSWORD", PASSWORD)

    def write(content: Any) -> Path:
        if isinstance(content, str):
            (tmp_path / "mirrorlake.yaml").write_text(content)
        else:
            write_contracts(tmp_path, 1, content)
        return tmp_path / "mirrorlake.yaml"

    return write
