"""Any history of changes, loads, reloads, folds and crashes: the mirror is what the rules say.

A Hypothesis state machine drives the real engine beside a model that knows no engine: for each key,
the version that a load last read (`seen`). After every step deduped is exactly what was seen when
it was last folded, the ledger and the lake agree, and nothing that was committed since the last
window was left behind it. At the end everything is settled, and the mirror is MySQL's, but for the
deleted keys that the documents say stay.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from demo.oracle import compare_table
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.model import snapshot_property
from mirrorlake.errors import SchemaError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.changes.change_stamps import BLUR
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.soak import judge
from tests.soak.runs import Order, Runner
from tests.soak.steps import Watcher

Row = dict[str, Any]
CONTRACT = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "0s"}
DAYS = 3
BEFORE_THE_FOLD = (
    "ledger.created",
    "ledger.pending",
    "chunk.written",
    "reload.looked_up",
    "commit.before",
    "commit.after",
    "ledger.success",
)
IN_THE_FOLD = ("fold.before", "fold.committed", "fold.recorded", "clean.committed")
RULES = {
    *("insert", "update", "delete", "late commit", "clock back", "clock ahead", "add column"),
    *("load", "sync", "unchanged", "reload", "fold", "retry", "recover"),
    *("crash while loading", "crash while folding"),
}
"""What `make test-full` must have done at least once, with an effect."""
_numbers = itertools.count()


@dataclass(frozen=True)
class World:
    """What all histories share."""

    server: MariaDB
    place: Place
    database: str
    runner: Runner
    crash_folds: bool
    """Whether folds are killed too: that takes a JVM of the runner's own."""
    taken: Counter[str] = field(default_factory=Counter[str])
    """How often each rule had an effect."""


class Histories(RuleBasedStateMachine):
    """One table and everything that can happen to it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.table = f"t{next(_numbers)}"
        self.app = world.server.admin(world.database)
        self.late = world.server.admin(world.database)
        for session in (self.app, self.late):
            session.query("SET time_zone = '+00:00', sql_mode = ''")
        self.app.query(
            f"CREATE TABLE {self.table} (id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL, "
            "modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) "
            "ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))"
        )
        self.config = write_contract(
            world.place.folder / f"{world.database}_{self.table}.yaml",
            world.server.port,
            {world.database: {"tables": {self.table: CONTRACT}}},
            ledger={"url": "sqlite:///ledger.db", "wait": "10s"},
        )
        config = load_config(self.config)
        self.contract = config.table(f"s.{world.database}.{self.table}")
        self.workspace = Workspace.open(config, spark=world.place.spark)
        self.watcher = Watcher(world.place.folder / "ledger.db", world.place.lake, self.contract)
        self.value = 0
        self.columns = 0
        self.is_late_open = False
        self.is_new_version = True
        self.seen: dict[int, Row] = {}
        self.folded: dict[int, Row] = {}
        self.due: set[int] = set()
        """Keys whose commit no load has read yet, stamped by the server's own clock or a later one."""
        self.loads = 0
        self.was_killed = False
        """Whether a run was killed since the last one that went on."""
        self.planned: list[tuple[str, dict[int, Row], dict[int, set[date]]]] = []

    # --- the application --------------------------------------------------------------------------

    @initialize(rows=st.integers(0, 4))
    def first_rows(self, rows: int) -> None:
        for _ in range(rows):
            self.insert()

    @rule()
    def insert(self) -> None:
        self._write("INSERT INTO {} (v) VALUES ({})")
        self.due.add(self._newest())
        self.world.taken["insert"] += 1

    @rule(at=st.integers(0, 50))
    def update(self, at: int) -> None:
        self._change(at, "UPDATE {} SET v = {} WHERE id = {}", "update")

    @rule(at=st.integers(0, 50))
    def delete(self, at: int) -> None:
        if (key := self._pick(at)) is not None:
            self.app.query(f"DELETE FROM {self.table} WHERE id = {key}")
            self.due.discard(key)
            self.world.taken["delete"] += 1

    @rule(at=st.integers(0, 50), back=st.sampled_from([3, 7_200, 86_400, 2 * 86_400]))
    def update_by_a_clock_that_is_behind(self, at: int, back: int) -> None:
        """What it stamps lies behind the window: only a reload of that day must find it."""
        statement = "UPDATE {} SET v = {} WHERE id = {}"
        self._at_clock(-back, lambda: self._change(at, statement, "clock back"))
        if (key := self._pick(at)) is not None:
            self.due.discard(key)

    @rule(ahead=st.sampled_from([5, 3_600]))
    def insert_by_a_clock_that_is_ahead(self, ahead: int) -> None:
        self._at_clock(ahead, self.insert)
        self.world.taken["clock ahead"] += 1

    @precondition(lambda self: not self.is_late_open)
    @rule()
    def begin_late(self) -> None:
        """A transaction that stamps now, and commits when others have gone on."""
        self.value += 1
        self.late.begin()
        self.late.query(f"INSERT INTO {self.table} (v) VALUES ({self.value})")
        self.late_key = self._ask("SELECT LAST_INSERT_ID()", self.late)[0][0]
        self.is_late_open = True

    @precondition(lambda self: self.is_late_open)
    @rule()
    def commit_late(self) -> None:
        self.late.commit()
        self.is_late_open = False
        self.due.add(self.late_key)
        self.world.taken["late commit"] += 1

    @precondition(lambda self: not self.is_late_open and self.columns < 2)
    @rule()
    def add_column(self) -> None:
        """Every row has the default at once, and no cursor moves."""
        self.columns += 1
        name = f"c{self.columns}"
        self.app.query(f"ALTER TABLE {self.table} ADD COLUMN {name} INT DEFAULT {self.columns}")
        self.is_new_version = True
        self.world.taken["add column"] += 1

    # --- the mirror -------------------------------------------------------------------------------

    @rule()
    def load(self) -> None:
        self._expect_load(lambda: load_table(self.workspace, self.contract))
        self._went_on("load")

    @rule()
    def sync(self) -> None:
        self._expect_load(lambda: sync_table(self.workspace, self.contract))
        self._went_on("sync")
        self.folded = dict(self.seen)

    @rule(waits=st.booleans())
    def sync_what_moved(self, waits: bool) -> None:
        """What the server shows to be unchanged is not read."""
        if waits:
            time.sleep(BLUR.total_seconds() + 0.3)
        look = look_at(self.workspace.config, self.workspace.ledger, [self.contract])
        self._expect_load(lambda: sync_table(self.workspace, self.contract, look=look))
        self._went_on("unchanged" if look.unchanged else "sync")
        self.folded = dict(self.seen)
        if look.unchanged and not self.is_late_open:
            assert not self.due, "what was committed since the last window was left"

    @rule()
    def fold(self) -> None:
        if self.is_new_version and self.loads:
            with pytest.raises(SchemaError):
                fold_table(self.workspace, self.contract)
            return
        fold_table(self.workspace, self.contract)
        self._take_committed()
        self.folded = dict(self.seen)
        self._went_on("fold")

    @rule(first=st.integers(0, DAYS), days=st.integers(0, DAYS))
    def reload(self, first: int, days: int) -> None:
        begin = self._today() - timedelta(days=first)
        end = min(begin + timedelta(days=days), self._today())
        self._expect_load(lambda: reload_days(self.workspace, self.contract, begin, end))
        self._went_on("reload")

    @rule(point=st.sampled_from(BEFORE_THE_FOLD), back=st.none() | st.integers(0, DAYS))
    def crash_while_loading(self, point: str, back: int | None) -> None:
        """Killed at a line of the protocol, in a process of its own."""
        days: tuple[str, str] | tuple[()] = ()
        if back is not None and self.loads:
            days = ((self._today() - timedelta(days=back)).isoformat(), self._today().isoformat())
        # Without Spark the runner's reload does not fold.
        act = "reload" if days else "load"
        order = Order(self.config, self.contract.name, act, days, point, spark=False)
        self._expect_load(lambda: self._killed(order, point))

    @precondition(lambda self: self.world.crash_folds and self.loads and not self.is_new_version)
    @rule(point=st.sampled_from(IN_THE_FOLD))
    def crash_while_folding(self, point: str) -> None:
        # Something must be there to be folded, else no point is passed.
        self.insert()
        self.load()
        order = Order(self.config, self.contract.name, "fold", (), point)
        run = self.world.runner.run(order)
        assert run.code in (0, -signal.SIGKILL), run.error
        self._note_kill(run.code, "crash while folding", point)
        self._take_committed()
        whole = [] if run.code == 0 else [self.folded]
        whole += [] if run.code and point == "fold.before" else [dict(self.seen)]
        # A layer that is written under another name is shown once it has taken its own.
        shown = self._shown()
        assert shown in whole
        self.folded = shown

    @rule()
    def recover(self) -> None:
        recover_table(self.workspace, self.contract, timedelta())
        self._take_committed()
        assert not judge.find_orphans(self.watcher)
        self.world.taken["recover"] += 1

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def deduped_is_what_was_seen_when_it_was_folded(self) -> None:
        """So: no key twice, no row that MySQL never had, none lost."""
        assert self._shown() == self.folded

    def _shown(self) -> dict[int, Row]:
        """What readers of deduped have, by key."""
        table = self.watcher.layer("deduped")
        rows = table.scan().to_arrow().to_pylist() if table is not None else []
        found = {row["id"]: _known(row) for row in rows}
        assert len(found) == len(rows)
        return found

    @invariant()
    def ledger_and_lake_agree(self) -> None:
        found = judge.find_disagreements(self.watcher)
        # A commit that nobody has recorded yet is known: its window is.
        pending = {i for (i,) in self.watcher.ask(_OPEN, "pending")}
        unknown = [text for text in found.doubled if not any(i in text for i in pending)]
        assert not [*found.lost, *unknown]

    def teardown(self) -> None:
        try:
            if self.is_late_open:
                self.commit_late()
            self._settle_everything()
        finally:
            self.app.close()
            self.late.close()

    def _settle_everything(self) -> None:
        self.sync()
        surplus = judge.surplus_of(self.watcher, {(str(key),) for key in self._current()})
        today = self._today()
        days = (today - timedelta(days=DAYS), today + timedelta(days=1))
        self._expect_load(lambda: reload_days(self.workspace, self.contract, *days))
        self.fold()
        self.deduped_is_what_was_seen_when_it_was_folded()
        self.recover()
        found = judge.find_open(self.watcher)
        found += judge.find_disagreements(self.watcher)
        assert found.none, found
        with self.world.server.admin() as admin:
            name, key = self.contract.database, self.contract.key
            verdict = compare_table(admin, name, self.table, key, self.watcher.layer("deduped"))
        assert verdict.equal_but_for(surplus), (surplus, verdict.describe())

    # --- the model --------------------------------------------------------------------------------

    def _expect_load(self, act: Callable[[], Any]) -> None:
        """Act, and let the model see what the window that it made was to read."""
        self._take_committed()
        current, held = self._current(), self._held()
        windows = self.watcher.last_window()
        act()
        made = self.watcher.ask(_WINDOWS)[windows:]
        self.planned = [(load_id, current, held) for load_id, *_ in made]
        self._take_committed()

    def _take_committed(self) -> None:
        """What the lake holds of the windows that were made: it counts, whatever the run says."""
        if not self.planned:
            return
        done = {load_id for (load_id,) in self.watcher.ask(_OPEN, "success")}
        done |= {
            snapshot_property(snapshot, LOAD_ID)
            for table in self.watcher.raw_tables()
            for snapshot in table.snapshots()
        }
        for load_id, current, held in self.planned:
            if load_id in done:
                self._see(load_id, current, held)
        self.planned = []

    def _see(self, load_id: str, current: dict[int, Row], held: dict[int, set[date]]) -> None:
        kind, lo, hi = next(w[1:] for w in self.watcher.ask(_WINDOWS) if w[0] == load_id)
        self.loads += 1
        if kind == "reload":
            first, last = date.fromisoformat(lo), date.fromisoformat(hi)
            read = {k: r for k, r in current.items() if first <= r["modified_at"].date() < last}
            moved = {k for k, days in held.items() if any(first <= d < last for d in days)}
            for key in moved - read.keys():
                if key in current:
                    read[key] = current[key]
                else:
                    self.seen.pop(key, None)
            self.seen |= read
            self.due -= read.keys()
            return
        begin = datetime.min if lo is None else datetime.fromisoformat(lo)  # noqa: DTZ901
        self.is_new_version = False
        left = {k for k in self.due if k in current and current[k]["modified_at"] < begin}
        assert not left, f"window from {lo} leaves {left} behind"
        self.seen |= {k: r for k, r in current.items() if r["modified_at"] >= begin}
        self.due -= current.keys()

    def _held(self) -> dict[int, set[date]]:
        """For each key, the days under which raw holds it by a load of an open day."""
        kinds = {i: (kind, date.fromisoformat(d)) for i, kind, d in self.watcher.ask(_KINDS)}
        held: dict[int, set[date]] = {}
        for table in self.watcher.raw_tables():
            rows = table.scan(selected_fields=("id", "_mirror_load", "_mirror_day")).to_arrow()
            for row in rows.to_pylist():
                kind, day = kinds[row["_mirror_load"]]
                if kind == "live" or (kind == "initial" and row["_mirror_day"] >= day):
                    held.setdefault(row["id"], set()).add(row["_mirror_day"])
        return held

    # --- small steps ------------------------------------------------------------------------------

    def _killed(self, order: Order, point: str) -> None:
        run = self.world.runner.run(order)
        # A load without rows, or a reload that replaces nothing, does not pass every point.
        assert run.code in (0, -signal.SIGKILL), (point, run.error)
        self._note_kill(run.code, "crash while loading", point)

    def _note_kill(self, code: int, rule: str, point: str) -> None:
        if code == -signal.SIGKILL:
            self.was_killed = True
            self.world.taken[rule] += 1
            self.world.taken[f"killed at {point}"] += 1

    def _went_on(self, rule: str) -> None:
        """A run that was not killed; after one that was, it is its retry."""
        self.world.taken[rule] += 1
        if self.was_killed:
            self.world.taken["retry"] += 1
            self.was_killed = False

    def _ask(self, query: str, session: Any = None) -> list[tuple[Any, ...]]:
        with (session or self.app).cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def _current(self) -> dict[int, Row]:
        with self.app.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.table}")
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return {row["id"]: _known(row) for row in rows}

    def _pick(self, at: int) -> int | None:
        keys = sorted(self._current())
        return keys[at % len(keys)] if keys else None

    def _newest(self) -> int:
        return int(self._ask("SELECT LAST_INSERT_ID()")[0][0])

    def _write(self, statement: str, *more: Any) -> None:
        self.value += 1
        self.app.query(statement.format(self.table, self.value, *more))

    def _change(self, at: int, statement: str, rule: str) -> None:
        if (key := self._pick(at)) is not None:
            self._write(statement, key)
            self.due.add(key)
            self.world.taken[rule] += 1

    def _at_clock(self, offset: int, act: Callable[[], None]) -> None:
        """As an application whose clock is off writes."""
        self.app.query(f"SET TIMESTAMP = UNIX_TIMESTAMP(SYSDATE(6)) + ({offset})")
        try:
            act()
        finally:
            self.app.query("SET TIMESTAMP = DEFAULT")

    @staticmethod
    def _today() -> date:
        return datetime.now(UTC).date()


_OPEN = "SELECT load_id FROM loads WHERE table_name = ? AND state = ?"
_KINDS = "SELECT load_id, kind, day FROM windows WHERE table_name = ?"
_WINDOWS = "SELECT load_id, kind, lo, hi FROM windows WHERE table_name = ? ORDER BY rowid"


def _known(row: Row) -> Row:
    """A row without NULLs: a column that came later is NULL in what was seen before it.

    PyIceberg reads no originals as an empty list.
    """
    return {name: value for name, value in row.items() if value is not None and value != []}


@pytest.fixture
def world(mariadb: MariaDB, place: Place, database: str, runner: Runner) -> World:
    return World(mariadb, place, database, runner, crash_folds=False)


def run_histories(world: World, examples: int, steps: int, number: int | None = None) -> None:
    """So many histories; always the same ones where a number is given."""

    def make() -> Histories:
        return Histories(world)

    found = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        # Shrinking a failure here costs minutes, and its steps are told anyway.
        phases=[Phase.generate],
    )
    run_state_machine_as_test(make if number is None else seed(number)(make), settings=found)


@pytest.mark.full
def test_histories(world: World) -> None:
    """The first one is always the simplest."""
    run_histories(world, 3, 12, number=1)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_histories(world: World) -> None:
    """Others each time, with folds that are killed."""
    more = World(world.server, world.place, world.database, world.runner, crash_folds=True)
    run_histories(more, 60, 25)
    print(f"rules that had an effect: {dict(sorted(more.taken.items()))}")
    assert not RULES - more.taken.keys()
