"""How far a load is, told by a real one: batch by batch, and what its results say of its speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrorlake.operations.loading.sync import load_table
from mirrorlake.table.progress import Progress
from mirrorlake.workspace import Workspace

ROWS = 150_000


def test_rows_are_told_batch_by_batch_of_one_chunk(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO t SELECT seq, seq FROM seq_1_to_{ROWS}",
        "ANALYZE TABLE t",
    )
    workspace = engine_for({"t": {"mode": "append", "key": ["id"], "cursor": "id"}})
    contract = workspace.config.tables[0]
    told: list[Progress] = []
    result = load_table(workspace, contract, told.append)
    between = [seen.rows for seen in told if 0 < seen.rows < ROWS]
    assert len(between) >= 2
    assert between == sorted(between)
    assert all(seen.expected and seen.expected > ROWS / 2 for seen in told)
    assert (told[-1].rows, told[-1].ended) == (ROWS, True)
    assert all(seen.load_id == result.load_id for seen in told)
    # Two numbers a row, and what every row carries besides.
    assert result.read_bytes == told[-1].bytes > ROWS * 8
    assert result.mb_per_second > 0
    assert 0 < result.read_seconds < result.seconds
    load = workspace.ledger.last_load(contract.name)
    assert load is not None
    assert load.receipt is not None
    assert load.receipt.read_bytes == result.read_bytes
    # How many rows a later window brings, no statistics tell.
    told.clear()
    load_table(workspace, contract, told.append)
    assert {seen.expected for seen in told[:-1]} == {None}
