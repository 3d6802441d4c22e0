"""Hours of a table of `mode: binlog`: those in which its changes were committed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mirrorlake.operations.loading.sync import sync_table
from tests.integration.operations.test_hours import hours_of, rows_of
from tests.integration.operations.test_partitions import EngineFor, Face, Sql, ago

HOURLY: dict[str, Any] = {"mode": "binlog", "key": ["id"], "partition": "hour"}


def committed(sql: Sql, at: str, *statements: str) -> None:
    """Change rows at another time, as MariaDB's log has it."""
    sql("SET time_zone = '+00:00'", f"SET timestamp = UNIX_TIMESTAMP('{at}')")
    sql(*statements, "SET timestamp = DEFAULT")


def test_an_hour_has_what_was_committed_in_it(engine_for: EngineFor, sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    workspace = engine_for({"t": HOURLY})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    face = Face(workspace, contract)
    face.look()
    committed(sql, f"{ago(2)} 03:59:59", "INSERT INTO t VALUES (3, 1), (4, 1)")
    committed(sql, f"{ago(2)} 04:00:00", "UPDATE t SET v = 2 WHERE id = 3")
    committed(sql, f"{ago(1)} 23:59:59", "DELETE FROM t WHERE id = 4")
    sync_table(workspace, contract)
    face.look()
    shown = {hour: rows for hour, rows in face.shown["raw"].items() if rows}
    assert shown == hours_of(workspace, contract, "_mirror_committed_at")
    at = datetime.combine(ago(2), datetime.min.time())
    assert (shown[at + timedelta(hours=3)], shown[at + timedelta(hours=4)]) == (2, 1)
    assert shown[at + timedelta(hours=47)] == 1
    assert face.shown["deduped"] == face.shown["clean"] == face.shown["raw"]
    assert face.look() == []
    # A load touches no hour before the first commit that it has.
    committed(sql, f"{ago(1)} 07:30:00", "UPDATE t SET v = 3 WHERE id = 1")
    sync_table(workspace, contract)
    reports = rows_of(face.look())
    day = datetime.combine(ago(1), datetime.min.time())
    early = {hour for hour in reports if isinstance(hour, datetime) and hour.date() == ago(1)}
    assert min(early - {day}) == day + timedelta(hours=7)
    shown = {hour: rows for hour, rows in face.shown["raw"].items() if rows}
    assert shown == hours_of(workspace, contract, "_mirror_committed_at")
