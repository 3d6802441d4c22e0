"""What other hands did is found where a REST catalog must be asked for each table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mirrorlake.config import Config, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.commits.recorded_heads import read_head
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
from mirrorlake.ledger import Ledger
from mirrorlake.operations.other_writers.moved_lake import IN_TURN, HeadsInTurn, named_otherwise
from tests.support.rest_catalog import CREDENTIAL, RestCatalogServer, running_catalog

COUNT = 2 * IN_TURN + 1
ROWS = pa.table({"id": pa.array([1, 2], pa.int32())})
TABLES = [f"s.d.t{number:02}" for number in range(COUNT)]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RestCatalogServer]:
    with running_catalog(tmp_path, f"file://{tmp_path}/unused") as server:
        yield server


@pytest.fixture
def config(tmp_path: Path, catalog: RestCatalogServer, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("CATALOG_CREDENTIAL", CREDENTIAL)
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(f"""
version: 1
lake:
  warehouse: lake
  catalog:
    uri: {catalog.uri}
    properties:
      credential: ${{env:CATALOG_CREDENTIAL}}
      oauth2-server-uri: {catalog.uri}/v1/oauth/tokens
ledger: {{url: "sqlite:///ledger.db"}}
sources:
  s:
    host: db
    user: me
    databases: {{d: {{tables: {{t: {{mode: full}}}}}}}}
""")
    return load_config(path)


def at(name: str) -> Identifier:
    return Identifier("space", name.rpartition(".")[2])


@pytest.fixture
def lake(config: Config) -> Lake:
    ledger = Ledger(config.ledger.url)
    made = open_lake(config, ledger)
    made.make_namespace("space")
    for name in TABLES:
        table = made.catalog.create_table(at(name).path, ROWS.schema)
        table.append(ROWS, {LOAD_ID: "a"})
        ledger.record_lake_heads([read_head(table.refresh(), name, at(name))])
    return made


def loaded(catalog: RestCatalogServer) -> int:
    return sum(one.startswith("GET /v1/namespaces/space/tables/") for one in catalog.asked)


def test_every_table_is_looked_at_in_turn_and_few_at_once(
    config: Config, lake: Lake, catalog: RestCatalogServer
) -> None:
    ledger, turns = Ledger(config.ledger.url), HeadsInTurn()
    assert named_otherwise(config, ledger) is None, "no one question says it"
    first, last = TABLES[0], TABLES[-1]
    lake.catalog.load_table(at(last).path).append(ROWS)
    lake.catalog.drop_table(at(first).path)
    seen: list[set[str]] = []
    for _ in range(3):
        catalog.asked.clear()
        seen.append({*turns.look(config, ledger, TABLES)})
        assert loaded(catalog) <= IN_TURN
    assert seen == [{first}, {first}, {first, last}], "what was found stays found"
    # A sync records what it left: nothing is said of that head any more.
    left = read_head(lake.catalog.load_table(at(last).path), last, at(last))
    ledger.record_lake_heads([left])
    assert turns.look(config, ledger, TABLES) == {first}


def test_what_is_as_it_was_again_is_said_no_more(config: Config, lake: Lake) -> None:
    ledger, turns = Ledger(config.ledger.url), HeadsInTurn()
    (name,) = TABLES[:1]
    before = lake.catalog.load_table(at(name).path).metadata_location
    lake.catalog.load_table(at(name).path).append(ROWS)
    assert turns.look(config, ledger, [name]) == {name}
    assert turns.look(config, ledger, TABLES[1:]) == frozenset(), "others are not looked at"
    lake.name_metadata(at(name), before)
    assert turns.look(config, ledger, [name]) == frozenset()
