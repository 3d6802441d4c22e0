"""A table without any row: mirrored, folded and looked at like any other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mirrorlake.errors import LakeError
from mirrorlake.load import protocol
from mirrorlake.operations.observe import raw_days
from mirrorlake.operations.recover import recover_table
from mirrorlake.operations.sync import Engine


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


def test_a_table_whose_first_load_failed_has_nothing_to_fold(
    engine_for: Callable[..., Engine], sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    engine = engine_for({"t": {"mode": "full", "key": ["id"]}})
    [contract] = engine.config.tables

    def failing(*_: Any) -> None:
        raise LakeError("no room", table=contract.name)

    with monkeypatch.context() as broken:
        broken.setattr(protocol, "commit_load", failing)
        broken.setattr(protocol, "commit_proved", failing)
        with pytest.raises(LakeError, match="no room"):
            engine.load(contract)
    # Its schema version is known, and no load of it: that is no schema which changed.
    engine.fold(contract)
    assert engine.sync(contract).rows == 1
