"""The copy in a DuckDB file, Iceberg (by its files and by a catalog), Delta, Postgres and BigQuery."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import deltalake
import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from mirrorlake.errors import LakeError
from mirrorlake.other_copies.database import _host, working_folder
from mirrorlake.other_copies.theirs.bigquery import _readable
from mirrorlake.runtime.google.tables import BigQueryReader, BigQueryTable, StreamedRows
from tests.integration.other_copies.conftest import Check
from tests.support.bigquery.emulator import PROJECT, GoogleCloud, google_cloud
from tests.support.postgres import PASSWORD, Postgres, running_postgres

Sql = Callable[..., Any]
# Commands in a process of their own, one after the other: for each its exit code and both streams.
PROGRAM = """
import json, sys
from click.testing import CliRunner
from mirrorlake.cli.main import cli
for arguments in json.load(sys.stdin):
    done = CliRunner().invoke(cli, arguments)
    code = getattr(done.exception, "exit_code", done.exit_code)
    print(json.dumps([code, done.stdout, f"{done.stderr}{done.exception}"]))
"""
ROWS = [(1, "12.50", "é", "0000-00-00 00:00:00"), (2, None, "", "2024-01-31 12:00:00")]


@pytest.fixture
def orders(sql: Sql) -> pa.Table:
    """MySQL's table, and its copy without the zero date."""
    sql(
        "CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(10,2), name VARCHAR(9), "
        "at DATETIME, data VARBINARY(9))",
        "INSERT INTO orders VALUES (1, 12.50, 'é', '0000-00-00', x'00ff'), "
        "(2, NULL, '', '2024-01-31 12:00:00', NULL)",
    )
    found = duckdb.sql(
        "SELECT * FROM (VALUES (1::INTEGER, 12.50::DECIMAL(10,2), 'é', NULL::TIMESTAMP, "
        "unhex('00ff')), (2, NULL, '', '2024-01-31 12:00:00', NULL)) AS t(id, price, name, \"at\", data)"
    )
    return found.to_arrow_table()


def assert_found(check: Check, *arguments: str) -> dict[str, Any]:
    """The zero date, and nothing else."""
    result = check(*arguments, "--json")
    assert result.exit_code == 9, (result.output, result.exception)
    [one] = json.loads(result.stdout)["tables"]
    found = [(d["column"], d["kind"], d["keys"]) for d in one["differences"]]
    assert found == [("at", "zero_date_to_null", ["1"])]
    assert (one["rows"], one["equal_rows"]) == ([2, 2], 1)
    return one


def test_decimals_of_more_than_38_digits_in_parquet(check: Check, sql: Sql, tmp_path: Path) -> None:
    """DuckDB by itself reads 1.5 as 6442450943.999999."""
    sql(
        "CREATE TABLE large (id INT PRIMARY KEY, n DECIMAL(65,30))",
        "INSERT INTO large VALUES (1, 1.5), (2, -0.000000000000000000000000000001), (3, NULL)",
    )
    copy = tmp_path / "large" / "day=1" / "a.parquet"
    copy.parent.mkdir(parents=True)
    values = [Decimal("1.5"), Decimal("-1e-30"), None]
    columns = {"id": [1, 2, 3], "n": pa.array(values, pa.decimal256(65, 30))}
    pq.write_table(pa.table(columns), copy)
    equal = check("large", "--against", str(tmp_path / "large"), "--json")
    assert equal.exit_code == 0, (equal.output, equal.exception)
    columns["n"] = pa.array([Decimal("1.5"), Decimal("-2e-30"), None], pa.decimal256(65, 30))
    pq.write_table(pa.table(columns), copy)
    lost = json.loads(check("large", "--against", str(tmp_path / "large"), "--json").stdout)
    [one] = lost["tables"][0]["differences"]
    assert (one["column"], one["keys"]) == ("n", ["2"])


def test_rows_of_a_comparison_that_was_killed_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    host = _host()
    left, running = f"{host}-{int(dead.stdout)}-left", f"{host}-{os.getpid()}-runs"
    for name in (left, running):
        folder = tmp_path / "against" / name
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    with working_folder() as folder:
        assert {one.name for one in folder.parent.iterdir()} == {running, folder.name}
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_a_duckdb_file(check: Check, orders: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "warehouse.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA raw; CREATE TABLE raw.orders AS SELECT * FROM orders")
    before = path.read_bytes()
    one = assert_found(check, "orders", "--against", str(path))
    assert one["place"].endswith("raw.orders")
    assert_found(check, "--against", str(path))
    assert path.read_bytes() == before
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE orders AS SELECT * FROM raw.orders")
    twice = check("orders", "--against", str(path))
    assert "several tables orders: main.orders, raw.orders" in str(twice.exception)
    assert_found(check, "orders", "--against", str(path), "--their-table", "raw.orders")


def test_iceberg_by_its_files_and_by_a_catalog(
    check: Check, orders: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    catalog = SqlCatalog("theirs", **properties)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", orders.schema)
    table.append(orders)
    table.append(orders.slice(0, 1).set_column(0, "id", pa.array([3], pa.int32())))
    table.delete("id = 3")
    metadata = table.metadata_location.removeprefix("file://")
    folder = table.location().removeprefix("file://")
    for place in (metadata, folder):
        one = assert_found(check, "orders", "--against", place)
        assert str(table.current_snapshot().snapshot_id) in one["version"]
    # PyIceberg reads its configuration once, when it is imported.
    monkeypatch.setenv("PYICEBERG_CATALOG__THEIRS__TYPE", "sql")
    for key, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__THEIRS__{key.upper()}", value)
    url = str(check.url)  # type: ignore[attr-defined]
    places = ("iceberg://theirs/shop/orders", "iceberg://theirs/shop")
    commands = [
        ["check", *chosen, "--against", place, "--from", url, "--json"]
        for chosen in (("orders",), ())
        for place in places
    ]
    none = ["check", "orders", "--against", "iceberg://theirs/shop/none", "--from", url]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([*commands, none]),
        capture_output=True,
        text=True,
        check=True,
    )
    *compared, missing = map(json.loads, done.stdout.splitlines())
    for code, printed, said in compared:
        assert code == 9, said
        [one] = json.loads(printed)["tables"]
        assert [d["kind"] for d in one["differences"]] == ["zero_date_to_null"]
    assert len(compared) == 4
    assert (missing[0], "has no table" in missing[2]) == (6, True)


def test_delta(check: Check, orders: pa.Table, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    deltalake.write_deltalake(str(folder), orders)
    deltalake.write_deltalake(str(folder), orders, mode="overwrite")
    one = assert_found(check, "orders", "--against", str(folder))
    assert one["version"] == "version 1"
    assert_found(check, "--against", str(tmp_path))


def test_delta_without_its_package(
    check: Check, orders: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders" / "_delta_log").mkdir(parents=True)
    pq.write_table(orders, tmp_path / "orders" / "part-0.parquet")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    refused = check("orders", "--against", str(tmp_path / "orders"))
    assert "needs deltalake (extra mirrorlake[delta]), which is not installed" in str(
        refused.exception
    )


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


def test_postgres(
    check: Check, orders: pa.Table, sql: Sql, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.put_database("warehouse")
    url = postgres.url("warehouse")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA raw")
        connection.execute(
            "CREATE TABLE raw.orders (id bigint, price numeric(10,2), name text, at timestamp, "
            "data bytea)"
        )
        for row in orders.to_pylist():
            connection.execute(
                "INSERT INTO raw.orders VALUES (%s, %s, %s, %s, %s)", [*row.values()]
            )
    bare = url.replace(f":{quote(PASSWORD, safe='')}@", "@")
    refused = check("orders", "--against", bare)
    assert "PGPASSWORD" in str(refused.exception)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    one = assert_found(check, "orders", "--against", bare)
    assert PASSWORD not in json.dumps(one)
    assert_found(check, "--against", bare)
    sql(
        "CREATE TABLE kinds (id INT PRIMARY KEY, t TIME, f DOUBLE, b BIT(3), d DATE, z TIMESTAMP, "
        "j JSON, n DECIMAL(65,30), flag TINYINT(1), u VARCHAR(36))",
        "INSERT INTO kinds VALUES (1, '-100:00:00', 0.1, b'101', '9999-12-31', "
        "'2024-01-31 12:00:00', '{\"a\": 1}', 0.000000000000000000000000000001, 1, "
        "'123e4567-e89b-12d3-a456-426655440000')",
    )
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE TABLE kinds AS SELECT 1::smallint AS id, interval '-100 hours' AS t, "
            "0.1::float8 AS f, B'101' AS b, '9999-12-31'::date AS d, '2024-01-31 14:00+02'"
            "::timestamptz AS z, '{\"a\": 1}'::jsonb AS j, 1e-30::numeric AS n, true AS flag, "
            "'123e4567-e89b-12d3-a456-426655440000'::uuid AS u"
        )
    equal = check("kinds", "--against", url)
    assert equal.exit_code == 0, (equal.output, equal.exception)


@pytest.fixture(scope="module")
def running_cloud() -> Iterator[GoogleCloud]:
    with google_cloud() as cloud:
        cloud.make_dataset("raw")
        yield cloud


@pytest.fixture
def cloud(running_cloud: GoogleCloud, monkeypatch: pytest.MonkeyPatch) -> GoogleCloud:
    """BigQuery, which this process takes for Google's."""
    for name, value in running_cloud.environment().items():
        monkeypatch.setenv(name, value)
    return running_cloud


def test_bigquery(check: Check, orders: pa.Table, cloud: GoogleCloud) -> None:
    ask = cloud.client().query_and_wait
    ask(
        "CREATE TABLE raw.orders AS SELECT 1 AS id, NUMERIC '12.5' AS price, 'é' AS name, "
        "CAST(NULL AS DATETIME) AS at, FROM_HEX('00ff') AS data UNION ALL "
        "SELECT 2, NULL, '', DATETIME '2024-01-31 12:00:00', NULL"
    )
    for place in (f"bigquery://{PROJECT}/raw/orders", f"bigquery://{PROJECT}/raw"):
        one = assert_found(check, "orders", "--against", place)
        assert one["place"] == f"BigQuery, {PROJECT}.raw.orders"
        assert one["version"].startswith("2 rows, location US, changed 2")
    # Of a dataset each table that is on both sides; one without rows has columns.
    ask("CREATE VIEW raw.Latest AS SELECT * FROM raw.orders")
    assert_found(check, "--against", f"bigquery://{PROJECT}/raw")
    ask("CREATE OR REPLACE TABLE raw.orders AS SELECT * FROM raw.orders WHERE false")
    result = check("orders", "--against", f"bigquery://{PROJECT}/raw/orders", "--json")
    [empty] = json.loads(result.stdout)["tables"]
    found = [(d["kind"], d["count"]) for d in empty["differences"]]
    assert (empty["rows"], found) == ([2, 0], [("missing", 2)])


KINDS = {
    "n": ("DECIMAL(10,2)", "12.50", "NUMERIC(10, 2)", "NUMERIC '12.5'"),
    "fine": ("DECIMAL(38,9)", "99999999999999999999999999999.999999999", "NUMERIC",
             "NUMERIC '99999999999999999999999999999.999999999'"),
    "many": ("DECIMAL(65,30)", "0.000000000000000001", "BIGNUMERIC",
             "BIGNUMERIC '0.000000000000000001'"),
    "u": ("BIGINT UNSIGNED", "18446744073709551615", "BIGNUMERIC(20)",
          "BIGNUMERIC '18446744073709551615'"),
    "f": ("DOUBLE", "0.1e0", "FLOAT64", "0.1"),
    "g": ("FLOAT", "0.1", "FLOAT64", "0.10000000149011612"),
    "flag": ("TINYINT(1)", "1", "BOOL", "TRUE"),
    "j": ("JSON", """'{"a": 1.0}'""", "JSON", """JSON '{"a": 1.0}'"""),
    "d": ("DATE", "'0001-01-01'", "DATE", "DATE '0001-01-01'"),
    "dt": ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", "DATETIME",
           "DATETIME '9999-12-31 23:59:59.999999'"),
    "z": ("TIMESTAMP(6)", "'2024-01-31 12:00:00.000001'", "TIMESTAMP",
          "TIMESTAMP '2024-01-31 14:00:00.000001+02'"),
    "t": ("TIME(6)", "'23:59:59.999999'", "TIME", "TIME '23:59:59.999999'"),
    "b": ("VARBINARY(9)", "x'00ff'", "BYTES", "FROM_HEX('00ff')"),
    "s": ("VARCHAR(20)", "'ü😀'", "STRING", "'ü😀'"),
    "members": ("SET('a','b')", "'a,b'", "ARRAY<STRING>", "['b', 'a']"),
    "document": ("JSON", """'{"a": 1, "b": "x"}'""", "STRUCT<a INT64, b STRING>",
                 "STRUCT(1, 'x')"),
    "nested": ("JSON", """'{"n": 1.5, "j": [{"x": 1}]}'""",
               "STRUCT<n NUMERIC, j ARRAY<JSON>>", """STRUCT(NUMERIC '1.5', [JSON '{"x":1}'])"""),
    "digits": ("JSON", "'[99999999999999999999999999999.123456789]'", "ARRAY<NUMERIC>",
             "[NUMERIC '99999999999999999999999999999.123456789']"),
    "numbers": ("JSON", "'[1.5, 100]'", "ARRAY<BIGNUMERIC>", "[BIGNUMERIC '1.5', BIGNUMERIC '100']"),
}  # fmt: skip
"""Column → MySQL's type and value, BigQuery's type and value."""
CHANGED = {
    "n": "12.51",
    "many": "BIGNUMERIC '0.000000000000000002'",
    "u": "BIGNUMERIC '18446744073709551614'",
    "f": "0.10000000000000002",
    "j": """JSON '{"a": 2}'""",
    "t": "TIME '23:59:59.999998'",
    "z": "TIMESTAMP '2024-01-31 14:00:00.000002+02'",
    "document": "STRUCT(2, 'x')",
    "nested": """STRUCT(NUMERIC '1.5', [JSON '{"x":2}'])""",
    "numbers": "[BIGNUMERIC '1.5', BIGNUMERIC '101']",
}


def test_every_type_of_bigquery(check: Check, sql: Sql, cloud: GoogleCloud) -> None:
    ours = ", ".join(f"{name} {kinds[0]} NOT NULL" for name, kinds in KINDS.items())
    values = ", ".join(one[1] for one in KINDS.values())
    numbers = range(len(CHANGED) + 1)
    sql(
        f"CREATE TABLE kinds (id INT PRIMARY KEY, {ours})",
        f"INSERT INTO kinds VALUES {', '.join(f'({n}, {values})' for n in numbers)}",
    )
    theirs = ", ".join(f"{name} {kinds[2]}" for name, kinds in KINDS.items())
    cloud.client().query_and_wait(f"CREATE OR REPLACE TABLE raw.kinds (id INT64, {theirs})")
    # The first row is MySQL's; each of the others is changed in one column.
    rows = [
        ", ".join(CHANGED[name] if name == wrong else one[3] for name, one in KINDS.items())
        for wrong in ("", *CHANGED)
    ]
    inserted = ", ".join(f"({n}, {row})" for n, row in enumerate(rows))
    cloud.client().query_and_wait(f"INSERT INTO raw.kinds VALUES {inserted}")
    lost = check("kinds", "--against", f"bigquery://{PROJECT}/raw/kinds", "--json")
    assert lost.exit_code == 9, (lost.output, lost.exception)
    [one] = json.loads(lost.stdout)["tables"]
    found = {d["column"]: d["keys"] for d in one["differences"] if not d["lossless"]}
    assert found == {name: [str(n)] for n, name in enumerate(CHANGED, 1)}
    types = {column["name"]: column["their_type"] for column in one["columns"]}
    assert (types["many"], types["j"], types["d"]) == ("BIGNUMERIC", "JSON", "DATE")


@pytest.mark.usefixtures("orders")
def test_what_bigquery_can_not_give(
    check: Check, cloud: GoogleCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = cloud.client().query_and_wait
    ask("CREATE OR REPLACE TABLE raw.moving AS SELECT 1 AS id")
    ask("CREATE OR REPLACE VIEW raw.shown AS SELECT 1 AS id")
    refused = {
        "bigquery://": "names no dataset or table",
        f"bigquery://{PROJECT}": "names no dataset or table",
        "bigquery:///raw/orders": "names no dataset or table",
        f"bigquery://{PROJECT}/raw/or;ders": "names no dataset or table",
        f"bigquery://{PROJECT}/raw/orders/more": "names no dataset or table",
        f"bigquery://{PROJECT}/raw/nothing": "there is no table local.raw.nothing in BigQuery",
        f"bigquery://{PROJECT}/nowhere": "there is no dataset local.nowhere in BigQuery",
        f"bigquery://{PROJECT}/raw/shown": r"local.raw.shown is no table (VIEW)",
    }
    for place, words in refused.items():
        assert words in str(check("orders", "--against", place).exception), place
    pages = BigQueryReader._pages

    def changed(self: BigQueryReader, *asked: Any) -> Iterator[pa.RecordBatch]:
        yield from pages(self, *asked)
        ask("INSERT INTO raw.moving VALUES (2)")

    monkeypatch.setattr(BigQueryReader, "_pages", changed)
    moved = check("orders", "--against", f"bigquery://{PROJECT}/raw/moving")
    assert "changed since it was looked at" in str(moved.exception)
    table = BigQueryTable(PROJECT, "raw", "moving")
    seen = BigQueryReader(PROJECT).look(table)
    assert seen is not None
    with pytest.raises(LakeError, match=r"rows are streamed into local\.raw\.moving"):
        _readable(table, replace(seen, streaming=StreamedRows(3, None)))
