"""Views that are written without Spark are those that Spark would have made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables import views
from mirrorlake.destinations.iceberg.tables.views import (
    LakeView,
    forget_view,
    read_view,
    write_view,
)
from mirrorlake.errors import CommitConflict
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, `a b` VARCHAR(20), `semi;colon` DECIMAL(12,3), "
    "`tick``s` BLOB, day DATE, at DATETIME(3), ts TIMESTAMP(6) NULL, big BIGINT UNSIGNED, "
    "`über` FLOAT, secret VARCHAR(30), gone INT, masked VARCHAR(30), `dot.ted` TIME)"
)
RULES = {"secret": {"pii": "null"}, "gone": {"pii": "drop"}, "masked": {"pii": "mask"}}


@pytest.mark.parametrize("deletes", ["remove", "flag"])
def test_a_view_is_the_one_that_spark_would_make(
    sql: Sql, engine_for: EngineFor, deletes: str
) -> None:
    sql(
        TABLE,
        "INSERT INTO t (id, `a b`, day, at, secret, masked, `dot.ted`) VALUES "
        "(1, 'x', '0000-00-00', '2020-00-01', 's', 'maskedtext', '-01:00:00')",
    )
    contract: dict[str, Any] = {"mode": "full", "key": ["id"], "columns": RULES}
    if deletes == "flag":
        contract |= {"mode": "append", "cursor": "id", "deletes": "flag"}
    workspace = engine_for({"t": contract})
    table = workspace.config.tables[0]
    sync_table(workspace, table)
    spark = workspace.spark.get()
    for space in (table.namespaces.raw, table.namespaces.clean):
        name = Identifier(space, "t")
        ours = read_view(workspace.lake, name)
        assert ours is not None
        shown = spark.table(name.sql)
        rows, kinds = shown.collect(), shown.schema
        spark.sql(f"CREATE OR REPLACE VIEW {name.sql} AS {ours.sql}")
        theirs = read_view(workspace.lake, name)
        assert theirs is not None
        assert [(f.name, str(f.field_type)) for f in theirs.schema.fields] == _unnumbered(
            ours, theirs
        )
        again = spark.table(name.sql)
        assert (again.collect(), again.schema.simpleString()) == (rows, kinds.simpleString())
        metadata = views._metadata(workspace.lake, name)
        assert metadata is not None
        names = metadata.properties["spark.query-column-names"]
        assert names == ",".join(f.name for f in ours.schema.fields)


def _unnumbered(ours: LakeView, theirs: LakeView) -> list[tuple[str, str]]:
    """Our columns with the numbers of nested fields as theirs."""
    found: list[tuple[str, str]] = []
    for mine, other in zip(ours.schema.fields, theirs.schema.fields, strict=True):
        nested = mine.field_type.is_struct or str(mine.field_type).startswith("list")
        kind = str(other.field_type) if nested else str(mine.field_type)
        found.append((mine.name, kind))
    return found


def test_a_view_is_replaced_as_a_whole_or_not(sql: Sql, engine_for: EngineFor) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 2)")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    table = workspace.config.tables[0]
    sync_table(workspace, table)
    name = Identifier(table.namespaces.clean, "t")
    before = read_view(workspace.lake, name)
    assert before is not None
    other = replace(before, sql=before.sql + " WHERE id > 1")
    assert write_view(workspace.lake, name, other)
    assert workspace.spark.get().table(name.sql).collect() == []
    assert write_view(workspace.lake, name, before)
    assert [tuple(r) for r in workspace.spark.get().table(name.sql).collect()] == [(1, 2)]


def test_one_of_two_that_write_at_once_is_refused(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    table = workspace.config.tables[0]
    sync_table(workspace, table)
    name = Identifier(table.namespaces.clean, "t")
    view = read_view(workspace.lake, name)
    assert view is not None
    forget_view(workspace.lake, name)
    # Both see that there is none.
    assert write_view(workspace.lake, name, view)
    monkeypatch.setattr(views, "_FIND", views.sa.text("SELECT NULL WHERE :catalog IS NULL"))
    with pytest.raises(CommitConflict, match="somebody else"):
        write_view(workspace.lake, name, view)


def test_a_name_with_a_comma_is_sparks(sql: Sql, engine_for: EngineFor) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, `a,b` INT)", "INSERT INTO t VALUES (1, 2)")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    table = workspace.config.tables[0]
    sync_table(workspace, table)
    name = Identifier(table.namespaces.clean, "t")
    view = read_view(workspace.lake, name)
    assert view is not None
    assert not write_view(workspace.lake, name, view)
