"""Raw in BigQuery: one table for each schema version, and over them a view of the current rows, which
has MySQL's rows whatever happened to the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demo.embedded import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.operations.bigquery.published import published, synced
from tests.integration.operations.bigquery.raw_published import (
    RAW,
    TABLE,
    TWENTY,
    assert_mysqls,
    sparks_rows,
    view_rows,
)
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live


@pytest.fixture
def raw(cloud: Cloud, dataset: str) -> str:
    """The dataset of raw; that of the views is there, too."""
    cloud.make_dataset(f"{dataset}__raw")
    return f"{dataset}__raw"


def test_first(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": RAW})
    done = synced(workspace)
    print(done)
    assert_mysqls(workspace, server.admin, database, cloud, dataset)
    sql("UPDATE t SET a = 'new' WHERE id <= 3", "INSERT INTO t VALUES (30, 'x', 1, '0000-00-00', NULL, NULL, NOW(6))")
    done = synced(workspace)
    print(done)
    assert_mysqls(workspace, server.admin, database, cloud, dataset)
    print(published(workspace))
    sql("ALTER TABLE t ADD COLUMN c DECIMAL(10,2) NOT NULL DEFAULT 1.50, MODIFY n BIGINT, RENAME COLUMN old TO new, DROP COLUMN gone")
    workspace = mirror({"t": {**RAW, "columns": {"new": {"renamed_from": "old", "pii": "show"}}}})
    done = synced(workspace)
    print(done)
    assert_mysqls(workspace, server.admin, database, cloud, dataset)
    assert len(view_rows(cloud, raw)) > 40
    def key(r): return sorted(r.items(), key=str)
    there = [{k: v or None if k == "_mirror_original" else v for k, v in r.items()} for r in view_rows(cloud, dataset)]
    assert sorted(map(key, there)) == sorted(map(key, sparks_rows(workspace)))
    for t in cloud.client().list_tables(raw): print(t.table_id, t.table_type)
