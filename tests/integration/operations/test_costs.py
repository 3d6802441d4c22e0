"""What loads and folds cost in the lake, and rows whose time goes back: counted, and loaded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger.reports.since import LoadFigures
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.status.history import history_of
from mirrorlake.operations.status.status import status_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TABLE = {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "1h"}
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200), at DATETIME(6) NOT NULL, KEY (at))"
PADDED = "INSERT INTO t SELECT seq, SHA2(seq, 512), UTC_TIMESTAMP(6) FROM seq_{}_to_{}"


def size_of(workspace: Workspace, identifier: Identifier) -> int:
    """Bytes of all data and delete files that a table's commits ever added, from its folder."""
    table = workspace.lake.load(identifier)
    assert table is not None
    folder = Path(table.location().removeprefix("file:").replace("///", "/"))
    return sum(f.stat().st_size for f in folder.glob("data/**/*.parquet"))


@pytest.mark.full
def test_what_folds_scan_and_write_is_counted(sql: Sql, engine_for: EngineFor) -> None:
    since = datetime.now(UTC)
    sql(CREATE, PADDED.format(1, 60_000))
    workspace = engine_for({"t": {**TABLE, "verify": True, "clean": "table"}})
    contract = workspace.config.tables[0]
    sync_table(workspace, contract)
    # Its proof had no Spark, and what DuckDB reads is not counted.
    deduped, clean = workspace.ledger.costs(contract.name, since)
    assert (deduped.step, clean.step) == ("deduped", "clean")
    layer = Identifier(contract.namespaces.deduped, "t")
    assert deduped.written == size_of(workspace, layer)
    (load,) = workspace.ledger.successful_loads(contract.name)
    raw = size_of(workspace, Identifier(contract.namespaces.raw, load.raw_table))
    # Nearly all of it is read: not what is only the mirror's own.
    assert deduped.scanned is not None
    assert deduped.scanned > 0.9 * raw
    sql("UPDATE t SET v = 'new', at = UTC_TIMESTAMP(6) WHERE id = 7")
    sync_table(workspace, contract)
    *_, second, _ = costs = workspace.ledger.costs(contract.name, since)
    assert (second.step, second.seq) == ("deduped", load.seq + 1)
    assert second.written == size_of(workspace, layer) - deduped.written
    loads = workspace.ledger.loads(contract.name)
    figures = [LoadFigures.of(load) for load in loads]
    found = history_of(contract.name, figures, None, costs)
    assert found.lake_scanned == sum(c.scanned or 0 for c in costs)
    assert found.lake_written == sum(c.written for c in costs) + sum(
        x.receipt.bytes for x in loads if x.receipt
    )
    before = len(costs)
    fold_table(workspace, contract)
    assert len(workspace.ledger.costs(contract.name, since)) == before


def test_rows_whose_time_goes_back_are_loaded_and_counted(sql: Sql, engine_for: EngineFor) -> None:
    sql(CREATE, PADDED.format(1, 5))
    workspace = engine_for({"t": TABLE})
    contract = workspace.config.tables[0]
    assert load_table(workspace, contract).backward == 0
    sql("UPDATE t SET v = 'ahead', at = UTC_TIMESTAMP(6) + INTERVAL 2 DAY WHERE id IN (1, 2, 3)")
    ahead = load_table(workspace, contract)
    assert (ahead.future, ahead.backward) == (3, 0)
    # Two are set right, one of them to before its first time; 4 moves on.
    sql("UPDATE t SET v = 'right', at = UTC_TIMESTAMP(6) WHERE id IN (1, 4)")
    sql("UPDATE t SET v = 'right', at = UTC_TIMESTAMP(6) - INTERVAL 20 MINUTE WHERE id = 2")
    back = load_table(workspace, contract)
    assert (back.future, back.backward) == (1, 2)
    assert (
        "2 rows whose time went back"
        in status_of(workspace.config, workspace.ledger, [contract])[0].checks
    )
    assert load_table(workspace, contract).backward == 0
    fold_table(workspace, contract)
    values = {r["id"]: r["v"] for r in lake_rows(workspace, contract.namespaces.deduped, "t")}
    assert (values[1], values[2], values[3], values[4]) == ("right", "right", "ahead", "right")


def test_a_row_that_went_back_behind_the_window_is_counted_by_the_reload(
    sql: Sql, engine_for: EngineFor
) -> None:
    today = datetime.now(UTC).date()
    sql(CREATE, PADDED.format(1, 5))
    workspace = engine_for({"t": TABLE})
    contract = workspace.config.tables[0]
    load_table(workspace, contract)
    sql("UPDATE t SET v = 'back', at = UTC_TIMESTAMP(6) - INTERVAL 9 DAY WHERE id = 2")
    sql("UPDATE t SET v = 'on', at = UTC_TIMESTAMP(6) + INTERVAL 2 DAY WHERE id = 3")
    assert load_table(workspace, contract).backward == 0
    assert reload_days(workspace, contract, today - timedelta(days=1), today).backward == 1
    fold_table(workspace, contract)
    values = {r["id"]: r["v"] for r in lake_rows(workspace, contract.namespaces.deduped, "t")}
    assert (values[2], values[3]) == ("back", "on")
