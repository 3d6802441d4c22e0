"""Each kind of loss is named where it was planted, and nowhere else."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from mirrorlake.config.source_url import parse_source_url
from mirrorlake.other_copies.compare import CopyTerms, compare_copy
from mirrorlake.other_copies.pairings.kinds import KINDS
from mirrorlake.other_copies.theirs.find import find_tables
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import session
from tests.integration.conftest import PASSWORD, USER
from tests.integration.other_copies.loss_cases import CASES

Found = dict[str, dict[str, str]]
ROWS = max(len(case.values) for case in CASES)
OF_ROWS = {"missing", "extra", "doubled", "stale", "column_missing"}
PLANTED = {kind for case in CASES for _, _, kind in case.values if kind}


@pytest.fixture(scope="module")
def found(mariadb: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    """What is said of each column's rows: column → key → kind. One table has all cases."""
    name = f"t{uuid.uuid4().hex[:10]}"
    columns = [f"c{n} {case.ddl}" for n, case in enumerate(CASES)]
    rows = [
        ", ".join(case.values[row][0] if row < len(case.values) else "NULL" for case in CASES)
        for row in range(ROWS)
    ]
    with mariadb.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, {', '.join(columns)})")
        for row, values in enumerate(rows):
            cursor.execute(f"INSERT INTO {name}.t VALUES ({row}, {values})")
        admin.commit()
    path = tmp_path_factory.mktemp("copy") / "t.duckdb"
    _write_copy(path)
    url = f"mysql://{USER}:x@127.0.0.1:{mariadb.port}/{name}"
    source = parse_source_url(url).source("mysql")
    source = source.model_copy(update={"password": type(source.password)(PASSWORD)})
    with session(source) as connection:
        table = read_table(connection, name, "t")
    [theirs] = find_tables(str(path))
    seen: Found = {column.name: {} for column in table.columns}
    for one in compare_copy(source, table, theirs, CopyTerms()).differences:
        assert one.column is not None, one
        assert one.count == len(one.keys), f"more rows than examples: {one}"
        seen[one.column] |= dict.fromkeys(one.keys, one.kind)
    yield seen
    with mariadb.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


def _write_copy(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f"c{n} {case.theirs}" for n, case in enumerate(CASES))
        connection.execute(f"CREATE TABLE t (id INTEGER, {columns})")
        for row in range(ROWS):
            values = [case.values[row][1] if row < len(case.values) else "NULL" for case in CASES]
            connection.execute(f"INSERT INTO t VALUES ({row}, {', '.join(values)})")


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_every_planted_loss_is_named_and_nothing_else(found: Found, number: int) -> None:
    case = CASES[number]
    wanted = {str(row): kind for row, (*_, kind) in enumerate(case.values) if kind}
    assert found[f"c{number}"] == wanted


def test_every_kind_is_planted_somewhere() -> None:
    assert set(KINDS) - PLANTED - OF_ROWS <= {"as_wkt"}
