"""Whole syncs over a Spark Connect server: loads, folds, hashes and proofs, with no JVM of ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.daemon import connect_server
from demo.oracle import check_clean, compare_table
from demo.oracle_text import read_source
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, Place
from tests.integration.contract_files import write_contract
from tests.integration.lakes import open_to_others
from tests.support.command import COMMAND

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[3]
CONTRACT = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "clean": "table",
    "columns": {"mail": {"pii": "hash"}, "name": {"pii": "mask"}},
}


@pytest.mark.full
def test_syncs_over_connect_are_exact(
    sql: Callable[..., Any],
    server: Any,
    database: str,
    place: Place,
    tmp_path: Path,
    usual_umask: None,
) -> None:
    """The first proved before it is visible; then changes, and a key that is no more in a reload.

    The server has a usual umask: its settings say how open its files are.
    """
    assert place.lake  # its fixture has set the passwords
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, mail VARCHAR(60), name VARCHAR(60), "
        "price DECIMAL(12,2), d DATE, at DATETIME(6) NOT NULL, KEY (at))",
        "INSERT INTO t SELECT seq, CONCAT('m', seq, '@x.org'), CONCAT('name ', seq), seq / 7, "
        "IF(seq % 9, '2024-01-01', '0000-00-00'), UTC_TIMESTAMP(6) - INTERVAL 3 HOUR "
        "FROM seq_1_to_3000",
    )
    databases = {database: {"tables": {"t": CONTRACT}}}
    verify = {"defaults": {"verify": True}}
    config = write_contract(tmp_path / "mirrorlake.yaml", server.port, databases, **verify)
    with connect_server(config) as url:
        connect = {"spark": {"connect": url, "folds_from": 0}}
        write_contract(config, server.port, databases, **verify, **connect)
        run(config, "sync")
        sql(
            "UPDATE t SET mail = 'new@x.org', price = -1, at = UTC_TIMESTAMP(6) WHERE id % 10 = 3",
            "DELETE FROM t WHERE id % 100 = 7",
            "INSERT INTO t VALUES (9999, NULL, '', NULL, NULL, UTC_TIMESTAMP(6))",
        )
        run(config, "sync")
        run(config, "repair", "t", "--deletes", "--yes")
    workspace = Workspace.open(load_config(config))
    contract = workspace.config.tables[0]
    # Spark's own: the first deduped rows are copied files.
    spent = [c for c in workspace.ledger.costs(contract.name, LONG_AGO) if c.step != "verify"]
    assert {c.scanned for c in spent if (c.step, c.seq) != ("deduped", 1)} == {None}
    assert len(spent) == 6
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    clean = workspace.lake.load(Identifier(contract.namespaces.clean, "t"))
    assert deduped is not None
    assert clean is not None
    with server.admin() as admin:
        verdict = compare_table(admin, database, "t", contract.key, deduped)
        assert verdict.equal, verdict.describe()
        source = read_source(admin, database, "t")
        rows = clean.scan().to_arrow()
        masked = check_clean(source, contract.key, rows, contract.rules, HASH_KEY.encode())
        assert masked.equal, masked.describe()
    assert open_to_others(tmp_path / "lake", tmp_path / "ledger.db") == {}


def run(config: Path, *words: str) -> None:
    """A command in a process of its own, as a person has it; it may start no JVM."""
    command = [*COMMAND, *words, "--config", str(config)]
    environment = {**os.environ, "JAVA_HOME": str(config.parent / "no-java")}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert "open wider" not in ended.stderr
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
