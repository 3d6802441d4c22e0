"""A log that has nothing new of the tables that follow it costs a question, or a short read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.following.lag import read_lag
from mirrorlake.operations.loading import quiet_log
from mirrorlake.operations.loading.detect import find_moved
from mirrorlake.operations.loading.quiet_log import find_quiet, note_quiet
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follow_log import LOG, TABLE, sync_all

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def quiet(workspace: Workspace, *, noted: bool = True) -> dict[str, bool]:
    """By table: whether the log has nothing of it."""
    config = workspace.config
    with session(config.sources["s"]) as connection:
        found = find_quiet(connection, config.sources["s"], config.tables, workspace.ledger)
    if noted:
        note_quiet(workspace.ledger, found)
    return {contract.table: contract.name in found.tables for contract in config.tables}


def due(workspace: Workspace) -> set[str]:
    """The tables for which a sensor would start a run, which it had looked at before."""
    config, source = workspace.config, workspace.config.sources["s"]
    with session(source) as connection:
        first = find_moved(connection, source, config.tables, {}, workspace.ledger)
        ago = "2020-01-01T00:00:00"
        marks = {one.contract.name: replace(one.mark, asked_at=ago) for one in first.moved}
        found = find_quiet(connection, source, config.tables, workspace.ledger)
        parts = (config.tables, marks, workspace.ledger, (), found.tables)
        return {one.contract.table for one in find_moved(connection, source, *parts).moved}


def test_who_moved_is_seen_and_nobody_else(sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE.format("t"), TABLE.format("u"), TABLE.format("other"))
    workspace = engine_for({"t": LOG, "u": LOG})
    assert quiet(workspace) == {"t": False, "u": False}
    sync_all(workspace)
    name = workspace.config.table("t").name
    assert quiet(workspace) == {"t": True, "u": True}
    assert due(workspace) == set()
    sql("INSERT INTO other (id) VALUES (1), (2)", "CREATE TABLE more (id INT)")
    before = workspace.ledger.log_progress(name)
    assert quiet(workspace) == {"t": True, "u": True}
    after = workspace.ledger.log_progress(name)
    assert before is not None
    assert after is not None
    assert before.place != after.place
    assert before.at < after.at
    sql("INSERT INTO other (id) VALUES (3)", "INSERT INTO u (id) VALUES (1)")
    assert quiet(workspace) == {"t": True, "u": False}
    assert due(workspace) == {"u"}
    sync_all(workspace)
    sql("DELETE FROM u", "ALTER TABLE t COMMENT 'x'")
    assert quiet(workspace) == {"t": False, "u": False}
    sync_all(workspace)
    assert quiet(workspace) == {"t": True, "u": True}


def test_a_name_between_double_quotes_is_a_name(sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE.format("`my table`"))
    workspace = engine_for({"my table": LOG})
    sync_all(workspace)
    assert quiet(workspace) == {"my table": True}
    sql("SET sql_mode = 'ANSI_QUOTES'", """ALTER TABLE "my table" COMMENT 'x'""")
    assert quiet(workspace) == {"my table": False}


def test_what_is_not_known_is_not_quiet(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(TABLE.format("t"), TABLE.format("other"))
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    workspace.ledger.mark_unproved(contract.name, "", "a test")
    assert quiet(workspace) == {"t": False}
    sync_table(workspace, contract)
    assert quiet(workspace) == {"t": True}
    sql("INSERT INTO other (id) VALUES (1)")
    monkeypatch.setattr(quiet_log, "MOST_BYTES", 10)
    assert quiet(workspace) == {"t": False}
    monkeypatch.undo()
    sql("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO other (id) VALUES (2)")
    sql("SET SESSION binlog_format = 'ROW'")
    assert quiet(workspace) == {"t": False}


def test_a_sync_of_tables_whose_log_is_quiet_reads_nothing(sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE.format("t"), TABLE.format("u"))
    workspace = engine_for({"t": LOG, "u": LOG})
    config, ledger = workspace.config, workspace.ledger

    def unchanged(by: Workspace = workspace) -> set[str]:
        looked = look_at(by.config, ledger, by.config.tables)
        assert {one.evidence for one in looked.unchanged.values()} <= {"log"}
        return {name.rpartition(".")[2] for name in looked.unchanged}

    for contract in config.tables:
        sync_table(workspace, contract, look=look_at(config, ledger, config.tables))
    assert unchanged() == {"t", "u"}
    sql("INSERT INTO t (id) VALUES (1)")
    assert unchanged() == {"u"}
    other = engine_for({"t": LOG, "u": {**LOG, "columns": {"name": {"pii": "mask"}}}})
    assert unchanged(other) == set()


def test_what_was_put_right_of_a_table_is_said_though_its_log_is_quiet(
    sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1), (2)")
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    deduped = Identifier(contract.namespaces.deduped, "t")
    table = workspace.lake.load(deduped)
    assert table is not None
    table.delete("id = 2")
    found = sync_table(workspace, contract)
    assert found.unchanged == "log"
    assert any(str(deduped) in words for words in found.put_right), found.put_right
    after = workspace.lake.load(deduped)
    assert after is not None
    assert after.scan().to_arrow().num_rows == 2


def test_the_lag_is_of_the_table_that_is_most_behind(sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE.format("t"), TABLE.format("u"), TABLE.format("late"))
    workspace = engine_for({"t": LOG, "u": LOG, "late": LOG})
    config, ledger = workspace.config, workspace.ledger
    source = config.sources["s"]
    with session(source) as connection:
        assert read_lag(connection, source, config.tables, ledger) is None
        for name in "tu":
            sync_table(workspace, config.table(name))
        sql("INSERT INTO t (id) VALUES (1)")
        behind = read_lag(connection, source, config.tables, ledger)
        sync_table(workspace, config.table("t"))
        found = read_lag(connection, source, config.tables, ledger)
    assert behind is not None
    assert found is not None
    assert found.table == config.table("u").name
    assert (found.tables, found.waiting) == (2, (config.table("late").name,))
    assert behind.bytes is not None
    assert found.bytes is not None
    assert found.bytes >= behind.bytes > 0
    assert 0 < found.seconds < 300
