"""Tables of tenants that are published in BigQuery, as Dagster shows and drives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
import yaml

from mirrorlake.bigquery.loads.open_clients import open_for
from mirrorlake.bigquery.loads.publish import publish_table
from mirrorlake.config import Config, load_config
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.location.contracts import PASSWORD
from tests.location.test_sensors import Ticks
from tests.location.test_tenants import COLUMNS, Shops, made_by
from tests.support.bigquery.emulator import BUCKET, PROJECT, GoogleCloud, google_cloud
from tests.support.bigquery.shim import Shim, shim_before

CHAIN = ("raw", "deduped", "clean", "bigquery")
KEY = dg.AssetKey(["bigquery", "shops", "orders"])


@dataclass
class ShopsThere(Shops):
    """The same location, whose table goes to BigQuery."""

    @property
    def config(self) -> Config:
        path = super().config.path
        found = yaml.safe_load(path.read_text())
        found["bigquery"] = {"project": PROJECT, "bucket": BUCKET, "wait": "30s"}
        found["tenants"]["shops"]["tables"]["orders"]["publish"] = ["lake", "bigquery"]
        path.write_text(yaml.safe_dump(found))
        return load_config(path, environ={"TEST_PASSWORD": PASSWORD})


def test_a_published_table_of_tenants_has_an_asset_below_deduped(tmp_path: Path) -> None:
    defs = ShopsThere(tmp_path, 1).definitions
    graph = defs.resolve_asset_graph()
    found = graph.get(KEY)
    assert found.parent_keys == {dg.AssetKey(["deduped", "shops", "orders"])}
    assert (found.kinds, found.group_name) == ({"bigquery"}, "shops__bigquery")
    assert found.metadata["dagster/table_name"] == f"{PROJECT}.shops.orders"
    assert found.partitions_def is None
    assert found.tags["mirrorlake/layer"] == "bigquery"
    assert dg.AssetCheckKey(KEY, "equals_lake") in graph.asset_check_keys
    assert defs.resolve_sensor_def("unpublished").asset_selection is not None
    assert KEY not in Shops(tmp_path, 1).definitions.resolve_asset_graph().get_all_asset_keys()


Made = tuple[ShopsThere, Callable[..., None], GoogleCloud, Shim]


@pytest.fixture
def there(server: MariaDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """A location of one tenant with fifty rows, statements in it, and what Google would have."""
    shops = ShopsThere(tmp_path, server.port, every="0s")
    database = f"{shops.prefix}_a"

    def run(*statements: str) -> None:
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
            cursor.execute(f"USE {database}")
            for statement in statements:
                cursor.execute(statement)

    run(
        f"CREATE TABLE orders ({COLUMNS})",
        "INSERT INTO orders SELECT seq, 'a@mail' FROM seq_1_to_50",
    )
    monkeypatch.setenv("TEST_PASSWORD", PASSWORD)
    with google_cloud() as cloud, shim_before(cloud.bigquery) as shim:
        for name, value in (cloud.environment() | {"BIGQUERY_EMULATOR_HOST": shim.url}).items():
            monkeypatch.setenv(name, value)
        for dataset in ("shops", "shops__views_clean"):
            cloud.client().create_dataset(dataset)
        yield shops, run, cloud, shim
    run(f"DROP DATABASE {database}")


def chain(shops: Shops, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    """A run over the whole chain, BigQuery's asset included."""
    defs = shops.definitions
    keys = [dg.AssetKey([layer, "shops", "orders"]) for layer in CHAIN]
    job = dg.define_asset_job("chain", selection=dg.AssetSelection.assets(*keys))
    made = job.resolve(asset_graph=defs.get_repository_def().asset_graph)
    return made.execute_in_process(
        instance=instance, resources=dict(defs.resources or {}), raise_on_error=False
    )


@pytest.mark.alone
@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_chain_publishes_tenants_and_jobs_that_outlive_it_are_reported(there: Made) -> None:
    shops, sql, _, shim = there
    with dg.DagsterInstance.ephemeral() as instance:
        first = chain(shops, instance)
        shown = made_by(first)["bigquery"]
        assert (shown["this run"], shown["dagster/row_count"]) == ("loaded it", 50)
        assert shown["views"] == "clean: made"
        [constraint] = shown["dagster/column_schema"].constraints.other
        assert constraint == "key (_mirror_source, _mirror_database, id)"
        due = Ticks(shops.definitions, instance, "unpublished")
        heard = Ticks(shops.definitions, instance, "partitions")
        assert due.requests() == []
        assert heard.reported(KEY) == []

        shim.running = True
        sql("INSERT INTO orders VALUES (100, 'b@mail')")
        second = chain(shops, instance)
        assert second.success
        assert "bigquery" not in made_by(second)
        [request] = due.requests()
        assert list(request.asset_selection or ()) == [KEY]
        assert "jobs in BigQuery are not settled" in request.tags["mirrorlake/reason"]

        shim.running = False
        with Workspace.open(shops.config) as workspace:
            [table] = workspace.config.tenants
            assert publish_table(workspace, table, open_for(workspace, [table])).rows == 51
        [event] = heard.reported(KEY)
        assert event.metadata["dagster/row_count"].value == 51
        assert heard.reported(KEY) == []
        assert due.requests() == []

        defs = shops.definitions
        job = dg.define_asset_job(
            "compare", selection=dg.AssetSelection.checks(dg.AssetCheckKey(KEY, "equals_lake"))
        ).resolve(asset_graph=defs.get_repository_def().asset_graph)
        compared = job.execute_in_process(instance=instance, resources=dict(defs.resources or {}))
        [check] = compared.get_asset_check_evaluations()
        assert check.passed
