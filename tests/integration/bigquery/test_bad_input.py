"""What is wrong in Google Cloud: one clear error, and what was there before is as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.bigquery.api import client
from mirrorlake.bigquery.ledger import Publications
from mirrorlake.bigquery.loads import begin_load
from mirrorlake.errors import BigQueryError, MirrorlakeError, SchemaError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.google import clients
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import (
    FIFTY,
    INCREMENTAL,
    TABLE,
    checked,
    left_over,
    published,
    rows_there,
    synced,
)
from tests.support.bigquery.emulator import BUCKET, GoogleCloud


@pytest.fixture
def loaded(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], dataset: str
) -> Callable[..., Workspace]:
    """A workspace over a table that is in the lake, and not in BigQuery."""
    sql(TABLE, FIFTY)

    def make(**bigquery: Any) -> Workspace:
        workspace = mirror({"t": INCREMENTAL}, **bigquery)
        sync_table(workspace, workspace.config.table("t"))
        return workspace

    return make


def refused(workspace: Workspace) -> MirrorlakeError:
    with pytest.raises(MirrorlakeError) as found:
        published(workspace)
    return found.value


@pytest.mark.full
def test_places_that_are_missing(loaded: Callable[..., Workspace], cloud: GoogleCloud) -> None:
    error = refused(loaded(bucket="no-such-bucket"))
    assert str(error).startswith("there is no bucket gs://no-such-bucket. Make it: gcloud storage")
    error = refused(loaded(location="EU"))
    assert "is in US, and bigquery.location is EU" in str(error)
    workspace = loaded()
    dataset = workspace.config.table("t").namespaces.deduped
    cloud.client().delete_dataset(dataset)
    error = refused(workspace)
    assert str(error).startswith(f"there is no dataset local.{dataset} in BigQuery. Make it: bq mk")
    assert Publications(workspace.ledger).of_table(workspace.config.table("t").name) == []
    assert cloud.objects() == []


@pytest.mark.full
def test_nobody_is_logged_in(
    loaded: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = loaded()
    monkeypatch.delenv("BIGQUERY_EMULATOR_HOST")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
    error = refused(workspace)
    assert str(error).startswith("project local: nobody is logged in to Google Cloud")
    assert isinstance(error, BigQueryError)


@pytest.mark.full
def test_it_cannot_be_reached(
    loaded: Callable[..., Workspace], cloud: GoogleCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = loaded()
    synced(workspace)
    monkeypatch.setattr(clients, "PATIENCE", 0.1)
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", "http://127.0.0.1:9")
    for act in (published, checked):
        with pytest.raises(BigQueryError, match="Google Cloud could not do it") as found:
            act(workspace)
        assert found.value.retryable


@pytest.mark.full
def test_a_load_that_fails_leaves_the_old_rows(
    loaded: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: GoogleCloud,
    dataset: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = loaded()
    synced(workspace)
    before = rows_there(cloud, dataset)
    sql("UPDATE t SET a = 'new' WHERE id = 3")
    upload = begin_load.upload_rows

    def damaging(bigquery: Any, publication: str, *rest: Any) -> Any:
        staged = upload(bigquery, publication, *rest)
        for file in cloud.files.joinpath(BUCKET).rglob("*.parquet"):
            file.write_bytes(file.read_bytes()[:-20])
        return staged

    with monkeypatch.context() as patch:
        patch.setattr(begin_load, "upload_rows", damaging)
        with pytest.raises(BigQueryError, match="was not loaded into BigQuery") as found:
            synced(workspace)
    assert "parquet" in str(found.value).lower()
    assert rows_there(cloud, dataset) == before
    assert left_over(cloud, dataset) == []
    errored = Publications(workspace.ledger).of_table(workspace.config.table("t").name)[0]
    assert (errored.state, errored.error is not None) == ("errored", True)
    assert checked(workspace).verdict == "undecided"
    again = published(workspace)
    assert (again.state, again.how, again.loaded) == ("success", "changes", 1)
    assert rows_there(cloud, dataset) == before | {3: "new"}


@pytest.mark.full
def test_rows_that_are_lost_on_the_way_are_noticed(
    loaded: Callable[..., Workspace],
    cloud: GoogleCloud,
    dataset: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A load that says that it is done, and is not there."""
    workspace = loaded()
    submit = client.BigQuery.submit_load

    def losing(self: client.BigQuery, job: str, addresses: Any, table: Any, *rest: Any) -> None:
        submit(self, job, addresses, table, *rest)
        cloud.client().query_and_wait(f"DELETE FROM `{table}` WHERE id = 9")

    with monkeypatch.context() as patch:
        patch.setattr(client.BigQuery, "submit_load", losing)
        with pytest.raises(BigQueryError, match=r"has 49 rows; 50 were loaded"):
            published(workspace)
    assert [one.table_id for one in cloud.client().list_tables(dataset)] == []
    assert published(workspace).rows == 50


def test_a_column_that_cannot_be_there_is_refused_by_name(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: GoogleCloud, dataset: str
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, `größe €` INT)", "INSERT INTO t VALUES (1, 2)")
    workspace = mirror({"t": {"mode": "full", "key": ["id"]}})
    with pytest.raises(SchemaError, match="BigQuery has no column called 'größe €'"):
        synced(workspace)
    assert cloud.objects() == []
    assert list(cloud.client().list_tables(dataset)) == []
