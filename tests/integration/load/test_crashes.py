"""A run is killed at every step of the protocol; the next sync goes on and is exact.

The killed runs are real processes, ended by SIGKILL. Windows don't overlap here: a load that was taken
for done without being so would lose its rows for good.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from demo.oracle import check_clean, compare_table
from demo.oracle_text import read_source
from mirrorlake.config import TableContract, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import history
from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
from mirrorlake.errors import CommitConflict, LakeDamaged, LeaseHeld
from mirrorlake.failpoints import (
    FAILPOINTS,
    OF_ACCESS,
    OF_BACKUPS,
    OF_BIGQUERY,
    OF_BIGQUERY_LAYOUT,
    OF_CARRIED_ROWS,
    OF_CLEAN_AT_CUT,
    OF_CLEAN_TENANTS,
    OF_CLONED_CUTS,
    OF_COPIED_FILES,
    OF_COUNTS,
    OF_CUTS,
    OF_DELTAS,
    OF_EXPECTATIONS,
    OF_FOLLOWERS,
    OF_HIDING,
    OF_LANDINGS,
    OF_LOGGED_TENANTS,
    OF_LOGS,
    OF_MODELS,
    OF_MOVED_LAYERS,
    OF_NAMED_VERSIONS,
    OF_RECORDS,
    OF_REFOLDS,
    OF_RETENTION,
    OF_SHOWN_ONE_BY_ONE,
    OF_SHOWN_TOGETHER,
    OF_SMALL_FOLDS,
    OF_SNAPSHOTS,
    OF_STREAMS,
    OF_SWAPS,
    OF_TENANTS,
    OF_VERSIONS,
    OF_WORK,
)
from mirrorlake.ledger import Ledger
from mirrorlake.load.protocol.load_run import OF_TABLES
from mirrorlake.load.raw.raw_proof import prove_raw
from mirrorlake.load.tenants.protocol import STEPS as STEPS_OF_TENANTS
from mirrorlake.merge.tenant_fold_plan import STEPS as STEPS_OF_DEDUPED
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.restore_ledger import rebuild_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.serving.tenant_clean import STEPS as STEPS_OF_CLEAN
from mirrorlake.table.progress import OnProgress, Progress
from mirrorlake.workspace import Workspace
from tests.integration import harming
from tests.integration.conftest import HASH_KEY, Place
from tests.integration.contract_files import write_contract
from tests.soak.runs import Order, Runner
from tests.support.command import COMMAND

ROOT = Path(__file__).parents[3]
DATABASE = "crashes"
NO_OVERLAP = {"overlap": "0s", "overlap_keys": 0}
TABLES: dict[str, dict[str, Any]] = {
    "orders": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "modified_at",
        "clean": "table",
        "columns": {"email": {"pii": "hash"}, "phone": {"pii": "mask"}},
        **NO_OVERLAP,
    },
    # Without a key a row that was loaded twice would be two rows.
    "visits": {"mode": "append", "cursor": "created_at", **NO_OVERLAP},
    "clicks": {"mode": "append", "key": ["id"], "cursor": "id", **NO_OVERLAP},
    "cities": {"mode": "full", "key": ["id"], "verify": True},
}
SCHEMA = (
    """CREATE TABLE orders (
        id INT AUTO_INCREMENT PRIMARY KEY, email VARCHAR(60), phone VARCHAR(20), total DECIMAL(12,2),
        modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
        KEY (modified_at))""",
    "CREATE TABLE visits (page VARCHAR(20), "
    "created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY (created_at))",
    "CREATE TABLE clicks (id BIGINT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20))",
    "CREATE TABLE cities (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40))",
)
NEEDS_SPARK = ("fold", "clean", "refold")
# Loads of these are proved before they are visible, by Spark.
PROVED = ("cities", "first_branch", "first_commit_proved")
# One round of changes of every kind that a table's mode can see.
CHANGES: dict[str, tuple[str, ...]] = {
    "orders": (
        "INSERT INTO orders (email, phone, total) VALUES "
        "('a@example.com', '+49 123 456', 1.50), (NULL, '12345', 0)",
        "UPDATE orders SET total = total + 1 ORDER BY id LIMIT 1",
        "UPDATE orders SET email = CONCAT('x', email) ORDER BY id DESC LIMIT 1",
    ),
    "visits": ("INSERT INTO visits (page) VALUES ('/'), ('/'), ('/a')",),
    "clicks": ("INSERT INTO clicks (what) VALUES ('buy'), (NULL)",),
    "cities": (
        "INSERT INTO cities (name) VALUES ('Köln'), ('Łódź')",
        "UPDATE cities SET name = CONCAT(name, '!') ORDER BY id LIMIT 1",
        "DELETE FROM cities ORDER BY id DESC LIMIT 1",
    ),
}


@dataclass
class World:
    """The source, the mirror of its tables, and the ways to move and to break both."""

    server: MariaDB
    place: Place
    config: Path
    sql: Callable[..., Any]
    fork: Callable[..., int]

    @property
    def ledger_file(self) -> Path:
        return self.place.folder / "ledger.db"

    def workspace(self) -> Workspace:
        return Workspace.open(load_config(self.config), spark=self.place.spark)

    def contract(self, table: str) -> TableContract:
        return load_config(self.config).table(table)

    def change(self, table: str) -> None:
        self.sql(*CHANGES[table])

    def ask_ledger(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The ledger's rows, past the engine."""
        with sqlite3.connect(self.ledger_file, timeout=10, isolation_level=None) as ledger:
            return ledger.execute(query, values).fetchall()


@pytest.fixture(scope="module")
def fork(runner: Runner) -> Callable[..., int]:
    """Run a sync, a reload of a day or a refold in a fork that a failpoint kills; its exit code."""

    def order(config: Path, table: str, failpoint: str, what: str = "sync") -> int:
        spark = failpoint.startswith(NEEDS_SPARK) or table.startswith(PROVED)
        days = () if what in ("sync", "refold") else (what, what)
        act = "reload" if days else what
        code = runner.run(Order(config, table, act, days, failpoint, spark)).code
        assert code is not None
        return code

    return order


@pytest.fixture(scope="module")
def world(server: MariaDB, place: Place, fork: Callable[..., int]) -> Iterator[World]:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {DATABASE}")
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")

        def sql(*statements: str) -> Any:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

        sql(*SCHEMA)
        config = write_contract(
            place.folder / "crashes.yaml",
            server.port,
            {DATABASE: {"tables": TABLES}},
            # A dead run's lease must not cost a wait.
            ledger={"url": "sqlite:///ledger.db", "wait": "1s"},
        )
        world = World(server, place, config, sql, fork)
        for table in TABLES:
            world.change(table)
            sync_table(world.workspace(), world.contract(table))
        yield world
        sql(f"DROP DATABASE {DATABASE}")


def killed_by_command_line(world: World, table: str, failpoint: str) -> int:
    done = subprocess.run(
        [*COMMAND, "sync", table, "--config", str(world.config)],
        env={**os.environ, "MIRRORLAKE_FAILPOINT": failpoint},
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return done.returncode


# --- what must hold after every crash -------------------------------------------------------------


def assert_exact(world: World, table: str) -> None:
    """Deduped and clean are MySQL's rows, raw holds each load once, the ledger has nothing open."""
    contract = world.contract(table)
    deduped = load(world.place.lake, contract.namespaces.deduped, table)
    with world.server.admin() as admin:
        verdict = compare_table(admin, DATABASE, table, contract.key, deduped)
        assert verdict.equal, verdict.describe()
        if contract.clean == "table":
            clean = load(world.place.lake, contract.namespaces.clean, table).scan().to_arrow()
            source = read_source(admin, DATABASE, table)
            rules = contract.rules
            masked = check_clean(source, contract.key, clean, rules, HASH_KEY.encode())
            assert masked.equal, masked.describe()
    assert_nothing_open(world, contract)
    assert_each_load_once(world, contract)
    # Byte by byte what the loads wrote, whichever of them died, and whichever ledger is left.
    raw = prove_raw(world.workspace().lake, world.workspace().ledger, contract)
    assert raw.verdict == "equal", raw
    assert set(raw_table(world, contract).refs()) == {"main"}


def load(lake: Lake, namespace: str, table: str) -> Any:
    found = lake.load(Identifier(namespace, table))
    assert found is not None, f"{namespace}.{table} is missing"
    return found


def raw_table(world: World, contract: TableContract) -> Any:
    ((name,),) = world.ask_ledger(
        "SELECT raw_table FROM schema_versions WHERE table_name = ?", contract.name
    )
    return load(world.place.lake, contract.namespaces.raw, name)


def assert_nothing_open(world: World, contract: TableContract) -> None:
    for kind in ("loads", "windows"):
        states = world.ask_ledger(f"SELECT state FROM {kind} WHERE table_name = ?", contract.name)
        assert {s for (s,) in states} <= {"success", "errored", "superseded", "unknown"}
    query = "SELECT owner FROM leases WHERE table_name = ?"
    assert world.ask_ledger(query, contract.name) == [("",)]
    ((unfolded,),) = world.ask_ledger(
        "SELECT COUNT(*) FROM loads l WHERE table_name = ? AND state = 'success' AND NOT EXISTS "
        "(SELECT 1 FROM folds f WHERE f.table_name = l.table_name AND f.seq = l.seq)",
        contract.name,
    )
    assert unfolded == 0


def assert_each_load_once(world: World, contract: TableContract) -> None:
    raw = raw_table(world, contract)
    shown = history(raw)  # what only a branch held is not
    ids = [s.summary.additional_properties.get("mirrorlake.load-id") for s in shown]
    ids = [load_id for load_id in ids if load_id]  # without: the start of a first branch
    assert len(ids) == len(set(ids))
    successes = world.ask_ledger(
        "SELECT load_id, snapshot_id, receipt FROM loads WHERE table_name = ? AND state = 'success'",
        contract.name,
    )
    assert {i for i, snapshot, _ in successes if snapshot is not None} == set(ids)
    if contract.mode == "full" or not contract.key:
        return  # a load replaces others' rows
    per_load: dict[str, int] = {}
    for load_id in raw.scan(selected_fields=("_mirror_load",)).to_arrow()[0].to_pylist():
        per_load[load_id] = per_load.get(load_id, 0) + 1
    receipts = {i: json.loads(r)["rows"] for i, _, r in successes}
    assert per_load == {i: rows for i, rows in receipts.items() if rows}


# --- killed at every step -------------------------------------------------------------------------


# A reload's own steps, those of a load of several chunks: see `test_resume`; those of a load that is
# proved before it is visible: below, of a table that is.
ELSEWHERE = ("reload.", "chunks.", "branch.", "commit.staged", "commit.proved")
STEPS = [step for step in FAILPOINTS if not step.startswith(ELSEWHERE)]


# `make test` kills a fork at every step of a load and right after the commit of a fold, in one mode
# each, and the command line right after a commit; `make test-full` at every step of every mode.
_OFTEN = {
    "commit.after",
    "clicks-fold.rewritten",
    *(f"cities-{step}" for step in ("commit.staged", "commit.proved")),
    *(f"cities-{step}" for step in ("branch.made", "branch.committed", "branch.proved")),
    "refold.beside-metadata-sync",
}
# Of a first load: where nothing but its own files, branch or layer is there.
_OFTEN_FIRST = {"chunk.written", "branch.committed", "fold.copied", "fold.committed"}


def _steps(*steps: Any, often: Collection[str] = _OFTEN) -> list[Any]:
    """The steps as parameters; those that are not killed at often, in full runs alone."""
    named = ((s, s if isinstance(s, str) else "-".join(s)) for s in steps)
    return [
        pytest.param(
            *((s,) if isinstance(s, str) else s),
            id=name,
            marks=[] if name in often else [pytest.mark.full],
        )
        for s, name in named
    ]


_WITH_SPARK_SELDOM = ("fold.before", "fold.committed", "fold.recorded", "clean.committed")


@pytest.mark.parametrize(
    "failpoint",
    [
        pytest.param(step, marks=pytest.mark.full) if step in _WITH_SPARK_SELDOM else step
        for step in STEPS
    ],
)
def test_killed_at_every_step(world: World, failpoint: str) -> None:
    table = "orders" if failpoint.startswith(NEEDS_SPARK) else "clicks"
    world.change(table)
    assert world.fork(world.config, table, failpoint) == -signal.SIGKILL
    world.change(table)
    sync_table(world.workspace(), world.contract(table))
    assert_exact(world, table)


@pytest.mark.parametrize("failpoint", _steps(*STEPS))
def test_the_command_line_killed(world: World, failpoint: str) -> None:
    """With it dies its JVM."""
    world.change("orders")
    assert killed_by_command_line(world, "orders", failpoint) == -signal.SIGKILL
    world.change("orders")
    sync_table(world.workspace(), world.contract("orders"))
    assert_exact(world, "orders")


# Where the mode makes a difference: what was written before the commit, a commit that nobody
# recorded (it replaced days, or the last copy), and a fold that nobody recorded.
STEPS_OF_OTHER_MODES = [
    *(("visits", f) for f in ("chunk.written", "commit.after", "ledger.success", "fold.committed")),
    *(("clicks", f) for f in ("fold.rewritten", "fold.committed")),
    *(("cities", f) for f in ("chunk.written", "commit.before", "commit.after", "fold.committed")),
    # Staged, proved: nothing of it is visible until it is committed.
    *(("cities", f) for f in ("commit.staged", "commit.proved")),
    # Made, written, proved: nothing of it is visible until main is moved.
    *(("cities", f) for f in ("branch.made", "branch.committed", "branch.proved")),
    ("cities", "ledger.success"),
    # The second passing: clean's own fold, after deduped's.
    *(("orders", f) for f in ("fold.before:2", "fold.committed:2", "fold.recorded:2")),
]


@pytest.mark.parametrize(("table", "failpoint"), _steps(*STEPS_OF_OTHER_MODES))
def test_other_modes_killed(world: World, table: str, failpoint: str) -> None:
    world.change(table)
    assert world.fork(world.config, table, failpoint) == -signal.SIGKILL
    world.change(table)
    sync_table(world.workspace(), world.contract(table))
    assert_exact(world, table)


# --- killed, and its ledger lost ------------------------------------------------------------------

# Where it makes a difference what the lake alone can tell: nothing visible, a branch that nobody can
# publish any more, a commit that nobody recorded, a fold that nobody recorded.
LOST_STEPS = [
    *(("cities", f) for f in ("branch.made", "branch.committed", "branch.proved", "commit.after")),
    ("cities", "commit.proved"),
    *(
        ("orders", f)
        for f in ("chunk.written", "commit.after", "fold.committed", "fold.committed:2")
    ),
    *(("visits", f) for f in ("chunk.written", "commit.after", "fold.committed")),
    *(
        ("clicks", f)
        for f in ("ledger.pending", "commit.after", "fold.committed", "clean.committed")
    ),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("table", "failpoint"), [pytest.param(*step, id="-".join(step)) for step in LOST_STEPS]
)
def test_killed_and_its_ledger_lost(world: World, table: str, failpoint: str) -> None:
    """Rebuilt from the lake, recovered and synced, every table is exact; so it is when that is
    killed and lost once more."""
    for again in (False, True):
        world.change(table)
        assert world.fork(world.config, table, failpoint) == -signal.SIGKILL
        lose_the_ledger(world)
        found = rebuild(world)
        assert found[table].dropped == int(failpoint.startswith("branch."))
        assert rebuild(world)[table].loads == 0
        if again:
            world.change(table)
        recover_table(world.workspace(), world.contract(table))
        sync_table(world.workspace(), world.contract(table))
        assert_exact(world, table)
    for name in TABLES:
        sync_table(world.workspace(), world.contract(name))
        assert_exact(world, name)


def lose_the_ledger(world: World) -> None:
    for path in world.place.folder.glob(f"{world.ledger_file.name}*"):
        path.unlink()


def rebuild(world: World) -> dict[str, Any]:
    config = load_config(world.config)
    ledger = Ledger(config.ledger.url)
    lake = open_lake(config, ledger, lost_ledger=True)
    found = [rebuild_table(ledger, lake, c, "rebuild") for c in config.tables]
    return {one.table.rsplit(".", 1)[1]: one for one in found}


RELOAD_STEPS = (
    "chunk.written",
    "reload.looked_up",
    "commit.before",
    "commit.after",
    "fold.committed",
)


@pytest.mark.parametrize(
    "failpoint",
    [
        f if f == "reload.looked_up" else pytest.param(f, marks=pytest.mark.full)
        for f in RELOAD_STEPS
    ],
)
def test_a_reload_killed(world: World, failpoint: str) -> None:
    """Rows of an older day: one stays, one left the day, one is gone, and one came late."""
    table = "reload_" + failpoint.replace(".", "_")
    day = datetime.now(UTC).date() - timedelta(days=2)
    world.sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, modified_at DATETIME(6) NOT NULL, "
        "KEY (modified_at))",
    )
    contract = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "5d"}
    config = write_contract(
        world.place.folder / f"{table}.yaml",
        world.server.port,
        {DATABASE: {"tables": {table: contract}}},
        ledger={"url": "sqlite:///ledger.db", "wait": "1s"},
    )
    one = World(world.server, world.place, config, world.sql, world.fork)
    sync_table(one.workspace(), one.contract(table))
    one.sql(f"INSERT INTO {table} VALUES (1,1,'{day}'), (2,1,'{day}'), (3,1,'{day}')")
    sync_table(one.workspace(), one.contract(table))
    one.sql(
        f"UPDATE {table} SET v = 2, modified_at = UTC_TIMESTAMP(6) WHERE id = 2",
        f"DELETE FROM {table} WHERE id = 3",
        f"INSERT INTO {table} VALUES (4, 1, '{day}')",
    )
    assert one.fork(config, table, failpoint, str(day)) == -signal.SIGKILL
    reload_days(one.workspace(), one.contract(table), day, day)
    fold_table(one.workspace(), one.contract(table))
    deduped = load(one.place.lake, one.contract(table).namespaces.deduped, table)
    with one.server.admin() as admin:
        verdict = compare_table(admin, DATABASE, table, ("id",), deduped)
    assert verdict.equal, verdict.describe()
    assert_nothing_open(one, one.contract(table))
    rows = raw_table(one, one.contract(table)).scan().to_arrow().to_pylist()
    small = {i for (i,) in one.ask_ledger("SELECT load_id FROM windows WHERE kind = 'live'")}
    assert not [r for r in rows if r["_mirror_day"] == day and r["_mirror_load"] in small]


# Of a table that the catalog can read, and of one that it can't; the second passing is clean's.
REFOLD_STEPS = [
    (failpoint + nth, kind, after)
    for failpoint in OF_REFOLDS
    for nth in ("", ":2")
    for kind in ("data", "manifest", "metadata")
    for after in ("refold", "sync")
    if kind == "metadata" or failpoint != "refold.beside"
]


@pytest.mark.parametrize(("failpoint", "kind", "after"), _steps(*REFOLD_STEPS))
def test_a_refold_killed(world: World, failpoint: str, kind: str, after: str) -> None:
    """Refolded again it is exact; and a sync that comes first meets either layer old, new or not
    there, and never half of one."""
    contract = world.contract("orders")
    spaces = (contract.namespaces.deduped, contract.namespaces.clean)
    for table in [load(world.place.lake, space, "orders") for space in spaces]:
        harming.harm(harming.files_of(table)[kind], "cut")
    world.change("orders")
    code = world.fork(world.config, "orders", failpoint, "refold")
    assert code == -signal.SIGKILL
    if after == "sync":
        with suppress(LakeDamaged):  # of the layer that was not come to
            sync_table(world.workspace(), contract)
    refold_table(world.workspace(), contract)
    sync_table(world.workspace(), contract)
    assert_exact(world, "orders")
    recover_table(world.workspace(), contract)
    catalog = world.place.lake.catalog
    for space in spaces:
        names = [path[-1] for path in catalog.list_tables((space,))]
        assert not [name for name in names if name.startswith("orders__")]


@pytest.mark.parametrize(
    "failpoint",
    [
        "moved.unproved",
        *(pytest.param(f, marks=pytest.mark.full) for f in ("moved.marked", "commit.after")),
        *(pytest.param(f, marks=pytest.mark.full) for f in ("fold.committed", "fold.recorded")),
    ],
)
def test_putting_right_what_other_hands_did_killed(world: World, failpoint: str) -> None:
    """The lake is an older copy than the ledger: what it lost is read again, whatever dies."""
    table = "moved_" + failpoint.replace(".", "_")
    world.sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1,1)"
    )
    config = write_contract(
        world.place.folder / f"{table}.yaml",
        world.server.port,
        {DATABASE: {"tables": {table: {"mode": "append", "key": ["id"], "cursor": "id"}}}},
        ledger={"url": "sqlite:///ledger.db", "wait": "1s"},
    )
    one = World(world.server, world.place, config, world.sql, world.fork)
    sync_table(one.workspace(), one.contract(table))
    spaces = one.contract(table).namespaces
    before = [raw_table(one, one.contract(table)), load(one.place.lake, spaces.deduped, table)]
    one.sql(f"INSERT INTO {table} VALUES (2, 2)")
    sync_table(one.workspace(), one.contract(table))
    for older in before:
        now = older.metadata_location
        older.catalog.drop_table(older.name())
        for path in Path(older.location().removeprefix("file://"), "metadata").glob("*.json"):
            if path.name > now.rpartition("/")[2]:
                path.unlink()
        older.catalog.register_table(older.name(), now)
    one.sql(f"INSERT INTO {table} VALUES (3, 3)")
    assert one.fork(config, table, failpoint) == -signal.SIGKILL
    sync_table(one.workspace(), one.contract(table))
    assert_exact(one, table)
    rows = raw_table(one, one.contract(table)).scan().to_arrow()
    assert set(rows["id"].to_pylist()) == {1, 2, 3}


@pytest.mark.full
def test_killed_three_times_in_a_row(world: World) -> None:
    """Each run finds what the one before it left, and dies a step later."""
    for failpoint in ("commit.after", "commit.before", "ledger.success"):
        world.change("orders")
        assert world.fork(world.config, "orders", failpoint) == -signal.SIGKILL
    result = sync_table(world.workspace(), world.contract("orders"))
    assert result.folded == 3  # two that were killed after their commit, and its own
    assert_exact(world, "orders")


def test_a_commit_that_nobody_recorded_is_found_not_repeated(world: World) -> None:
    world.change("clicks")
    assert world.fork(world.config, "clicks", "commit.after") == -signal.SIGKILL
    before = len(raw_table(world, world.contract("clicks")).snapshots())
    assert fold_table(world.workspace(), world.contract("clicks")) == 1
    assert len(raw_table(world, world.contract("clicks")).snapshots()) == before
    assert_exact(world, "clicks")


@pytest.mark.parametrize(
    "failpoint",
    _steps(
        *("ledger.created", "chunk.written", "commit.after", "branch.committed", "commit.proved"),
        # A layer that is made of copies of files: between every two of its steps.
        *("fold.before", "fold.copied", "fold.committed", "fold.recorded", "clean.committed"),
        often=_OFTEN_FIRST,
    ),
)
def test_the_very_first_load_killed(world: World, failpoint: str) -> None:
    """Nothing is there yet but what the killed run made."""
    table = "first_" + failpoint.replace(".", "_")
    verify = table.startswith(PROVED)
    contract = {"mode": "append", "key": ["id"], "cursor": "id", "verify": verify}
    world.sql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1,1)"
    )
    config = write_contract(
        world.place.folder / f"{table}.yaml",
        world.server.port,
        {DATABASE: {"tables": {table: contract}}},
        ledger={"url": "sqlite:///ledger.db", "wait": "1s"},
    )
    first = World(world.server, world.place, config, world.sql, world.fork)
    assert first.fork(config, table, failpoint) == -signal.SIGKILL
    first.sql(f"INSERT INTO {table} VALUES (2, 2)")
    sync_table(first.workspace(), first.contract(table))
    assert_exact(first, table)


def test_files_of_killed_loads_are_orphans_by_the_ledgers_word(world: World) -> None:
    """A data file that no snapshot names carries the id of a load that is not a success."""
    world.change("clicks")
    assert world.fork(world.config, "clicks", "chunk.written") == -signal.SIGKILL
    sync_table(world.workspace(), world.contract("clicks"))
    contract = world.contract("clicks")
    raw = raw_table(world, contract)
    named = {row["file_path"] for row in raw.inspect.all_files().to_pylist()}
    named = {str(path).removeprefix("file://") for path in named}
    data = Path(raw.location().removeprefix("file://")) / "data"
    orphans = {p.name for p in data.rglob("*.parquet") if str(p) not in named}
    assert orphans
    query = "SELECT load_id || '-' || attempt FROM loads WHERE table_name = ? AND state = 'success'"
    kept = tuple(f"{name}-" for (name,) in world.ask_ledger(query, contract.name))
    assert not [name for name in orphans if name.startswith(kept)]


def test_every_failpoint_of_the_engine_is_listed() -> None:
    texts = (p.read_text() for p in (ROOT / "mirrorlake").rglob("*.py"))
    used = [name for text in texts for name in re.findall(r'failpoint\("([^"]+)"\)', text)]
    used += [*OF_TABLES, *STEPS_OF_TENANTS, *STEPS_OF_DEDUPED, *STEPS_OF_CLEAN]
    # A snapshot is staged in either of two ways.
    assert sorted(set(used)) == sorted(
        (
            *(*FAILPOINTS, *OF_CARRIED_ROWS, *OF_DELTAS, *OF_SNAPSHOTS, *OF_LANDINGS, *OF_REFOLDS),
            *OF_COPIED_FILES,
            *OF_SMALL_FOLDS,
            *OF_COUNTS,
            *OF_HIDING,
            *OF_SWAPS,
            *OF_TENANTS,
            *OF_CLEAN_TENANTS,
            *OF_MODELS,
            *OF_EXPECTATIONS,
            *OF_RETENTION,
            *OF_WORK,
            *OF_VERSIONS,
            *OF_MOVED_LAYERS,
            *OF_STREAMS,
            *OF_LOGS,
            *OF_LOGGED_TENANTS,
            *OF_FOLLOWERS,
            *OF_CUTS,
            *OF_CLONED_CUTS,
            *OF_CLEAN_AT_CUT,
            *OF_SHOWN_TOGETHER,
            *OF_SHOWN_ONE_BY_ONE,
            *OF_RECORDS,
            *OF_BIGQUERY,
            *OF_BIGQUERY_LAYOUT,
            *OF_NAMED_VERSIONS,
            *OF_ACCESS,
            *OF_BACKUPS,
        )
    )
    assert len([name for name in used if name in FAILPOINTS]) == len(FAILPOINTS)


# --- leases, conflicts, lost words ----------------------------------------------------------------


def at_the_end(act: Callable[[], None]) -> OnProgress:
    """A progress report that acts once all chunks are read, just before the commit."""

    def report(seen: Progress) -> None:
        if seen.ended:
            act()

    return report


def expire(world: World, table: str) -> None:
    world.ask_ledger(
        "UPDATE leases SET expires_at = '2000-01-01 00:00:00.000000' WHERE table_name = ?",
        world.contract(table).name,
    )


def files_of(world: World, table: str) -> set[Path]:
    raw = raw_table(world, world.contract(table))
    return set((Path(raw.location().removeprefix("file://")) / "data").rglob("*.parquet"))


def test_a_stalled_owner_commits_nothing_after_its_lease_was_taken(world: World) -> None:
    contract = world.contract("clicks")
    ledger = Ledger(f"sqlite:///{world.ledger_file}")
    world.change("clicks")
    head, files = raw_table(world, contract).current_snapshot(), files_of(world, "clicks")

    def take_over() -> None:
        expire(world, "clicks")
        with ledger.lease(contract.name, "the other run"):
            pass

    with pytest.raises(LeaseHeld):
        load_table(world.workspace(), contract, at_the_end(take_over))
    assert raw_table(world, contract).current_snapshot() == head
    assert files_of(world, "clicks") == files
    sync_table(world.workspace(), contract)
    assert_exact(world, "clicks")


def test_a_moved_parent_is_a_conflict_that_leaves_nothing(world: World) -> None:
    contract = world.contract("clicks")
    world.change("clicks")
    files = files_of(world, "clicks")

    def move() -> None:
        raw = raw_table(world, contract)
        raw.append(raw.scan().to_arrow().slice(0, 0), {"moved-by": "the test"})

    with pytest.raises(CommitConflict) as caught:
        load_table(world.workspace(), contract, at_the_end(move))
    assert caught.value.retryable
    raw = raw_table(world, contract)
    assert raw.current_snapshot().summary.additional_properties["moved-by"] == "the test"
    assert files_of(world, "clicks") - files == set()
    ((state,),) = world.ask_ledger(
        "SELECT state FROM loads WHERE table_name = ? ORDER BY seq DESC LIMIT 1", contract.name
    )
    assert state == "errored"
    sync_table(world.workspace(), contract)
    deduped = load(world.place.lake, contract.namespaces.deduped, "clicks")
    with world.server.admin() as admin:
        verdict = compare_table(admin, DATABASE, "clicks", contract.key, deduped)
    assert verdict.equal, verdict.describe()


@pytest.mark.full
def test_a_committed_load_that_was_written_down_as_failed(world: World) -> None:
    """The commit landed, its answer was lost: the table's history knows better than the ledger."""
    world.change("orders")
    contract = world.contract("orders")
    lost = load_table(world.workspace(), contract)
    for kind in ("loads", "windows"):
        world.ask_ledger(f"UPDATE {kind} SET state = 'errored' WHERE load_id = ?", lost.load_id)
    world.ask_ledger(
        "UPDATE loads SET snapshot_id = NULL, receipt = NULL WHERE load_id = ?", lost.load_id
    )
    result = sync_table(world.workspace(), contract)
    assert result.settled == 1
    assert result.rows == 0  # it began where the found one ended
    assert_exact(world, "orders")
