"""A lost, damaged or old ledger: nothing is loaded over it, and the lake says what it held."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LedgerError
from mirrorlake.ledger import Ledger
from mirrorlake.load.raw.raw_files import list_files
from mirrorlake.operations.days.gaps import find_stretches
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import reload_days, sync_table
from mirrorlake.operations.repairing.restore_ledger import rebuild_tables
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract

TODAY = datetime.now(UTC).date()
DAY = TODAY - timedelta(days=2)
TABLES = {
    "orders": {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "5d"},
    "visits": {"mode": "append", "cursor": "at", "overlap": "5d"},
}


class World:
    """Two tables, mirrored by several loads of every kind, with a ledger of their own."""

    def __init__(
        self, server: MariaDB, place: Place, database: str, sql: Callable[..., Any]
    ) -> None:
        self.server, self.place, self.sql = server, place, sql
        self.file = place.folder / f"{database}.ledger.db"
        self.config = write_contract(
            place.folder / f"{database}.yaml",
            server.port,
            {database: {"tables": TABLES}},
            ledger={"url": f"sqlite:///{self.file.name}", "wait": "1s"},
        )
        for table in TABLES:
            key = "PRIMARY KEY" if table != "visits" else ""
            sql(
                f"CREATE TABLE {table} (id INT {key}, v INT, at DATETIME(6) NOT NULL, KEY (at))",
                f"INSERT INTO {table} VALUES (1, 1, '{DAY} 01:00'), (2, 1, '{DAY} 02:00')",
            )
            sync_table(self.workspace(), self.contract(table))
        sql("ALTER TABLE orders ADD note VARCHAR(9) DEFAULT 'x'")
        self.change(3)
        reload_days(self.workspace(), self.contract("orders"), DAY, DAY)
        fold_table(self.workspace(), self.contract("orders"))

    def workspace(self) -> Workspace:
        return Workspace.open(load_config(self.config), spark=self.place.spark)

    def contract(self, table: str) -> Any:
        return load_config(self.config).table(table)

    def change(self, number: int) -> None:
        for table in TABLES:
            self.sql(f"INSERT INTO {table} (id, v, at) VALUES ({number}, 1, '{DAY} 03:00')")
        self.sql("UPDATE orders SET v = v + 1, at = UTC_TIMESTAMP(6) WHERE id = 1")
        for table in TABLES:
            sync_table(self.workspace(), self.contract(table))

    def rebuild(self) -> dict[str, Any]:
        config = load_config(self.config)
        found = rebuild_tables(config, Ledger(config.ledger.url), config.tables)
        return {one.table.rsplit(".", 1)[1]: one for one in found}

    def assert_equal(self) -> None:
        for table in TABLES:
            contract = self.contract(table)
            deduped = self.place.lake.load(Identifier(contract.namespaces.deduped, table))
            assert deduped is not None
            with self.server.admin() as admin:
                verdict = compare_table(admin, contract.database, table, contract.key, deduped)
            assert verdict.equal, verdict.describe()


@pytest.fixture
def world(server: MariaDB, place: Place, database: str, sql: Callable[..., Any]) -> World:
    return World(server, place, database, sql)


def told(world: World) -> dict[str, Any]:
    """What the ledger says of every table, past how it says it."""
    ledger = world.workspace().ledger
    return {
        table: (
            [
                (load.seq, load.load_id, load.raw_table, load.window, load.receipt)
                for load in ledger.successful_loads(world.contract(table).name)
                if load.snapshot_id is not None
            ],
            ledger.schema_versions(world.contract(table).name),
            [
                (s.first, s.last, s.state)
                for s in find_stretches(world.contract(table), ledger, TODAY)
            ],
        )
        for table in TABLES
    }


def test_a_lost_ledger_is_refused_and_rebuilt(world: World) -> None:
    before = told(world)
    world.file.rename(world.file.with_suffix(".lost"))
    for table in TABLES:
        with pytest.raises(LedgerError, match="run `mirrorlake ledger rebuild`"):
            sync_table(world.workspace(), world.contract(table))
    world.file.unlink()
    # Nobody is left who knows that it showed more.
    contract = world.contract("orders")
    deduped = world.place.lake.load(Identifier(contract.namespaces.deduped, "orders"))
    assert deduped is not None
    deduped.delete("id = 1")
    found = world.rebuild()
    assert {t: len(loads) for t, (loads, _, _) in before.items()} == {
        t: one.loads for t, one in found.items()
    }
    assert all(one.unknown == 0 and one.folded for one in found.values())
    assert told(world) == before
    assert all(one.loads == 0 for one in world.rebuild().values())
    world.change(4)
    world.assert_equal()
    seqs = [load.seq for load in world.workspace().ledger.loads(world.contract("orders").name)]
    assert len(seqs) == len(set(seqs))


@pytest.mark.full
def test_an_old_copy_of_the_ledger_is_refused_and_completed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = world.file.with_suffix(".old")
    shutil.copy(world.file, old)
    world.change(4)
    after = told(world)
    shutil.copy(old, world.file)
    with pytest.raises(LedgerError, match="which the ledger does not know"):
        sync_table(world.workspace(), world.contract("orders"))
    adopt = Ledger.adopt

    def adopts_and_dies(ledger: Ledger, load: Any) -> bool:
        if adopt(ledger, load):
            raise KeyboardInterrupt
        return False

    for _ in TABLES:
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "adopt", adopts_and_dies)
            with pytest.raises(KeyboardInterrupt):
                world.rebuild()
    world.rebuild()
    assert told(world) == after
    for table in TABLES:  # what a load took out of raw since, the copy calls there
        workspace = world.workspace()
        assert not list_files(workspace.lake, workspace.ledger, world.contract(table)).found
    world.change(5)
    world.assert_equal()


@pytest.mark.full
def test_a_damaged_file_is_moved_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = told(world)
    damaged = world.file.read_bytes()[:5_000] + b"\x00torn" * 400
    world.file.write_bytes(damaged)
    result = CliRunner().invoke(cli, ["ledger", "rebuild", "--config", str(world.config), "--json"])
    assert result.exit_code == 0, result.output
    aside = Path(json.loads(result.stdout)["damaged"])
    assert aside.read_bytes() == damaged
    assert told(world) == before
    again = CliRunner().invoke(cli, ["ledger", "rebuild", "--config", str(world.config), "--json"])
    assert json.loads(again.stdout)["damaged"] is None


@pytest.mark.full
def test_what_was_expired_is_unknown_and_read_once_more(world: World) -> None:
    contract = world.contract("orders")
    name = world.workspace().ledger.schema_versions(contract.name)[-1].raw_table
    raw = Identifier(contract.namespaces.raw, name)
    world.place.spark.get().sql(
        "CALL lake.system.expire_snapshots(table => "
        f"'{raw.namespace}.{raw.name}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )
    table = world.place.lake.load(raw)
    assert table is not None
    # The last commit, a reload's, tells of itself alone.
    assert len(table.snapshots()) == 1
    world.file.unlink()
    found = world.rebuild()["orders"]
    assert found.unknown > 0
    world.change(4)
    world.assert_equal()
