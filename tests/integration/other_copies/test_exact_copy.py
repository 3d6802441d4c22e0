"""No wolf is cried: an exact copy of every type is equal, whatever it is kept in; one cell of it
changed is the one difference that is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.other_copies.conftest import Check
from tests.integration.sources.mysql.test_types import cases_of, make_wide_table

EngineFor = Callable[..., Workspace]
Sql = Callable[..., Any]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def found(check: Check, *arguments: str) -> dict[str, Any]:
    result = check(*arguments, "--json")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return json.loads(result.stdout)["tables"][0] | {"code": result.exit_code}


@pytest.mark.full
@pytest.mark.parametrize("kept", ["iceberg", "parquet", "duckdb"])
def test_an_exact_copy_of_every_type_is_equal(
    check: Check,
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    tmp_path: Path,
    kept: str,
) -> None:
    make_wide_table(sql, cases_of(server))
    workspace = engine_for({"wide": {"mode": "full", "key": ["id"]}})
    sync_table(workspace, workspace.config.table("wide"))
    table = workspace.lake.load(Identifier(f"s_{database}", "wide"))
    assert table is not None
    folder = local_path(table.location())
    assert folder is not None
    rows = table.scan().to_arrow()
    if kept == "parquet":
        pq.write_table(rows, tmp_path / "wide.parquet")
    elif kept == "duckdb":
        with duckdb.connect(str(tmp_path / "wide.duckdb")) as connection:
            # Compressed, DuckDB 1.5 makes 0.0 of a FLOAT's -0.0.
            connection.execute("PRAGMA force_compression = 'uncompressed'")
            connection.execute("CREATE TABLE wide AS SELECT * FROM rows")
    copy = folder if kept == "iceberg" else tmp_path / f"wide.{kept}"
    one = found(check, "wide", "--against", str(copy))
    assert one["differences"] == [], copy
    assert (one["verdict"], one["code"]) == ("equal", 0)
    assert one["rows"] == [rows.num_rows, rows.num_rows]
    assert one["equal_rows"] == rows.num_rows
    assert len(one["columns"]) > 120
    if kept == "iceberg":
        _assert_each_changed_cell_is_found(check, rows, tmp_path)


def _assert_each_changed_cell_is_found(check: Check, rows: pa.Table, folder: Path) -> None:
    """NULL in place of each column's first value: as many differences as columns have one."""
    columns, wanted = [rows.column("id")], set[str]()
    for name in rows.schema.names[1:]:
        values = rows.column(name).to_pylist()
        first = next((n for n, value in enumerate(values) if value is not None), None)
        if first is not None and not name.startswith("_mirror"):
            values[first] = None
            wanted.add(name)
        columns.append(pa.chunked_array([pa.array(values, rows.schema.field(name).type)]))
    pq.write_table(pa.table(columns, schema=rows.schema), folder / "changed.parquet")
    one = found(check, "wide", "--against", str(folder / "changed.parquet"))
    assert {each["column"] for each in one["differences"]} == wanted
    assert all(each["count"] == 1 for each in one["differences"])
    assert one["verdict"] == "different"
    assert one["code"] == 9


def test_rows_without_a_key_are_a_multiset(check: Check, sql: Sql, tmp_path: Path) -> None:
    sql(
        "CREATE TABLE loose (a INT, b VARCHAR(9), c DATETIME(6))",
        "INSERT INTO loose VALUES (1, 'x', NULL), (1, 'x', NULL), (2, NULL, '2024-01-01'), "
        "(3, 'z', '0000-00-00')",
    )
    copy = tmp_path / "loose.parquet"

    def write(*values: str) -> dict[str, Any]:
        listed = f"SELECT * FROM (VALUES {', '.join(values)}) AS t(a, b, c)"
        duckdb.sql(f"COPY ({listed}) TO '{copy}'")
        return found(check, "loose", "--against", str(copy))

    twice = "(1, 'x', NULL::VARCHAR)"
    dates = "(2, NULL, '2024-01-01 00:00:00')", "(3, 'z', '0000-00-00 00:00:00.000000')"
    assert write(twice, twice, *dates)["verdict"] == "equal"
    once = write(twice, *dates)
    assert [(d["kind"], d["count"]) for d in once["differences"]] == [("missing", 1)]
    lost = write(twice, twice, dates[0], "(3, 'z', NULL)")
    assert [(d["kind"], d["detail"]) for d in lost["differences"]] == [
        ("missing", "in c"),
        ("extra", "in c"),
    ]
