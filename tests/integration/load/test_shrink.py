"""A full copy that is far smaller than the last one stops, and is taken when somebody says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commit import head_of
from mirrorlake.errors import SourceError
from mirrorlake.operations.fold import fold_table
from mirrorlake.operations.sync import load_table
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
