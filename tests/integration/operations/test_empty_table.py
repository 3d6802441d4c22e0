"""A table without any row: mirrored, folded and looked at like any other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mirrorlake.errors import LakeError
from mirrorlake.load.protocol import protocol
from mirrorlake.operations.checking.observe import raw_days
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.workspace import Workspace


def test_a_table_without_rows_has_no_raw_days_until_one_comes(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], database: str
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))")
    workspace = engine_for({"t": {"mode": "append", "key": ["id"], "cursor": "at"}})
    [contract] = workspace.config.tables
    assert sync_table(workspace, contract).rows == 0
    assert raw_days(workspace.lake, workspace.ledger, contract) == {}
    assert recover_table(workspace, contract, timedelta()).orphans == 0
    sql("INSERT INTO t VALUES (1, UTC_TIMESTAMP())")
    sync_table(workspace, contract)
    assert list(raw_days(workspace.lake, workspace.ledger, contract).values()) == [1]


def test_a_table_whose_first_load_failed_has_nothing_to_fold(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    [contract] = workspace.config.tables

    def failing(*_: Any) -> None:
        raise LakeError("no room", table=contract.name)

    with monkeypatch.context() as broken:
        broken.setattr(protocol, "commit_load", failing)
        broken.setattr(protocol, "commit_proved", failing)
        with pytest.raises(LakeError, match="no room"):
            load_table(workspace, contract)
    # Its schema version is known, and no load of it: that is no schema which changed.
    fold_table(workspace, contract)
    assert sync_table(workspace, contract).rows == 1
