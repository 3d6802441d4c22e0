"""Few rows are folded into a small layer without Spark: the layer is what a fold by Spark makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demo.embedded import EmbeddedServer
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.merge.test_copied_load import is_copied, layer
from tests.integration.mirrored import INCREMENTAL, assert_equal

EngineFor = Callable[..., Workspace]
LOG = {"mode": "binlog", "key": ["id"]}
CREATE = (
    "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, v VARCHAR(20), d DATE, n DECIMAL(38, 12),"
    " big BIGINT UNSIGNED, b BIT(9), x BLOB, e ENUM('a','b'), f DOUBLE,"
    " at TIMESTAMP(6) NOT NULL DEFAULT UTC_TIMESTAMP(6), KEY (at))",
    "INSERT INTO t (id, v, d, n, big, b, x, e, f) SELECT seq * 3, CONCAT('v', seq), '0000-00-00',"
    " -seq / 7, 18446744073709551615 - seq, seq, CHAR(seq), 'b', -0.0 FROM seq_1_to_400",
)
STEPS = (
    ("UPDATE t SET v = NULL, f = 0.0, at = UTC_TIMESTAMP(6) WHERE id IN (3, 600)",),
    (
        "INSERT INTO t (id, v, d) VALUES (1, 'new', '2026-02-31'), (2, '', NULL)",
        "DELETE FROM t WHERE id = 9",
    ),
    ("UPDATE t SET id = 4000, at = UTC_TIMESTAMP(6) WHERE id = 12",),
    ("DELETE FROM t WHERE id < 100", "INSERT INTO t (id, v) VALUES (50, 'again')"),
)


def sync(workspace: Workspace) -> None:
    """Without Spark."""
    with pytest.MonkeyPatch.context() as without:
        for way in ("get", "start_early"):
            without.setattr(LazySpark, way, lambda _: pytest.fail("Spark was started"))
        sync_table(workspace, workspace.config.table("t"))


@pytest.mark.parametrize("contract", [LOG, INCREMENTAL], ids=["log", "incremental"])
def test_no_spark_is_started_for_few_rows(
    sql: Any,
    server: EmbeddedServer,
    database: str,
    engine_for: EngineFor,
    contract: dict[str, Any],
) -> None:
    sql(*CREATE, "SET GLOBAL binlog_row_metadata = FULL")
    workspace = engine_for({"t": contract})
    sync(workspace)
    for statements in STEPS:
        # A window sees no row that is gone.
        sql(*(s for s in statements if contract is LOG or not s.startswith("DELETE")))
        sync(workspace)
        if contract is LOG:
            assert_equal(workspace, server, database)
    assert is_copied(workspace)
    files = [task.file for task in layer(workspace, "deduped").scan().plan_files()]
    assert len(files) == 1
