"""Tables that Hypothesis invents: any types, names, charsets and values, with a key of their own.

What is invented is only how things are put together: the cases' literals say what a server stores.
Each table is loaded into raw, which needs no Spark, and judged there by the oracle.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from demo.oracle import compare_rows
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.lakes import by_pyiceberg
from tests.integration.sources.mysql.test_types import MODES, cases_of, quoted, source_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]

# What MySQL allows in a name: the Basic Multilingual Plane without NUL; no space at its end.
NAMES = st.one_of(
    st.sampled_from(["select", "a.b", "a`b", 'a"b', "a'b", "a b", "%s", "{x}", "größe", "日本", "a\\b", "*", "c0", "o0", "w", "k"]),
    st.text(st.characters(max_codepoint=0xFFFD, exclude_categories=["Cs", "Cc", "Cn", "Co", "Zs", "Zl", "Zp", "Cf"]), min_size=1, max_size=12),
)  # fmt: skip


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, list[str], list[list[int]]]:
    """A table's name, its columns' names, and per row which case and which value a column takes."""
    columns = draw(st.lists(NAMES, min_size=1, max_size=8, unique_by=lambda n: n.casefold()))
    numbers = st.integers(0, 10_000)
    rows = draw(
        st.lists(
            st.lists(numbers, min_size=len(columns), max_size=len(columns)), min_size=1, max_size=6
        )
    )
    return draw(NAMES), columns, rows


def check_tables(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, examples: int
) -> None:
    cases = [c for c in cases_of(server) if c.values and "GENERATED" not in c.ddl]

    @settings(
        phases=(Phase.generate,), max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(table=tables(), kinds=st.lists(st.integers(0, 10_000), min_size=8, max_size=8))
    def check(table: tuple[str, list[str], list[list[int]]], kinds: list[int]) -> None:
        named, columns, rows = table
        # Two tables may have one name: each gets its own end.
        name = f"{named[:20]} {uuid.uuid4().hex[:8]}"
        chosen = [cases[kind % len(cases)] for kind, _ in zip(kinds, columns, strict=False)]
        names = [f"{n} {i}" if n.casefold() == "id" else n for i, n in enumerate(columns)]
        told = ", ".join(f"{quoted(n)} {c.ddl}" for n, c in zip(names, chosen, strict=True))
        sql(f"CREATE TABLE {quoted(name)} (id INT PRIMARY KEY, {told})")
        for number, row in enumerate(rows):
            values = [
                (*c.values, "NULL")[v % (len(c.values) + 1)]
                for c, v in zip(chosen, row, strict=True)
            ]
            cells = ", ".join([str(number), *values])
            into = ", ".join(map(quoted, ["id", *names]))
            sql(MODES, f"INSERT IGNORE INTO {quoted(name)} ({into}) VALUES ({cells})")
        assert_raw_is_exact(server, database, name, engine_for)

    check()


def assert_raw_is_exact(
    server: EmbeddedServer, database: str, name: str, engine_for: EngineFor
) -> None:
    from mirrorlake.operations.loading import sync

    workspace = engine_for({name: {"mode": "full", "key": ["id"]}})
    contract = workspace.config.table(name)
    with pytest.MonkeyPatch.context() as patched:
        # The fold is Spark's, takes seconds, and is looked at elsewhere.
        patched.setattr(sync, "fold_layers", lambda *_: ())
        sync_table(workspace, contract)
    version = workspace.ledger.schema_versions(contract.name)[-1]
    raw = workspace.lake.load(Identifier(f"s_{database}__raw", version.raw_table))
    assert raw is not None
    rows = by_pyiceberg(raw)
    own = [n for n in rows.column_names if n.startswith("_mirror_") and n != "_mirror_original"]
    verdict = compare_rows(source_rows(server, database, name), ("id",), rows.drop_columns(own))
    assert verdict.equal, verdict.describe(20)


@pytest.mark.full
def test_invented_tables(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    check_tables(server, database, sql, engine_for, 8)


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("BIGINT UNSIGNED", "18446744073709551615"),
        ("FLOAT", "0.1"),
        ("VARBINARY(9)", "x'00ff'"),
        ("ENUM('a', '')", "'a'"),
    ],
)
def test_a_column_whose_name_is_a_star(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, ddl: str, value: str
) -> None:
    sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, c0 TIME, `*` {ddl})",
        f"INSERT INTO t VALUES (1, '-100:00:00', {value}), (2, NULL, NULL)",
    )
    assert_raw_is_exact(server, database, "t", engine_for)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_many_invented_tables(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    check_tables(server, database, sql, engine_for, 200)
