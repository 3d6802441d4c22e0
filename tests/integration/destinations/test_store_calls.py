"""How often a lake in a bucket calls its store, and that calls which are waited for are waited for
side by side: a proxy before an emulator of Cloud Storage counts and delays them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.oracle import compare_table
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.support.gcs_process import emulator_process
from tests.support.slow_store import CLASS_A, CLASS_B, SlowStore, slow_store

BUCKET, TABLES = "company-lake", 8
TERMS = {"mode": "incremental", "key": ["id"], "cursor": "at", "verify": True}
Sql = Callable[..., Any]
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def store() -> Iterator[SlowStore]:
    with emulator_process(BUCKET) as host, slow_store(host) as store:
        yield store


@pytest.fixture
def workspace(
    tmp_path: Path,
    server: EmbeddedServer,
    database: str,
    place: Place,
    store: SlowStore,
    sql: Sql,
) -> Iterator[Workspace]:
    """A lake in the bucket, and tables that are not in it yet."""
    for number in range(TABLES):
        sql(
            f"CREATE TABLE t{number} (id INT PRIMARY KEY, v INT NOT NULL,"
            " at DATETIME(6) NOT NULL DEFAULT UTC_TIMESTAMP(6), KEY (at))",
            f"INSERT INTO t{number} (id, v) SELECT seq, seq FROM seq_1_to_100",
            f"ANALYZE TABLE t{number}",
        )
    path = write_contract(
        tmp_path / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {f"t{number}": TERMS for number in range(TABLES)}}},
        lake={
            "warehouse": f"gs://{BUCKET}/{database}",
            "catalog": {
                "uri": "sqlite:///catalog.db",
                "properties": {"gcs.service.host": store.endpoint},
            },
        },
    )
    with Workspace.open(load_config(path)) as opened:
        store.take_calls()
        yield opened
    store.set_delay(0)


def assert_exact(workspace: Workspace, server: EmbeddedServer, database: str) -> None:
    for contract in workspace.config.tables:
        found = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
        with server.admin() as admin:
            verdict = compare_table(admin, database, contract.table, contract.key, found)
        assert verdict.equal, verdict.describe()


def test_a_first_load_calls_its_store_no_more_often_than_is_written_down(
    workspace: Workspace, server: EmbeddedServer, database: str, store: SlowStore
) -> None:
    """docs/costs.md has what this is to a bill."""
    for contract in workspace.config.tables:
        sync_table(workspace, contract)
    calls = store.take_calls()
    assert calls.billed(CLASS_A) <= 12 * TABLES, calls
    assert calls.billed(CLASS_B) <= 18 * TABLES, calls
    assert_exact(workspace, server, database)


def test_a_load_calls_no_more_the_more_loads_there_were(
    workspace: Workspace, server: EmbeddedServer, database: str, store: SlowStore, sql: Sql
) -> None:
    contract = workspace.config.tables[0]
    found: list[int] = []
    for number in range(1, 10):
        sql(f"UPDATE t0 SET v = -1, at = UTC_TIMESTAMP(6) WHERE id = {number}")
        sync_table(workspace, contract)
        found.append(store.take_calls().all)
    assert len(set(found[4:])) == 1, found
    verdict_of = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    with server.admin() as admin:
        assert compare_table(admin, database, "t0", contract.key, verdict_of).equal


def test_small_tables_wait_side_by_side_and_sources_are_read_as_gently(
    workspace: Workspace, server: EmbeddedServer, database: str, store: SlowStore
) -> None:
    config = workspace.config
    store.set_delay(0.05)
    look = look_at(config, workspace.ledger, config.tables)
    terms = {"jobs": 2, "look": look}
    found = list(sync_tables(workspace, config.tables, **terms))
    assert [str(one.error) for one in found if one.error] == []
    assert store.take_calls().at_once > 4
    assert_exact(workspace, server, database)


def test_who_says_how_many_gets_as_many(
    workspace: Workspace, server: EmbeddedServer, database: str, store: SlowStore
) -> None:
    store.set_delay(0.02)
    config = workspace.config
    look = look_at(config, workspace.ledger, config.tables)
    assert len(list(sync_tables(workspace, config.tables, jobs=1, look=look))) == TABLES
    assert store.take_calls().at_once <= 2, "one file is read while another one is written"
    assert_exact(workspace, server, database)
