"""The canonical forms, type by type: both sides have one form for one value, on both servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.sources.mysql.test_types import cases_of, make_wide_table

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def checked(workspace: Workspace, table: str) -> Report:
    return check_table(workspace, workspace.config.table(table), Ask())


@pytest.mark.full
def test_every_type_has_one_form_and_every_altered_cell_is_named(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    make_wide_table(sql, cases_of(server))
    workspace = engine_for({"wide": {"mode": "full", "key": ["id"]}})
    sync_table(workspace, workspace.config.table("wide"))
    report = checked(workspace, "wide")
    assert report.verdict == "equal", [
        (f.source, f.lake) for d in report.differences for f in d.fields
    ]
    assert report.source.rows > 10
    assert report.source == report.lake

    columns = alter_rows(workspace, Identifier(f"s_{database}", "wide"))
    report = checked(workspace, "wide")
    assert report.verdict == "different"
    named = {
        int(str(d.key[0].shown)): {f.source.column for f in d.fields} for d in report.differences
    }
    assert named == dict.fromkeys(range(report.source.rows), columns)


def alter_rows(workspace: Workspace, table: Identifier) -> set[str]:
    """Give every cell of every row, but the key, another value of its type; the columns' names."""
    found = workspace.lake.load(table)
    assert found is not None
    changes = {
        f.name: altered(as_sql_identifier(f.name), str(f.field_type))
        for f in found.schema().fields
        if f.name not in ("id", "_mirror_original")
    }
    sets = ", ".join(f"{as_sql_identifier(n)} = {sql}" for n, sql in changes.items())
    workspace.spark.get().sql(f"UPDATE {table.sql} SET {sets}")
    return set(changes)


def altered(name: str, kind: str) -> str:
    """Spark's SQL of a value that is nearly the same; of NULL, of what is nearly NULL."""
    if kind in ("int", "long"):
        return (
            f"CASE WHEN {name} IS NULL THEN 0 WHEN {name} > 0 THEN {name} - 1 ELSE {name} + 1 END"
        )
    if kind.startswith("decimal"):
        text, last = f"CAST({name} AS STRING)", f"right(CAST({name} AS STRING), 1)"
        digit = f"CASE WHEN {last} = '0' THEN '1' ELSE '0' END"
        other = f"CAST(concat(left({text}, length({text}) - 1), {digit}) AS {kind})"
        return f"CASE WHEN {name} IS NULL THEN CAST(0 AS {kind}) ELSE {other} END"
    if kind in ("float", "double"):
        spark = {"float": "FLOAT", "double": "DOUBLE"}[kind]
        other = f"CASE WHEN {name} = 0 THEN CAST('1e-40' AS {spark}) ELSE -{name} END"
        return f"CASE WHEN {name} IS NULL THEN CAST('-0' AS {spark}) ELSE {other} END"
    if kind == "string":
        return f"CASE WHEN {name} IS NULL THEN '' ELSE concat({name}, ' ') END"
    if kind == "binary":
        return f"CASE WHEN {name} IS NULL THEN X'' ELSE concat({name}, X'00') END"
    if kind == "date":
        return f"CASE WHEN {name} IS NULL THEN DATE'1970-01-01' ELSE date_sub({name}, 1) END"
    zone = {"timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}[kind]
    least = f"{name} - INTERVAL '0.000001' SECOND"
    return f"CASE WHEN {name} IS NULL THEN {zone}'1970-01-01 00:00:00' ELSE {least} END"
