"""How many rows are held at once: by how large rows are, where their types alone allow anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mirrorlake.load.chunks.select_rows
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.reading.reader import BATCH_ROWS, read_batches
from mirrorlake.workspace import Workspace
from tests.integration.sources.mysql.test_types import assert_exact

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL = {"t": {"mode": "full", "key": ["id"]}}
KEPT_OUT = {"t": {"mode": "full", "key": ["id"], "columns": {"b": {"pci": "never"}}}}
ROWS = 16_384


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """(rows a batch, whether kept near) of every read of a chunk, as they are done."""
    found: list[tuple[int, bool]] = []

    def noted(*arguments: Any, **named: Any) -> Iterator[Any]:
        if "question" in named:  # not the look whether a server that has no row is the right one
            found.append((arguments[3], named["near"]))
        return read_batches(*arguments, **named)

    monkeypatch.setattr(mirrorlake.load.chunks.select_rows, "read_batches", noted)
    return found


def fill(sql: Sql, value: str, *others: str) -> None:
    """16,384 rows whose JSON has that SQL, a date that is none in every 16th; then statements."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON, b LONGBLOB, d DATE, e DATE)",
        f"INSERT INTO t VALUES (0, {value}, NULL, '0000-00-00', '2020-02-00')",
        *(
            f"INSERT INTO t SELECT id + {2**n}, j, b, IF({n} < 4, '2020-01-01', d), e FROM t"
            for n in range(14)
        ),
        *others,
        "ANALYZE TABLE t",
    )


def test_small_documents_are_read_as_other_rows_are(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, held: list[Any]
) -> None:
    fill(sql, "'{\"a\": 1}'")
    workspace = engine_for(FULL)
    result = load_table(workspace, workspace.config.table("t"))
    assert held == [(BATCH_ROWS, False)]
    assert result.originals == ROWS // 16 + ROWS
    sync_table(workspace, workspace.config.table("t"))
    assert_exact(server, workspace, database, "t", ("id",))


def test_one_large_row_makes_all_batches_small(
    sql: Sql, engine_for: EngineFor, held: list[Any]
) -> None:
    fill(sql, "'{}'", "UPDATE t SET b = REPEAT('x', 100000) WHERE id = 9000")
    workspace = engine_for(FULL)
    assert load_table(workspace, workspace.config.table("t")).rows == ROWS
    [(rows, near)] = held
    # 16 MB of the largest, and an average row beside it.
    assert 16 * 2**20 // 101_000 < rows <= 16 * 2**20 // 100_000
    assert not near  # the whole table has less than may be held


def test_a_row_too_large_leaves_the_fewest(
    sql: Sql, engine_for: EngineFor, held: list[Any]
) -> None:
    fill(sql, "'{}'", "UPDATE t SET b = REPEAT('x', 2000000) WHERE id = 9000")
    workspace = engine_for(FULL)
    assert load_table(workspace, workspace.config.table("t")).rows == ROWS
    assert held == [(64, False)]


def test_a_column_that_is_not_read_is_not_asked_for(
    sql: Sql, engine_for: EngineFor, held: list[Any]
) -> None:
    fill(sql, "'{}'", "UPDATE t SET b = REPEAT('x', 2000000) WHERE id = 9000")
    workspace = engine_for(KEPT_OUT)
    assert load_table(workspace, workspace.config.table("t")).rows == ROWS
    assert held == [(BATCH_ROWS, False)]


@pytest.mark.full
def test_rows_large_on_average_are_not_scanned_twice(
    sql: Sql, engine_for: EngineFor, held: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorlake.load.chunks.statements._SCANNED_ROW_BYTES", 1)
    fill(sql, "'{}'")
    workspace = engine_for(FULL)
    assert load_table(workspace, workspace.config.table("t")).rows == ROWS
    assert held == [(64, False)]
