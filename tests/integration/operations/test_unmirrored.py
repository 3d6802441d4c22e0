"""`plan --sources` names the tables that no contract does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrorlake.config.contract import TenantTable
from mirrorlake.operations.planning.drift import find_drift
from mirrorlake.serving.catalogue import Catalogue
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


def test_tables_that_no_contract_names(sql: Sql, engine_for: EngineFor, database: str) -> None:
    sql(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE `new one` (id INT)",
        "CREATE TABLE of_tenants (id INT PRIMARY KEY)",
        "CREATE VIEW shown AS SELECT id FROM a",
    )
    workspace = engine_for({"a": {"mode": "full", "key": ["id"]}})
    [contract] = workspace.config.tables

    def unmirrored() -> tuple[str, ...]:
        catalogue = Catalogue(workspace.config, workspace.lake)
        return find_drift(workspace, catalogue, ()).unmirrored

    name = f"{contract.source}.{database}"
    assert unmirrored() == (f"{name}.new one", f"{name}.of_tenants")
    tenants = TenantTable(
        group="g",
        table="of_tenants",
        sources=(contract.source,),
        databases=(database,),
        namespaces=contract.namespaces,
    )
    object.__setattr__(workspace.config, "tenants", (tenants,))
    assert unmirrored() == (f"{name}.new one",)
