"""Days that are in the lake: each with its own rows, whatever loaded them, as DuckDB counts them;
and what a face is told of them, look by look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from mirrorlake.config import TableContract
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.peek import first_days
from mirrorlake.load.copies import copies
from mirrorlake.load.row_hashes import delta, row_index
from mirrorlake.operations.days.day_reports import DayReport, ReportCursor, find_reports
from mirrorlake.operations.days.partitions import folded_days, look_at_raw
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.repairing.restore_ledger import rebuild_table
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.workspace import Workspace
from tests.integration.lakes import by_duckdb

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TODAY = datetime.now(UTC).date()
INCREMENTAL: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at"}
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v INT, at DATETIME(6) NOT NULL, KEY (at))"


def ago(days: int) -> date:
    return TODAY - timedelta(days=days)


def counted(workspace: Workspace, contract: TableContract) -> Counter[date]:
    """Rows of raw by day, by a reader that knows no Mirrorlake."""
    days: Counter[date] = Counter()
    for table in raw_tables(workspace.lake, workspace.ledger, contract):
        if table.current_snapshot() is not None:
            days.update(by_duckdb(table)["_mirror_day"].to_pylist())
    return days


class Face:
    """What is shown of a table, and how it was told."""

    def __init__(self, workspace: Workspace, contract: TableContract, most: int = 1000) -> None:
        self.workspace, self.contract, self.most = workspace, contract, most
        self.cursor = ReportCursor()
        self.shown: dict[str, dict[date, int]] = {"raw": {}, "deduped": {}, "clean": {}}
        self.busy: set[str] = set()

    def look(self) -> list[DayReport]:
        found = find_reports(
            self.workspace.lake,
            self.workspace.ledger,
            [self.contract],
            self.cursor,
            most=self.most,
            today=TODAY,
            busy=self.busy.__contains__,
        )
        assert not found.failed
        self.cursor = found.cursor
        for report in found.reports:
            self.shown[report.layer][report.partition] = report.rows
        return list(found.reports)

    def agrees(self) -> None:
        """What is shown is what is in the lake, of each layer."""
        lake, ledger = self.workspace.lake, self.workspace.ledger
        held = look_at_raw(lake, ledger, self.contract, TODAY).held
        assert self.shown["raw"] == held.rows
        for layer in ("deduped", "clean"):
            folded = folded_days(lake, ledger, self.contract, layer, held)
            assert set(self.shown[layer]) == folded.days, layer
        if not self.contract.copies:
            rows = counted(self.workspace, self.contract)
            assert {day: n for day, n in held.rows.items() if n} == rows


def of(reports: list[DayReport], layer: str) -> set[date]:
    return {report.partition for report in reports if report.layer == layer}


@pytest.mark.full
def test_every_load_shows_on_the_days_that_it_touched(engine_for: EngineFor, sql: Sql) -> None:
    sql(
        CREATE,
        f"INSERT INTO t VALUES (1, 1, '{ago(5)} 10:00'), (2, 1, '{ago(5)} 11:00'), "
        f"(3, 1, '{ago(3)} 10:00')",
    )
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    face = Face(workspace, contract)
    assert face.look() == []
    load_table(workspace, contract)
    reports = face.look()
    assert of(reports, "raw") == {ago(n) for n in range(6)}, "empty days were read, too"
    assert [r.rows for r in reports] == [2, 0, 1, 0, 0, 0]
    assert not of(reports, "deduped"), "nothing is folded"
    face.agrees()
    fold_table(workspace, contract)
    reports = face.look()
    assert of(reports, "deduped") == of(reports, "clean") == {ago(n) for n in range(6)}
    assert not of(reports, "raw")
    face.agrees()
    # A window: today, and the days before as far as it overlaps, by the calendar of any zone.
    sql("UPDATE t SET v = 2, at = UTC_TIMESTAMP(6) WHERE id = 1")
    load_table(workspace, contract)
    [load] = workspace.ledger.successful_loads(contract.name)[-1:]
    reports = face.look()
    assert TODAY in of(reports, "raw") <= {TODAY, ago(1), ago(2)}
    assert {r.loads for r in reports} == {(load.load_id,)}
    assert {r.runs for r in reports} == {(workspace.run_id,)}
    folded = folded_days(
        workspace.lake,
        workspace.ledger,
        contract,
        "deduped",
        look_at_raw(workspace.lake, workspace.ledger, contract, TODAY).held,
    )
    assert folded.waiting[TODAY] == (load.load_id,)
    assert ago(5) in folded.days
    fold_table(workspace, contract)
    face.look()
    # A past day again: what moved on is looked up, and shows where it is now.
    reload_days(workspace, contract, ago(5), ago(4))
    assert of(face.look(), "raw") >= {ago(5), ago(4)}
    fold_table(workspace, contract)
    face.look()
    face.agrees()
    assert face.look() == []
    # A row that the mirror lost, read again.
    sql("DELETE FROM t WHERE id = 3")
    repair_table(workspace, contract, Ask())
    [repair] = workspace.ledger.successful_loads(contract.name)[-1:]
    assert repair.window.kind == "repair"
    reports = face.look()
    assert of(reports, "raw") == {TODAY}, "the day of its tombstone"
    face.agrees()
    refold_table(workspace, contract)
    face.look()
    maintain_table(workspace, contract, Ages(keep=timedelta(0)))
    face.agrees()
    assert face.look() == []
    assert first_days(workspace.config.ledger.url, [contract], 5) == {contract.name: ago(5)}


def test_a_busy_runs_load_is_left_and_found_again(engine_for: EngineFor, sql: Sql) -> None:
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{ago(1)} 10:00')")
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    load_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    sql("UPDATE t SET at = UTC_TIMESTAMP(6)")
    sync_table(workspace, contract)
    face.busy.add(workspace.run_id)
    assert face.look() == []
    assert face.cursor.waiting
    assert face.look() == []
    face.busy.clear()
    assert of(face.look(), "raw") >= {TODAY}
    face.agrees()
    assert not face.cursor.waiting


@pytest.mark.full
def test_history_comes_some_days_at_a_time(engine_for: EngineFor, sql: Sql) -> None:
    days = ", ".join(f"({n}, 1, '{ago(n)} 10:00')" for n in range(30))
    sql(CREATE, f"INSERT INTO t VALUES {days}")
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract, most=7)
    looks = []
    while found := face.look():
        looks.append(len(found))
    face.agrees()
    assert max(looks) <= 7
    assert sum(looks) == 3 * 30
    # A load of many days, too.
    reload_days(workspace, contract, ago(29), ago(1))
    looks = []
    while found := face.look():
        looks.append(len(found))
    assert max(looks) <= 7
    assert sum(looks) == 29
    assert (
        face.shown["raw"]
        == look_at_raw(workspace.lake, workspace.ledger, contract, TODAY).held.rows
    )
    fold_table(workspace, contract)
    while face.look():
        pass
    face.agrees()


@pytest.mark.full
def test_an_append_by_key_shows_the_days_of_its_loads(engine_for: EngineFor, sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    workspace = engine_for({"t": {"mode": "append", "key": ["id"], "cursor": "id"}})
    contract = workspace.config.table("t")
    face = Face(workspace, contract)
    sync_table(workspace, contract)
    face.look()
    assert face.shown["raw"] == {TODAY: 2}
    sql("INSERT INTO t VALUES (3, 1)")
    sync_table(workspace, contract)
    face.look()
    face.agrees()


def test_the_days_of_a_table_without_a_key(engine_for: EngineFor, sql: Sql) -> None:
    sql(
        "CREATE TABLE t (v INT, at DATETIME(6) NOT NULL, KEY (at))",
        f"INSERT INTO t VALUES (1, '{ago(2)} 10:00'), (1, '{ago(2)} 10:00'), (2, '{TODAY}')",
    )
    workspace = engine_for({"t": {"mode": "append", "cursor": "at", "overlap": "3d"}})
    contract = workspace.config.table("t")
    face = Face(workspace, contract)
    sync_table(workspace, contract)
    face.look()
    # The window replaces its days whole: rows that are gone are gone from raw, and shown so.
    sql(f"DELETE FROM t WHERE at < '{TODAY}'")
    sync_table(workspace, contract)
    face.look()
    face.agrees()
    assert face.shown["raw"][ago(2)] == 0


def test_full_copies_are_shown_on_their_days_alone(
    engine_for: EngineFor, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "SMALL_ROWS", 10)
    monkeypatch.setattr(delta, "LOOKED_AT", 200)
    for name, value in {"NEAR": 4, "WIDE": 64, "PASSED": 16, "READ_AT_ONCE": 16}.items():
        monkeypatch.setattr(row_index, name, value)
    values = ", ".join(f"({n}, {n})" for n in range(300))
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t VALUES {values}")
    sql("ANALYZE TABLE t")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"], "verify": True}})
    contract = workspace.config.table("t")
    face = Face(workspace, contract)
    sync_table(workspace, contract)
    face.look()
    assert face.shown["raw"] == face.shown["deduped"] == {TODAY: 300}
    # What changed alone is written; the day has the rows of the whole copy.
    sql("UPDATE t SET v = -1 WHERE id = 5", "DELETE FROM t WHERE id = 6")
    sync_table(workspace, contract)
    [copy] = workspace.ledger.successful_loads(contract.name)[-1:]
    assert copy.receipt is not None
    assert copy.receipt.stands_on, "a copy that wrote what changed"
    face.look()
    assert face.shown["raw"] == {TODAY: 299}
    # Nothing changed: no commit, and a copy was taken all the same.
    sync_table(workspace, contract)
    assert len(face.look()) == 3
    face.agrees()


def test_an_empty_table_is_read_and_holds_its_day(engine_for: EngineFor, sql: Sql) -> None:
    sql(CREATE, "CREATE TABLE f (id INT PRIMARY KEY)")
    workspace = engine_for({"t": INCREMENTAL, "f": {"mode": "full", "key": ["id"]}})
    for name in ("t", "f"):
        contract = workspace.config.table(name)
        face = Face(workspace, contract)
        sync_table(workspace, contract)
        face.look()
        assert face.shown["raw"] == {TODAY: 0}, name


def test_a_rebuilt_ledger_holds_what_the_lake_holds(engine_for: EngineFor, sql: Sql) -> None:
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{ago(4)} 10:00'), (2, 1, '{ago(2)} 10:00')")
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    before = {layer: dict(days) for layer, days in face.shown.items()}
    lost = Ledger(f"sqlite:///{workspace.config.path.parent / f'{contract.database}.again.db'}")
    rebuild_table(lost, workspace.lake, contract, "rebuild")
    face.workspace = Workspace(workspace.config, lost, workspace.lake, workspace.spark, "again")
    face.shown = {layer: {} for layer in face.shown}
    face.look()
    assert face.shown == before, "all of it is history to another ledger"
    face.agrees()
    assert face.look() == []


@pytest.mark.full
def test_months_are_shown_as_a_whole(engine_for: EngineFor, sql: Sql) -> None:
    first = (TODAY.replace(day=1) - timedelta(days=40)).replace(day=15)
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{first} 10:00'), (2, 1, UTC_TIMESTAMP(6))")
    workspace = engine_for({"t": {**INCREMENTAL, "partition": "month"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    assert sum(face.shown["raw"].values()) == 2
    assert {day.day for day in face.shown["raw"]} == {1}
    assert set(face.shown["raw"]) >= {first.replace(day=1), TODAY.replace(day=1)}
    assert face.shown["deduped"] == face.shown["raw"]
