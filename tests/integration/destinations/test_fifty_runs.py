"""Ledger and catalog on one Postgres, and fifty runs at once: some of them are killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import TableContract, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LakeError, LedgerError
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.soak.runs import Order, Runner
from tests.support.postgres import PASSWORD, USER, Postgres, running_postgres

TABLES, RUNS = 10, 50
KILLED = ("", "", "", "commit.before", "commit.after")
"""Where the runs of a table are killed: three of five are not."""
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def config_path(
    tmp_path: Path,
    server: EmbeddedServer,
    database: str,
    postgres: Postgres,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    with postgres.admin() as admin:
        for name in ("ledger", "catalog"):
            admin.execute(f"CREATE DATABASE {name}_{database}")
    monkeypatch.setenv("PG_PASSWORD", PASSWORD)
    server_url = f"postgresql://{USER}:${{env:PG_PASSWORD}}@127.0.0.1:{postgres.port}"
    terms = {"mode": "incremental", "key": ["id"], "cursor": "at", "verify": True}
    return write_contract(
        tmp_path / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {f"t{n}": terms for n in range(TABLES)}}},
        lake={"warehouse": "lake", "catalog": {"uri": f"{server_url}/catalog_{database}"}},
        ledger={"url": f"{server_url}/ledger_{database}"},
    )


def test_each_load_is_there_once(
    config_path: Path,
    sql: Callable[..., Any],
    tmp_path: Path,
) -> None:
    for number in range(TABLES):
        sql(
            f"CREATE TABLE t{number} (id INT PRIMARY KEY, v INT,"
            " at DATETIME(6) NOT NULL DEFAULT UTC_TIMESTAMP(6), KEY (at))",
            f"INSERT INTO t{number} (id, v) SELECT seq, 0 FROM seq_1_to_500",
        )
    runner = Runner(tmp_path / "runs")
    codes: Counter[int | None] = Counter()
    try:
        runs = [
            runner.start(
                Order(
                    config_path,
                    f"t{number % TABLES}",
                    act="load",
                    failpoint=KILLED[number // TABLES],
                    spark=False,
                )
            )
            for number in range(RUNS)
        ]
        for number, run in enumerate(runs):
            sql(
                f"UPDATE t{number % TABLES} SET v = v + 1, at = UTC_TIMESTAMP(6)"
                f" WHERE id = {number + 1}"
            )
            codes[runner.wait(run, 300)] += 1
            assert run.code in (0, -9, LedgerError.exit_code, LakeError.exit_code), run.error
    finally:
        runner.kill()
    assert codes[0] >= TABLES
    assert None not in codes
    config = load_config(config_path)
    workspace = Workspace.open(config)
    for contract in config.tables:
        recover_table(workspace, contract)
        load_table(workspace, contract)
        assert newest(workspace, contract) == dict(sql(f"SELECT id, v FROM {contract.table}"))
        assert not [
            one for one in workspace.ledger.unsettled_loads(contract.name) if one.state == "pending"
        ]


def newest(workspace: Workspace, contract: TableContract) -> dict[int, int]:
    """Of each key the row that was observed last; each load is in raw once."""
    loads = workspace.ledger.successful_loads(contract.name, 0)
    [name] = {load.raw_table for load in loads}
    raw = workspace.lake.load(Identifier(contract.namespaces.raw, name))
    assert raw is not None
    rows = raw.scan().to_arrow()
    assert set(rows["_mirror_load"].to_pylist()) <= {load.load_id for load in loads}
    assert rows.group_by(["id", "_mirror_load"]).aggregate([]).num_rows == rows.num_rows
    ordered = rows.sort_by("_mirror_seq")
    return dict(zip(ordered["id"].to_pylist(), ordered["v"].to_pylist(), strict=True))
