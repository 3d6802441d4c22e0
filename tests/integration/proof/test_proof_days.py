"""The exact check tells days: as failed where rows of them differ, as passed only where every row of
them was compared."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from dagster_mirrorlake.checks.exact import exact_verdict
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing import check
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.workspace import Workspace
from tests.integration.proof.test_proof import plant

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FIRST, LAST = date(2020, 1, 2), date(2020, 1, 5)


def told(workspace: Workspace) -> dict[str, bool]:
    """The days of 2020 that the next chunk's verdict tells."""
    found = exact_verdict(workspace, MirroredTable(workspace.config.table("t")), (FIRST, LAST))[4]
    return {day: one.passed for day, one in found.items() if day < "2021"}


@pytest.mark.full
def test_days_are_told_when_their_rows_were_compared(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, modified_at DATETIME NOT NULL, "
        "KEY (modified_at))",
        "INSERT INTO t SELECT seq, 1, TIMESTAMP '2020-01-01 00:00:00' + INTERVAL seq % 5 DAY "
        "FROM seq_1_to_40",
    )
    contract = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
    workspace = engine_for({"t": {**contract, "start": "2020-01-01"}})
    sync_table(workspace, workspace.config.table("t"))
    monkeypatch.setattr(check, "CHUNK_ROWS", 20)
    good = {str(date(2020, 1, day)): True for day in range(2, 6)}
    # Half of the keys: of no day every row.
    assert told(workspace) == {}
    # A live window between two chunks writes days of its own alone.
    sql("UPDATE t SET a = 2, modified_at = UTC_TIMESTAMP() WHERE id = 7")
    sync_table(workspace, workspace.config.table("t"))
    # Of the days that are newly proved, those with rows come before 2,000 empty ones.
    assert told(workspace) == {"2020-01-01": True, **good}
    # Whatever else was written meanwhile may be of any day.
    plant(workspace, database, "UPDATE {t} SET a = 3 WHERE id = 3")
    bad = "2020-01-04"
    assert told(workspace) == {bad: False}
    repair_table(workspace, workspace.config.table("t"), Ask())
    # The repair compared all rows after what it wrote.
    assert told(workspace) == good
    # All of one state again.
    monkeypatch.setattr(check, "CHUNK_ROWS", 1_000)
    assert told(workspace) == good
    plant(workspace, database, "UPDATE {t} SET a = 3 WHERE id = 3")
    assert told(workspace) == {bad: False}
    # It differs still, and is told again.
    assert told(workspace) == {bad: False}
