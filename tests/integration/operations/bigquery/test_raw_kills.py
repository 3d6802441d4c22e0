"""A run that is killed between any two steps of a load of raw: the next one brings every row there
once, and the views show MySQL's rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.failpoints import OF_BIGQUERY, OF_BIGQUERY_RAW
from mirrorlake.operations.recover import recover_table
from mirrorlake.operations.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.operations.bigquery.published import (
    INCREMENTAL,
    checked,
    killed,
    left_over,
    published,
    synced,
)
from tests.integration.operations.bigquery.raw_published import (
    RAW,
    TABLE,
    TWENTY,
    looked,
    raw_contract,
    view_rows,
)
from tests.support.bigquery.cloud import Cloud

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
SHORT = ("bigquery.write_submitted",)
ADDED = [
    pytest.param(name, id=name, marks=[] if name in SHORT else pytest.mark.full)
    for name in (*OF_BIGQUERY, "bigquery.raw_begun", "bigquery.raw_loaded", "bigquery.raw_viewed")
]


def assert_there_once(
    workspace: Workspace, cloud: Cloud, dataset: str, raw: str, rows: dict[int, str]
) -> None:
    versions = looked(workspace).versions
    for one in versions:
        name = one.identifier.name
        there = view_rows(cloud, raw, name)
        assert len(there) == workspace.lake.count_rows(one.identifier)
    assert {row["id"]: row["a"] for row in view_rows(cloud, dataset)} == rows
    assert sorted(left_over(cloud, raw)) == sorted(one.identifier.name for one in versions)
    found = checked(workspace)
    assert found.verdict == "equal", found.words
    assert published(workspace).state == "unchanged"


@pytest.mark.parametrize("name", ADDED)
def test_loads_that_are_added_are_there_once(
    name: str,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": RAW})
    synced(workspace)
    sql("UPDATE t SET a = 'new' WHERE id <= 5")
    sync_table(workspace, raw_contract(workspace))
    killed(workspace.config.path, name)
    # It waits for no job, and its own may run for a moment.
    while recover_table(workspace, raw_contract(workspace)).bigquery == "pending":
        pass
    published(workspace)
    now = dict(sql("SELECT id, a FROM t"))
    assert_there_once(workspace, cloud, dataset, raw, now)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "nth"),
    # A load of each version passes these, and the run passes the others once.
    [*((name, nth) for name in OF_BIGQUERY for nth in (1, 2)), *((n, 1) for n in OF_BIGQUERY_RAW)],
)
def test_two_versions_in_the_place_of_deduped_are_there_once(
    name: str,
    nth: int,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": INCREMENTAL})
    synced(workspace)
    sql("ALTER TABLE t MODIFY n BIGINT", "UPDATE t SET a = 'new' WHERE id <= 5")
    sync_table(workspace, raw_contract(workspace))
    workspace = mirror({"t": RAW})
    killed(workspace.config.path, f"{name}:{nth}")
    published(workspace)
    assert_there_once(workspace, cloud, dataset, raw, dict(sql("SELECT id, a FROM t")))
