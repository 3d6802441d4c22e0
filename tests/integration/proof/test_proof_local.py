"""A chunk, a range, a table without Spark: it says equal where it is, and asks Spark wherever it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demo.faults import KEYED, LOOSE, OLD, ROWS, TYPES, altered, create_sql
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing import check
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.proof.comparing.resolve import resolve_target
from mirrorlake.proof.ranges import ranges
from mirrorlake.proof.ranges.keys import parts_of
from mirrorlake.proof.ranges.ranges import Range, Tally
from mirrorlake.proof.sides.local_side import digest_locally
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.proof.test_proof import INCREMENTAL, checked, told

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
PLAIN = ("c_text",)
ALL = tuple(column for column in TYPES if column != "c_long_decimal")


class NoSpark(AssertionError):
    """Spark was asked."""


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def refuse(*_: Any) -> Any:
        raise NoSpark

    monkeypatch.setattr(check, "read_lake", refuse)
    return monkeypatch


def local_tally(workspace: Workspace) -> Tally | None:
    contract = workspace.config.table(KEYED)
    with session(workspace.config.sources["s"], contract.database) as connection:
        target = resolve_target(workspace, contract, connection)
    found = digest_locally(workspace.lake, target, parts_of(target), Range(), ())
    return found and found.tally


def mirrored(table: str, sql: Sql, engine_for: EngineFor) -> Workspace:
    """One of the demo's tables, with a column of nearly every type; no decimal of a long scale."""
    sql(*create_sql(table), f"ALTER TABLE {table} DROP COLUMN c_long_decimal")
    contract = {"mode": "full"} if table == LOOSE else {**INCREMENTAL, "deletes": "flag"}
    workspace = engine_for({table: contract})
    sync_table(workspace, workspace.config.table(table))
    return workspace


@pytest.mark.parametrize("table", [KEYED, pytest.param(LOOSE, marks=pytest.mark.full)])
def test_an_idle_table_needs_no_spark(
    table: str, sql: Sql, engine_for: EngineFor, without_spark: pytest.MonkeyPatch
) -> None:
    workspace = mirrored(table, sql, engine_for)
    report = checked(workspace, table, Ask("next"))
    assert (report.verdict, report.source.rows) == ("equal", ROWS)
    assert report.source == report.lake
    without_spark.setattr(ranges, "GROUP_ROWS", 30)
    whole = checked(workspace, table, Ask())
    assert (whole.verdict, whole.source, whole.lake) == ("equal", report.source, report.lake)
    assert sum(part.source.rows for part in whole.ranges) == ROWS
    if table == KEYED:
        some = checked(workspace, table, Ask("keys", keys=Range(10, 20)))
        assert (some.verdict, some.source.rows) == ("equal", 10)
        sql(f"UPDATE {table} SET c_int = 5, modified_at = UTC_TIMESTAMP() WHERE id IN (3, 60)")
        without_spark.setattr(check, "CHUNK_ROWS", 50)
        seen = [checked(workspace, table, Ask("next")) for _ in range(4)]
        assert [r.verdict for r in seen] == ["equal"] * 4
        assert (sum(r.source.rows for r in seen), sum(r.waiting for r in seen)) == (ROWS - 2, 2)


@pytest.mark.parametrize("columns", [PLAIN, pytest.param(ALL, marks=pytest.mark.full)])
@pytest.mark.full
def test_what_is_altered_is_left_to_spark(
    columns: tuple[str, ...], sql: Sql, engine_for: EngineFor, database: str
) -> None:
    """Each cell, in a row of its own, gives another digest; then one check names them all."""
    workspace = mirrored(KEYED, sql, engine_for)
    deduped = Identifier(f"s_{database}", KEYED)
    rows = dict(enumerate(columns, 20))
    tallies = [local_tally(workspace)]
    for row, column in rows.items():
        for statement in altered(column).statements(deduped.sql, row, ""):
            workspace.spark.run(statement)
        tallies.append(local_tally(workspace))
    assert None not in tallies
    assert len(set(tallies)) == len(columns) + 1
    lines = told(workspace, KEYED, checked(workspace, KEYED, Ask("next")))
    assert [c for row, c in rows.items() if not altered(c).found(row, lines, keyed=True)] == []
    assert len(lines) == len(rows)


def test_originals_and_lost_keys_are_left_to_spark(
    sql: Sql, engine_for: EngineFor, without_spark: pytest.MonkeyPatch, database: str
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, d DATE, modified_at DATETIME NOT NULL, "
        "KEY (modified_at))",
        f"INSERT INTO t VALUES (1, '0000-00-00', '{OLD}'), (2, '2020-01-01', '{OLD}')",
    )
    workspace = engine_for({"t": INCREMENTAL})
    sync_table(workspace, workspace.config.table("t"))
    with pytest.raises(NoSpark):
        checked(workspace, "t", Ask("next"))
    sql(f"UPDATE t SET d = '2020-01-01', modified_at = '{OLD}' + INTERVAL 1 DAY")
    workspace.spark.run(f"UPDATE lake.s_{database}.t SET _mirror_original = array() WHERE id = 1")
    with pytest.raises(NoSpark):
        checked(workspace, "t", Ask("next"))
