"""A full copy that is far smaller than the last one stops, and is taken when somebody says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli import cli
from mirrorlake.destinations.iceberg.catalog import Identifier
from mirrorlake.destinations.iceberg.commit import head_of
from mirrorlake.errors import SourceError
from mirrorlake.operations.sync import Engine
from tests.integration.conftest import Place, lake_rows

EngineFor = Callable[..., Engine]
Sql = Callable[..., Any]
FULL = {"mode": "full", "key": ["id"]}


@pytest.fixture
def engine(engine_for: EngineFor, sql: Sql) -> Engine:
    """A mirrored table of a hundred rows."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_100")
    engine = engine_for({"t": FULL})
    engine.load(engine.config.tables[0])
    return engine


def state(engine: Engine) -> tuple[int | None, set[Path], list[int]]:
    """The head of raw, the files that are there, and the numbers of successful loads."""
    contract = engine.config.tables[0]
    loads = engine.ledger.successful_loads(contract.name)
    raw = Identifier(contract.namespaces.raw, loads[0].raw_table)
    table = engine.lake.load(raw)
    assert table is not None
    data = Path(table.location().removeprefix("file://")) / "data"
    files = set(data.rglob("*.parquet"))
    return head_of(engine.lake, raw), files, [load.seq for load in loads]


@pytest.mark.parametrize(("left", "words"), [(0, "100% less"), (10, "90% less")])
def test_nothing_is_changed_until_it_is_accepted(
    engine: Engine, sql: Sql, left: int, words: str
) -> None:
    contract = engine.config.tables[0]
    before = state(engine)
    sql(f"DELETE FROM t WHERE id > {left}")
    with pytest.raises(SourceError) as stopped:
        engine.load(contract)
    said = str(stopped.value)
    assert f"the copy has {left} rows" in said
    assert "had 100" in said
    assert words in said
    assert f"mirrorlake sync {contract.name} --accept-smaller" in said
    assert not stopped.value.retryable
    assert state(engine) == before
    last = engine.ledger.last_load(contract.name)
    assert last is not None
    assert (last.state, last.error) == ("errored", said)
    assert engine.load(contract, accept_smaller=True).rows == left
    # It is what the next copy is held against.
    assert engine.load(contract).rows == left


def test_a_copy_that_shrinks_less_is_taken(engine: Engine, sql: Sql) -> None:
    sql("DELETE FROM t WHERE id > 11")
    assert engine.load(engine.config.tables[0]).rows == 11


def test_the_limit_is_the_contracts(engine: Engine, engine_for: EngineFor, sql: Sql) -> None:
    sql("DELETE FROM t WHERE id > 60")
    strict = engine_for({"t": {**FULL, "shrink_limit": 0.4}})
    with pytest.raises(SourceError, match="40% less, and shrink_limit is 40%"):
        strict.load(strict.config.tables[0])
    sql("DELETE FROM t WHERE id > 1")
    mild = engine_for({"t": {**FULL, "shrink_limit": 1}})
    assert mild.load(mild.config.tables[0]).rows == 1
    sql("DELETE FROM t")
    with pytest.raises(SourceError, match="the copy has 0 rows"):
        mild.load(mild.config.tables[0])
    careless = engine_for({"t": {**FULL, "shrink_limit": None}})
    assert careless.load(careless.config.tables[0]).rows == 0


def test_an_empty_table_may_stay_empty_and_grow(engine_for: EngineFor, sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    engine = engine_for({"t": FULL})
    contract = engine.config.tables[0]
    assert [engine.load(contract).rows for _ in range(2)] == [0, 0]
    sql("INSERT INTO t VALUES (1)")
    assert engine.load(contract).rows == 1


def test_an_accepted_empty_copy_empties_the_mirror_by_the_command_line(
    engine: Engine, sql: Sql, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = engine.config.tables[0]
    engine.fold(contract)
    sql("DELETE FROM t")
    first = Engine.__init__

    def opened(self: Engine, config: Any, run_id: Any = None, spark: Any = None) -> None:
        first(self, config, run_id, spark or place.spark)

    monkeypatch.setattr(Engine, "__init__", opened)

    def sync(*arguments: str) -> Any:
        command = ["sync", *arguments, "--config", str(engine.config.path), "--json"]
        return CliRunner().invoke(cli, command)

    stopped = sync("t")
    assert stopped.exit_code == SourceError.exit_code
    assert "the copy has 0 rows" in json.loads(stopped.stdout)["errors"][0]["error"]
    assert len(lake_rows(engine, contract.namespaces.deduped, "t")) == 100
    unnamed = sync("--accept-smaller")
    assert "Name them" in str(unnamed.exception)
    taken = sync("t", "--accept-smaller")
    assert json.loads(taken.stdout)["errors"] == []
    assert lake_rows(engine, contract.namespaces.deduped, "t") == []
