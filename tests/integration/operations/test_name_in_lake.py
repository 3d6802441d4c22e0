"""A column that the lake calls otherwise than MySQL does (``name_in_lake``): through every layer,
checked against what MySQL and the lake say without Mirrorlake."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from demo.embedded import EmbeddedServer
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SchemaError
from mirrorlake.operations.preflight import preflight
from mirrorlake.operations.repair import repair_table
from mirrorlake.operations.sync import reload_days, sync_table
from mirrorlake.proof.check import check_table
from mirrorlake.proof.report import Ask
from mirrorlake.sources.mysql.connect import rows_of, session
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TERMS: dict[str, Any] = {"mode": "incremental", "key": ["_row_id"], "cursor": "_pos"}
NAMED: dict[str, Any] = {
    "_row_id": {"name_in_lake": "row_key", "pii": "show"},
    "_pos": {"name_in_lake": "moved_at", "pii": "show"},
    "_file": {"name_in_lake": "mail", "pii": "mask"},
    "_partition": {"name_in_lake": "note", "pii": "drop"},
}
MADE = """CREATE TABLE t (_row_id VARCHAR(20) PRIMARY KEY, _file VARCHAR(40), _partition TEXT,
    _spec_id DATE, amount DECIMAL(9,2), _pos DATETIME NOT NULL, KEY (_pos))"""
ROWS = """('a', 'ann@example.com', 'x', '2020-01-01', 1.5, '2020-01-01'),
    ('B', NULL, 'ü', NULL, 2, '2020-01-02'), ('c', 'c@example.com', NULL, NULL, NULL, '2020-01-03')"""


@pytest.fixture(scope="session")
def server(mariadb: EmbeddedServer) -> EmbeddedServer:
    return mariadb


def assert_exact(workspace: Workspace, by: str = "_file, _partition") -> None:
    """Deduped has MySQL's values, by PyMySQL and PyIceberg."""
    [contract] = workspace.config.tables
    with session(workspace.config.sources[contract.source], contract.database) as connection:
        there = rows_of(connection, f"SELECT _row_id, _pos, amount, {by} FROM t")
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert deduped is not None
    lake = [contract_name(contract, name) for name in f"_row_id, _pos, amount, {by}".split(", ")]
    rows = deduped.scan().to_arrow().select(lake).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == sorted(there)
    assert check_table(workspace, contract, Ask()).verdict == "equal"


def contract_name(contract: Any, name: str) -> str:
    return contract.lake_names.get(name, name)


def test_a_renamed_column_is_mirrored_checked_and_repaired(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(MADE, f"INSERT INTO t VALUES {ROWS}")
    left = {**NAMED, "_spec_id": {"pci": "never"}}
    refused = {**left}
    del refused["_partition"]
    workspace = engine_for({"t": {**TERMS, "columns": refused}})
    with pytest.raises(SchemaError, match=r"'_partition' is called.*name_in_lake"):
        sync_table(workspace, workspace.config.tables[0])
    workspace = engine_for({"t": {**TERMS, "columns": left}})
    [contract] = workspace.config.tables
    sync_table(workspace, contract)
    assert_exact(workspace)
    sql(
        "UPDATE t SET _file = 'new@example.com', _pos = UTC_TIMESTAMP() WHERE _row_id = 'A'",
        "DELETE FROM t WHERE _row_id = 'c'",
        "INSERT INTO t VALUES ('d', 'd@example.com', 'n', NULL, 4, UTC_TIMESTAMP())",
        # Behind the cursor: only a check sees it.
        "UPDATE t SET _partition = 'silent' WHERE _row_id = 'B'",
    )
    sync_table(workspace, contract)
    assert check_table(workspace, contract, Ask()).verdict == "different"
    assert repair_table(workspace, contract, Ask()).outcome == "equal"
    assert_exact(workspace)
    sql("UPDATE t SET _file = 'again' WHERE _row_id = 'B'")
    reload_days(workspace, contract, date(2020, 1, 2), date(2020, 1, 2))
    sync_table(workspace, contract)
    assert_exact(workspace)
    clean = workspace.spark.get().sql(
        f"SELECT * FROM {Identifier(contract.namespaces.clean, 't').sql}"
    )
    found = {row["row_key"]: row for row in clean.toArrow().to_pylist()}
    assert not {"note", "_partition", "_file", "_pos", "_spec_id"} & {*found["B"]}
    assert found["a" if "a" in found else "A"]["mail"] not in ("new@example.com", None)
    # What was never read gets a name, and is read.
    workspace = engine_for(
        {"t": {**TERMS, "columns": {**NAMED, "_spec_id": {"name_in_lake": "due", "pii": "show"}}}}
    )
    [contract] = workspace.config.tables
    sync_table(workspace, contract)
    assert_exact(workspace, "_file, _partition, _spec_id")
    other = {**NAMED, "_spec_id": {"name_in_lake": "until", "pii": "show"}}
    workspace = engine_for({"t": {**TERMS, "columns": other}})
    with pytest.raises(SchemaError, match="Write `renamed_from: due`"):
        sync_table(workspace, workspace.config.tables[0])
    other["_spec_id"]["renamed_from"] = "due"
    workspace = engine_for({"t": {**TERMS, "columns": other}})
    sync_table(workspace, workspace.config.tables[0])
    assert_exact(workspace, "_file, _partition, _spec_id")
    mixed = {
        **other,
        "_spec_id": {"name_in_lake": "until", "pii": "show"},
        "_partition": {"name_in_lake": "due", "pii": "drop"},
    }
    workspace = engine_for({"t": {**TERMS, "columns": mixed}})
    [contract] = workspace.config.tables
    with pytest.raises(SchemaError, match="due has the values of MySQL's _spec_id"):
        sync_table(workspace, contract)
    with pytest.raises(SchemaError, match="due has the values of MySQL's _spec_id"):
        check_table(workspace, contract, Ask())
    [found] = preflight(workspace, "ALTER TABLE t RENAME COLUMN _spec_id TO later")
    assert "_spec_id is until" in found.findings[0].words


OTHER_MODES: dict[str, dict[str, Any]] = {
    "full": {"mode": "full", "key": ["_row_id"]},
    "append": {"mode": "append", "key": ["_row_id"], "cursor": "_row_id", "created": "_pos"},
}


@pytest.mark.parametrize("mode", OTHER_MODES)
def test_other_modes_have_the_lakes_names(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, mode: str
) -> None:
    sql(
        "CREATE TABLE t (_row_id INT PRIMARY KEY, _pos DATETIME NOT NULL, amount INT, _file TEXT)",
        "INSERT INTO t VALUES (1, '2020-01-01', 1, 'a'), (2, '2020-01-02', NULL, NULL)",
    )
    named = {name: rule for name, rule in NAMED.items() if name != "_partition"}
    workspace = engine_for({"t": {**OTHER_MODES[mode], "columns": named}})
    [contract] = workspace.config.tables
    sync_table(workspace, contract)
    sql("INSERT INTO t VALUES (3, '2020-01-02', 3, 'ü')")
    sync_table(workspace, contract)
    assert_exact(workspace, "_file")
