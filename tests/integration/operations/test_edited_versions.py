"""A schema version whose raw table is not what the version says: edited by hand, or another version
has its hash. Its columns are set back; else the table stops, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.schemas import COLUMNS
from mirrorlake.errors import LakeError, MirrorlakeError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.schema_changes.table_shapes import shapes_of
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.workspace import Workspace
from tests.integration.mirrored import INCREMENTAL, rows_of

MADE = (
    "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), at DATETIME NOT NULL, KEY (at))",
    "INSERT INTO t VALUES (1, 'one', '2026-01-01'), (2, NULL, '2026-01-02')",
)


@pytest.mark.full
@pytest.mark.parametrize("edit", ["DROP COLUMN name", "ADD COLUMN more INT"])
def test_columns_of_raw_that_were_edited_by_hand_are_set_back(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], edit: str
) -> None:
    """A column that somebody took away would be folded as NULL."""
    sql(*MADE)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    [version] = workspace.ledger.schema_versions(contract.name)
    raw = Identifier(contract.namespaces.raw, version.raw_table)
    workspace.spark.get().sql(f"ALTER TABLE {raw.sql} {edit}")
    sql("INSERT INTO t VALUES (77, 'new', NOW())")
    [said] = sync_table(workspace, contract).put_right
    assert said.endswith("left: its columns are as they were")
    assert rows_of(workspace)["name"].to_pylist() == ["one", None, "new"]
    assert workspace.ledger.schema_versions(contract.name) == [version]


@pytest.mark.full
def test_a_version_whose_property_was_edited_by_hand_stops_its_table(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql(*MADE)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    before, [version] = rows_of(workspace), workspace.ledger.schema_versions(contract.name)
    raw = Identifier(contract.namespaces.raw, version.raw_table)
    table = workspace.lake.load(raw)
    assert table is not None
    workspace.spark.get().sql(f"ALTER TABLE {raw.sql} SET TBLPROPERTIES ('{COLUMNS}' = '[]')")
    words = "its property .* was edited"
    for act in (sync_table, fold_table, shapes_of):
        with pytest.raises(LakeError, match=words):
            act(workspace, contract)
    sql("INSERT INTO t VALUES (77, 'new', NOW())", "ALTER TABLE t ADD z INT")
    with pytest.raises(LakeError, match=words):
        sync_table(workspace, contract)
    assert rows_of(workspace).equals(before)
    assert workspace.ledger.schema_versions(contract.name) == [version]
    workspace.lake.catalog.drop_table(raw.path)
    workspace.lake.catalog.register_table(raw.path, table.metadata_location)
    sync_table(workspace, contract)
    assert "new" in rows_of(workspace)["name"].to_pylist()


@pytest.mark.full
def test_two_versions_that_have_one_hash_are_not_mixed(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(*MADE)
    workspace = engine_for({"t": INCREMENTAL})
    monkeypatch.setattr(SchemaVersion, "hash", "0123456789")
    sync_table(workspace, workspace.config.table("t"))
    before = rows_of(workspace)
    sql("ALTER TABLE t ADD z INT")
    with pytest.raises(MirrorlakeError, match="0123456789") as refused:
        sync_table(workspace, workspace.config.table("t"))
    assert "two" in str(refused.value)
    assert rows_of(workspace).equals(before)
    assert len(workspace.ledger.schema_versions(workspace.config.table("t").name)) == 1
