"""Chunks of keys that are no one integer: cut where the server says, and no row is in none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing import check
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.proof.ranges.ranges import Span
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.proof.test_proof import LONG_AGO, checked, plant, told

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]

# Per key: its columns, its rows (a row's number in `seq`, up to 60), and a key that MySQL never had.
KEYS: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "days": (
        "d DATE",
        ("d",),
        "CASE seq WHEN 1 THEN '0000-00-00' WHEN 2 THEN '2020-00-00' WHEN 3 THEN '2020-01-00' "
        "ELSE DATE '2019-12-01' + INTERVAL seq DAY END",
        "DATE'2019-12-03'",
    ),
    "moments": (
        "at TIMESTAMP(3), n INT",
        ("at", "n"),
        # Few moments, many rows of each; one of them is no moment.
        "CASE WHEN seq < 4 THEN '0000-00-00' ELSE "
        "TIMESTAMP '2020-01-01 00:00:00' + INTERVAL seq DIV 9 SECOND END, seq",
        "TIMESTAMP'2020-01-01 00:00:02.001', 7",
    ),
    "bytes": (
        "b VARBINARY(8)",
        ("b",),
        "CASE seq WHEN 1 THEN '' WHEN 2 THEN x'00' WHEN 3 THEN x'0000' ELSE "
        "UNHEX(HEX(seq * 70001)) END",
        "X'000001'",
    ),
    "texts": (
        "t VARCHAR(12) COLLATE utf8mb4_bin, n DECIMAL(10,2)",
        ("t", "n"),
        # Padded: a control character comes before the end of a text.
        "ELT(1 + seq % 6, 'a', 'a\\t', 'a b', 'ä', '', '😀'), seq DIV 6 - 4.25",
        "'a\\t', CAST(99 AS DECIMAL(10,2))",
    ),
    "tenants": (
        "tenant BIGINT UNSIGNED, id INT",
        ("tenant", "id"),
        # One tenant has nearly all rows, another one none but a huge number.
        "IF(seq < 50, 7, 18446744073709551555 + seq), -CAST(seq AS SIGNED)",
        "CAST(7 AS DECIMAL(20,0)), 3",
    ),
}
ROWS, CHUNK = 60, 22


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def mirrored(name: str, sql: Sql, engine_for: EngineFor, keys: tuple[str, ...] = ()) -> Workspace:
    columns, key, values, _ = KEYS[name]
    numbers = " UNION ALL ".join(f"SELECT {n} AS seq" for n in range(1, ROWS + 1))
    sql(
        f"CREATE TABLE t ({columns}, v INT NOT NULL, modified_at DATETIME NOT NULL, "
        f"PRIMARY KEY ({', '.join(key)}), KEY (modified_at))",
        f"INSERT INTO t SELECT {values}, seq, '{LONG_AGO}' FROM ({numbers}) s",
    )
    contract = {"mode": "incremental", "key": list(keys or key), "cursor": "modified_at"}
    workspace = engine_for({"t": contract})
    sync_table(workspace, workspace.config.table("t"))
    return workspace


def a_round(workspace: Workspace) -> list[Report]:
    """Chunks from the offset to the table's end."""
    found: list[Report] = []
    while not found or found[-1].ask.keys.hi is not None:
        found.append(checked(workspace, "t", Ask("next")))
        assert len(found) <= ROWS
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", KEYS)
def test_a_round_of_chunks_holds_every_row_once(
    name: str,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The contract names the key's columns in another order than its index.
    workspace = mirrored(name, sql, engine_for, tuple(reversed(KEYS[name][1])))
    monkeypatch.setattr(check, "CHUNK_ROWS", CHUNK)
    reports = a_round(workspace)
    assert [r.verdict for r in reports] == ["equal"] * len(reports)
    assert sum(r.source.rows for r in reports) == sum(r.lake.rows for r in reports) == ROWS
    assert len(reports) >= ROWS // CHUNK
    assert isinstance(reports[0].ask.keys, Span)
    assert reports[0].ask.keys.lo is None
    assert all(b.ask.keys.lo == a.ask.keys.hi for a, b in pairwise(reports))
    offsets = [p.hi for p in workspace.ledger.proofs(workspace.config.table("t").name)]
    assert offsets == [r.ask.keys.bounds[1] for r in reports]

    plant(
        workspace,
        database,
        "UPDATE {t} SET v = -v WHERE v IN (1, 31)",
        "DELETE FROM {t} WHERE v IN (2, 32)",
        f"INSERT INTO {{t}} SELECT {KEYS[name][3]}, 1000, modified_at, _mirror_original FROM {{t}} "
        "WHERE v = 30",
    )
    reports = a_round(workspace)
    lines = [line for r in reports for line in told(workspace, "t", r)]
    assert [line.split(" (")[0] for line in sorted(lines)] == [
        "changed",
        "changed",
        "extra: gone from MySQL",
        "missing",
        "missing",
    ]
    assert {r.verdict for r in reports} == {"equal", "different"}


@pytest.mark.full
def test_a_key_of_nulls_is_found(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key of MySQL is NULL: somebody wrote it, and it sorts nowhere."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, modified_at DATETIME NOT NULL, KEY (modified_at))",
        f"INSERT INTO t SELECT {1}, '{LONG_AGO}' UNION ALL SELECT 9, '{LONG_AGO}'",
    )
    contract = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
    workspace = engine_for({"t": contract})
    sync_table(workspace, workspace.config.table("t"))
    monkeypatch.setattr(check, "CHUNK_ROWS", 1)
    plant(workspace, database, "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL")
    plant(
        workspace, database, "INSERT INTO {t} SELECT NULL, modified_at, _mirror_original FROM {t}"
    )
    full = checked(workspace, "t")
    assert (full.verdict, full.source.rows, full.lake.rows) == ("different", 2, 4)
    by_chunks = a_round(workspace)
    assert [r.verdict for r in by_chunks] == ["different", "equal"]
    lines = told(workspace, "t", by_chunks[0])
    assert lines == ["extra: gone from MySQL (id=NULL): the lake has this row"] * 2


def test_keys_that_only_the_server_orders_are_one_range(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(
        "CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, "
        "modified_at DATETIME NOT NULL, KEY (modified_at))",
        f"INSERT INTO t VALUES ('a', '{LONG_AGO}'), ('B', '{LONG_AGO}'), ('c', '{LONG_AGO}')",
    )
    workspace = engine_for({"t": {"mode": "incremental", "key": ["k"], "cursor": "modified_at"}})
    sync_table(workspace, workspace.config.table("t"))
    monkeypatch.setattr(check, "CHUNK_ROWS", 1)
    report = checked(workspace, "t", Ask("next"))
    assert (report.verdict, report.source.rows, report.ranges[0].range) == ("equal", 3, None)
