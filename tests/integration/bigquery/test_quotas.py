"""Google refuses for a while: it is tried again with pauses, or the quota is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.bigquery.ledger import Publications
from mirrorlake.errors import BigQueryError
from mirrorlake.runtime.google import clients
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import (
    FIFTY,
    INCREMENTAL,
    TABLE,
    checked,
    published,
    rows_there,
    synced,
)
from tests.integration.bigquery.test_commands import said
from tests.support.bigquery.access_server import datasets_server
from tests.support.bigquery.emulator import GoogleCloud
from tests.support.bigquery.shim import BACKEND, TOO_FAST, USED_UP, Shim, shim_before

OWNER = {"role": "OWNER", "userByEmail": "owner@example.com"}


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[BigQuery, Shim]]:
    """A server with one dataset, before which requests are refused."""
    with datasets_server() as there, shim_before(there.url) as shim:
        there.put("d", [OWNER])
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", shim.url)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", shim.url)
        yield BigQuery.open(BigQueryConfig(project="local", bucket="bucket")), shim


@pytest.mark.full
def test_a_request_that_is_refused_for_seconds_is_sent_again(
    datasets: tuple[BigQuery, Shim],
) -> None:
    bigquery, shim = datasets
    shim.requests = [("/datasets/d", TOO_FAST), ("/datasets/d", BACKEND)]
    bigquery.refuse_missing_dataset("d")
    assert len(shim.seen) == 3


def test_a_quota_that_is_used_up_is_named_and_not_waited_for(
    datasets: tuple[BigQuery, Shim],
) -> None:
    bigquery, shim = datasets
    shim.requests = [("/datasets/d", USED_UP)]
    with pytest.raises(BigQueryError, match="exceeded quota for imports or query app") as caught:
        bigquery.refuse_missing_dataset("d")
    assert not caught.value.retryable
    assert "iam-admin/quotas" in caught.value.next_step
    assert len(shim.seen) == 1


@pytest.mark.full
def test_a_limit_that_never_passes_ends_and_says_so(
    datasets: tuple[BigQuery, Shim], monkeypatch: pytest.MonkeyPatch
) -> None:
    bigquery, shim = datasets
    monkeypatch.setattr(clients, "PATIENCE", 0.5)
    shim.requests = [("/datasets/d", TOO_FAST)] * 50
    with pytest.raises(BigQueryError, match="too many table update operations") as caught:
        bigquery.refuse_missing_dataset("d")
    assert caught.value.retryable


@pytest.fixture
def shim(cloud: GoogleCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shim]:
    """The emulator, of which jobs fail as Google's do."""
    with shim_before(cloud.bigquery) as found:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", found.url)
        yield found


@pytest.mark.full
def test_a_job_that_fails_for_seconds_is_begun_again(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: GoogleCloud,
    dataset: str,
    shim: Shim,
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    shim.jobs = [("_load", BACKEND), ("_write", TOO_FAST)]
    shim.requests = [("POST /bigquery/v2/projects/local/jobs", BACKEND)]
    done = synced(workspace)
    assert (done.state, len(rows_there(cloud, dataset))) == ("success", 50)
    known = Publications(workspace.ledger).of_table(workspace.config.table("t").name)
    assert [one.state for one in known] == ["success", "errored", "errored"]
    assert str(known[1].error).endswith("(rateLimitExceeded)")


@pytest.mark.full
def test_a_job_whose_quota_is_used_up_fails_at_once(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], dataset: str, shim: Shim
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    shim.jobs = [("_load", USED_UP)]
    with pytest.raises(BigQueryError, match=r"exceeded quota for imports .* Wait until the quota"):
        synced(workspace)
    [only] = Publications(workspace.ledger).of_table(workspace.config.table("t").name)
    assert only.state == "errored"
    assert published(workspace).state == "success"
    assert dataset


@pytest.mark.full
def test_what_jobs_took_is_kept_and_shown(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], dataset: str, shim: Shim
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    path = str(workspace.config.path)
    assert synced(workspace).state == "success"
    assert checked(workspace).verdict == "equal"
    [unknown] = json.loads(said("bigquery", "costs", "--config", path, "--json"))
    assert unknown["publish"]["jobs"] == {"copy": 1, "load": 1}
    assert (unknown["check"]["bytes_billed"], unknown["check"]["unknown"]) == (None, 1)
    assert "unknown queries" in said("bigquery", "costs", "--config", path)
    shim.statistics = {"totalSlotMs": "1500", "query": {"totalBytesBilled": "10485760"}}
    sql("INSERT INTO t (id) VALUES (100)")
    assert synced(workspace).how == "changes"
    [known] = json.loads(said("bigquery", "costs", "--config", path, "--json"))
    assert known["publish"]["jobs"] == {"copy": 1, "load": 2, "query": 1}
    assert known["publish"]["bytes_billed"] == 10_485_760
    assert known["publish"]["slot_ms"] == 3000
    assert "would read" in said("bigquery", "check", "--dry-run", "--config", path)
    assert dataset
