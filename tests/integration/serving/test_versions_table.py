"""The table of all versions (``versions: table``): the rows of the view over raw, for every engine.

Its rows are compared, as PyIceberg and DuckDB read them, with what is written down here, and with
what Spark makes of the view's own SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable, history
from mirrorlake.destinations.iceberg.views import read_view
from mirrorlake.errors import LakeError
from mirrorlake.operations.resolve import resolve_table
from mirrorlake.operations.sync import sync_table
from mirrorlake.serving.views import raw_view
from mirrorlake.sources.mysql.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.lakes import READERS

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL: dict[str, Any] = {"mode": "full", "key": ["id"], "versions": "table"}
WINDOWS: dict[str, Any] = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "versions": "table",
    "overlap": "0s",
}
AT = "at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (at)"


def name_of(workspace: Workspace) -> Identifier:
    [contract] = workspace.config.tables
    return Identifier(contract.namespaces.raw, contract.table)


def sync(workspace: Workspace) -> None:
    [contract] = workspace.config.tables
    sync_table(workspace, contract)


def table_of(workspace: Workspace) -> LakeTable:
    found = workspace.lake.load(name_of(workspace))
    assert found is not None
    return found


def plain(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The rows by their load and key, each column in the order of its name."""
    names = sorted(rows.column_names)
    columns = [
        column.cast(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(column.type) and column.type.tz is not None
        else column
        for column in (rows[name] for name in names)
    ]
    # A row without originals has none, or an empty list of them.
    cells = [[None if cell == [] else cell for cell in column.to_pylist()] for column in columns]
    return sorted(zip(*cells, strict=True), key=str)


def shown(workspace: Workspace, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of the table, by load and key, as both readers see them; the whole table proven
    to be what Spark makes of the view's SQL."""
    table = table_of(workspace)
    spark = workspace.spark.get()
    [contract] = workspace.config.tables
    with session(workspace.config.sources[contract.source], contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
    wanted = raw_view(plan, workspace.ledger, workspace.lake)
    assert wanted is not None
    expected = plain(spark.sql(wanted.sql).toArrow())
    first: list[tuple[Any, ...]] | None = None
    for name, read in READERS.items():
        rows = read(table)
        assert sorted(rows.column_names) == sorted(wanted.columns), name
        assert plain(rows) == expected, name
        chosen = rows.select([*columns, "_mirror_seq"]).to_pylist()
        chosen.sort(key=lambda row: (row["_mirror_seq"], str(row.get("id"))))
        found = [tuple(row[column] for column in columns) for row in chosen]
        assert first is None or found == first
        first = found
    assert first is not None
    return first


def files_of(table: LakeTable) -> set[str]:
    return {task.file.file_path for task in table.scan().plan_files()}


def test_the_published_example_for_every_engine(sql: Sql, engine_for: EngineFor) -> None:
    sql(
        "CREATE TABLE customer (id INT NOT NULL PRIMARY KEY, full_name VARCHAR(50))",
        "INSERT INTO customer VALUES (1, 'Ann'), (-2, NULL), (2147483647, '')",
    )
    workspace = engine_for({"customer": FULL})
    sync(workspace)
    assert shown(workspace, "id", "full_name") == [(-2, None), (1, "Ann"), (2147483647, "")]
    before = table_of(workspace)
    sql(
        "ALTER TABLE customer MODIFY id VARCHAR(36) CHARACTER SET ascii NOT NULL, "
        "DROP full_name, ADD email VARCHAR(80)",
        "DELETE FROM customer WHERE id = '-2'",
        "INSERT INTO customer VALUES ('9f-07', 'x@y.example'), ('007', NULL)",
    )
    sync(workspace)
    assert shown(workspace, "id", "full_name", "email") == [
        ("-2", None, None),
        ("1", "Ann", None),
        ("2147483647", "", None),
        ("007", None, None),
        ("1", None, None),
        ("2147483647", None, None),
        ("9f-07", None, "x@y.example"),
    ]
    versions = {hashed for (hashed,) in shown(workspace, "_mirror_version")}
    [contract] = workspace.config.tables
    assert versions == {v.hash for v in workspace.ledger.schema_versions(contract.name)}
    # Whoever reads the older version of the table still sees its columns.
    assert before.metadata.table_uuid == table_of(workspace).metadata.table_uuid


def test_only_what_moved_is_written(sql: Sql, engine_for: EngineFor) -> None:
    sql(
        f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, {AT})",
        "INSERT INTO t (id, n) VALUES (1, 1), (2, 2)",
    )
    workspace = engine_for({"t": WINDOWS})
    sync(workspace)
    first = files_of(table_of(workspace))
    sync(workspace)
    heads = [one.snapshot_id for one in history(table_of(workspace))]
    sql("UPDATE t SET n = 3 WHERE id = 1", "INSERT INTO t (id, n) VALUES (4, NULL)")
    sync(workspace)
    assert first < files_of(table_of(workspace))
    assert heads[0] in {one.snapshot_id for one in history(table_of(workspace))}
    assert shown(workspace, "id", "n") == [(1, 1), (2, 2), (1, 3), (4, None)]
    # Wider, and one column more: in place.
    kept = files_of(table_of(workspace))
    sql(
        "ALTER TABLE t MODIFY n BIGINT, ADD s VARCHAR(9) DEFAULT 'x'",
        "UPDATE t SET n = 9223372036854775807 WHERE id = 2",
    )
    sync(workspace)
    assert kept < files_of(table_of(workspace))
    rows = shown(workspace, "id", "n", "s")
    assert rows[:4] == [(1, 1, None), (2, 2, None), (1, 3, None), (4, None, None)]
    assert rows[4:] == [(1, 3, "x"), (2, 9223372036854775807, "x"), (4, None, "x")]


def test_what_a_view_was_and_a_view_again(sql: Sql, engine_for: EngineFor, place: Place) -> None:
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, `a,b` INT)",
        "INSERT INTO t VALUES (1, 7)",
    )
    as_view = {**FULL, "versions": "view"}
    workspace = engine_for({"t": as_view})
    sync(workspace)
    name = name_of(workspace)
    assert read_view(workspace.lake, name) is not None
    workspace = engine_for({"t": FULL})
    sync(workspace)
    assert read_view(workspace.lake, name) is None
    assert shown(workspace, "id", "a,b") == [(1, 7)]
    workspace = engine_for({"t": as_view})
    sync(workspace)
    assert workspace.lake.load(name) is None
    assert [tuple(row) for row in place.spark.get().table(name.sql).select("id").collect()] == [
        (1,)
    ]


def test_an_empty_table_can_be_read(sql: Sql, engine_for: EngineFor) -> None:
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT)")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    assert shown(workspace, "id", "n") == []
    sql("INSERT INTO t VALUES (1, 2)")
    sync(workspace)
    assert shown(workspace, "id", "n") == [(1, 2)]


def test_what_somebody_else_wrote_is_made_again(
    sql: Sql, engine_for: EngineFor, caplog: pytest.LogCaptureFixture
) -> None:
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    workspace.spark.get().sql(f"DELETE FROM {name_of(workspace).sql} WHERE id = 2")
    sync(workspace)
    assert shown(workspace, "id") == [(1,), (2,)]
    assert "somebody else wrote" in caplog.text


def test_a_table_that_is_not_ours_is_left_alone(sql: Sql, engine_for: EngineFor) -> None:
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    workspace = engine_for({"t": FULL})
    name = name_of(workspace)
    workspace.lake.make_namespace(name.namespace)
    workspace.spark.get().sql(f"CREATE TABLE {name.sql} (mine INT)")
    for kind in ("table", "view"):
        workspace = engine_for({"t": {**FULL, "versions": kind}})
        with pytest.raises(LakeError, match="is none that Mirrorlake made") as raised:
            sync(workspace)
        assert "Rename or drop it" in str(raised.value)
    assert table_of(workspace).schema().column_names == ["mine"]
