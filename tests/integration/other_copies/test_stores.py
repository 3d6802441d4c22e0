"""The copy in a DuckDB file, Iceberg (by its files and by a catalog), Delta and Postgres."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
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

from mirrorlake.other_copies.database import _host, working_folder
from tests.integration.other_copies.conftest import Check
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
