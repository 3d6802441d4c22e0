"""Lakes of older releases, which knew keys by other bytes, and had NULL for some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.errors import SchemaError
from mirrorlake.load.chunks import convert
from mirrorlake.load.chunks import planner as chunk_planner
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.table import key_forms
from mirrorlake.workspace import Workspace
from tests.integration.mirrored import assert_equal, rows_of

BY_KEY = {"t": {"mode": "incremental", "key": ["k"], "cursor": "at"}}


def older_release(patch: pytest.MonkeyPatch) -> None:
    """Know keys by weights padded to their column's length, as before: NULL of a LONGTEXT."""
    padded = "WEIGHT_STRING(k AS CHAR(4294967295))"
    patch.setattr(chunk_planner, "text_identity", lambda column: padded)
    patch.setattr(key_forms, "_identified", lambda column: str(column.length))
    patch.setattr(convert, "_refuse_lost", lambda *lost: None)


@pytest.mark.full
def test_a_lake_with_null_keys_is_refused_until_a_sync_that_begins_again(
    sql: Callable[..., Any],
    engine_for: Callable[..., Workspace],
    server: EmbeddedServer,
    database: str,
) -> None:
    sql(
        "CREATE TABLE t (k LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, id INT, "
        "v INT, at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), UNIQUE (k), KEY (at))",
        "INSERT INTO t (k, id, v) VALUES ('a', 1, 1), ('b', 2, 1)",
    )
    workspace = engine_for(BY_KEY, {"time_zone": "UTC"})
    contract = workspace.config.table("t")
    with pytest.MonkeyPatch.context() as patch:
        older_release(patch)
        sync_table(workspace, contract)
        sql("UPDATE t SET v = 2 WHERE k = 'a'", "INSERT INTO t (k, id, v) VALUES ('c', 3, 1)")
        sync_table(workspace, contract)
        assert rows_of(workspace).num_rows < 3
    with pytest.raises(SchemaError, match=r"form of a key's values was .*Sync it first"):
        repair_table(workspace, contract, Ask("full"))
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    # Trailing spaces don't count: it is the same key.
    sql(
        "UPDATE t SET k = 'b ', v = 3 WHERE k = 'b'",
        "INSERT INTO t (k, id, v) VALUES ('d', 4, 1)",
    )
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
