"""A clean view of a table whose deletes are flagged and whose columns may keep originals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.operations.checking.check_layers import prove_clean_layer
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace

FLAGGED = {"mode": "incremental", "key": ["id"], "cursor": "m", "deletes": "flag"}


def test_its_columns_stand_as_they_should(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """They stood otherwise than expected: each sync made the view again, and no check was equal."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, d DATE, m DATETIME(6) NOT NULL, KEY (m))",
        "INSERT INTO t VALUES (1, '2026-01-01', NOW(6)), (2, NULL, NOW(6))",
    )
    workspace = engine_for({"t": FLAGGED})
    contract = workspace.config.table("t")
    for _ in range(2):
        sync_table(workspace, contract)
    assert "somebody changed it" not in caplog.text
    assert prove_clean_layer(workspace, contract).verdict == "equal"
