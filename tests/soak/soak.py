"""The soak: rounds of live changes in which something is killed, then put right, then judged.

An episode has a source database and tables of its own. In each of its rounds one table is synced
(or reloaded) while something is killed at a seeded moment; then a new run goes on from there. At
its end every row is compared with MySQL by the independent oracle.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.contract_files import write_contract
from tests.soak import judge, moves
from tests.soak.judge import Findings
from tests.soak.kills import FRESH, TENANTS, Kill
from tests.soak.proxy import Proxy
from tests.soak.runner import UNEXPECTED
from tests.soak.runs import STUCK_SECONDS, Order, Run, Runner
from tests.soak.steps import FINISHED, NEED_NOT_BE_PASSED, Watcher
from tests.soak.tenants import SoakTenants
from tests.soak.writer import DAYS_BACK, SCHEMA, Writer

logger = logging.getLogger(__name__)

TRIES = 3
# Windows reach back by seconds only: a load that was taken for done would lose its rows for good.
CONTRACTS: dict[str, dict[str, Any]] = {
    "orders": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "modified_at",
        "overlap": "5s",
        "clean": "table",
        "columns": {"email": {"pii": "hash"}},
        "new_columns": "show",
        "versions": "table",
    },
    "visits": {"mode": "append", "cursor": "created_at", "overlap": "5s"},
    "clicks": {"mode": "append", "key": ["id"], "cursor": "id", "overlap_keys": 200},
    "cities": {"mode": "full", "key": ["id"], "verify": True},
    "parcels": {"mode": "binlog", "key": ["id"]},
    "stocks": {"mode": "binlog", "key": ["shelf", "item"]},
    **moves.CONTRACTS,
    "shapes": moves.SHAPES[0],
}
FRESH_CONTRACT = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "5s"}
FRESH_SCHEMA = (
    "CREATE TABLE {0} (id INT PRIMARY KEY, v INT, modified_at DATETIME(6) NOT NULL DEFAULT "
    "CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))",
    "INSERT INTO {0} (id, v) SELECT seq, seq FROM seq_1_to_600",
)
FRESH_CHUNK = 100
BY_WALL_CLOCK = ("orders", "visits")
BEFORE_A_STEP = {
    "cities": "INSERT INTO cities (name) VALUES ('before a kill')",
    "parcels": "INSERT INTO parcels (what) VALUES ('before a kill')",
    "stocks": "UPDATE stocks SET n = COALESCE(n, 0) + 1",
}
"""What changes tables of which a sync passes no step where it knows that nothing did."""
OTHER_ZONE = 0.1
"""In so many rounds of tables with a DATETIME cursor the server's zone is another one first."""


@dataclass
class Killed:
    """One round's outcome. ``step`` is where the run was; `FINISHED` if the kill came too late. Of
    tenants it is the failpoint, or that it was anywhere."""

    number: int
    kill: Kill
    step: str
    outcome: str
    tries: int
    seconds: float
    recovery: float
    hand: tuple[str, str] | None = None
    """What other hands did after it."""


@dataclass
class Source:
    """The server, which comes back with its data and its port after it was killed, and the proxy
    before it."""

    server: MariaDB
    proxy: Proxy = field(init=False)

    def __post_init__(self) -> None:
        self.proxy = Proxy(self.server.port)

    def connect(self, database: str | None = None) -> Connection[Any]:
        """A session as the application has it."""
        connection = self.server.admin(database)
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            # Picking a row must not lock its neighbours.
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connection

    def kill(self, pause: float) -> None:
        """SIGKILL, and a new server over the same data after ``pause`` seconds."""
        old = self.server
        os.kill(old.pid, signal.SIGKILL)
        old.stop()
        time.sleep(pause)
        self.server = MariaDB.start(old.folder, old.port)

    def stop(self) -> None:
        self.proxy.stop()
        self.server.stop()


@dataclass
class Soak:
    """Everything that the rounds share."""

    folder: Path
    lake: Lake
    source: Source
    runner: Runner
    hash_key: bytes
    tables: tuple[str, ...] = tuple(CONTRACTS)
    """Those that live through an episode."""
    pause: float = 0.02
    killed: list[Killed] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    rows: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    episodes: int = 0
    _took: dict[str, list[float]] = field(default_factory=dict)

    def episode(self, kills: Sequence[Kill], seed: int, report: Callable[[str], None]) -> None:
        """These rounds over tables of their own, and the judgement."""
        self.episodes += 1
        episode = Episode(self, f"soak{self.episodes}", Random(seed))  # noqa: S311
        writer = Writer(lambda: self.source.connect(episode.database), seed, self.pause)
        episode.create()
        writer.start()
        try:
            for kill in kills:
                done = episode.round(kill)
                self.killed.append(done)
                report(_line(done))
            writer.stop()
        except BaseException:
            with contextlib.suppress(Exception):
                writer.stop()
            raise
        self.findings += episode.judge()
        for kind, number in writer.counts.by_kind.items():
            self.changes[kind] = self.changes.get(kind, 0) + number

    def usual(self, act: str) -> float:
        """How long an act takes that nobody disturbs: the shortest of late, else kills fall after
        its end."""
        return min(self._took.get(act, [1.5])[-3:])

    def took(self, act: str, seconds: float) -> None:
        self._took.setdefault(act, []).append(seconds)


@dataclass
class Episode:
    """One database, from its first load to its judgement."""

    soak: Soak
    database: str
    rng: Random
    config: Path = field(init=False)
    watchers: dict[str, Watcher] = field(init=False)
    tenants: SoakTenants = field(init=False)
    fresh: list[str] = field(default_factory=list)
    moved: dict[str, int] = field(default_factory=dict)
    """How many times each move was made."""

    def create(self) -> None:
        """The tables that live through the whole episode, and their contract."""
        soak = self.soak
        with contextlib.closing(soak.source.connect()) as admin, admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {self.database}")
            for statement in (*SCHEMA, *moves.SCHEMA):
                cursor.execute(statement)
            # A load without rows commits nothing, and leaves nothing to look for.
            cursor.execute("INSERT INTO orders (email, turn) VALUES ('a@example.com', 1)")
            cursor.execute("INSERT INTO visits (page) VALUES ('/')")
            cursor.execute("INSERT INTO clicks (what) VALUES ('1')")
            cursor.execute("INSERT INTO parcels (what) VALUES ('1')")
            cursor.execute("INSERT INTO stocks VALUES (0, '', 1)")
            for table in ("names", "shapes"):
                values = "SELECT CONCAT('Ä', seq), seq FROM seq_1_to_40"
                cursor.execute(f"INSERT INTO {table} (code, v) {values}")
            cursor.execute("INSERT INTO cities (name) SELECT CONCAT('Köln ', seq) FROM seq_1_to_40")
        self._contract()
        self.tenants = SoakTenants(
            *(soak.folder, soak.source.proxy.port, soak.source.connect, soak.lake, self.database),
            *(self.rng, soak.hash_key),
        )
        self.tenants.create()

    def _contract(self) -> None:
        soak = self.soak
        lasting = {name: CONTRACTS[name] for name in soak.tables}
        if "shapes" in lasting:
            lasting["shapes"] = moves.SHAPES[self.moved.get("contract", 0) % len(moves.SHAPES)]
        tables = {**lasting, **dict.fromkeys(self.fresh, FRESH_CONTRACT)}
        self.config = write_contract(
            soak.folder / f"{self.database}.yaml",
            soak.source.proxy.port,
            {self.database: {"tables": tables}},
            ledger={"url": "sqlite:///ledger.db", "wait": "5s"},
        )
        config, ledger = load_config(self.config), soak.folder / "ledger.db"
        self.watchers = {
            name: Watcher(ledger, soak.lake, config.table(f"s.{self.database}.{name}"))
            for name in tables
        }

    def _add_fresh(self) -> str:
        """A table that was never loaded."""
        name = f"fresh{len(self.fresh)}"
        with contextlib.closing(self.soak.source.connect(self.database)) as admin:
            for statement in FRESH_SCHEMA:
                admin.query(statement.format(name))
        self.fresh.append(name)
        self._contract()
        return name

    # --- one round --------------------------------------------------------------------------------

    def round(self, kill: Kill) -> Killed:
        """Run, kill, recover."""
        if kill.kind == TENANTS:
            return self._tenants_round(kill)
        started = time.monotonic()
        table = self._add_fresh() if kill.table == FRESH else kill.table
        if table in BY_WALL_CLOCK and self.rng.random() < OTHER_ZONE:
            self._refuse_other_zone(table)
        kill = replace(kill, table=table)
        if kill.failpoint == "chunks.resumed":  # only what was begun can be resumed
            self.soak.runner.run(self.order(table, failpoint="chunks.recorded:2"))
        if kill.move:
            self._move(kill.move)
        if kill.kind == "step" and table in BEFORE_A_STEP:
            with contextlib.closing(self.soak.source.connect(self.database)) as admin:
                admin.query(BEFORE_A_STEP[table])
        run, step = self._killed_run(kill, self.watchers[table])
        outcome = self._outcome(kill, run, step)
        hand = (
            kill.hand
            if kill.hand and moves.by_other_hands(self.watchers[table], *kill.hand)
            else None
        )
        if table in self.fresh:
            with contextlib.closing(self.soak.source.connect(self.database)) as admin:
                admin.query(f"UPDATE {table} SET v = v + 1 WHERE id % 7 = 0")
        recovering = time.monotonic()
        tries = self.recover(table)
        now = time.monotonic()
        return Killed(
            len(self.soak.killed) + 1,
            kill,
            step,
            outcome,
            tries,
            round(now - started, 2),
            round(now - recovering, 2),
            hand,
        )

    def _tenants_round(self, kill: Kill) -> Killed:
        """Tenants change, their sync is killed, and the next one is judged at once."""
        soak, tenants, started = self.soak, self.tenants, time.monotonic()
        name = f"round {len(soak.killed) + 1} (tenants {kill.failpoint})"
        tenants.change()
        if kill.failpoint in WHERE_ALL_IS_WRITTEN:
            column = tenants.add_column()
            soak.runner.run(tenants.order())
            tenants.retype(column)
        run = soak.runner.start(tenants.order(kill.failpoint))
        if kill.failpoint:
            soak.runner.wait(run)
        elif soak.runner.wait(run, kill.moment * soak.usual(TENANTS)) is None:
            os.kill(run.pid, signal.SIGKILL)
            soak.runner.wait(run)
        killed = run.code == -signal.SIGKILL
        if run.code is None:
            soak.findings.stuck.append(f"{name}: the run still runs after {STUCK_SECONDS:.0f} s")
            os.kill(run.pid, signal.SIGKILL)
            soak.runner.wait(run)
        elif not killed and (run.code != 0 or kill.failpoint):
            soak.findings.unexpected.append(f"{name}: ended with {run.code}: {run.error}")
        recovering = time.monotonic()
        again = soak.runner.run(tenants.order())
        now = time.monotonic()
        if again.code != 0:
            words = f"{name}: did not recover, ended with {again.code}: {again.error}"
            soak.findings.stuck.append(words)
        else:
            soak.took(TENANTS, again.seconds)
            soak.findings += tenants.judge()
        step = (kill.failpoint or "anywhere") if killed else FINISHED
        outcome = "killed" if killed else "too late"
        times = (round(now - started, 2), round(now - recovering, 2))
        return Killed(len(soak.killed) + 1, kill, step, outcome, 1, *times)

    def _refuse_other_zone(self, table: str) -> None:
        """A server whose zone is changed under the contract is refused, and nothing is read."""
        watcher, soak = self.watchers[table], self.soak
        before = watcher.last_window() if self._known() else 0
        with contextlib.closing(soak.source.connect()) as admin:
            admin.query("SET GLOBAL time_zone = '+02:00'")
            try:
                run = soak.runner.run(self.order(table))
            finally:
                admin.query("SET GLOBAL time_zone = '+00:00'")
        after = watcher.last_window() if self._known() else 0
        if run.code != ConfigError.exit_code or after != before:
            soak.findings.unexpected.append(
                f"another zone of the server, {table}: ended with {run.code}, {after - before} "
                f"windows: {run.error}"
            )
        soak.changes["another zone"] = soak.changes.get("another zone", 0) + 1

    def _move(self, move: str) -> None:
        """What people do before the sync of this round."""
        number = self.moved.get(move, 0)
        self.moved[move] = number + 1
        if move == "contract":
            self._contract()
            return
        if move == "hands":
            hand = moves.HANDS[number % len(moves.HANDS)]
            moves.by_other_hands(self.watchers[moves.TABLES[move]], *hand)
            return
        with contextlib.closing(self.soak.source.connect(self.database)) as connection:
            if move == "truncate":
                moves.truncate(connection)
            elif move == "columns":
                moves.change_columns(connection, number)
            else:
                moves.change_collation(connection, number)

    def order(self, table: str, act: str = "sync", failpoint: str = "") -> Order:
        today = datetime.now(UTC).date()
        days = ((today - timedelta(days=DAYS_BACK)).isoformat(), today.isoformat())
        return Order(
            self.config,
            f"s.{self.database}.{table}",
            act,
            days if act == "reload" else (),
            failpoint,
            rows_per_chunk=FRESH_CHUNK if table in self.fresh else 0,
            # Somebody has looked at what is far smaller after it was truncated.
            accept_smaller=table == "clicks",
        )

    def _killed_run(self, kill: Kill, watcher: Watcher) -> tuple[Run, str]:
        soak, windows = self.soak, watcher.last_window() if self._known() else 0
        run = soak.runner.start(self.order(kill.table, kill.act, kill.failpoint))
        if kill.kind == "step":
            soak.runner.wait(run)
            return run, watcher.step(windows)
        moment = kill.moment * soak.usual(f"{kill.act} {kill.table.rstrip('0123456789')}")
        if soak.runner.wait(run, moment) is not None:
            return run, FINISHED
        match kill.kind:
            case "run" | "move":
                os.kill(run.pid, signal.SIGKILL)
                soak.runner.wait(run)
                return run, watcher.step(windows)
            case "tree":
                soak.runner.kill()
                run.code = run.code if run.code is not None else -signal.SIGKILL
                return run, watcher.step(windows)
        # What is killed is not the run: where it is, is asked before.
        step = watcher.step(windows)
        if kill.kind == "jvm":
            jvm = soak.runner.jvm()
            assert jvm is not None, "the runner has no JVM"
            os.kill(jvm, signal.SIGKILL)
        elif kill.kind == "server":
            soak.source.kill(kill.pause)
        else:
            soak.source.proxy.cut(kill.pause)
        soak.runner.wait(run)
        if kill.kind == "jvm":
            soak.runner.kill()  # its gateway leads nowhere: the next order makes a new one
        return run, step

    def _known(self) -> bool:
        return (self.soak.folder / "ledger.db").exists()

    def _outcome(self, kill: Kill, run: Run, step: str) -> str:
        """``killed``, ``survived``, ``told an error`` or ``too late``; everything else is a fault."""
        faults = self.soak.findings
        name = f"round {len(self.soak.killed) + 1} ({kill.kind} {kill.table} {kill.failpoint})"
        if run.code is None:
            faults.stuck.append(f"{name}: the run still runs after {STUCK_SECONDS:.0f} s")
            os.kill(run.pid, signal.SIGKILL)
            self.soak.runner.wait(run)
            return "stuck"
        if run.code == UNEXPECTED:
            faults.unexpected.append(f"{name}: {run.error}")
            return "fell"
        if kill.kind == "step":
            point, _, nth = kill.failpoint.partition(":")
            watcher = self.watchers[kill.table]
            left = tuple(LEFT_BY_CLEAN[point]) if nth else watcher.left_by(point)
            if (run.code, step) == (0, FINISHED) and point in NEED_NOT_BE_PASSED:
                return "too late"
            if run.code != -signal.SIGKILL or step not in left:
                faults.unexpected.append(
                    f"{name}: ended with {run.code} at {step}, not killed: {run.error}"
                )
            return "killed"
        if step == FINISHED:
            return "too late"
        if run.code == -signal.SIGKILL:
            return "killed"
        return "survived" if run.code == 0 else "told an error"

    def recover(self, table: str) -> int:
        """Sync a table as the next run would; how many tries it took."""
        soak, watcher = self.soak, self.watchers[table]
        for number in range(1, TRIES + 1):
            run = soak.runner.run(self.order(table))
            if run.code == 0:
                soak.took(f"sync {table.rstrip('0123456789')}", run.seconds)
                soak.findings += judge.find_open(watcher, reloads=False)
                return number
            logger.info("recovery of %s failed: %s", table, run.error)
            if run.code in (None, UNEXPECTED):
                break
            time.sleep(1.0)  # the way to the server may still be cut
        soak.findings.stuck.append(
            f"round {len(soak.killed) + 1}: {table} did not recover: {run.error}"
        )
        if run.code is None:
            os.kill(run.pid, signal.SIGKILL)
            soak.runner.wait(run)
        return TRIES

    # --- the judgement ----------------------------------------------------------------------------

    def judge(self) -> Findings:
        """Nothing is written any more: every table is brought up to date, and judged."""
        soak, found = self.soak, Findings()
        for table in self.watchers:
            self.recover(table)
        with contextlib.closing(soak.source.connect()) as admin:
            surplus = dict[str, set[Any]]()
            if orders := self.watchers.get("orders"):
                surplus["orders"] = judge.surplus_of(orders, judge.keys_of(admin, orders))
                self._must("orders", "reload", found)
            for table, watcher in self.watchers.items():
                self._must(table, "recover", found)
                found += judge.find_open(watcher)
                found += judge.find_disagreements(watcher)
                found += judge.find_other_versions(watcher)
                found.orphans += [str(path) for path in judge.find_orphans(watcher)]
                stays = surplus.get(table, set())
                found += judge.find_differences(admin, watcher, stays, soak.hash_key)
                soak.rows += len(judge.keys_of(admin, watcher)) if watcher.contract.key else 0
        found += self._judge_tenants()
        return found

    def _judge_tenants(self) -> Findings:
        """All of them once more, after maintenance; nothing of one that never had a round."""
        soak, found, tenants = self.soak, Findings(), self.tenants
        if not any(kill.kill.kind == TENANTS for kill in soak.killed):
            return found
        for order in (tenants.order(), replace(tenants.order(), act="recover")):
            run = soak.runner.run(order)
            if run.code != 0:
                found.stuck.append(f"{order.act} of tenants ended with {run.code}: {run.error}")
        found += tenants.judge()
        found.orphans += tenants.orphans()
        for kind, number in tenants.changes.items():
            soak.changes[kind] = soak.changes.get(kind, 0) + number
        return found

    def _must(self, table: str, act: str, found: Findings) -> None:
        run = self.soak.runner.run(self.order(table, act))
        if run.code != 0:
            found.stuck.append(f"{act} of {table} ended with {run.code}: {run.error}")


WHERE_ALL_IS_WRITTEN = ("tenants.shown", "tenants.clean_replaced")
"""Steps of tenants' layers that only a shape, or a rule, of another type has."""
LEFT_BY_CLEAN = {
    "fold.before": ("deduped recorded, clean not",),
    "fold.committed": ("deduped recorded, clean not",),
    "fold.recorded": ("all folded, lease held",),
}


def _line(done: Killed) -> str:
    kill = done.kill
    what = f"{kill.kind} {kill.failpoint}".strip()
    return (
        f"{done.number:4} {what:24} {kill.act:6} {kill.table:7} {done.outcome:13} {done.step:28} "
        f"{done.seconds:5.1f} s, recovered in {done.recovery:4.1f} s"
        + (f" ({done.tries} tries)" if done.tries > 1 else "")
        + (f", by other hands: {' '.join(done.hand)}" if done.hand else "")
    )
