"""What becomes far smaller stops, a copy as well as rows that are gone, until somebody says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dagster_mirrorlake.checks.value_verdicts import rows_verdict
from dagster_mirrorlake.checks.verdicts import Look
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import head_of
from mirrorlake.errors import SourceError, TooFewRows
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows, share_session

EngineFor = Callable[..., Workspace]
Sql = Callable[..., Any]
FULL = {"mode": "full", "key": ["id"]}


@pytest.fixture
def workspace(engine_for: EngineFor, sql: Sql) -> Workspace:
    """A mirrored table of a hundred rows."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_100")
    workspace = engine_for({"t": FULL})
    load_table(workspace, workspace.config.tables[0])
    return workspace


def state(workspace: Workspace) -> tuple[int | None, set[Path], list[int]]:
    """The head of raw, the files that are there, and the numbers of successful loads."""
    contract = workspace.config.tables[0]
    loads = workspace.ledger.successful_loads(contract.name)
    raw = Identifier(contract.namespaces.raw, loads[0].raw_table)
    table = workspace.lake.load(raw)
    assert table is not None
    data = Path(table.location().removeprefix("file://")) / "data"
    files = set(data.rglob("*.parquet"))
    return head_of(workspace.lake, raw), files, [load.seq for load in loads]


@pytest.mark.parametrize(("left", "words"), [(0, "100% less"), (10, "90% less")])
def test_nothing_is_changed_until_it_is_accepted(
    workspace: Workspace, sql: Sql, left: int, words: str
) -> None:
    contract = workspace.config.tables[0]
    before = state(workspace)
    sql(f"DELETE FROM t WHERE id > {left}")
    with pytest.raises(SourceError) as stopped:
        load_table(workspace, contract)
    said = str(stopped.value)
    assert f"the copy has {left} rows" in said
    assert "had 100" in said
    assert words in said
    assert f"mirrorlake sync {contract.name} --accept-smaller" in said
    assert not stopped.value.retryable
    assert state(workspace) == before
    last = workspace.ledger.last_load(contract.name)
    assert last is not None
    assert (last.state, last.error) == ("errored", said)
    assert load_table(workspace, contract, accept_smaller=True).rows == left
    # It is what the next copy is held against.
    assert load_table(workspace, contract).rows == left


@pytest.mark.full
def test_a_copy_that_shrinks_less_is_taken(workspace: Workspace, sql: Sql) -> None:
    sql("DELETE FROM t WHERE id > 11")
    assert load_table(workspace, workspace.config.tables[0]).rows == 11


def test_the_limit_is_the_contracts(workspace: Workspace, engine_for: EngineFor, sql: Sql) -> None:
    sql("DELETE FROM t WHERE id > 60")
    strict = engine_for({"t": {**FULL, "shrink_limit": 0.4}})
    with pytest.raises(SourceError, match="40% less, and shrink_limit is 40%"):
        load_table(strict, strict.config.tables[0])
    sql("DELETE FROM t WHERE id > 1")
    mild = engine_for({"t": {**FULL, "shrink_limit": 1}})
    assert load_table(mild, mild.config.tables[0]).rows == 1
    sql("DELETE FROM t")
    with pytest.raises(SourceError, match="the copy has 0 rows"):
        load_table(mild, mild.config.tables[0])
    careless = engine_for({"t": {**FULL, "shrink_limit": None}})
    assert load_table(careless, careless.config.tables[0]).rows == 0


@pytest.mark.full
def test_an_empty_table_may_stay_empty_and_grow(engine_for: EngineFor, sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    workspace = engine_for({"t": FULL})
    contract = workspace.config.tables[0]
    assert [load_table(workspace, contract).rows for _ in range(2)] == [0, 0]
    sql("INSERT INTO t VALUES (1)")
    assert load_table(workspace, contract).rows == 1


def test_an_accepted_empty_copy_empties_the_mirror_by_the_command_line(
    workspace: Workspace, sql: Sql, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = workspace.config.tables[0]
    fold_table(workspace, contract)
    sql("DELETE FROM t")
    share_session(place, monkeypatch)

    def sync(*arguments: str) -> Any:
        command = ["sync", *arguments, "--config", str(workspace.config.path), "--json"]
        return CliRunner().invoke(cli, command)

    stopped = sync("t")
    assert stopped.exit_code == SourceError.exit_code
    assert "the copy has 0 rows" in json.loads(stopped.stdout)["errors"][0]["error"]
    assert len(lake_rows(workspace, contract.namespaces.deduped, "t")) == 100
    unnamed = sync("--accept-smaller")
    assert "Name them" in str(unnamed.exception)
    taken = sync("t", "--accept-smaller")
    assert json.loads(taken.stdout)["errors"] == []
    assert lake_rows(workspace, contract.namespaces.deduped, "t") == []


@pytest.fixture
def moving(sql: Sql, engine_for: EngineFor) -> Workspace:
    """A mirrored table of 200 rows that are read by windows, of which 180 went."""
    day = datetime.now(UTC).date() - timedelta(days=2)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(6) NOT NULL, KEY (at))",
        f"INSERT INTO t VALUES (1, '{day - timedelta(days=9)}')",
    )
    keyed = {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "5d"}
    workspace = engine_for({"t": keyed})
    sync_table(workspace, workspace.config.tables[0])
    # Read by a live window: what a reload of the day takes the place of.
    sql(f"INSERT INTO t SELECT seq, '{day} 01:00' FROM seq_2_to_200")
    sync_table(workspace, workspace.config.tables[0])
    sql("DELETE FROM t WHERE id > 20")
    return workspace


def shown(workspace: Workspace) -> int:
    return len(lake_rows(workspace, workspace.config.tables[0].namespaces.deduped, "t"))


def test_deletes_of_most_rows_are_held_until_they_are_accepted(
    moving: Workspace, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = moving.config.tables[0]
    day = datetime.now(UTC).date() - timedelta(days=2)
    words = "MySQL no longer has 180 of the mirror's 200 rows: 90% less, and shrink_limit is 90%"
    before = state(moving)
    with pytest.raises(TooFewRows, match=words):
        reload_days(moving, contract, day, day)
    with pytest.raises(TooFewRows, match=words):
        repair_table(moving, contract, Ask())
    assert state(moving) == before
    assert shown(moving) == 200
    # A count says so too, and that no sweep comes for them.
    counted = rows_verdict(Look(moving, MirroredTable(contract), "deduped", whole=False))
    assert not counted.passed
    assert "180 of the mirror's 200 rows" in str(counted.words)

    share_session(place, monkeypatch)
    command = ["repair", "t", "--deletes", "--config", str(moving.config.path)]
    refused = CliRunner().invoke(cli, [*command, "--yes"]).exception
    assert isinstance(refused, TooFewRows)
    assert "repair" in refused.next_step
    asked = CliRunner().invoke(cli, command, input="n\n")
    assert (asked.exit_code, "Take them out of the mirror?" in asked.output) == (9, True)
    assert shown(moving) == 200
    done = CliRunner().invoke(cli, [*command, "--yes", "--accept-smaller"])
    assert done.exit_code == 0, done.output
    assert shown(moving) == 20
    # What was taken out is not counted again.
    assert reload_days(moving, contract, day, day).gone == 180
