"""The report of a real mirror says what was planted: what differs, what was repaired, what was
written since, what failed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.days.gaps import find_stretches
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.status.all_tables import named_tables
from mirrorlake.operations.status.status import status_of
from mirrorlake.proof.comparing.evidence import prove_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.report.calendar import DayRun
from mirrorlake.report.collect import make_report
from mirrorlake.report.figures import ReportedTable
from mirrorlake.report.page.write import report_page
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TODAY = datetime.now(UTC).date()
SECRET = "a value of a row"


def days_ago(count: int) -> date:
    return TODAY - timedelta(days=count)


@pytest.fixture
def workspace(sql: Sql, engine_for: EngineFor) -> Workspace:
    """Two tables: rows of nine days, by windows; and one that is copied."""
    rows = ", ".join(f"({n}, '{SECRET} {n}', '{days_ago(2 + n % 8)} 12:00:00')" for n in range(40))
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a VARCHAR(40), modified_at DATETIME NOT NULL, "
        "KEY (modified_at))",
        f"INSERT INTO t VALUES {rows}",
        "CREATE TABLE copied (id INT PRIMARY KEY)",
        "INSERT INTO copied VALUES (1), (2), (3)",
    )
    tables = {
        "t": {"mode": "incremental", "key": ["id"], "cursor": "modified_at"},
        "copied": {"mode": "full", "key": ["id"]},
    }
    workspace = engine_for(tables)
    for contract in workspace.config.tables:
        sync_table(workspace, contract)
    return workspace


def reported(workspace: Workspace, name: str = "t") -> ReportedTable:
    tables = named_tables(workspace.config, ())
    parts = (workspace.config, workspace.ledger, tables)
    found = make_report(*parts, days=14, besides=True)
    return next(one for one in found.tables if one.table.endswith(f".{name}"))


def state_of(one: ReportedTable, day: date) -> str:
    (run,) = [run for run in one.days if day in run]
    return run.state


def states(one: ReportedTable) -> set[str]:
    return {run.state for run in one.days}


def test_what_was_planted_is_on_the_page(
    database: str, workspace: Workspace, sql: Sql, tmp_path: Path
) -> None:
    contract = workspace.config.table("t")
    assert (reported(workspace).proof, states(reported(workspace))) == ("not compared", {"loaded"})

    # Proved, up to where rows were old enough.
    report, _ = prove_table(workspace, contract, Ask())
    assert report.verdict == "equal"
    one = reported(workspace)
    assert one.proof == "proved"
    assert {state_of(one, days_ago(n)) for n in range(2, 14)} == {"proved"}
    assert state_of(one, TODAY) == "loaded"
    status = status_of(workspace.config, workspace.ledger, [contract])[0]
    assert one.status is not None
    assert (
        (one.status.rows, one.status.checks)
        == (status.rows, status.checks)
        == (
            40,
            status.checks,
        )
    )

    # A difference is planted, and found by a check of its day.
    workspace.spark.get().sql(f"UPDATE lake.s_{database}.t SET a = 'wrong' WHERE id = 3")
    report, _ = prove_table(workspace, contract, Ask("partition", day=days_ago(5)))
    assert report.verdict == "different"
    one = reported(workspace)
    assert one.proof in ("different", "unknown")  # other hands moved the table as well
    assert state_of(one, days_ago(5)) in ("different", "unknown")
    assert [(x.kind, x.good) for x in one.findings] == [("found", False)]

    # Repaired: it is said, and nothing is called proved that was written since.
    assert repair_table(workspace, contract, Ask()).outcome == "equal"
    one = reported(workspace)
    kinds = [(x.kind, x.good) for x in one.findings]
    assert ("repair", True) in kinds
    assert ("found", False) in kinds
    page = report_page(
        make_report(*(workspace.config, workspace.ledger, [contract]), days=14, besides=False),
        tmp_path / "report.html",
    )
    assert SECRET not in page
    assert page.count(">evidence</a>") == sum(len(x.evidence) for x in one.findings)
    report, _ = prove_table(workspace, contract, Ask())
    assert report.verdict == "equal"
    assert state_of(reported(workspace), days_ago(5)) == "proved"

    # Written since: the days from the window's beginning on are proved no more.
    sql("UPDATE t SET a = 'later', modified_at = UTC_TIMESTAMP() - INTERVAL 20 MINUTE WHERE id = 3")
    sync_table(workspace, contract)
    one = reported(workspace)
    assert one.proof == "stale"
    assert state_of(one, TODAY) == "loaded"
    assert state_of(one, days_ago(9)) == "proved"

    # A load that fails, and a table that is marked.
    sql("RENAME TABLE t TO elsewhere")
    with pytest.raises(MirrorlakeError):
        sync_table(workspace, contract)
    gaps = {s.state for s in find_stretches(contract, workspace.ledger, TODAY)}
    assert ("errored" in gaps) == ("errored" in states(reported(workspace)))
    workspace.ledger.mark_unproved(contract.name, "server", "ALTER TABLE")
    one = reported(workspace)
    assert one.proof == "unknown"
    assert not states(one) & {"proved", "loaded"}


def test_a_copy_is_proved_on_the_day_of_its_check(workspace: Workspace, sql: Sql) -> None:
    contract = workspace.config.table("copied")
    one = reported(workspace, "copied")
    assert [run.state for run in one.days] == ["none", "loaded"]
    assert one.loaded is not None
    assert one.loaded.rows[-1] == 3
    report, _ = prove_table(workspace, contract, Ask())
    assert report.verdict == "equal"
    one = reported(workspace, "copied")
    assert (one.proof, state_of(one, TODAY)) == ("proved", "proved")
    assert one.days[0] == DayRun(days_ago(13), days_ago(1), "none", "no copy that day")
