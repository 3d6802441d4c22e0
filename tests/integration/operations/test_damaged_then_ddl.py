"""A data file of deduped that is gone or cut, and a DDL after it: the error names the file, the
table and the command that repairs it, and that command does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.errors import LakeDamaged
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows

ADDED = "ADD COLUMN c INT DEFAULT 5"
TERMS = {"mode": "incremental", "key": ["id"], "cursor": "at", "verify": True}
SLOW = {"rows_per_second": 40_000}
"""Rows of a source that is read so slowly are carried over from deduped."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("ddl", "source", "cut"),
    [
        (ADDED, SLOW, False),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in (
                (ADDED, SLOW, True), (ADDED, None, False), ("MODIFY n BIGINT", SLOW, False),
                ("MODIFY v VARCHAR(30)", SLOW, True), ("MODIFY n BIGINT", None, True),
            )
        ),
    ],
)  # fmt: skip
def test_the_error_says_what_is_gone_and_what_repairs_it(
    ddl: str,
    source: dict[str, Any] | None,
    cut: bool,
    sql: Callable[..., Any],
    engine_for: Callable[..., Workspace],
    caplog: pytest.LogCaptureFixture,
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(9), at DATETIME NOT NULL, KEY (at))",
        "INSERT INTO t SELECT seq, seq, seq, '2026-01-01' FROM seq_1_to_50",
    )
    workspace = engine_for({"t": TERMS}, source)
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    deduped = deduped_of(contract)
    table = workspace.lake.load(deduped)
    assert table is not None
    [path] = [task.file.file_path for task in table.scan().plan_files()]
    file = Path(path.removeprefix("file://").removeprefix("file:"))
    file.write_bytes(file.read_bytes()[:99]) if cut else file.unlink()
    sql(f"ALTER TABLE t {ddl}")
    with caplog.at_level(logging.WARNING), pytest.raises(LakeDamaged) as stopped:
        sync_table(workspace, contract)
    for said in (str(stopped.value), *([caplog.text] if source else ())):
        assert (
            f"its deduped table {deduped} can't be read: {path} {'has' if cut else 'is'} " in said
        )
        assert f"`mirrorlake refold {contract.name}` makes it again" in said
    refold_table(workspace, contract)
    rows = lake_rows(workspace, deduped.namespace, "t")
    assert sorted(row["id"] for row in rows) == list(range(1, 51))
    assert all(row.get("c", 5) == 5 for row in rows)
    assert sync_table(workspace, contract).window == "live"
