"""``python -m tests.soak.alarms --minutes 30 --record``: does the proof cry wolf?

A primary takes changes at a fixed rate, by sessions whose clocks are off; a real replica follows it
late, and is what is mirrored and compared, again and again. Every difference that a check reports
must be one: here, a row that the application deleted and no load of an incremental mirror can see.
At the end rows of the lake are altered, and must be named: a proof that says nothing is none.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from mirrorlake.config import load_config
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.counts import count_rows
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, PASSWORD, USER
from tests.integration.contract_files import write_contract
from tests.soak import report

DATABASE = "alarms"
CLOCKS = (-4, 0, 0, 3)
"""By so many seconds the clocks of the application's sessions are off."""
DELAY = 2
"""So many seconds the replica is behind, at least."""
SETTLE = 12
ROWS = 5_000
QUIET = 50
"""So many of the first rows nobody writes to."""
TICKS = 10
"""So often a second changes are written."""
TABLE = f"""CREATE TABLE {DATABASE}.orders (
    id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL, total DECIMAL(12,2), note TEXT,
    modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
    KEY (modified_at))"""


class Application:
    """Changes rows of the primary, ``rate`` a second, until it is stopped."""

    def __init__(self, primary: MariaDB, rate: int, seed: int) -> None:
        self._primary, self._rate, self._rng = primary, rate, Random(seed)  # noqa: S311
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, name="application", daemon=True)
        self._error: BaseException | None = None
        self._highest = ROWS
        self.changes: Counter[str] = Counter()
        self.deleted: set[int] = set()
        self.seconds = 0.0

    def __enter__(self) -> Application:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _live(self) -> None:
        started = time.monotonic()
        try:
            sessions = [self._primary.admin(DATABASE) for _ in CLOCKS]
            for session in sessions:
                with session.cursor() as cursor:
                    cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            written = 0
            while not self._stopping.wait(1 / TICKS):
                # What a slow moment left undone is caught up with.
                due = int((time.monotonic() - started) * self._rate) - written
                number = self._rng.randrange(len(sessions))
                written += self._write(sessions[number], CLOCKS[number], min(due, self._rate))
                self.seconds = time.monotonic() - started
        except BaseException as error:  # noqa: BLE001 - raised again at the end
            self._error = error

    def _write(self, session: Any, off: int, due: int) -> int:
        """So many changes in one transaction, by a clock that is off."""
        with session.cursor() as cursor:
            cursor.execute(f"SET timestamp = UNIX_TIMESTAMP(SYSDATE(6)) + {off}")
            cursor.execute("BEGIN")
            for _ in range(due):
                kind = self._rng.choices(("insert", "update", "delete"), (30, 69, 1))[0]
                cursor.execute(self._statement(kind))
                self.changes[kind] += 1
            cursor.execute("COMMIT")
        return max(due, 0)

    def _statement(self, kind: str) -> str:
        n = self._rng.randrange(1_000_000)
        if kind == "insert":
            self._highest += 1
            return f"INSERT INTO orders (name, total, note) VALUES ('Łódź {n}', {n}.5, REPEAT('ä', 300))"
        one = self._rng.randrange(QUIET + 1, self._highest + 1)
        if kind == "delete":
            self.deleted.add(one)
            return f"DELETE FROM orders WHERE id = {one}"
        return f"UPDATE orders SET name = 'Köln {n}', total = {n}.25 WHERE id = {one}"


@dataclass
class Alarms:
    """What the checks said.

    Attributes:
        verdicts: of checks, by what was asked and what was said.
        false: differences that are none.
        real: rows that were deleted, and told of.
        missed: rows of the lake that were altered in the end, and not told of.
        compared, waiting: rows, over all checks.
        lag: the longest that the replica was behind, in seconds.
    """

    verdicts: Counter[str] = field(default_factory=Counter[str])
    false: list[str] = field(default_factory=list[str])
    real: set[int] = field(default_factory=set[int])
    missed: list[str] = field(default_factory=list[str])
    compared: int = 0
    waiting: int = 0
    lag: int = 0
    seconds: float = 0.0
    changes: Counter[str] = field(default_factory=Counter[str])

    @property
    def good(self) -> bool:
        return bool(self.compared) and not self.false and not self.missed


@contextmanager
def replicated(folder: Path) -> Iterator[tuple[MariaDB, MariaDB]]:
    """A primary with the table in it, and a replica that follows it ``DELAY`` seconds late."""
    with (
        MariaDB.start(folder / "primary") as primary,
        MariaDB.start(
            folder / "replica", extra_args=["--server-id=2", "--log-slave-updates"]
        ) as replica,
    ):
        primary.create_user("follower", "f", "REPLICATION SLAVE")
        primary.create_user(USER, PASSWORD)
        replica.create_user(USER, PASSWORD)
        ((position,),) = _run(primary, "SELECT @@gtid_binlog_pos")
        _run(
            replica,
            "RESET MASTER",
            f"SET GLOBAL gtid_slave_pos = '{position}'",
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, "
            "MASTER_USER = 'follower', MASTER_PASSWORD = 'f', MASTER_USE_GTID = slave_pos, "
            "MASTER_SSL = 0, MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_CONNECT_RETRY = 1, "
            f"MASTER_DELAY = {DELAY}",
            "START SLAVE",
        )
        _run(
            primary,
            "SET time_zone = '+00:00'",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
            TABLE,
            f"USE {DATABASE}",
            f"INSERT INTO {DATABASE}.orders (name, total, modified_at) "
            f"SELECT CONCAT('row ', seq), seq, '2020-01-01' FROM seq_1_to_{ROWS}",
        )
        ((position,),) = _run(primary, "SELECT @@gtid_binlog_pos")
        _run(replica, f"SELECT MASTER_GTID_WAIT('{position}', 60)")
        yield primary, replica


def contract_for(folder: Path, primary: MariaDB, replica: MariaDB) -> Path:
    """The replica is read in its primary's place."""
    os.environ["ALARMS_REPLICA"] = (
        f"mysql://{USER}:p%40ss%20w%2F%C3%B6rd%25@127.0.0.1:{replica.port}"
    )
    table = {
        **{"mode": "incremental", "key": ["id"], "cursor": "modified_at"},
        **{"overlap": f"{SETTLE}s", "settle": f"{SETTLE}s"},
    }
    return write_contract(
        folder / "alarms.yaml",
        primary.port,
        {DATABASE: {"tables": {"orders": table}}},
        source={"replica": "${env:ALARMS_REPLICA}"},
    )


def watch(
    workspace: Workspace, primary: MariaDB, replica: MariaDB, seconds: float, rate: int, seed: int
) -> Alarms:
    """Mirror and compare for so long while the application writes; longer, where no check met a row
    that waits yet."""
    found = Alarms()
    contract = workspace.config.table("orders")
    sync_table(workspace, contract)
    started, turn = time.monotonic(), 0
    with Application(primary, rate, seed) as application:
        while (past := time.monotonic() - started) < seconds or (
            not found.waiting and past < 6 * seconds
        ):
            if turn % 3 == 0:
                sync_table(workspace, contract)
            _check(workspace, found, application, Ask() if turn % 2 else Ask("next"))
            counts = count_rows(workspace, contract)
            found.verdicts[f"counts {counts.verdict}"] += 1
            if counts.lost:
                found.false.append(f"{counts.lost} rows counted as lost")
            found.lag = max(found.lag, _lag(replica))
            turn += 1
    found.seconds, found.changes = application.seconds, application.changes
    _alter_and_check(workspace, found)
    return found


def _check(workspace: Workspace, found: Alarms, application: Application, ask: Ask) -> None:
    contract = workspace.config.table("orders")
    told = check_table(workspace, contract, ask)
    found.verdicts[f"{ask.kind} {told.verdict}"] += 1
    found.compared += told.source.rows
    found.waiting += told.waiting
    for difference in told.differences:
        key = int(str(difference.key[0].shown))
        if difference.kind == "extra" and key in application.deleted:
            found.real.add(key)
        else:
            found.false.append(f"{told.started}: {difference}")


def _alter_and_check(workspace: Workspace, found: Alarms) -> None:
    """The proof is awake: rows that nobody wrote to are altered, and must be named."""
    contract = workspace.config.table("orders")
    table, some = f"lake.`{contract.namespaces.deduped}`.orders", ["1", "7", str(QUIET)]
    workspace.spark.run(f"UPDATE {table} SET name = 'altered' WHERE id IN ({', '.join(some)})")
    # Of so many deleted rows, too: a check names the first thousand by itself.
    after = check_table(workspace, contract, Ask(), most=1_000_000)
    named = {str(d.key[0].shown) for d in after.differences if d.kind == "changed"}
    found.missed += [f"row {key} was altered" for key in some if key not in named]
    found.false += [f"row {key}: not altered" for key in named - set(some)]


def _run(server: MariaDB, *statements: str) -> Any:
    with server.admin() as admin, admin.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def _lag(replica: MariaDB) -> int:
    with replica.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SHOW SLAVE STATUS")
        names = [column[0] for column in cursor.description or ()]
        row = dict(zip(names, cursor.fetchone() or (), strict=False))
    return int(row.get("Seconds_Behind_Master") or 0)


def result_of(found: Alarms, minutes: float, rate: int, seed: int) -> dict[str, Any]:
    """Everything that is kept of a run, as JSON has it."""
    return {
        "command": f"python -m tests.soak.alarms --minutes {minutes:g} --rate {rate} --seed {seed}",
        "commit": report.commit(),
        "machine": report.machine(),
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "seconds": round(found.seconds),
        "changes": dict(found.changes),
        "rate": round(sum(found.changes.values()) / max(found.seconds, 1)),
        "clocks": list(CLOCKS),
        "lag": found.lag,
        "settle": SETTLE,
        "verdicts": dict(sorted(found.verdicts.items())),
        "compared": found.compared,
        "waiting": found.waiting,
        "deleted_and_told": len(found.real),
        "false": found.false[:20],
        "missed": found.missed,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.alarms", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--rate", type=int, default=500, help="changes a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write docs/reliability.md again")
    options = parser.parse_args()
    os.environ["TEST_PASSWORD"], os.environ["TEST_HASH_KEY"] = PASSWORD, HASH_KEY
    folder = Path(tempfile.mkdtemp(prefix="ml-alarms-"))
    with replicated(folder) as (primary, replica):
        config = load_config(contract_for(folder, primary, replica))
        with Workspace.open(config) as workspace:
            found = watch(
                workspace, primary, replica, options.minutes * 60, options.rate, options.seed
            )
    result = result_of(found, options.minutes, options.rate, options.seed)
    print(json.dumps(result, indent=2, ensure_ascii=False))
    if options.record:
        report.record_alarms(result)
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
