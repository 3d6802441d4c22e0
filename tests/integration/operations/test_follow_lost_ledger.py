"""A run that follows the log is killed, and its ledger is lost too: what is rebuilt from the lake
knows from where to read on, and nothing is lost, doubled, or read again as a whole."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.ledger import Ledger
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.operations.repairing.restore_ledger import rebuild_tables
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.contract_files import write_contract
from tests.integration.operations.test_follow_log import (
    LOG,
    TABLE,
    assert_equal,
    kinds,
    raw_rows,
    sync_all,
)
from tests.soak.runs import Order, Runner

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
STEPS = [
    *("ledger.pending", "commit.before", "commit.after", "ledger.success", "log.table"),
    *("log.progress", "fold.committed", "fold.recorded"),
]
KEYED = "CREATE TABLE u (a INT NOT NULL, b VARCHAR(20) NOT NULL, n INT, UNIQUE (a, b))"
TABLES = {"t": LOG, "u": {**LOG, "key": ["a", "b"]}}


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.mark.full
def test_a_run_that_dies_and_leaves_no_ledger(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    runner: Runner,
    tmp_path: Path,
) -> None:
    sql(
        TABLE.format("t"),
        KEYED,
        "INSERT INTO t (id) VALUES (-1)",
        "INSERT INTO u VALUES (0, '', 0)",
    )
    first = engine_for(TABLES)
    sync_all(first)
    config = first.config
    for number, step in enumerate(STEPS):
        at = 100 * number
        sql(
            f"INSERT INTO t (id, name) VALUES ({at}, 'x{at}'), ({at + 1}, NULL)",
            f"UPDATE t SET id = id + 50 WHERE id = {at}",
            f"DELETE FROM t WHERE id = {at - 99}",
            f"INSERT INTO u VALUES ({at}, 'ä', 1), ({at}, 'Ä ', 2) ON DUPLICATE KEY UPDATE n = 3",
            f"UPDATE u SET b = CONCAT(b, '+'), n = {number} WHERE a = {at - 100}",
        )
        path = write_contract(
            Path(config.path).with_name(f"killed{number}.yaml"),
            server.port,
            {database: {"tables": TABLES}},
            ledger={"url": str(config.ledger.url)},
        )
        order = Order(path, act="command", failpoint=step, arguments=("sync", "--jobs", "1"))
        run = runner.run(order)
        assert run.code == -signal.SIGKILL, (step, run.code, run.error)
        sql(f"UPDATE t SET amount = {number}", f"DELETE FROM u WHERE a = {at - 200}")
        url = f"sqlite:///{tmp_path / f'ledger{number}.db'}"
        ledger = config.ledger.model_copy(update={"url": url})
        config = config.model_copy(update={"ledger": ledger})
        rebuild_tables(config, Ledger(url), config.tables)
        with Workspace.open(config, spark=first.spark) as workspace:
            sync_all(workspace)
            assert_equal(workspace, server, "t", "u")
            for name in TABLES:
                assert kinds(workspace, name).count("initial") == 1
                rows = raw_rows(workspace, workspace.config.table(name))
                new = (row for row in rows if row["_mirror_op"])
                seen = Counter(
                    (
                        row["_mirror_position"],
                        row["_mirror_op"],
                        *(row[k] for k in TABLES[name]["key"]),
                    )
                    for row in new
                )
                assert set(seen.values()) <= {1}, step
                assert prove_raw_layer(workspace, workspace.config.table(name)).verdict == "equal"
