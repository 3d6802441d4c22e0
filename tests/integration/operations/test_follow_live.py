"""A source with 2,000 changes a second, followed without a pause: what the mirror held after a load
is what a replica has that was stopped at that load's place, cell by cell; and the end is exact.

``MIRRORLAKE_SOAK_MINUTES=30`` is how long this goes on; by default 20 seconds, with three places
instead of ten.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from demo.oracle import compare_rows
from demo.oracle_text import read_source
from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED
from mirrorlake.destinations.iceberg.model import snapshot_property
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.binlog.gtid_lists import GtidList
from mirrorlake.sources.mysql.following.log_state import LogPlace
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, Place, write_config
from tests.integration.operations.test_follow_log import LOG, assert_equal, kinds, sync_all
from tests.integration.operations.test_follower import Following, following
from tests.support.beside import beside

MINUTES = float(os.environ.get("MIRRORLAKE_SOAK_MINUTES", "0.33"))
PLACES = 10 if MINUTES >= 2 else 3
RATE, TICKS, KEPT = 2_000, 10, 20_000
"""Changes of rows a second, in so many transactions of each table; rows that stay, about."""
SETTLED = 600.0
TABLES: dict[str, dict[str, Any]] = {"t": LOG, "u": {**LOG, "key": ["a", "b"]}}
SCHEMA = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(40), at DATETIME(6), total DECIMAL(20,4),"
    " data JSON, flags SET('x','y','z'), raw VARBINARY(20))",
    "CREATE TABLE u (a INT, b VARCHAR(20), n INT UNSIGNED, f DOUBLE, day DATE, UNIQUE (a, b))",
    "ALTER TABLE u MODIFY a INT NOT NULL, MODIFY b VARCHAR(20) NOT NULL",
)
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800 + MINUTES * 150)]


@dataclass(frozen=True)
class Pair:
    """A primary, and a replica that replicates up to where a test says."""

    primary: MariaDB
    replica: MariaDB
    database: str

    def run(self, server: MariaDB, *statements: str) -> Any:
        with server.admin(self.database) as admin, admin.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def stop_replica_at(self, gtid: str) -> None:
        """Have the replica be what its primary was at this transaction, and no further."""
        [(stands,)] = self.run(self.replica, "SELECT @@gtid_slave_pos")
        if stands != gtid:
            self.run(self.replica, f"START SLAVE UNTIL master_gtid_pos = '{gtid}'")
        deadline = time.monotonic() + SETTLED
        while True:
            with self.replica.admin() as admin, admin.cursor() as cursor:
                cursor.execute("SHOW SLAVE STATUS")
                names = [column[0] for column in cursor.description or ()]
                row = dict(zip(names, cursor.fetchone() or (), strict=True))
            [(stands,)] = self.run(self.replica, "SELECT @@gtid_slave_pos")
            if row["Slave_SQL_Running"] == "No" and stands == gtid:
                return
            assert not row["Last_SQL_Errno"], row["Last_SQL_Error"]
            assert time.monotonic() < deadline, (stands, gtid, row["Slave_IO_State"])
            time.sleep(0.05)


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    database = f"live{uuid.uuid4().hex[:8]}"
    with (
        MariaDB.start(tmp_path_factory.mktemp("primary")) as primary,
        MariaDB.start(tmp_path_factory.mktemp("replica"), extra_args=("--server-id=2",)) as replica,
    ):
        for server in (primary, replica):
            server.create_user(USER, PASSWORD)
            with server.admin() as admin, admin.cursor() as cursor:
                cursor.execute("RESET MASTER")
                cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        found = Pair(primary, replica, database)
        [(position,)] = found.run(primary, "SELECT @@gtid_binlog_pos")
        found.run(
            replica,
            f"SET GLOBAL gtid_slave_pos = '{position}'",
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, "
            f"MASTER_USER = '{USER}', MASTER_PASSWORD = '{PASSWORD}', MASTER_USE_GTID = slave_pos, "
            "MASTER_SSL_VERIFY_SERVER_CERT = 0",
        )
        found.run(primary, *SCHEMA)
        yield found


class Application:
    """Changes rows of the primary at a fixed rate: as many come as go."""

    def __init__(self, pair: Pair) -> None:
        self._pair, self._rng = pair, Random(7)  # noqa: S311
        self._at = 0
        self.changes, self.seconds = 0, 0.0

    def fill(self) -> None:
        """The rows that there are before anything is mirrored."""
        with self._pair.primary.admin(self._pair.database) as admin, admin.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            while self._at < KEPT:
                for statement in self._inserts(1_000):
                    cursor.execute(statement)

    def live(self, stop: threading.Event) -> None:
        began = time.monotonic()
        with self._pair.primary.admin(self._pair.database) as admin, admin.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            while not stop.wait(1 / TICKS):
                due = int((time.monotonic() - began) * RATE) - self.changes
                # What a slow moment left undone is caught up with.
                for statement in self._statements(min(due, RATE)):
                    self.changes += cursor.execute(statement)
                self.seconds = time.monotonic() - began

    def _statements(self, changes: int) -> list[str]:
        """Statements that change about so many rows, over both tables."""
        part = max(1, changes // 6)
        old, one = self._at - KEPT, self._rng.randrange(self._at - KEPT, self._at)
        return [
            *self._inserts(part),
            f"UPDATE t SET total = total + {one}.25, flags = {one % 8}, data = '{{\"n\": [{one}.0]}}'"
            f" WHERE id BETWEEN {one} AND {one + part - 1}",
            f"UPDATE u SET n = {4_294_967_295 - one}, b = CONCAT('ü', {one % 97}, '-', a)"
            f" WHERE a BETWEEN {one} AND {one + part - 1}",
            f"DELETE FROM t WHERE id < {old}",
            f"DELETE FROM u WHERE a < {old}",
        ]

    def _inserts(self, count: int) -> list[str]:
        ids = range(self._at, self._at + count)
        self._at += count
        of_t = ", ".join(
            f"({n}, 'Łódź {n}', '2026-01-01' + INTERVAL {n} SECOND, {n}.5, '[{n}]', {n % 8},"
            f" UNHEX('{n:010x}00'))"
            for n in ids
        )
        of_u = ", ".join(
            f"({n}, 'b{n}', {n}, {n} / 7, IF({n % 50}, '2026-02-03', '0000-00-00'))" for n in ids
        )
        return [f"INSERT INTO t VALUES {of_t}", f"INSERT INTO u VALUES {of_u}"]


@dataclass(frozen=True)
class Held:
    """What deduped held of a table after a load.

    Attributes:
        gtid: the last transaction that is in it.
        snapshot: the table's version.
    """

    table: str
    gtid: str
    snapshot: int

    @property
    def number(self) -> int:
        return int(self.gtid.rpartition("-")[2])


def held_now(workspace: Workspace, contract: TableContract) -> Held | None:
    """The newest version of deduped, and up to where it has its source's log."""
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    shown = deduped.current_snapshot() if deduped is not None else None
    through = snapshot_property(shown, FOLDED) if shown is not None else None
    if shown is None or through is None:
        return None
    [load, *_] = workspace.ledger.successful_loads(contract.name, int(through) - 1)
    if load.seq != int(through) or load.receipt is None or load.window.kind != "log":
        return None
    gtids = LogPlace.parse(load.receipt.log_place or "").position.gtids
    assert isinstance(gtids, GtidList)
    return Held(contract.table, str(gtids), shown.snapshot_id)


def assert_was_equal(workspace: Workspace, pair: Pair, held: Held) -> None:
    """The version of deduped is what the replica has at its place."""
    contract = workspace.config.table(held.table)
    pair.stop_replica_at(held.gtid)
    with pair.replica.admin() as admin:
        source = read_source(admin, contract.database, contract.table)
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    assert deduped is not None
    rows = deduped.scan(snapshot_id=held.snapshot).to_arrow()
    assert len(rows) > KEPT // 2
    verdict = compare_rows(source, contract.key, rows)
    found = (verdict.missing, verdict.extra, verdict.changed_cells, verdict.types)
    assert not any(found), (held, verdict.describe())


def compare_on_the_way(workspace: Workspace, pair: Pair, running: Following) -> int:
    """Compare what was held at places that lie behind one another; at how many it was."""
    until, done = time.monotonic() + MINUTES * 60, dict.fromkeys(TABLES, 0)
    last, pause = -1, MINUTES * 60 / PLACES
    while min(done.values()) < PLACES or time.monotonic() < until:
        due = time.monotonic() + pause

        def newest(least: int = last) -> list[Held]:
            found = [held_now(workspace, workspace.config.table(name)) for name in TABLES]
            return [one for one in found if one is not None and one.number > least]

        running.until(lambda: len(newest()) == len(TABLES), SETTLED)
        for held in sorted(newest(), key=lambda one: one.number):
            assert_was_equal(workspace, pair, held)
            done[held.table] += 1
            last = held.number
            print(f"{held.table} at {held.gtid}: equal")
        time.sleep(max(0.0, min(due, until) - time.monotonic()))
    return min(done.values())


def test_it_is_its_source_at_every_place(pair: Pair, place: Place) -> None:
    application = Application(pair)
    application.fill()
    config = write_config(place.folder, pair.primary, {pair.database: {"tables": TABLES}})
    workspace = Workspace.open(config, spark=place.spark)
    sync_all(workspace)
    pair.run(pair.primary, "UPDATE t SET flags = 1", "UPDATE u SET f = 1")
    sync_all(workspace)  # Spark has folded something
    with following(workspace) as running:
        with beside(application.live):
            places = compare_on_the_way(workspace, pair, running)
        [(end,)] = pair.run(pair.primary, "SELECT @@gtid_binlog_pos")
        lags = sorted(one.lag_seconds or 0.0 for one in running.rounds if one.is_busy)
    sync_all(workspace)
    assert_equal(workspace, pair.primary, *TABLES)
    for name in TABLES:
        assert kinds(workspace, name).count("initial") == 1
        assert prove_raw_layer(workspace, workspace.config.table(name)).verdict == "equal"
    print(
        f"{application.changes:,} changes in {application.seconds:.0f} s "
        f"({application.changes / application.seconds:,.0f} a second), up to {end}; "
        f"{places} places equal; {len(running.rounds)} rounds, lag {lags[len(lags) // 2]:.1f} s"
    )
