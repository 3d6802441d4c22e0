"""A verdict says no more than was compared: rows that wait are counted, all others are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dagster_mirrorlake.checks.exact import exact_verdict
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.proof.comparing.counts import count_rows
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.proof.ranges.ranges import Range
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.proof.test_proof import INCREMENTAL, LONG_AGO, checked, plant, told

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
APPEND = {"mode": "append", "key": ["id"], "cursor": "id"}
HARM = (
    "DELETE FROM {t} WHERE id = 3",
    "UPDATE {t} SET a = 'altered' WHERE id = 5",
    "INSERT INTO {t} SELECT 999 AS id, a FROM {t} WHERE id = 7",
)


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def lines(workspace: Workspace, report: Report) -> list[str]:
    found = told(workspace, "t", report)
    return [line.partition(": `")[0].removesuffix(": the lake has this row") for line in found]


@pytest.mark.full
def test_a_table_of_fewer_keys_than_the_overlap_is_compared(
    database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(20))",
        "INSERT INTO t (a) VALUES " + ", ".join(f"('a{n}')" for n in range(1, 41)),
    )
    workspace = engine_for({"t": APPEND})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    report = checked(workspace, "t", Ask("next"))
    assert (report.verdict, report.source.rows, report.waiting) == ("equal", 40, 0)
    plant(workspace, database, *HARM)
    missing = "missing (id=3): MySQL has this row, the lake has not"
    gone = "extra: gone from MySQL (id=999)"
    report = checked(workspace, "t", Ask("keys", keys=Range(1, 1_000)))
    assert (report.verdict, lines(workspace, report)) == (
        "different",
        ["changed (id=5)", gone, missing],
    )
    counts = count_rows(workspace, contract)
    assert (counts.verdict, counts.source_rows, counts.lake_rows) == ("equal", 40, 40)
    # Once MySQL moves on, a row that the lake lacks may still be on its way: it waits. What both
    # sides have is compared all the same.
    sql("INSERT INTO t (a) VALUES ('new')")
    report = checked(workspace, "t", Ask("next"))
    assert (report.verdict, lines(workspace, report)) == ("different", [gone])
    assert (report.waiting, sum(report.undecided.values())) == (2, 1)
    # The sweep takes away what MySQL has no more; the rest is not passed as equal.
    passed, _, words, *_ = exact_verdict(workspace, MirroredTable(contract))
    assert (passed, "now undecided" in str(words)) == (False, True)
    status = status_of(workspace.config, workspace.ledger, [contract])[0]
    assert "different as of " in status.checks
    assert status.checks.endswith(": 1 row")
    counts = count_rows(workspace, contract)
    assert (counts.verdict, counts.source_rows, counts.waiting) == ("equal", 39, 2)
    sync_table(workspace, contract)
    assert repair_table(workspace, contract, Ask()).outcome == "equal"
    assert checked(workspace, "t").source.rows == 41


@pytest.mark.full
@pytest.mark.parametrize("mode", ["incremental", pytest.param("append", marks=pytest.mark.full)])
def test_rows_beside_the_bounds_are_judged_by_their_key(
    mode: str, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """Rows dated in the future, and rows from before ``start``; deletes among them are swept."""
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a VARCHAR(20), "
        "modified_at DATETIME NOT NULL, KEY (modified_at))",
        f"INSERT INTO t VALUES (1, 'old', '2019-01-01'), (2, 'x', '{LONG_AGO}'), "
        "(3, 'future', '2099-01-01'), (4, 'future', '2099-01-01'), (5, 'y', '2020-01-02')",
    )
    workspace = engine_for({"t": {**INCREMENTAL, "mode": mode, "start": "2020-01-01"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    plant(
        workspace,
        database,
        "INSERT INTO {t} SELECT explode(array(1, 6)), 'old', TIMESTAMP_NTZ'2019-01-01', "
        "_mirror_original FROM {t} WHERE id = 2",
    )
    sql("DELETE FROM t WHERE id = 4", "UPDATE t SET a = 'new', modified_at = NOW() WHERE id = 5")
    counts = count_rows(workspace, contract)
    days = {"2099-01-01": (0, 1), "2019-01-01": (1, 2)}
    if mode == "append":  # rows never change, so one that left its day is counted
        days |= {"2099-01-01": (1, 2), "2020-01-02": (0, 1)}
    assert counts.days == days
    assert (counts.verdict, counts.lost, counts.surplus) == ("different", 0, len(days))
    for ask in (Ask(), Ask("keys", keys=Range(4, 5))):
        report = checked(workspace, "t", ask)
        extra = [f"extra: gone from MySQL (id={n})" for n in (4, 6) if ask.kind == "full" or n < 5]
        assert [line for line in lines(workspace, report) if line.startswith("extra")] == extra
    # The row that both sides date in the future is equal, and waits no longer; so is the one from
    # before `start` that MySQL has just so.
    done = repair_table(workspace, contract, Ask(), only_deletes=True)
    assert done.gone == 2
    assert (done.after.waiting, done.after.beside >= 2) == (1, True)
    assert done.outcome == ("equal" if mode == "incremental" else "undecided")
    # One that is altered on the lake's side is not passed as equal, however new it looks.
    sync_table(workspace, contract)
    plant(workspace, database, "UPDATE {t} SET a = 'altered' WHERE id = 1")
    assert "changed (id=1)" in lines(workspace, checked(workspace, "t"))


def test_nothing_compared_is_not_equal(database: str, sql: Sql, engine_for: EngineFor) -> None:
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a VARCHAR(20), "
        "modified_at DATETIME NOT NULL, KEY (modified_at))",
        "INSERT INTO t VALUES (1, 'x', NOW()), (2, 'y', NOW())",
    )
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    # As the newest load left it, everything is compared, however new.
    assert (checked(workspace, "t").verdict, checked(workspace, "t").source.rows) == ("equal", 2)
    sql("UPDATE t SET a = 'z', modified_at = NOW() + INTERVAL 1 SECOND")
    report = checked(workspace, "t", Ask("next"))
    assert (report.verdict, report.waiting) == ("undecided", 2)
    assert sum(report.undecided.values()) == 2
    assert count_rows(workspace, contract).source_rows in (0, 2)
    assert exact_verdict(workspace, MirroredTable(contract))[0] is False


KEYS = {
    "VARCHAR(20) CHARACTER SET latin1": "concat(k, '😶')",
    "VARCHAR(20) CHARACTER SET utf8mb3": "concat(k, '😶')",
    "VARCHAR(20) CHARACTER SET gbk": "concat(k, 'é😶')",
    "ENUM('1','2','ä') CHARACTER SET latin1": "concat(k, '😶')",
    "TIME": "'what'",
    "YEAR": "CAST(2 AS INT)",
    "DECIMAL(50,0)": "concat(k, 'x')",
    "DATE": "DATE'+12345-01-01'",
}


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", [next(iter(KEYS)), *(pytest.param(k, marks=pytest.mark.full) for k in [*KEYS][1:])]
)
def test_a_key_that_the_column_cannot_hold_is_extra(
    kind: str, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """And hides no other difference."""
    values = ("'2001-01-01'", "'2002-02-02'") if kind == "DATE" else ("'1'", "'2'")
    if kind == "YEAR":
        values = ("1901", "2002")
    rows = ", ".join(f"({value}, {n}, '{LONG_AGO}')" for n, value in enumerate(values, 1))
    sql(
        f"CREATE TABLE t (k {kind} NOT NULL PRIMARY KEY, v INT, modified_at DATETIME NOT NULL, "
        "KEY (modified_at))",
        f"INSERT INTO t VALUES {rows}",
    )
    workspace = engine_for({"t": {**INCREMENTAL, "key": ["k"]}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    plant(
        workspace,
        database,
        "UPDATE {t} SET v = 9 WHERE v = 2",
        f"INSERT INTO {{t}} BY NAME (SELECT *  EXCEPT (k), {KEYS[kind]} AS k FROM {{t}} "
        "WHERE v = 1)",
    )
    report = checked(workspace, "t", Ask("next"))
    assert [line.split(" ")[0] for line in lines(workspace, report)] == ["changed", "extra:"]
    assert repair_table(workspace, contract, Ask()).outcome == "equal"
