"""Chunks partition any set of keys under the server's own comparison, and what can't be cut is not.

Every row must satisfy exactly one chunk's condition. The server is asked, row by row, how many do:
what Python would think of the order is nowhere in here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.ledger import Window
from mirrorlake.load.chunks.planner import plan_chunks
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.resolve import plan_table
from mirrorlake.workspace import Workspace

EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
integers = st.integers(-(2**63), 2**63 - 1)
letters = st.text("aAäÄbBßsSzZ eéE\u0301µπЖж中🙂'\\-_", max_size=6)


@pytest.fixture
def chunks_of(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], database: str
) -> Callable[..., tuple[str, ...]]:
    """The chunks of table ``t``, about ``step`` rows each, checked to be a partition of its rows."""

    def plan(key: list[str], step: int, cursor: str = "moved") -> tuple[str, ...]:
        sql("ANALYZE TABLE t")
        contract = {"mode": "incremental", "key": key, "cursor": cursor}
        workspace = engine_for({"t": contract})
        source, table = workspace.config.sources["s"], workspace.config.tables[0]
        with session(source, database) as connection:
            found = plan_table(table, source, read_table(connection, database, "t"))
            window = Window("initial", None, None, date(2024, 1, 1))
            chunks = plan_chunks(connection, found, window, step)
        matches = " + ".join(f"(({c or 1}) IS TRUE)" for c in chunks)
        wrong = sql(f"SELECT COUNT(*) FROM t WHERE ({matches}) <> 1")
        assert wrong == ((0,),), chunks
        return chunks

    return plan


def fill(sql: Callable[..., Any], columns: str, key: str, rows: list[tuple[Any, ...]]) -> None:
    """Table ``t`` again; rows whose keys are equal to the server are one."""
    sql(
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t ({columns}, moved DATETIME NOT NULL DEFAULT '2024-01-01', "
        f"PRIMARY KEY ({key}), KEY (moved))",
    )
    if rows:
        places = ", ".join(["(" + ", ".join(["%s"] * len(rows[0])) + ")"] * len(rows))
        names = ", ".join(part.split()[0] for part in columns.split(", "))
        values = tuple(value for row in rows for value in row)
        sql(f"INSERT IGNORE INTO t ({names}) VALUES {places}", values=values)


@EXAMPLES
@given(keys=st.lists(integers, min_size=2, max_size=60), late=st.lists(integers, max_size=9))
def test_sparse_integers(chunks_of: Any, sql: Any, keys: list[int], late: list[int]) -> None:
    """Also those that come after the plan was made, beyond its lowest and highest."""
    fill(sql, "id BIGINT", "id", [(k,) for k in keys])
    chunks = chunks_of(["id"], 5)
    for key in late:
        sql("INSERT IGNORE INTO t (id) VALUES (%s)", values=(key,))
    matches = " + ".join(f"(({c or 1}) IS TRUE)" for c in chunks)
    assert sql(f"SELECT COUNT(*) FROM t WHERE ({matches}) <> 1") == ((0,),)


@EXAMPLES
@given(
    keys=st.lists(letters, min_size=2, max_size=60),
    collation=st.sampled_from(
        ["utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_ci", "utf8mb4_german2_ci"]
    ),
)
def test_texts_under_any_collation(
    chunks_of: Any, sql: Any, keys: list[str], collation: str
) -> None:
    fill(sql, f"name VARCHAR(40) COLLATE {collation}", "name", [(k,) for k in keys])
    chunks_of(["name"], 4)


@EXAMPLES
@given(keys=st.lists(st.tuples(st.integers(0, 3), letters), min_size=2, max_size=60))
def test_composite_keys_that_are_skewed(chunks_of: Any, sql: Any, keys: list[Any]) -> None:
    fill(sql, "tenant INT, name VARCHAR(40)", "tenant, name", keys)
    chunks_of(["tenant", "name"], 4)


@EXAMPLES
@given(keys=st.lists(st.binary(min_size=16, max_size=16), min_size=2, max_size=60))
def test_bytes(chunks_of: Any, sql: Any, keys: list[bytes]) -> None:
    fill(sql, "id BINARY(16)", "id", [(k,) for k in keys])
    chunks_of(["id"], 5)


@EXAMPLES
@given(keys=st.lists(st.dates(), min_size=2, max_size=60))
def test_dates(chunks_of: Any, sql: Any, keys: list[Any]) -> None:
    fill(sql, "d DATE, n INT", "d, n", [(k, i) for i, k in enumerate(keys)])
    chunks_of(["d", "n"], 5)


def test_a_large_table_is_cut_evenly(chunks_of: Any, sql: Any) -> None:
    fill(sql, "id BIGINT", "id", [])
    sql("INSERT INTO t (id) SELECT seq * 1000003 FROM seq_1_to_50000")
    chunks = chunks_of(["id"], 5_000)
    sizes = [sql(f"SELECT COUNT(*) FROM t WHERE {c}")[0][0] for c in chunks]
    assert 8 <= len(chunks) <= 24
    assert max(sizes) <= 10_000


def test_a_heavily_skewed_key_is_cut_inside_its_heavy_value(chunks_of: Any, sql: Any) -> None:
    fill(sql, "tenant INT, id INT", "tenant, id", [])
    sql(
        "INSERT INTO t (tenant, id) SELECT 7, seq FROM seq_1_to_190000",
        "INSERT INTO t (tenant, id) SELECT seq, 1 FROM seq_1000_to_10999",
    )
    chunks = chunks_of(["tenant", "id"], 20_000)
    sizes = [sql(f"SELECT COUNT(*) FROM t WHERE {c}")[0][0] for c in chunks]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 45_000
    # Each chunk is read by a range of the index, never by a scan of the table.
    for chunk in chunks:
        assert "range" in str(sql(f"EXPLAIN SELECT * FROM t WHERE {chunk}")), chunk


@pytest.mark.full
def test_two_million_rows_of_a_heavily_skewed_key(chunks_of: Any, sql: Any) -> None:
    fill(sql, "tenant INT, id INT", "tenant, id", [])
    sql(
        "INSERT INTO t (tenant, id) SELECT 7, seq FROM seq_1_to_1990000",
        "INSERT INTO t (tenant, id) SELECT seq, 1 FROM seq_1000_to_10999",
    )
    chunks = chunks_of(["tenant", "id"], 100_000)
    sizes = [sql(f"SELECT COUNT(*) FROM t WHERE {c}")[0][0] for c in chunks]
    assert max(sizes) <= 300_000


def test_uuids_as_texts(chunks_of: Any, sql: Any) -> None:
    fill(sql, "id CHAR(36) CHARACTER SET ascii", "id", [(str(uuid.uuid4()),) for _ in range(500)])
    assert len(chunks_of(["id"], 100)) >= 4


@pytest.mark.parametrize("column", ["e ENUM('b','a','c')", "at TIMESTAMP", "f DOUBLE"])
def test_a_key_without_sure_bounds_is_one_stream_and_says_so(
    chunks_of: Any, sql: Any, caplog: Any, column: str
) -> None:
    fill(sql, f"{column}, n INT", f"{column.split()[0]}, n", [])
    sql(f"INSERT INTO t ({column.split()[0]}, n) SELECT 1, seq FROM seq_1_to_2000")
    with caplog.at_level("INFO", "mirrorlake.load.chunks.planner"):
        assert chunks_of([column.split()[0], "n"], 100) == ("",)
    assert "read in one stream" in caplog.text
