"""DDL that changes values without moving a cursor: the table is unproved, and read again."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from demo.oracle import compare_table
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SourceError
from mirrorlake.init.suggest_tables import suggest_contract
from mirrorlake.operations.days.gaps import find_stretches
from mirrorlake.operations.loading import sync
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.introspection.introspect import read_table, read_tables
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LONG_AGO = "2020-01-01 00:00:00"


def assert_equal(server: MariaDB, workspace: Workspace) -> None:
    contract = workspace.config.table("t")
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    with server.admin() as admin:
        verdict = compare_table(admin, contract.database, "t", contract.key, deduped)
    assert verdict.equal, verdict.describe()


def test_what_ddl_changed_silently_is_read_anew(
    sql: Sql, engine_for: EngineFor, server: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "INSERT INTO p VALUES (1), (2)",
        "CREATE TABLE t (id INT PRIMARY KEY, parent INT, v INT, g INT AS (v + 1) STORED, "
        "modified_at DATETIME NOT NULL, KEY (modified_at), KEY (parent))",
        f"INSERT INTO t (id, parent, v, modified_at) VALUES (1, 1, 5, '{LONG_AGO}'), "
        f"(2, 2, 6, '{LONG_AGO}')",
    )
    workspace = engine_for({"t": {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    assert sync_table(workspace, contract).window == "live"

    changes = (
        ("ALTER TABLE t MODIFY g INT AS (v * 2) STORED", "column g was"),
        (
            "ALTER TABLE t ADD FOREIGN KEY (parent) REFERENCES p (id) ON UPDATE CASCADE",
            r"the foreign key on \(parent\) is ON UPDATE CASCADE",
        ),
        ("ALTER TABLE t ADD note VARCHAR(9) DEFAULT 'new'", "column note was added"),
    )
    for ddl, words in changes:
        sql(ddl)
        if "FOREIGN KEY" in ddl:
            sql("UPDATE p SET id = id + 10")
        with monkeypatch.context() as patched:
            patched.setattr(sync, "load_window", _fail)
            with pytest.raises(SourceError, match="gone"):
                sync_table(workspace, contract)
        mark = workspace.ledger.unproved(contract.name)
        assert mark is not None
        assert re.search(words, mark.reason)
        today = datetime.now(UTC).date()
        states = {s.state for s in find_stretches(contract, workspace.ledger, today)}
        assert states == {"unproved"}
        assert sync_table(workspace, contract).window == "initial"
        assert workspace.ledger.unproved(contract.name) is None
        assert_equal(server, workspace)
        assert sync_table(workspace, contract).window == "live"


def test_an_account_that_may_only_read_sees_foreign_keys_too(
    sql: Sql, database: str, engine_for: EngineFor, server: MariaDB
) -> None:
    """MariaDB hides their rules from it in information_schema."""
    odd = "`b``, (c) ON DELETE CASCADE`"
    sql(
        f"CREATE TABLE p (id INT, {odd} INT, PRIMARY KEY (id, {odd}))",
        "INSERT INTO p VALUES (1, 1), (2, 1)",
        f"CREATE TABLE t (id INT PRIMARY KEY, parent INT, {odd} INT DEFAULT 1, g INT AS (id) STORED, "
        f"modified_at DATETIME NOT NULL, KEY (modified_at), KEY (parent, {odd}), UNIQUE KEY f (id))",
        f"INSERT INTO t (id, parent, modified_at) VALUES (1, 1, '{LONG_AGO}'), (2, 2, '{LONG_AGO}')",
    )
    grants = {f"{database}.*": "SELECT", "*.*": "REPLICATION CLIENT"}
    server.create_user("reader", PASSWORD, grants)
    contract = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
    workspace = engine_for({"t": contract}, {"user": "reader"})
    table = workspace.config.table("t")
    load_table(workspace, table)
    assert load_table(workspace, table).window == "live"
    sql(
        f"ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (parent, {odd}) REFERENCES p (id, {odd}) "
        "ON UPDATE CASCADE",
        "UPDATE p SET id = id + 10",
    )
    assert load_table(workspace, table).window == "initial"
    sql("ALTER TABLE t MODIFY g INT AS (id * 2) STORED")
    assert load_table(workspace, table).window == "initial"
    assert load_table(workspace, table).window == "live"
    with session(workspace.config.sources["s"]) as connection:
        tables = {t.name: t for t in read_tables(connection, database, foreign_keys=True)}
    warnings = suggest_contract(tables["t"], {}).warnings
    assert any(w.text.startswith("ON UPDATE CASCADE on parent, b`, (c)") for w in warnings), (
        warnings
    )
    assert not any(t.unseen_rules for t in tables.values())

    columns = "id, parent, `b``, (c) ON DELETE CASCADE`, g, modified_at"
    server.create_user("narrow", PASSWORD, {f"{database}.t": f"SELECT ({columns})"})
    with session(engine_for({}, {"user": "narrow"}).config.sources["s"]) as connection:
        found = read_table(connection, database, "t")
    assert found.unseen_rules
    warnings = suggest_contract(found, {}).warnings
    assert any("can't see whether a foreign key" in w.text for w in warnings)


def _fail(*_: Any, **__: Any) -> Any:
    raise SourceError("the server is gone", next_step="Try again")
