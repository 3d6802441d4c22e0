"""Project folders of a test's own, each with a lake and a ledger, whose commands share one JVM."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import yaml
from click.testing import CliRunner, Result

from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.config import Config, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.destinations.iceberg.spark.settings import catalog_settings
from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.soak.runs import Order, Runner
from tests.support.rest_catalog import CREDENTIAL, RestCatalogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkBeside(LazySpark):
    """A session over another lake, in the JVM of a first one."""

    def __init__(self, config: Config, first: LazySpark) -> None:
        self._beside = Lake(config.lake)
        self._of_first = first
        super().__init__(config.spark, self._beside)

    def _start(self) -> SparkSession:
        return self._another(self._of_first.get())

    def _another(self, session: SparkSession) -> SparkSession:
        other = super()._another(session)
        for name, value in catalog_settings(self._beside).items():
            other.conf.set(name, value)
        return other

    def stop(self, seconds: float = 30) -> None:
        """The JVM is the first one's."""


Sessions = dict[str, SparkBeside]


@contextmanager
def place_behind_rest(place: Place, catalog: RestCatalogServer) -> Iterator[Place]:
    """A lake whose catalog a REST server keeps, in the JVM of the tests' one."""
    rows = Path(str(catalog.catalog.properties["uri"]).removeprefix("sqlite:///"))
    properties = {
        "credential": "${env:CATALOG_CREDENTIAL}",
        "oauth2-server-uri": f"{catalog.uri}/v1/oauth/tokens",
    }
    settings = {"warehouse": "lake", "catalog": {"uri": catalog.uri, "properties": properties}}
    path = rows.parent / "mirrorlake.yaml"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CATALOG_CREDENTIAL", CREDENTIAL)
        config = load_config(write_contract(path, 1, {}, lake=settings))
        spark = SparkBeside(config, place.spark)
        yield Place(rows.parent, Lake(config.lake), spark, settings, rows.name)


def share_jvm(place: Place, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Have workspaces over other lakes use sessions in the JVM of the tests' one; these sessions."""
    first = Workspace.open
    made: Sessions = {}

    def opened(config: Config, run_id: str | None = None, spark: Any = None) -> Workspace:
        at = f"{config.lake.warehouse} {config.lake.catalog.uri}"
        if spark is None and at not in made:
            # Opened once without: what is refused makes no catalog.
            first(config, run_id, place.spark).close()
            made[at] = SparkBeside(config, place.spark)
        return first(config, run_id, spark or made[at])

    monkeypatch.setattr(Workspace, "open", opened)
    return made


@dataclass
class Project:
    """A project folder: its contract file, its ledger and its lake."""

    folder: Path
    server: EmbeddedServer
    database: str
    sessions: Sessions = field(default_factory=Sessions, repr=False)

    @property
    def config(self) -> Path:
        return self.folder / "mirrorlake.yaml"

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def set(self, **sections: Any) -> None:
        text = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        self.config.write_text(yaml.safe_dump({**text, **sections}), encoding="utf-8")

    def set_warehouse(self, place: str) -> None:
        """Set ``lake.warehouse`` alone."""
        text = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        self.set(lake={**text["lake"], "warehouse": place})

    def beside(self, name: str) -> Self:
        """Another folder with the same contract file."""
        other = type(self)(self.folder.parent / name, self.server, self.database, self.sessions)
        other.folder.mkdir()
        shutil.copy(self.config, other.config)
        return other

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, "--config", str(self.config)])

    def ok(self, *arguments: str) -> Any:
        """What a command prints as JSON; it succeeds."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
        return json.loads(result.stdout)

    def sync(self) -> None:
        said = self.ok("sync")
        assert said["errors"] == []

    def lose(self) -> None:
        """The lake, the catalog in it and the ledger."""
        shutil.rmtree(self.lake, ignore_errors=True)
        for path in self.folder.glob("ledger.db*"):
            path.unlink()

    def files(self) -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    def table(self, name: str, layer: str = "deduped") -> Any:
        config = load_config(self.config)
        lake, contract = Lake(config.lake), config.table(name)
        spaces = contract.namespaces
        if layer == "raw":
            names = [n[-1] for n in lake.catalog.list_tables((spaces.raw,))]
            (name,) = (n for n in names if n.startswith(f"{name}_v_"))
        found = lake.load(Identifier(getattr(spaces, layer), name))
        assert found is not None
        return found

    def rows(self, name: str, layer: str) -> set[str]:
        """The rows of a layer, each as text."""
        return {
            repr(sorted(r.items())) for r in self.table(name, layer).scan().to_arrow().to_pylist()
        }

    def assert_exact(self, keys: Mapping[str, list[str]]) -> None:
        for name, key in keys.items():
            with self.server.admin() as admin:
                verdict = compare_table(admin, self.database, name, key, self.table(name))
            assert verdict.equal, f"{name}: {verdict.describe()}"


class RawProject(Project):
    """A project whose table is loaded and never folded."""

    def load(self) -> int:
        config = load_config(self.config)
        with Workspace.open(config) as workspace:
            return load_table(workspace, config.tables[0]).rows

    def refused(self, *arguments: str) -> str:
        """The error of a command, which changes no file of this project's."""
        before = self.files()
        result = self.run(*arguments)
        assert isinstance(result.exception, MirrorlakeError), result.output
        assert self.files() == before
        return str(result.exception)

    def fails_to_load(self) -> str:
        """The error of a load; '' where it succeeds."""
        try:
            self.load()
        except MirrorlakeError as error:
            return str(error)
        return ""

    def killed_at(self, runner: Runner, step: str, *arguments: str) -> None:
        """Run a command in a process that dies at a step."""
        order = Order(self.config, act="command", arguments=arguments, failpoint=step, spark=False)
        run = runner.run(order)
        assert run.code == -signal.SIGKILL, run.error
