"""Partitions of an hour: each with its own rows, as DuckDB counts them; a load reports the hours
that it read, and no earlier one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.days.day_reports import DayReport
from mirrorlake.operations.days.partitions import held_partitions, look_at_raw
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.repairing.restore_ledger import rebuild_table
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.workspace import Workspace
from tests.integration.lakes import by_duckdb
from tests.integration.operations.test_partitions import TODAY, EngineFor, Face, Sql, ago

HOURLY: dict[str, Any] = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "partition": "hour",
    "overlap": "1m",
}
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v INT, at DATETIME(6) NOT NULL, KEY (at))"
HOUR = timedelta(hours=1)


def hours_of(workspace: Workspace, contract: TableContract, column: str = "at") -> Counter[Any]:
    """Row versions of raw by hour, by a reader that knows no Mirrorlake."""
    found: Counter[Any] = Counter()
    for table in raw_tables(workspace.lake, workspace.ledger, contract):
        for row in by_duckdb(table).to_pylist():
            day, at = row["_mirror_day"], row[column]
            at = at and at.replace(tzinfo=None)
            own = at is not None and at.date() == day
            hour = at.hour if own else 0
            found[datetime.combine(day, datetime.min.time()).replace(hour=hour)] += 1
    return found


def rows_of(reports: list[DayReport], layer: str = "raw") -> dict[date, int]:
    return {report.partition: report.rows for report in reports if report.layer == layer}


def test_an_hour_has_its_own_rows(engine_for: EngineFor, sql: Sql) -> None:
    sql(
        CREATE,
        f"INSERT INTO t VALUES (1, 1, '{ago(2)} 00:00'), (2, 1, '{ago(2)} 00:59:59.999999'), "
        f"(3, 1, '{ago(2)} 23:59:59.999999'), (4, 1, '{ago(1)} 07:30')",
    )
    workspace = engine_for({"t": HOURLY})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract)
    shown = rows_of(face.look())
    assert {hour: rows for hour, rows in shown.items() if rows} == hours_of(workspace, contract)
    assert len(shown) >= 48
    assert {h for h in shown if h.date() < TODAY} == {  # type: ignore[attr-defined]
        datetime.combine(ago(n), datetime.min.time()) + hour * HOUR
        for n in (1, 2)
        for hour in range(24)
    }
    [moment] = {
        datetime.fromisoformat(load.receipt.moment).replace(tzinfo=None)
        for load in workspace.ledger.successful_loads(contract.name)
        if load.receipt
    }
    assert max(shown) == moment.replace(minute=0, second=0, microsecond=0), "no hour to come"
    assert face.shown["deduped"] == face.shown["clean"] == face.shown["raw"]
    assert face.look() == []


def test_a_load_is_reported_for_the_hours_that_it_read(engine_for: EngineFor, sql: Sql) -> None:
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{ago(1)} 03:00'), (2, 1, UTC_TIMESTAMP(6))")
    workspace = engine_for({"t": HOURLY}, {"time_zone": "UTC"})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    sql("INSERT INTO t VALUES (3, 1, UTC_TIMESTAMP(6))")
    load_table(workspace, contract)
    [load] = workspace.ledger.successful_loads(contract.name)[-1:]
    reports = face.look()
    assert load.window.lo is not None
    since = datetime.fromisoformat(load.window.lo).replace(minute=0, second=0, microsecond=0)
    assert reports
    # A row without an hour would be in its day's first.
    midnight = datetime.combine(since.date(), datetime.min.time())
    assert min(set(rows_of(reports)) - {midnight}, default=midnight) == since
    assert not rows_of(reports, "deduped"), "it is not folded"
    counted = hours_of(workspace, contract)
    assert {h: n for h, n in face.shown["raw"].items() if n} == counted
    # A fold is reported though a newer load waits for the next one: of the hours before it.
    fold_table(workspace, contract)
    assert set(rows_of(face.look(), "deduped")) == set(rows_of(reports))
    assert face.look() == []


@pytest.mark.full
def test_hours_before_a_load_that_waits_are_folded(engine_for: EngineFor, sql: Sql) -> None:
    """What is folded turns green, whatever came to its day since."""
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{ago(2)} 03:00'), (2, 1, UTC_TIMESTAMP(6))")
    workspace = engine_for({"t": HOURLY}, {"time_zone": "UTC"})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("INSERT INTO t VALUES (3, 1, UTC_TIMESTAMP(6))")
    load_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    waiting = set(face.shown["raw"]) - set(face.shown["deduped"])
    [load] = workspace.ledger.successful_loads(contract.name)[-1:]
    since = datetime.fromisoformat(str(load.window.lo)).replace(minute=0, second=0, microsecond=0)
    midnight = datetime.combine(since.date(), datetime.min.time())
    assert waiting == {hour for hour in face.shown["raw"] if hour >= since} | {midnight}
    assert len(face.shown["deduped"]) > 24


def test_a_reload_reports_its_days_hours(engine_for: EngineFor, sql: Sql) -> None:
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{ago(2)} 03:00'), (2, 1, '{ago(1)} 04:00')")
    workspace = engine_for({"t": HOURLY})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    sql(f"UPDATE t SET at = '{ago(2)} 05:30', v = 2 WHERE id = 1")
    reload_days(workspace, contract, ago(2), ago(2))
    shown = rows_of(face.look())
    assert {hour.date() for hour in shown} == {ago(2)}  # type: ignore[attr-defined]
    assert len(shown) == 24
    counted = hours_of(workspace, contract)
    assert {hour: rows for hour, rows in face.shown["raw"].items() if rows} == counted


@pytest.mark.full
def test_without_a_key_a_days_hours_are_all_written_again(engine_for: EngineFor, sql: Sql) -> None:
    sql(
        "CREATE TABLE t (v INT, at TIMESTAMP(3) NOT NULL, KEY (at))",
        "INSERT INTO t VALUES (1, UTC_TIMESTAMP(3) - INTERVAL 3 HOUR), (2, UTC_TIMESTAMP(3))",
    )
    workspace = engine_for({"t": {**HOURLY, "mode": "append", "key": []}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    sql("INSERT INTO t VALUES (3, UTC_TIMESTAMP(3))")
    load_table(workspace, contract)
    reports = rows_of(face.look())
    midnight = datetime.combine(TODAY, datetime.min.time())
    assert midnight in reports
    assert {h: n for h, n in face.shown["raw"].items() if n} == hours_of(workspace, contract)


@pytest.mark.full
def test_a_row_without_an_hour_is_in_its_days_first(engine_for: EngineFor, sql: Sql) -> None:
    """Keys are the cursor; ``created`` tells the hour, and may be NULL: its day is the load's."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, born DATETIME)",
        f"INSERT INTO t VALUES (1, NULL), (2, NULL), (3, '{ago(1)} 13:14:15')",
    )
    contract_of = {**HOURLY, "mode": "append", "cursor": "id", "created": "born"}
    workspace = engine_for({"t": {k: v for k, v in contract_of.items() if k != "overlap"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    shown = {hour: rows for hour, rows in face.shown["raw"].items() if rows}
    assert shown == hours_of(workspace, contract, "born")
    assert shown[datetime.combine(TODAY, datetime.min.time())] == 2


def test_a_rebuilt_ledger_shows_the_hours_that_have_rows(engine_for: EngineFor, sql: Sql) -> None:
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{ago(1)} 03:00'), (2, 1, UTC_TIMESTAMP(6))")
    workspace = engine_for({"t": HOURLY})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    lost = Ledger(f"sqlite:///{workspace.config.path.parent / f'{contract.database}.again.db'}")
    rebuild_table(lost, workspace.lake, contract, "rebuild")
    face = Face(replace(workspace, ledger=lost), contract)
    face.look()
    counted = hours_of(workspace, contract)
    assert {hour: rows for hour, rows in face.shown["raw"].items() if rows} == counted


@pytest.mark.full
def test_hours_that_nobody_read_are_not_held_tomorrow(engine_for: EngineFor, sql: Sql) -> None:
    """A day that has ended is held; its hours after the newest load were not read."""
    sql(CREATE, "INSERT INTO t VALUES (1, 1, UTC_TIMESTAMP(6))")
    workspace = engine_for({"t": HOURLY})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    lake, ledger, tomorrow = workspace.lake, workspace.ledger, ago(-1)
    held = set(held_partitions(contract, look_at_raw(lake, ledger, contract, TODAY), TODAY))
    later = set(held_partitions(contract, look_at_raw(lake, ledger, contract, tomorrow), tomorrow))
    assert later == held
    assert max(later) < datetime.now(UTC).replace(tzinfo=None)


@pytest.mark.full
def test_a_day_that_is_read_again_holds_the_hours_that_had_begun(
    engine_for: EngineFor, sql: Sql
) -> None:
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{ago(1)} 03:00')")
    workspace = engine_for({"t": HOURLY})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    reload_days(workspace, contract, ago(1), TODAY)
    looked = look_at_raw(workspace.lake, workspace.ledger, contract, TODAY)
    assert set(looked.held.reread) == {TODAY}
    assert looked.held.read_until is not None
    assert looked.held.reread[TODAY] > looked.held.read_until


def test_hours_in_place_of_days_are_another_history(engine_for: EngineFor, sql: Sql) -> None:
    """How the feature is adopted: nothing needs to be loaded again."""
    sql(CREATE, f"INSERT INTO t VALUES (1, 1, '{ago(1)} 03:00'), (2, 1, UTC_TIMESTAMP(6))")
    by_day = engine_for({"t": {k: v for k, v in HOURLY.items() if k != "partition"}})
    sync_table(by_day, by_day.config.table("t"))
    face = Face(by_day, by_day.config.table("t"))
    face.look()
    assert set(face.shown["raw"]) == {ago(1), TODAY}
    workspace = engine_for({"t": HOURLY})
    face.workspace, face.contract = workspace, workspace.config.table("t")
    face.shown = {layer: {} for layer in face.shown}
    face.look()
    assert len(face.shown["raw"]) > 24
    assert face.shown["clean"] == face.shown["raw"]
    assert face.look() == []


@pytest.mark.parametrize("ahead", [6, 30], ids=["hours", "a day"])
def test_a_source_clock_that_is_ahead_says_nothing_of_hours_to_come(
    ahead: int, engine_for: EngineFor, sql: Sql
) -> None:
    sql(CREATE, "INSERT INTO t VALUES (1, 1, UTC_TIMESTAMP(6))")
    workspace = engine_for({"t": HOURLY})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    with sa.create_engine(workspace.config.ledger.url).begin() as ledger:
        of_table = sa.text(
            "SELECT seq, receipt FROM loads WHERE table_name = :t AND receipt IS NOT NULL"
        )
        found = ledger.execute(of_table, {"t": contract.name}).all()
        assert found
        for seq, text in found:
            receipt = json.loads(text)
            moment = datetime.fromisoformat(receipt["moment"]) + timedelta(hours=ahead)
            receipt["moment"] = moment.isoformat(" ")
            ledger.execute(
                sa.text("UPDATE loads SET receipt = :r WHERE seq = :s"),
                {"r": json.dumps(receipt), "s": seq},
            )
    looked = look_at_raw(workspace.lake, workspace.ledger, contract, TODAY)
    held = held_partitions(contract, looked, TODAY)
    assert max(held) <= datetime.now(UTC).replace(tzinfo=None)


def test_a_wall_clock_that_is_not_utc_is_refused(engine_for: EngineFor, sql: Sql) -> None:
    """Dagster's hours are UTC's: a local hour would be green before it began, or hours late."""
    sql(CREATE)
    workspace = engine_for({"t": HOURLY}, {"time_zone": "America/New_York"})
    with pytest.raises(ConfigError, match="the clock of America/New_York"):
        load_table(workspace, workspace.config.table("t"))


@pytest.mark.parametrize(
    ("columns", "changed", "words"),
    [
        ("at DATE NOT NULL, KEY (at)", {}, "'at' is a DATE"),
        (
            "at DATETIME",
            {"mode": "append", "cursor": "id", "overlap": None},
            "no column tells a row's day",
        ),
    ],
)
def test_what_tells_no_hour_is_refused(
    engine_for: EngineFor, sql: Sql, columns: str, changed: dict[str, Any], words: str
) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    fields = {k: v for k, v in {**HOURLY, **changed}.items() if v is not None}
    workspace = engine_for({"t": fields})
    with pytest.raises(ConfigError, match=words) as error:
        load_table(workspace, workspace.config.table("t"))
    assert "partition: day" in str(error.value)
    assert not workspace.ledger.newest_success("t")
