"""A table without any row: mirrored, folded and looked at like any other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mirrorlake.observe import raw_days
from mirrorlake.recover import recover_table
from mirrorlake.sync import Engine


def test_a_table_without_rows_has_no_raw_days_until_one_comes(
    engine_for: Callable[..., Engine], sql: Callable[..., Any], database: str
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))")
    engine = engine_for({"t": {"mode": "append", "key": ["id"], "cursor": "at"}})
    [contract] = engine.config.tables
    assert engine.sync(contract).rows == 0
    assert raw_days(engine.lake, engine.ledger, contract) == {}
    assert recover_table(engine, contract, timedelta()).orphans == 0
    sql("INSERT INTO t VALUES (1, UTC_TIMESTAMP())")
    engine.sync(contract)
    assert list(raw_days(engine.lake, engine.ledger, contract).values()) == [1]
