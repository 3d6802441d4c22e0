"""Columns whose names Iceberg, Spark or Mirrorlake keep for columns of their own: refused before a
row is read, with a way out; and every other name that some engine gives a meaning to is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SchemaError
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.status.doctor import diagnose_contract
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.reserved_names import keeper_of
from mirrorlake.serving.masking_audit import stored_pci
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.workspace import Workspace
from tests.integration.lakes import READERS
from tests.integration.operations.test_hostile_names import assert_exact
from tests.unit.schema.test_reserved_names import TABLES

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
NAMES = {
    "Iceberg's metadata columns": (
        *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"),
        *("_last_updated_sequence_number", "_commit_snapshot_id", "_change_type"),
        *("_FILE", "_Pos", "_Spec_id", "_PARTITION", "_DELETED", "_Row_id"),
        *("_Last_updated_sequence_number", "_change_ordinal", "file_path", "pos", "row"),
    ),
    "Spark's": (
        *("_metadata", "__row_operation", "__row_id", "__row_from_source", "__Row_From_Target"),
        *("__original_row_id_x", "metadata", "operation", "default"),
    ),
    "Parquet's and Arrow's": ("element", "key", "value", "key_value", "list", "__index_level_0__"),
    "DuckDB's": ("filename", "file_row_number", "file_index", "rowid"),
    "BigQuery's": (
        *("_TABLE_x", "_FILE_x", "_PARTITIONTIME", "_ROW_TIMESTAMP", "__ROOT__x"),
        *("_COLIDENTIFIER", "_CHANGE_TYPE", "_change_sequence_number"),
    ),
    "Trino's": ("$path", "$file_modified_time", "$partition"),
    "ours in statements": ("s", "t", "n", "c0", "o0", "k0", "witness", "original_created_at"),
    "ours": ("_mirror_load", "_MIRROR_x"),
}
"""Whose they are → names. BigQuery's own are refused where a table is published there."""
REFUSED = {
    *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"),
    *("_last_updated_sequence_number", "_FILE", "_Pos", "_Spec_id", "_PARTITION"),
    *("__row_from_source", "__Row_From_Target", *NAMES["ours"]),
}
KEYED = "at_ DATETIME NOT NULL, KEY (at_)"
TERMS: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at_"}
ROWS = "(1, 'a', '2020-01-01'), (2, 'b', '2020-01-01'), (3, NULL, '2020-01-01')"


@pytest.fixture(scope="session")
def server(mariadb: EmbeddedServer) -> EmbeddedServer:
    return mariadb


def make(sql: Sql, table: str, column: str) -> None:
    sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, {quote(column)} VARCHAR(20), {KEYED})",
        f"INSERT INTO {table} VALUES {ROWS}",
    )


def test_what_an_earlier_release_loaded_is_left_out_and_read_again(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(sql, "t", "_deleted")
    workspace = engine_for({"t": TERMS})
    [contract] = workspace.config.tables
    with monkeypatch.context() as patch:
        patch.setattr("mirrorlake.table.resolve.name_problems", lambda _: iter(()))
        load_table(workspace, contract)
    [raw] = workspace.ledger.successful_loads(contract.name)
    words = r"column '_deleted' is called as Iceberg's own are.*`\{pci: never\}`"
    with pytest.raises(SchemaError, match=words):
        sync_table(workspace, contract)
    broken = [one for one in diagnose_contract(workspace.config.path) if one.state == "broken"]
    assert "called as Iceberg's own" in broken[-1].detail
    assert workspace.ledger.successful_loads(contract.name) == [raw]
    sql("DELETE FROM t WHERE id = 3")
    workspace = engine_for({"t": {**TERMS, "columns": {"_deleted": {"pci": "never"}}}})
    [contract] = workspace.config.tables
    for change in ("UPDATE t SET at_ = UTC_TIMESTAMP() WHERE id = 1", "DELETE FROM t WHERE id = 2"):
        sync_table(workspace, contract)
        assert check_table(workspace, contract, Ask()).verdict == "equal"
        sql(change)
    sync_table(workspace, contract)
    repair_table(workspace, contract, Ask())
    refold_table(workspace, contract)
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert deduped is not None
    for read in READERS.values():
        assert [row["id"] for row in read(deduped).to_pylist()] == [1]
        assert "_deleted" not in read(deduped).column_names
    assert stored_pci(workspace.lake, workspace.ledger, contract) == {}
    assert shown(workspace, Identifier(contract.namespaces.raw, "t"), "id") == {1, 2}


def shown(workspace: Workspace, view: Identifier, column: str) -> set[Any]:
    rows = workspace.spark.get().sql(f"SELECT * FROM {view.sql}").toArrow().to_pylist()
    return {row[column] for row in rows}


def kept(server: EmbeddedServer, sql: Sql, workspace: Workspace, name: str) -> Iterator[str]:
    """What went wrong with a column of this name on its way through every layer and reader."""
    [contract] = workspace.config.tables
    table = contract.table
    sync_table(workspace, contract)
    assert_exact(server, workspace, contract)
    sql(
        f"UPDATE {table} SET {quote(name)} = 'zz', at_ = UTC_TIMESTAMP() WHERE id = 1",
        f"DELETE FROM {table} WHERE id = 2",
        f"INSERT INTO {table} VALUES (4, 'n', UTC_TIMESTAMP())",
    )
    sync_table(workspace, contract)
    if repair_table(workspace, contract, Ask()).outcome != "equal":
        yield "not repaired"
    assert_exact(server, workspace, contract)
    refold_table(workspace, contract)
    assert_exact(server, workspace, contract)
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, table))
    assert deduped is not None
    for reader, read in READERS.items():
        rows = sorted((row["id"], row[name]) for row in read(deduped).to_pylist())
        if rows != [(1, "zz"), (3, None), (4, "n")]:
            yield f"{reader}: {rows}"
    raw = shown(workspace, Identifier(contract.namespaces.raw, table), name)
    if not raw >= {"a", "zz", "n"}:
        yield f"raw: {raw}"


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("whose", NAMES)
def test_every_name_is_kept_or_refused(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, whose: str
) -> None:
    wrong: dict[str, Any] = {}
    for number, name in enumerate(NAMES[whose]):
        table = f"t{number}"
        make(sql, table, name)
        workspace = engine_for({table: {**TERMS, "columns": {name: {"pii": "mask"}}}})
        try:
            wrong[name] = [*kept(server, sql, workspace, name)]
        except SchemaError as error:
            wrong[name] = ["refused"] if "is called as" in str(error) else [str(error)]
    assert wrong == {n: ["refused"] if n in REFUSED else [] for n in NAMES[whose]}
    assert {n for n in NAMES[whose] if keeper_of(n)} == REFUSED & {*NAMES[whose]}


@pytest.mark.full
@pytest.mark.parametrize("engine", TABLES)
def test_tables_whose_names_mean_something_are_mirrored(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, engine: str
) -> None:
    for name in TABLES[engine]:
        sql(
            f"CREATE TABLE {quote(name)} (id INT PRIMARY KEY, v TEXT, {KEYED})",
            f"INSERT INTO {quote(name)} VALUES {ROWS}",
        )
    workspace = engine_for(dict.fromkeys(TABLES[engine], TERMS))
    for again in (False, True):
        for contract in workspace.config.tables:
            if again:
                sql(
                    f"UPDATE {quote(contract.table)} SET v = 'zz', at_ = UTC_TIMESTAMP() WHERE id = 1"
                )
            sync_table(workspace, contract)
            assert_exact(server, workspace, contract)
            refold_table(workspace, contract)
            assert check_table(workspace, contract, Ask()).verdict == "equal"
            deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
            assert deduped is not None
            for read in READERS.values():
                assert read(deduped).num_rows == 3
