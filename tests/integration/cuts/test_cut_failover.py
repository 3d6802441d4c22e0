"""Cuts of a bank whose server fails over while it moves money: those of before, and those of the
other server, each have a sum that the bank had."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow.compute as _compute
import pytest

from mirrorlake.cuts.ledger import Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.operations.loading.accept import accept_server
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, write_config
from tests.integration.cuts.test_cuts import BANK, LOG, TOTAL, at_cut, said, transfers
from tests.integration.operations.test_follow_failover import Pair, pair, run
from tests.integration.operations.test_follow_log import assert_equal, kinds, sync_all

__all__ = ["pair"]
pc: Any = _compute
PROVED = CutTerms(keep=timedelta(days=1), prove=True)


def make_bank(server: MariaDB) -> None:
    run(server, "CREATE DATABASE d")
    rows = ", ".join(f"({number}, 100, NOW(6))" for number in range(100))
    for name in BANK:
        run(
            server,
            f"CREATE TABLE {name} (id INT PRIMARY KEY, amount DECIMAL(12,2) NOT NULL,"
            " at DATETIME(6))",
            f"INSERT INTO {name} VALUES {rows}",
            database="d",
        )
    run(
        server,
        "CREATE TABLE bookings (id INT AUTO_INCREMENT PRIMARY KEY, account INT NOT NULL,"
        " amount DECIMAL(12,2), FOREIGN KEY (account) REFERENCES current (id))",
        database="d",
    )


def sum_at(workspace: Workspace, name: str) -> Any:
    [cut] = [one for one in Cuts(workspace.ledger).all("s") if one.name == name]
    tables = [at_cut(workspace, cut, table) for table in BANK]
    return sum(pc.sum(table["amount"]).as_py() for table in tables)


@pytest.mark.full
def test_cuts_go_on_with_the_other_server(pair: Pair, place: Place) -> None:
    make_bank(pair.first)
    tables = dict.fromkeys((*BANK, "bookings"), LOG)

    def opened(server: MariaDB) -> Workspace:
        config = write_config(place.folder, server, {"d": {"tables": tables}})
        return Workspace.open(config, spark=place.spark)

    workspace, names = opened(pair.first), list[str]()
    with transfers(pair.first, "d"):
        names += [make_cut(workspace, "s", PROVED, said).cut.name for _ in range(2)]
    pair.wait()
    run(pair.second, "STOP SLAVE", "RESET SLAVE ALL")
    pair.first.stop()
    workspace = opened(pair.second)
    assert all(one.follows for one in accept_server(workspace.config, workspace.ledger, "s"))
    with transfers(pair.second, "d", fresh=5_000) as moved:
        names += [make_cut(workspace, "s", PROVED, said).cut.name for _ in range(2)]
    assert len(set(names)) == 4
    assert moved[0] > 10
    assert [sum_at(workspace, name) for name in names] == [TOTAL] * 4
    for name in names:
        [cut] = [one for one in Cuts(workspace.ledger).all("s") if one.name == name]
        assert {one.proved for one in cut.tables if one.layer == "deduped"} == {"equal"}
    sync_all(workspace)
    assert_equal(workspace, pair.second, *tables)
    assert all(kinds(workspace, name).count("initial") == 1 for name in tables)
