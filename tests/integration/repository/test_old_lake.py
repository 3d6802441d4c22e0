"""A lake and a ledger that an earlier release made go on to work: nothing is made again for us.

The archive holds the server's data too, so that it is the same server with the same tables. Iceberg's
metadata hold absolute paths: it is unpacked where it was made, one test run at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.support.old_lake import ARCHIVE, DATABASE, ENVIRONMENT, PLACE, contract
from tests.support.old_lake.make import land

ROOT = Path(__file__).parents[3]
# One process, and so one JVM, for all that today's code does.
PROGRAM = """
import json
from pathlib import Path
from mirrorlake import *
from mirrorlake.landing.land import land_table, look_for
from mirrorlake.operations.repairing.restore_ledger import rebuild_table

config = load_config(Path("mirrorlake.yaml"))
[prices] = config.snapshots
with Workspace.open(config) as workspace:
    def verdicts():
        return {
            c.table: [prove_table(workspace, c, Ask())[0].verdict]
            + [layer.verdict for layer in prove_layers(workspace, c)]
            for c in config.tables
        }
    told = {
        "states": [s.state for s in status_of(config, workspace.ledger, config.tables)],
        "found": verdicts(),
    }
    print("ready", flush=True)
    input()
    results = [sync_table(workspace, c) for c in config.tables]
    told["synced"] = {c.table: r.window for c, r in zip(config.tables, results)}
    told["after"] = verdicts()
    ready = [one.id for one in look_for(workspace, prices).ready]
    told["landed"] = [(one.id, one.rows, one.changed) for one in land_table(workspace, prices, ready)]
    customers = config.table("customers")
    refold_table(workspace, customers)
    told["refolded"] = prove_table(workspace, customers, Ask())[0].verdict
    told["maintained"] = len(maintain_table(workspace, customers))
    known = (workspace.ledger, workspace.lake)
    told["unknown to the ledger"] = [rebuild_table(*known, c, "t").loads for c in config.tables]
print(json.dumps(told))
"""
EQUAL = ["equal", "equal", "equal"]


@pytest.fixture
def old() -> Iterator[MariaDB]:
    """The old server, over the old lake."""
    lock = PLACE.with_suffix(".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    shutil.rmtree(PLACE, ignore_errors=True)
    try:
        with tarfile.open(ARCHIVE) as packed:
            packed.extractall(PLACE.parent)  # noqa: S202 - our own archive
        extra = ("--innodb-log-file-size=4M",)
        with MariaDB.start(PLACE / "mysql", extra_args=extra) as server:
            (PLACE / "mirrorlake.yaml").write_text(contract(server.port))
            _know(server)
            yield server
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
        lock.close()


def _know(server: MariaDB) -> None:
    """Let the ledger know the server and its tables again: MariaDB makes its server_uid of the
    machine and the port, and tells when a table was made by when its file came to be."""
    with server.admin() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@server_uid")
        [[uid]] = cursor.fetchall()
        cursor.execute(
            "SELECT TABLE_NAME, CAST(CREATE_TIME AS CHAR) FROM information_schema.TABLES "
            "WHERE TABLE_SCHEMA = %s",
            (DATABASE,),
        )
        made = dict(cursor.fetchall())
    with closing(sqlite3.connect(PLACE / "ledger.db")) as ledger, ledger:
        found = "SELECT load_id, table_name, receipt FROM loads"
        for load_id, table, text in ledger.execute(found).fetchall():
            receipt = {**json.loads(text), "server": uid}
            if receipt.get("identity"):
                receipt["identity"]["made"] = made[table.rpartition(".")[2]]
            known = (json.dumps(receipt), load_id)
            ledger.execute("UPDATE loads SET receipt = ? WHERE load_id = ?", known)


@pytest.mark.full
def test_todays_code_goes_on_with_it(old: MariaDB) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=PLACE,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    with old.admin(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE customers SET balance = -1, modified_at = NOW(6) WHERE id BETWEEN 20 AND 29"
        )
        cursor.execute("UPDATE codes SET code = 'CODE-9', modified_at = NOW(6) WHERE v = 9")
        cursor.execute("INSERT INTO events (what) VALUES ('of today')")
        cursor.execute("DELETE FROM rates WHERE day = '2026-01-05'")
        connection.commit()
    land(PLACE / "landing", 20260303000000, [{"id": n, "price": "7.75"} for n in range(1, 42)])
    answer, _ = program.communicate("\n")
    assert program.returncode == 0
    told: dict[str, Any] = json.loads(answer)
    assert told["states"] == ["success"] * 4
    # Rows are; raw's views have the earlier release's text until the next sync makes them again.
    assert told["found"] == {
        name: ["equal", "different", "equal"] for name in ("codes", "customers", "events", "rates")
    }
    # Nothing is read as a whole but the full copy: history goes on.
    assert told["synced"] == {
        **{"codes": "live", "customers": "live"},
        **{"events": "live", "rates": "full"},
    }
    assert told["after"] == dict.fromkeys(told["found"], EQUAL)
    assert told["landed"] == [[20260303000000, 41, 41]]
    assert told["refolded"] == "equal"
    assert told["maintained"] > 2
    assert told["unknown to the ledger"] == [0, 0, 0, 0]
