"""Models in BigQuery: after each change of their tables in the lake, the rows there are the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.bigquery.check import BigQueryVerdict, check_published
from mirrorlake.bigquery.loads.publish import PublishOutcome, publish_table
from mirrorlake.bigquery.models import models_in_bigquery
from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import OF_BIGQUERY
from mirrorlake.models.bigquery.published import PublishedModel
from mirrorlake.models.compute.run import run_model
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.partition_states.states import States
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import (
    address,
    client_of,
    killed,
    left_over,
)
from tests.integration.conftest import Place, share_session
from tests.support.bigquery.emulator import GoogleCloud

TABLE = """CREATE TABLE t (id INT PRIMARY KEY, store VARCHAR(20), amount DECIMAL(12,2),
    at DATETIME(6))"""
HUNDRED = """INSERT INTO t SELECT seq, IF(seq % 2, 'Paris', "L'Or\\\\Sud"), seq / 4,
    TIMESTAMP('2026-01-01', SEC_TO_TIME(seq)) + INTERVAL (seq % 10) DAY FROM seq_1_to_100"""
HEADER = """---
for:
  day: TIMESERIES('2026-01-01', '2026-01-11', 'P1D')
  shop: [Paris, 'L''Or\\Sud']
publish: [lake, bigquery]
---
"""
QUERY = (
    "SELECT id, amount, at, amount > 10 AS dear FROM {0}.t WHERE DATE(at) = day AND store = shop"
)


def as_texts(rows: Iterable[Iterable[Any]]) -> list[str]:
    """Rows in order; a decimal without zeros at its end, which BigQuery does not keep."""
    return sorted(
        repr([one.normalize() if isinstance(one, Decimal) else one for one in row]) for row in rows
    )


@dataclass
class Made:
    """A model over a table of a hundred rows, in the lake and in BigQuery."""

    workspace: Workspace
    contract: PublishedModel
    place: Place
    cloud: GoogleCloud

    @property
    def lake_name(self) -> str:
        return f"lake.{self.contract.model}"

    def spark(self, *statements: str) -> None:
        for one in statements:
            self.place.spark.get().sql(one.format(self.lake_name))

    def run(self, *, again: bool = False, rebuild: bool = False) -> None:
        """Its table's partitions, after a sync of what it reads."""
        sync_table(self.workspace, self.workspace.config.table("t"))
        project, catalogue = compile_project(self.workspace.config, self.workspace.lake)
        states = States(project, catalogue, self.workspace.lake, self.workspace.ledger)
        model = project.model(self.contract.model)
        run_model(self.workspace, states, model, model.scopes, again=again, rebuild=rebuild)

    def publish(self) -> PublishOutcome:
        return publish_table(self.workspace, self.contract, client_of(self.workspace))

    def check(self) -> BigQueryVerdict:
        return check_published(self.workspace, self.contract, client_of(self.workspace))

    def rows_there(self) -> list[str]:
        dataset, name = self.contract.model.split(".")
        rows = self.cloud.client().list_rows(address(dataset, name))
        return as_texts(row.values() for row in rows)

    def rows_here(self) -> list[str]:
        table = self.workspace.lake.load(self.contract.identifier)
        assert table is not None
        rows = table.scan().to_arrow().to_pylist()
        return as_texts(row.values() for row in rows)

    def assert_exact(self) -> None:
        """Both have the same rows, by Google's client and by the check."""
        dataset, name = self.contract.model.split(".")
        assert left_over(self.cloud, dataset, name) == []
        assert self.rows_there() == self.rows_here()
        found = self.check()
        assert (found.verdict, found.words) == ("equal", "")


@pytest.fixture
def made(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: GoogleCloud,
    database: str,
    place: Place,
) -> Iterator[Callable[..., Made]]:
    """Writes the model ``m_<database>.x``."""
    dataset = f"m_{database}"
    folder = place.folder / "models" / dataset

    def make(header: str = HEADER, query: str = QUERY) -> Made:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "x.sql").write_text(header + query.format(f"s_{database}"))
        workspace = mirror({"t": {"mode": "full", "key": ["id"], "publish": ["lake"]}})
        if dataset not in {one.dataset_id for one in cloud.client().list_datasets()}:
            sql(TABLE, HUNDRED)
            cloud.client().create_dataset(dataset)
            sync_table(workspace, workspace.config.table("t"))
        (contract,), broken = models_in_bigquery(workspace.config, lambda: workspace.lake)
        assert not broken
        return Made(workspace, contract, place, cloud)

    yield make
    shutil.rmtree(folder)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_partitions_that_changed_are_replaced_and_no_others(
    made: Callable[..., Made], sql: Callable[..., Any]
) -> None:
    model = made()
    assert model.publish().state == "not loaded"
    model.run()
    first = model.publish()
    assert (first.how, first.rows, first.views) == ("all rows", 100, {})
    model.assert_exact()
    assert model.publish().state == "unchanged"
    # One row moves to another day and shop, one goes.
    sql("UPDATE t SET at = '2026-01-05', store = 'Paris' WHERE id = 10")
    sql("DELETE FROM t WHERE id = 33")
    model.run()
    second = model.publish()
    assert (second.how, second.rows) == ("changes", 99)
    assert second.loaded is not None
    assert second.loaded < 40
    model.assert_exact()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_rows_without_a_partition_and_partitions_that_go_are_exact(
    made: Callable[..., Made],
) -> None:
    """Written by Spark into the model's table: no scope is NULL, but a lake table may be anything."""
    model = made()
    model.run()
    model.publish()
    columns = "id, amount, at, dear, day, shop"
    values = (
        "(901, 1.5, NULL, true, NULL, 'Paris'), (902, NULL, NULL, NULL, DATE'2026-01-03', NULL)"
    )
    model.spark(f"INSERT INTO {{}} ({columns}) VALUES {values}, (903, 2, NULL, false, NULL, NULL)")
    added = model.publish()
    assert (added.how, added.loaded, added.rows) == ("changes", 3, 103)
    model.assert_exact()
    model.spark("DELETE FROM {} WHERE day IS NULL AND shop = 'Paris'")
    gone = model.publish()
    assert (gone.how, gone.loaded, gone.rows) == ("changes", 0, 102)
    model.assert_exact()
    model.spark("DELETE FROM {} WHERE day = DATE'2026-01-04'", "DELETE FROM {} WHERE shop IS NULL")
    assert model.publish().how == "changes"
    model.assert_exact()
    # Half of a partition, and a compaction.
    model.spark("DELETE FROM {} WHERE id = 1")
    assert model.publish().how == "changes"
    model.assert_exact()
    name = model.contract.model
    model.spark(
        f"CALL lake.system.rewrite_data_files(table => '{name}', "
        "options => map('rewrite-all', 'true'))"
    )
    assert "no row changed" in model.publish().why
    model.assert_exact()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_all_rows_are_loaded_where_partitions_do_not_tell(made: Callable[..., Made]) -> None:
    model = made("---\npublish: [lake, bigquery]\n---\n", "SELECT id, amount FROM {0}.t")
    model.run()
    assert model.publish().how == "all rows"
    model.run(again=True)
    again = model.publish()
    assert (again.how, "no partitions of it" in again.why) == ("all rows", True)
    model.assert_exact()
    # Made again by other partitions, and by another layout.
    model = made()
    model.run(rebuild=True)
    other = model.publish()
    assert other.how == "all rows"
    model.assert_exact()
    model.run(again=True)
    assert "more than half" in model.publish().why
    model.assert_exact()
    model = made(
        HEADER.replace("---\nfor", "---\nbigquery: {partition_by: at, partition: month}\nfor")
    )
    assert "partitions are others" in model.publish().why
    model.assert_exact()


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_table_that_no_model_made_is_not_loaded(made: Callable[..., Made]) -> None:
    model = made()
    name = Identifier(*model.contract.model.split("."))
    model.workspace.lake.make_namespace(name.namespace)
    model.spark("CREATE TABLE {} USING iceberg AS SELECT 1 AS id")
    with pytest.raises(LakeError, match="no model made it"):
        model.publish()


def said(path: str, *arguments: str) -> Any:
    """What a command prints for programs."""
    ended = CliRunner().invoke(cli, [*arguments, "--config", path, "--json"])
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_backfill_loads_what_it_computed_and_recover_settles_jobs(
    made: Callable[..., Made],
    sql: Callable[..., Any],
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = made()
    share_session(place, monkeypatch)
    name, path = model.contract.model, str(model.workspace.config.path)
    filled, there = said(path, "backfill", name)
    assert (filled["model"], filled["error"]) == (name, None)
    assert (there["bigquery"]["table"], there["bigquery"]["rows"]) == (f"model {name}", 100)
    model.assert_exact()
    sql("UPDATE t SET amount = 99 WHERE id = 9")
    model.run()
    killed(model.workspace.config.path, "bigquery.load_submitted", model=model.contract)
    found = said(path, "recover")["tables"]
    assert [(one["table"], one["bigquery"]) for one in found][1:] == [(f"model {name}", "success")]
    assert len(found) == 2
    model.assert_exact()
    [again] = said(path, "recover", name)["tables"]
    assert again["bigquery"] == "success"


@pytest.mark.full
@pytest.mark.timeout(600)
def test_commands_name_it(
    made: Callable[..., Made], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made()
    share_session(place, monkeypatch)
    name, path = model.contract.model, str(model.workspace.config.path)

    def command(*arguments: str) -> Any:
        return said(path, *arguments)

    [ran] = command("run", name)
    assert (ran["model"], ran["bigquery"]["state"], ran["bigquery"]["rows"]) == (
        *(name, "success", 100),
    )
    [published] = command("bigquery", "publish")["tables"]
    assert (published["table"], published["state"]) == (f"model {name}", "unchanged")
    [checked] = command("bigquery", "check", name)
    assert (checked["table"], checked["verdict"]) == (f"model {name}", "equal")
    [costs] = command("bigquery", "costs", name)
    assert costs["publish"]["jobs"] == {"copy": 1, "load": 1}
    assert command("show", name)["bigquery"]["rows"] == 100
    # One that does not compile is named, and keeps no table from being loaded.
    file = place.folder / "models" / name.replace(".", "/")
    file.with_suffix(".sql").write_text(HEADER + "SELECT nobody FROM nowhere.here")
    ended = CliRunner().invoke(cli, ["bigquery", "publish", "--config", path, "--json"])
    assert ended.exit_code == 2
    [error] = json.loads(ended.stdout)["errors"]
    assert (error["table"], "nowhere.here" in error["error"]) == (name, True)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OF_BIGQUERY)
def test_a_run_that_is_killed_is_continued(
    name: str, made: Callable[..., Made], sql: Callable[..., Any]
) -> None:
    model = made()
    model.run()
    model.publish()
    sql("UPDATE t SET amount = 99 WHERE id = 9")
    model.run()
    killed(model.workspace.config.path, name, model=model.contract)
    again = model.publish()
    assert (again.how, again.rows) == ("changes", 100)
    model.assert_exact()
    assert model.publish().state == "unchanged"
