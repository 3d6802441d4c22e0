"""Rows whose time went back are counted however many there are: in parts, from files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.load.reloads import backward
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.mark.parametrize("key", ["VARCHAR(9)", pytest.param("INT", marks=pytest.mark.full)])
def test_a_window_larger_than_what_is_in_memory(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    parts: list[int] = []
    count = backward._count

    def counted(rows: Any, seen: pa.Table, *rest: Any) -> int:
        parts.append(seen.num_rows)
        return count(rows, seen, *rest)

    monkeypatch.setattr(backward, "_count", counted)
    monkeypatch.setattr(backward, "MOST", 40)
    monkeypatch.setattr(backward, "BATCH", 16)
    sql(
        f"CREATE TABLE t (id {key} PRIMARY KEY, at DATETIME(6) NOT NULL, KEY (at))",
        "INSERT INTO t SELECT seq, UTC_TIMESTAMP(6) FROM seq_1_to_300",
    )
    workspace = engine_for({"t": {"mode": "incremental", "key": ["id"], "cursor": "at"}})
    contract = workspace.config.tables[0]
    load_table(workspace, contract)
    sql("UPDATE t SET at = UTC_TIMESTAMP(6) + INTERVAL 2 DAY WHERE id <= 250")
    assert load_table(workspace, contract).backward == 0
    parts.clear()
    # Of 250 of the future, 100 are set right; all rows are in the window.
    sql("UPDATE t SET at = UTC_TIMESTAMP(6) WHERE id <= 100 OR id > 280")
    assert load_table(workspace, contract).backward == 100
    assert sum(parts) >= 250
    assert max(parts) <= 40
