"""Originals are counted by column: in the receipt, in status and by day of raw, as MySQL has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import Any

from mirrorlake.destinations.iceberg.reading.originals import originals_by_day
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.workspace import Workspace

CONTRACT = {"mode": "incremental", "key": ["id"], "cursor": "at"}
# The sums are the server's own: what has no place in a date, and ENUM's error.
COUNT = (
    "SELECT SUM(born IN ('0000-00-00', '2020-00-00')), SUM(CAST(mood AS UNSIGNED) = 0), DATE(at) "
    "FROM t GROUP BY 3 ORDER BY 3"
)


def test_each_column_and_day_has_its_count(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, born DATE, mood ENUM('a', ''), at DATETIME NOT NULL, "
        "KEY (at))",
        "INSERT INTO t VALUES (1, '0000-00-00', 'x', '2024-01-01'), (2, '2020-00-00', '', "
        "'2024-01-01'), (3, NULL, 'a', '2024-01-01'), (4, '0000-00-00', NULL, '2024-01-02'), "
        "(5, '2020-02-29', 'y', '2024-01-03')",
    )
    workspace = engine_for({"t": CONTRACT})
    contract = workspace.config.tables[0]
    expected = {
        day: Counter({k: int(n) for k, n in (("born", born), ("mood", mood)) if n})
        for born, mood, day in sql(COUNT)
    }
    assert len(expected) == 3
    result = load_table(workspace, contract)
    assert result.original_columns == {"born": 3, "mood": 2}
    assert result.originals == 5
    assert result.original_columns == sum(expected.values(), Counter())
    status = status_of(workspace.config, workspace.ledger, [contract])[0]
    assert status.originals == {"born": 3, "mood": 2}
    assert "5 originals kept by the newest load (born: 3, mood: 2)" in status.checks
    (raw,) = raw_tables(workspace.lake, workspace.ledger, contract)
    assert originals_by_day(workspace.lake, raw, None, None) == expected
    second, third = date(2024, 1, 2), date(2024, 1, 3)
    later = {day: expected[day] for day in (second, third)}
    assert originals_by_day(workspace.lake, raw, second, third) == later


def test_a_table_that_needs_none_has_none(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    contract = workspace.config.tables[0]
    assert load_table(workspace, contract).original_columns == {}
    (raw,) = raw_tables(workspace.lake, workspace.ledger, contract)
    assert originals_by_day(workspace.lake, raw, None, None) == {}
    assert "originals" not in status_of(workspace.config, workspace.ledger, [contract])[0].checks
