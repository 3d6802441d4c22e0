"""Every type of MySQL and MariaDB, on both servers: what the lake holds is what the server prints.

The judge (`demo.oracle`) shares no code with the engine, and looks at the lake through
PyIceberg and, on its own, through DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dagster_mirrorlake.checks.contract import build_schema, find_broken, layer_of
from demo.oracle import compare_rows
from demo.oracle_text import SourceRows, read_source
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.lakes import READERS
from tests.integration.type_cases import CASES, MARIADB, MYSQL8, Case
from tests.support.brought_servers import MYSQL, version_of

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
MODES = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


def cases_of(server: EmbeddedServer) -> list[Case]:
    here = MARIADB if isinstance(server, MariaDB) else MYSQL8
    cases = [case for case in CASES if case.server in (None, here)]
    if here == MYSQL8 and (version_of(MYSQL) or "").startswith("5."):
        return [case.spelled("utf8mb3", "utf8") for case in cases]  # by its only name there
    return cases


def name_of(number: int, case: Case) -> str:
    """A column's name that is hard to quote, and says what it is."""
    return f"{number} {case.ddl}.`x\"y' 語 select"[:60].strip()


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def make_wide_table(sql: Sql, cases: list[Case]) -> None:
    """One column a type; row i holds each type's value i, and NULL beyond; the last only NULL."""
    columns = [f"{quoted(name_of(n, c))} {c.ddl}" for n, c in enumerate(cases)]
    sql(f"CREATE TABLE wide (id INT PRIMARY KEY, {', '.join(columns)}) ROW_FORMAT=DYNAMIC")
    for row in range(max(len(c.values) for c in cases) + 1):
        filled = {name_of(n, c): c.values[row] for n, c in enumerate(cases) if row < len(c.values)}
        nulls = {
            name_of(n, c): "NULL" for n, c in enumerate(cases) if c.values and row >= len(c.values)
        }
        cells = {**filled, **nulls}
        names = ", ".join(map(quoted, ["id", *cells]))
        sql(
            MODES,
            f"INSERT IGNORE INTO wide ({names}) VALUES ({', '.join([str(row), *cells.values()])})",
        )


def source_rows(server: EmbeddedServer, database: str, table: str) -> SourceRows:
    with server.admin() as admin:
        return read_source(admin, database, table)


def assert_exact(
    server: EmbeddedServer, workspace: Workspace, database: str, table: str, key: tuple[str, ...]
) -> None:
    """Deduped holds every row and cell of the server, whoever reads it."""
    source = source_rows(server, database, table)
    found = workspace.lake.load(Identifier(f"s_{database}", table))
    assert found is not None
    for reader, rows in READERS.items():
        verdict = compare_rows(source, key, rows(found))
        assert verdict.equal, f"{reader}: {verdict.describe(40)}"


def assert_contract_holds(workspace: Workspace, table: str) -> None:
    """Dagster's check `contract` finds nothing in deduped: every value is one that it allows."""
    contract = workspace.config.table(table)
    with session(workspace.config.sources["s"], contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
    layer = layer_of(plan, "deduped")
    found = workspace.lake.load(layer.identifier)
    assert found is not None
    rows = read_batches(workspace.lake, found)
    broken, seen = find_broken(build_schema(plan, layer), found.schema(), rows)
    assert (broken, seen > 5) == ([], True)


def test_every_type_as_a_column(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    capfd: pytest.CaptureFixture[str],
) -> None:
    cases = cases_of(server)
    make_wide_table(sql, cases)
    workspace = engine_for({"wide": {"mode": "full", "key": ["id"]}})
    result = sync_table(workspace, workspace.config.table("wide"))
    assert_exact(server, workspace, database, "wide", ("id",))
    assert result.originals > 60
    assert_contract_holds(workspace, "wide")
    # The reader prints the first bytes of a value that it can't convert.
    assert "panicked" not in capfd.readouterr().err


def test_the_values_are_what_the_cases_say(server: EmbeddedServer, database: str, sql: Sql) -> None:
    """Else a server that refuses or changes a literal would make a test of nothing."""
    cases = cases_of(server)
    make_wide_table(sql, cases)
    source = source_rows(server, database, "wide")
    for number, case in enumerate(cases):
        if case.values:
            stored = source.rows[name_of(number, case)].to_pylist()
            filled = [text for text in stored if text is not None]
            assert len(filled) == len(case.values), (case.ddl, case.values, stored)
            assert len(set(filled)) >= len(filled) - 2, (case.ddl, case.values, filled)
