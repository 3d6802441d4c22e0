"""A whole sync whose ledger, on Postgres, is shut down and started again beneath it."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger.lake import leases
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import Place, share_session
from tests.integration.contract_files import write_contract
from tests.support.postgres import PASSWORD, Postgres, running_postgres

pytestmark = pytest.mark.full
WINDOWS = {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "0s", "clean": "table"}
TABLES = {
    "a": WINDOWS,
    "b": {"mode": "full", "key": ["id"], "verify": True},
    "c": {"mode": "append", "key": ["id"], "cursor": "id", "overlap_keys": 0},
}


@dataclass
class Shop:
    server: EmbeddedServer
    postgres: Postgres
    place: Place
    database: str
    sql: Callable[..., Any]
    wait: str = "60s"
    ledger: str = ""

    def change(self, first: int, last: int) -> None:
        for table in TABLES:
            self.sql(
                f"INSERT INTO {table} SELECT seq, seq, UTC_TIMESTAMP(6) FROM seq_{first}_to_{last}"
            )
        self.sql(f"UPDATE a SET v = v + 1, at = UTC_TIMESTAMP(6) WHERE id < {last // 2}")

    def config(self) -> Path:
        url = self.postgres.url(self.ledger)
        return write_contract(
            self.place.folder / f"{self.database}.yaml",
            self.server.port,
            {self.database: {"tables": TABLES}},
            ledger={"url": url.replace(url.split(":")[2].split("@")[0], "${env:LEDGER_PASSWORD}"),
                    "wait": self.wait},
        )  # fmt: skip

    def sync(self) -> Result:
        return CliRunner().invoke(cli, ["sync", "--json", "--config", str(self.config())])

    def loads(self, state: str) -> int:
        with self.postgres.admin(self.ledger) as admin:
            query = "SELECT COUNT(*) FROM loads WHERE state = %s"
            (found,) = admin.execute(query, (state,)).fetchone() or (0,)
            return int(found)

    def wrong(self) -> dict[str, str]:
        """How layers are not exact; and loads that are in raw twice, or not in the ledger."""
        found: dict[str, str] = {}
        lake = self.place.lake
        for contract in load_config(self.config()).tables:
            layers = [contract.namespaces.deduped]
            layers += [contract.namespaces.clean] if contract.clean == "table" else []
            for space in layers:
                with self.server.admin() as admin:
                    table = lake.load(Identifier(space, contract.table))
                    verdict = compare_table(admin, self.database, contract.table, ["id"], table)
                if not verdict.equal:
                    found[f"{space}.{contract.table}"] = verdict.describe()
            with self.postgres.admin(self.ledger) as admin:
                query = "SELECT load_id, raw_table FROM loads WHERE state = 'success' AND table_name = %s"
                loads = dict(admin.execute(query, (contract.name,)).fetchall())
            for raw in set(loads.values()):
                table = lake.load(Identifier(contract.namespaces.raw, raw))
                assert table is not None
                rows = table.scan().to_arrow()
                assert set(rows["_mirror_load"].to_pylist()) <= set(loads)
                assert rows.group_by(["id", "_mirror_load"]).aggregate([]).num_rows == rows.num_rows
        return found


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def shop(
    server: EmbeddedServer,
    postgres: Postgres,
    place: Place,
    database: str,
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Shop:
    share_session(place, monkeypatch)
    monkeypatch.setenv("LEDGER_PASSWORD", PASSWORD)
    ledger = f"ledger_{uuid.uuid4().hex[:10]}"
    with postgres.admin() as admin:
        admin.execute(f"CREATE DATABASE {ledger}")
    for table in TABLES:
        sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, at DATETIME(6) NOT NULL, KEY (at))")
    made = Shop(server, postgres, place, database, sql, ledger=ledger)
    made.change(1, 3_000)
    return made


class Restarts(threading.Thread):
    """Restarts the ledger's server each time that a sync has come a step further."""

    def __init__(self, shop: Shop, times: int) -> None:
        super().__init__(daemon=True)
        self.shop, self.left, self.done = shop, times, 0
        self.ended, self.failed = threading.Event(), list[BaseException]()

    def run(self) -> None:
        try:
            seen = self._step()
            while self.done < self.left and not self.ended.is_set():
                if self._step() != seen:
                    self.shop.postgres.restart(1.0)
                    self.done, seen = self.done + 1, self._step()
                time.sleep(0.01)
        except BaseException as error:
            self.failed.append(error)
            raise

    def _step(self) -> tuple[int, ...]:
        with self.shop.postgres.admin(self.shop.ledger) as admin:
            tables = ("loads", "windows", "folds", "leases", "lake_heads")
            count = ", ".join(f"(SELECT COUNT(*) FROM {name})" for name in tables)
            return tuple(admin.execute(f"SELECT {count}").fetchone() or ())


def test_a_sync_goes_on_where_its_ledger_restarts(shop: Shop) -> None:
    """In each of several steps; everything is there once, and exact."""
    first = shop.sync()
    assert first.exit_code == 0, first.output
    shop.change(3_001, 4_000)
    restarts = Restarts(shop, 4)
    restarts.start()
    result = shop.sync()
    restarts.ended.set()
    restarts.join()
    assert not restarts.failed
    assert result.exit_code == 0, result.output
    assert restarts.done >= 2
    assert json.loads(result.stdout)["errors"] == []
    assert shop.wrong() == {}
    assert shop.loads("pending") == 0


def test_a_ledger_that_stays_away_says_how_long_it_was_waited_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sync is exact, once the lease that could not be given back has run out."""
    monkeypatch.setattr(leases, "LEASE_TIME", timedelta(seconds=5))
    shop.wait = "2s"
    assert shop.sync().exit_code == 0
    shop.change(3_001, 4_000)
    before = shop.loads("success")
    gone = threading.Event()

    def away() -> None:
        while shop.loads("pending") == 0 and shop.loads("success") == before:
            time.sleep(0.01)
        gone.set()
        shop.postgres.restart(12.0)

    leaving = threading.Thread(target=away, daemon=True)
    leaving.start()
    result = shop.sync()
    assert gone.is_set()
    assert result.exit_code != 0
    said = f"{result.output} {result.exception}"
    waited = [
        float(found) for found in re.findall(r"\(waited (\d+\.\d) s for a connection\)", said)
    ]
    assert waited, said
    assert min(waited) >= 2, said
    leaving.join()
    shop.wait = "60s"
    after = shop.sync()
    assert after.exit_code in (0, 10), after.output
    assert shop.wrong() == {}
    assert shop.loads("pending") == 0
