"""A column that the lake calls otherwise than MySQL does (``name_in_lake``): through every layer,
checked against what MySQL and the lake say without Mirrorlake."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SchemaError
from mirrorlake.operations.loading.sync import reload_days, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.preflight.tables import preflight
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows, share_session
from tests.integration.contract_files import write_contract

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
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


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


@pytest.mark.full
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
    # What the lake has by another name can't be left unread any more.
    never = {**other, "_file": {"pci": "never"}}
    workspace = engine_for({"t": {**TERMS, "columns": never}})
    words = r"_file \(mail in the lake\) is marked `pci: never`.*holds it already.*other namespaces"
    with pytest.raises(SchemaError, match=words):
        sync_table(workspace, workspace.config.tables[0])


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


@pytest.fixture(scope="module")
def seen(server: EmbeddedServer, place: Place) -> Iterator[Workspace]:
    """A table that was mirrored, for all that change nothing."""
    name = f"t{uuid.uuid4().hex[:10]}"
    terms = {**TERMS, "columns": {**NAMED, "_spec_id": {"pci": "never"}}}
    path = write_contract(
        place.folder / f"{name}.yaml", server.port, {name: {"tables": {"t": terms}}}
    )
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {name}")
        cursor.execute(MADE)
        cursor.execute(f"INSERT INTO t VALUES {ROWS}")
        admin.commit()
        workspace = Workspace.open(load_config(path), spark=place.spark)
        sync_table(workspace, workspace.config.table("t"))
        yield workspace
        cursor.execute(f"DROP DATABASE {name}")


AHEAD: dict[str, tuple[str, str]] = {
    "RENAME COLUMN _file TO email": (
        "breaks", "`columns: {email: {pii: mask, renamed_from: mail}}`",
    ),
    "RENAME COLUMN _file TO mail": (
        "breaks", "Choose another name_in_lake for mail; where MySQL renamed _file to it",
    ),
    "RENAME COLUMN _file TO _partition, RENAME COLUMN _partition TO _file": (
        "breaks", "note gets the values that mail had, and the contract's rule for note is another",
    ),
    "DROP COLUMN _partition": ("attention", "note was dropped"),
    "ADD COLUMN note TEXT": ("breaks", "_partition is to be called note in the lake, and MySQL"),
    "ADD COLUMN other TEXT": ("attention", "other is new: in deduped, and held out"),
    "ADD COLUMN _deleted INT": ("breaks", "Give _deleted a `name_in_lake` and a `pii` rule under `columns`"),
    "MODIFY _file VARCHAR(200)": ("attention", "mail was varchar(40), is varchar(200)"),
    "MODIFY _pos DATETIME NULL": ("breaks", "Declare _pos NOT NULL in MySQL"),
    "DROP INDEX _pos": ("breaks", "Add an index on _pos in MySQL"),
    "DROP PRIMARY KEY": ("breaks", "does not keep (row_key) unique"),
    "CHANGE _row_id rid VARCHAR(20) NOT NULL": ("breaks", "`columns: {rid: {pii: show, renamed_fr"),
    "MODIFY _spec_id TEXT": ("ok", "nothing of its mirror changes"),
    "RENAME COLUMN _spec_id TO due": ("breaks", "write `columns: {due: {pci: never}}`"),
}  # fmt: skip
"""A migration → how preflight judges it, and what it says."""


@pytest.mark.parametrize("change", AHEAD)
def test_preflight_looks_at_columns_by_the_lakes_names(seen: Workspace, change: str) -> None:
    severity, words = AHEAD[change]
    [found] = preflight(seen, f"DO 1; SELECT 1;\nALTER TABLE t {change}")[-1:]
    said = "\n".join(f"{one.words} {one.next_step}" for one in found.findings)
    assert words in said
    assert found.severity == severity
    assert {one.line for one in found.findings} == {2}


@pytest.mark.full
@pytest.mark.parametrize("clean", ["view", "table"])
def test_mysql_renames_drops_and_adds_a_column_that_has_another_name(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, clean: str
) -> None:
    sql(MADE, f"INSERT INTO t VALUES {ROWS}, ('e', 'e@x', 'z', NULL, 5, '2020-01-04')")
    columns: dict[str, Any] = {**NAMED, "_spec_id": {"pci": "never"}}

    def synced() -> Workspace:
        workspace = engine_for({"t": {**TERMS, "clean": clean, "columns": columns}})
        sync_table(workspace, workspace.config.tables[0])
        return workspace

    synced()
    sql("ALTER TABLE t RENAME COLUMN _file TO mail")
    with pytest.raises(SchemaError, match="Choose another name_in_lake for mail"):
        synced()
    del columns["_file"]
    columns["mail"] = {"name_in_lake": "address", "pii": "mask", "renamed_from": "mail"}
    [said] = preflight(synced(), "ALTER TABLE t RENAME COLUMN mail TO post")
    assert "`columns: {post: {pii: mask, renamed_from: address}}`" in str(said.findings)
    assert_exact(synced(), "mail, _partition")
    sql("ALTER TABLE t DROP COLUMN _partition")
    assert_exact(synced(), "mail")
    sql("ALTER TABLE t ADD COLUMN _partition TEXT", "UPDATE t SET _partition = 'again'")
    workspace = synced()
    [contract] = workspace.config.tables
    assert repair_table(workspace, contract, Ask()).outcome == "equal"
    refold_table(workspace, contract)
    assert_exact(workspace, "mail, _partition")
    shown = workspace.spark.get().table(f"lake.{contract.namespaces.clean}.t").toArrow()
    assert set(shown.column_names) - {ORIGINAL} == {"row_key", "address", "amount", "moved_at"}


@pytest.mark.full
def test_entities_and_models_know_the_lakes_names(
    server: EmbeddedServer, sql: Sql, place: Place, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_session(place, monkeypatch)  # one JVM for the commands, too
    sql(
        "CREATE TABLE t (_row_id INT PRIMARY KEY, _file VARCHAR(20) NOT NULL, _pos DATE, KEY (_file))",
        "INSERT INTO t VALUES (1, 'a', '2020-01-02'), (2, 'a', '2020-01-01'), (3, 'b', NULL)",
    )
    folder = place.folder / database
    (folder / "models" / f"m_{database}").mkdir(parents=True)
    (folder / "models" / f"m_{database}" / "counted.sql").write_text(
        f"SELECT token, COUNT(*) AS n, MIN(born) AS born FROM s_{database}.t GROUP BY token"
    )
    terms = {
        "mode": "append", "key": ["_row_id"], "cursor": "_row_id", "created": "_pos",
        "entity": {"token": "_file", "created": "_pos"},
        "columns": {
            "_row_id": {"name_in_lake": "id", "pii": "show"},
            "_file": {"name_in_lake": "token", "pii": "show"},
            "_pos": {"name_in_lake": "born", "pii": "show"},
        },
    }  # fmt: skip
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {"t": terms}}},
        lake={"warehouse": str(place.folder / "lake")},
        ledger={"url": "sqlite:///ledger.db"},
    )
    workspace = Workspace.open(load_config(path), spark=place.spark)
    [contract] = workspace.config.tables
    run = ["run", f"m_{database}.counted", "--config", str(path)]
    early = CliRunner().invoke(cli, run).exception
    assert f"its table was never loaded. mirrorlake sync {contract.name}" in str(early)
    sync_table(workspace, contract)
    sql("INSERT INTO t VALUES (4, 'b', '2019-01-01')")
    sync_table(workspace, contract)
    rows = lake_rows(workspace, contract.namespaces.deduped, "t")
    first = {row["id"]: row["original_created_at"] for row in rows}
    assert first == {
        1: date(2020, 1, 1),
        2: date(2020, 1, 1),
        3: date(2019, 1, 1),
        4: date(2019, 1, 1),
    }
    assert check_table(workspace, contract, Ask()).verdict == "equal"
    ran = CliRunner().invoke(cli, run)
    assert ran.exit_code == 0, ran.output
    counted = {
        row["token"]: (row["n"], row["born"])
        for row in lake_rows(workspace, f"m_{database}", "counted")
    }
    assert counted == {"a": (2, date(2020, 1, 1)), "b": (2, date(2019, 1, 1))}
    [said] = preflight(workspace, "ALTER TABLE t RENAME COLUMN _file TO name")
    assert f"m_{database}.counted" in str(said.models)
