"""A reader that is kept near: rows that nobody has taken yet stay in the server, not in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.load.chunks import planner as chunk_planner
from mirrorlake.load.chunks import statements as chunk_statements
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.runtime.memory import give_back
from mirrorlake.sources.mysql.reading import brakes
from mirrorlake.sources.mysql.reading.reader import read_batches
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows
from tests.integration.sources.mysql.test_limits import FULL, make_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
ROWS, WIDTH, TIMES = 10_000, 12_000, 3
WHOLE = ROWS * WIDTH * TIMES


@pytest.fixture(scope="session", params=["mariadb", pytest.param("mysql8", marks=pytest.mark.full)])
def server(request: pytest.FixtureRequest) -> EmbeddedServer:
    return request.getfixturevalue(request.param)


def held_bytes() -> int:
    """Of this process, without what files it has mapped."""
    pages = Path("/proc/self/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * 4096


def read_slowly(batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """(how much more memory was held while nothing was taken, the number of rows): the first batch
    is looked at for as long as the server has something to send."""
    first = next(batches)
    seen = [held_bytes()]
    while len(seen) < 4 or seen[-1] > seen[-4]:
        time.sleep(0.5)
        seen.append(held_bytes())
    return seen[-1] - seen[0], first.num_rows + sum(batch.num_rows for batch in batches)


@pytest.mark.full
def test_what_is_not_taken_is_not_held(database: str, sql: Sql, engine_for: EngineFor) -> None:
    """Kept near, some megabytes; straight, the whole answer."""
    make_rows(sql, ROWS, width=WIDTH)
    source = engine_for({"t": FULL}).config.sources["s"]
    statement = f"SELECT id, v FROM t, (SELECT n FROM digits WHERE n < {TIMES}) d"
    found: dict[bool, int] = {}
    for near in (True, False):
        batches = read_batches(source, database, statement, 64, near=near)
        found[near], rows = read_slowly(batches)
        assert rows == ROWS * TIMES
    # A byte that went ahead is held as a value, and in a buffer that has room for more.
    assert found[True] < 2 * brakes.AHEAD < WHOLE // 2 < found[False]


@pytest.mark.full
def test_rows_come_whatever_their_size_and_the_pace(
    database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """Rows that are together more than may go ahead, and a consumer that stops at each batch."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)",
        "INSERT INTO t VALUES (1, REPEAT('a', 9000000)), (2, 'x')",
        *(f"INSERT INTO t SELECT id + {2 * 2**n}, b FROM t" for n in range(4)),
        *(f"INSERT INTO t SELECT id + {2 * 2**n}, LEFT(b, 900) FROM t" for n in range(4, 8)),
    )
    source = engine_for({"t": FULL}).config.sources["s"]
    ids: list[int] = []
    for batch in read_batches(source, database, "SELECT id, b FROM t", 16, near=True):
        ids += batch[0].to_pylist()
        time.sleep(0.01)
    assert sorted(ids) == list(range(1, 2 * 2**8 + 1))


def test_a_large_table_is_read_near(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a load does it: every row is there, and only a large table costs a process."""
    make_rows(sql, 5_000, width=2_000)
    sql("ANALYZE TABLE t")
    monkeypatch.setattr(chunk_planner, "_MANY_ROWS", 1_000)
    workspace = engine_for({"t": FULL})
    contract = workspace.config.table("t")
    seen: list[bool] = []

    def noted(*arguments: Any, **named: Any) -> Any:
        seen.append(named.get("near", False))
        return read_batches(*arguments, **named)

    monkeypatch.setattr("mirrorlake.load.chunks.select_rows.read_batches", noted)
    load_table(workspace, contract)
    monkeypatch.setattr(chunk_statements, "PILED_BYTES", 2**20)
    assert load_table(workspace, contract).rows == 5_000
    assert seen == [False, True]
    raw = workspace.ledger.schema_versions(contract.name)[-1].raw_table
    ids = sorted(row["id"] for row in lake_rows(workspace, contract.namespaces.raw, raw))
    assert ids == list(range(1, 5_001))


@pytest.mark.full
def test_what_was_held_is_given_back(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read's threads free what they held; the next chunk's threads would not use it again."""
    make_rows(sql, ROWS, width=WIDTH)
    sql("ANALYZE TABLE t")
    monkeypatch.setattr(chunk_statements, "PILED_BYTES", 0)
    monkeypatch.setattr(chunk_planner, "_MANY_ROWS", 1_000)
    monkeypatch.setattr("mirrorlake.load.protocol.protocol.ROWS_PER_CHUNK", 2_000)
    ends: list[tuple[int, int]] = []

    def noted() -> None:
        held = held_bytes()
        give_back()
        ends.append((held, held_bytes()))

    monkeypatch.setattr("mirrorlake.load.chunks.chunk_task.give_back", noted)
    workspace = engine_for({"t": {"mode": "append", "key": ["id"], "cursor": "id"}})
    assert load_table(workspace, workspace.config.table("t")).rows == ROWS
    assert len(ends) > 3
    freed = sum(before - after for before, after in ends)
    assert freed > 20 * 2**20
    assert max(after for _, after in ends) - ends[0][1] < 20 * 2**20
