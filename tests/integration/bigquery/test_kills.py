"""A run that is killed between any two steps of a load: the next one brings the same rows there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.failpoints import OF_BIGQUERY
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import (
    FIFTY,
    INCREMENTAL,
    TABLE,
    checked,
    killed,
    left_over,
    published,
    rows_there,
    synced,
)
from tests.integration.conftest import Place
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live

SHORT = ("bigquery.write_submitted",)
STEPS = [
    pytest.param(name, id=name, marks=[] if name in SHORT else pytest.mark.full)
    for name in OF_BIGQUERY
]


@pytest.mark.parametrize("name", STEPS)
def test_the_next_run_brings_the_same_rows(
    name: str,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    place: Place,
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    synced(workspace)
    place.spark.get().sql(f"DELETE FROM lake.{dataset}.t WHERE id <= 5")
    place.spark.get().sql(f"UPDATE lake.{dataset}.t SET a = 'new' WHERE id = 9")
    killed(workspace.config.path, name)
    again = published(workspace)
    assert (again.how, again.rows) == ("changes", 45)
    assert rows_there(cloud, dataset) == dict.fromkeys(range(6, 51), "old") | {9: "new"}
    assert left_over(cloud, dataset) == []
    assert checked(workspace).verdict == "equal"
    assert published(workspace).state == "unchanged"


def test_recover_settles_what_was_submitted(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    killed(workspace.config.path, "bigquery.load_submitted")
    [pending] = status_of(workspace.config, workspace.ledger, [contract])
    load = pending.published["bigquery"]
    assert load is not None
    assert load.state == "pending"
    # It waits for no job, and its own may run for a moment.
    while (state := recover_table(workspace, contract).published["bigquery"]) == "pending":
        pass
    assert state == "success"
    assert len(rows_there(cloud, dataset)) == 50
    assert left_over(cloud, dataset) == []
    assert published(workspace).state == "unchanged"
