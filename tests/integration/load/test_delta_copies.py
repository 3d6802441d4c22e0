"""Full copies that write what changed: raw's chain, deduped, a rebuild from raw and MySQL are one,
whatever was written in between; and whatever is in doubt makes a complete copy.

MySQL is read and compared by the oracle, which shares no code with the engine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from demo.oracle import compare_table
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import list_branches
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.errors import CommitConflict, LakeError
from mirrorlake.ledger import Load, Receipt
from mirrorlake.load.copies import copies
from mirrorlake.load.protocol import load_run
from mirrorlake.load.raw.raw_proof import prove_raw
from mirrorlake.load.row_hashes import delta, row_index
from mirrorlake.operations.loading import next_load
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.restore_ledger import rebuild_table
from mirrorlake.proof.comparing import load_proof
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace

ROWS = 400
CONTRACT = {"mode": "full", "key": ["a", "b"], "verify": True}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 rows, too, what changed is written alone; windows as small as that."""
    monkeypatch.setattr(copies, "SMALL_ROWS", 10)
    monkeypatch.setattr(delta, "LOOKED_AT", 200)
    for name, value in {"NEAR": 4, "WIDE": 64, "PASSED": 16, "READ_AT_ONCE": 16}.items():
        monkeypatch.setattr(row_index, name, value)


@pytest.fixture
def workspace(engine_for: Callable[..., Workspace], sql: Callable[..., Any]) -> Workspace:
    make_table(sql)
    fill(sql, ROWS)
    return engine_for({"t": CONTRACT})


def make_table(sql: Callable[..., Any]) -> None:
    sql(
        "CREATE TABLE t (a INT, b VARCHAR(20) COLLATE utf8mb4_general_ci, n DECIMAL(30,4), "
        "d DOUBLE, v VARCHAR(200), at DATETIME, x BLOB, s INT UNSIGNED, PRIMARY KEY (a, b))"
    )


def fill(sql: Callable[..., Any], rows: int) -> None:
    values = ", ".join(
        f"({n}, 'k{n % 7}', {n}.5, {n}e0, REPEAT('v{n}', 5), '2024-01-01', NULL, {n})"
        for n in range(rows)
    )
    sql(f"INSERT INTO t VALUES {values}", "ANALYZE TABLE t")


def newest(workspace: Workspace) -> Load:
    return workspace.ledger.successful_loads(workspace.config.table("t").name)[-1]


def receipt(workspace: Workspace) -> Receipt:
    found = newest(workspace).receipt
    assert found is not None
    return found


def assert_deduped(workspace: Workspace, server: EmbeddedServer, database: str) -> None:
    contract = workspace.config.table("t")
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    with server.admin() as admin:
        verdict = compare_table(admin, database, "t", contract.key, deduped)
    assert verdict.equal, verdict.describe()


def assert_exact(workspace: Workspace, server: EmbeddedServer, database: str) -> None:
    """Deduped, and a rebuild of it from raw, are MySQL's rows."""
    assert_deduped(workspace, server, database)
    refold_table(workspace, workspace.config.table("t"))
    assert_deduped(workspace, server, database)


def sync(workspace: Workspace) -> Receipt:
    sync_table(workspace, workspace.config.table("t"), accept_smaller=True)
    return receipt(workspace)


@pytest.mark.full
def test_a_fold_of_what_changed_reads_keys_of_the_rest_alone(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    since = datetime.now(UTC)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(600))",
        "INSERT INTO t SELECT seq, CONCAT(SHA2(seq, 512), SHA2(-seq, 512)) FROM seq_1_to_30000",
        "ANALYZE TABLE t",
    )
    workspace = engine_for({"t": {"mode": "full", "key": ["id"], "verify": True}})
    for number in range(3):  # the second one's is Spark's first MERGE: it reads classes as well
        sync(workspace)
        sql(f"UPDATE t SET v = '{number}' WHERE id % 1000 = 7")
    sync(workspace)
    assert receipt(workspace).written == 30
    costs = workspace.ledger.costs(workspace.config.table("t").name, since)
    first, *_, last = [cost for cost in costs if cost.step == "deduped"]
    assert last.scanned is not None
    assert 0 < last.scanned < first.written / 2
    assert_exact(workspace, server, database)


def test_what_changed_is_written_once(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    first = sync(workspace)
    assert (first.rows, first.written, first.stands_on) == (ROWS, None, 0)
    base = newest(workspace).seq
    sql(
        "UPDATE t SET v = 'other' WHERE a = 7",
        "DELETE FROM t WHERE a IN (20, 300)",
        "INSERT INTO t VALUES (5, 'new', NULL, NULL, NULL, NULL, x'00', 0)",
    )
    second = sync(workspace)
    assert (second.rows, second.written, second.stands_on) == (ROWS - 1, 4, base)
    assert_exact(workspace, server, database)
    third = sync(workspace)  # nothing changed, and nothing is committed
    assert (third.rows, third.written, third.stands_on) == (ROWS - 1, 0, base)
    assert newest(workspace).snapshot_id is None
    sql("UPDATE t SET a = a + 1000 WHERE a = 9", "UPDATE t SET b = 'K3' WHERE a = 10")
    fourth = sync(workspace)
    assert (fourth.written, fourth.stands_on) == (4, base)
    assert_exact(workspace, server, database)
    assert set(list_branches(workspace.lake, raw_of(workspace))) == {"main"}
    look = prove_raw(workspace.lake, workspace.ledger, workspace.config.table("t"))
    assert look.verdict == "equal", look


def raw_of(workspace: Workspace) -> Identifier:
    return Identifier(workspace.config.table("t").namespaces.raw, newest(workspace).raw_table)


# --- histories ------------------------------------------------------------------------------------

WRITES: tuple[Callable[[random.Random], tuple[str, ...]], ...] = (
    lambda r: (f"UPDATE t SET v = 'w{r.random()}' WHERE a % 50 = {r.randrange(50)}",),
    lambda r: (f"UPDATE t SET d = -d, n = -n WHERE a % 60 = {r.randrange(60)}",),
    lambda r: (
        f"DELETE FROM t WHERE a BETWEEN {(k := r.randrange(500))} AND {k + r.randrange(80)}",
    ),
    lambda r: (
        "INSERT IGNORE INTO t VALUES "
        + ", ".join(
            f"({r.randrange(-50, 900)}, 'k{r.randrange(9)}', 1, -0e0, '', NULL, x'{n:02x}', {n})"
            for n in range(r.randrange(1, 60))
        ),
    ),
    # A key that changes, and one that changes its letters alone: one key to the server.
    lambda r: (f"UPDATE IGNORE t SET a = a + 1000 WHERE a % 40 = {r.randrange(40)}",),
    lambda r: (f"UPDATE t SET b = UPPER(b) WHERE a % 30 = {r.randrange(30)}",),
    # Two rows change their places.
    lambda r: (
        f"UPDATE t SET a = 5000 WHERE a = {(k := r.randrange(300))}",
        f"UPDATE IGNORE t SET a = {k} WHERE a = {k + 1}",
        f"UPDATE IGNORE t SET a = {k + 1} WHERE a = 5000",
    ),
    # A value without a place in its column.
    lambda r: (f"UPDATE t SET at = '0000-00-00' WHERE a % 45 = {r.randrange(45)}",),
    lambda _: ("OPTIMIZE TABLE t",),
    lambda _: ("ALTER TABLE t ADD KEY (v), DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)",),
    lambda _: ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)",),
    lambda r: ("TRUNCATE t", f"INSERT INTO t (a, b, v) VALUES (1, 'x', 'w{r.random()}')"),
    lambda _: (),
)


@pytest.mark.full
@pytest.mark.parametrize(("seed", "steps", "least"), [(2, 5, 1), (1, 14, 4), (2, 14, 2)])
def test_histories_of_writes(
    workspace: Workspace,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    seed: int,
    steps: int,
    least: int,
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    sync(workspace)
    deltas = 0
    for step in range(steps):
        for write in chance.sample(WRITES, chance.choice((1, 1, 2, 3))):
            sql(*write(chance))
        if step == 9:
            fill_again(sql)
        if chance.random() < 0.3:  # a load that nothing folds yet
            load_table(workspace, workspace.config.table("t"), accept_smaller=True)
        deltas += sync(workspace).stands_on > 0
        assert_exact(workspace, server, database)
    assert deltas >= least


def fill_again(sql: Callable[..., Any]) -> None:
    sql("DELETE FROM t")
    fill(sql, ROWS)


# --- in doubt, a complete copy --------------------------------------------------------------------


def index_file(workspace: Workspace) -> Path:
    table = workspace.lake.load(raw_of(workspace))
    told = receipt(workspace).row_index
    assert table is not None
    assert told is not None
    path = local_path(row_index.index_path(table.location(), told["name"]))
    assert path is not None
    return path


def change_one(sql: Callable[..., Any]) -> None:
    sql("UPDATE t SET s = s + 1 WHERE a = 11")


def lose(workspace: Workspace, _: pytest.MonkeyPatch) -> None:
    index_file(workspace).unlink()


def flip(workspace: Workspace, _: pytest.MonkeyPatch) -> None:
    """One bit of an entry of a row that did not change."""
    path = index_file(workspace)
    data = bytearray(path.read_bytes())
    data[24 * 200 + 20] ^= 1
    path.write_bytes(bytes(data))


def cut(workspace: Workspace, _: pytest.MonkeyPatch) -> None:
    path = index_file(workspace)
    path.write_bytes(path.read_bytes()[:-32])


def blind(_: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is taken for unchanged: what a collision of hashes would do to one."""
    match = row_index.Matcher.match

    def blinded(self: row_index.Matcher, prints: Any) -> Any:
        return match(self, prints) | True

    monkeypatch.setattr(row_index.Matcher, "match", blinded)


def forgetful(_: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is taken for gone."""
    none = np.empty((0, 2), dtype=np.uint64)
    monkeypatch.setattr(delta.Found, "gone", lambda _: none)


def eager(_: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is taken for gone that is there."""
    gone = delta.Found.gone
    monkeypatch.setattr(
        delta.Found, "gone", lambda self: np.concatenate([gone(self), [[1, 1]]]).astype(np.uint64)
    )


FAULTS: dict[str, Callable[[Workspace, pytest.MonkeyPatch], None]] = {
    "the index is lost": lose,
    "a bit of it flipped": flip,
    "its end is missing": cut,
    "a changed row is taken for unchanged": blind,
    "a key that is gone is not seen": forgetful,
    "a key is taken for gone": eager,
}


OFTEN = ("the index is lost", "a bit of it flipped", "a changed row is taken for unchanged")


@pytest.mark.full
@pytest.mark.parametrize(
    "fault", [f if f in OFTEN else pytest.param(f, marks=pytest.mark.full) for f in FAULTS]
)
def test_in_doubt_a_complete_copy_is_made(
    workspace: Workspace,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    sync(workspace)
    sql("DELETE FROM t WHERE a = 30")
    change_one(sql)
    with monkeypatch.context() as planted:
        FAULTS[fault](workspace, planted)
        found = sync(workspace)
    assert (found.rows, found.stands_on, found.written) == (ROWS - 1, 0, None)
    assert_exact(workspace, server, database)
    assert set(list_branches(workspace.lake, raw_of(workspace))) == {"main"}
    look = prove_raw(workspace.lake, workspace.ledger, workspace.config.table("t"))
    assert not look.found, look


@pytest.mark.full
def test_what_asks_for_a_complete_copy(
    workspace: Workspace, sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = workspace.config.table("t")
    sync(workspace)
    change_one(sql)
    assert sync(workspace).stands_on
    load_table(workspace, contract, complete=True)
    assert receipt(workspace).stands_on == 0
    change_one(sql)
    assert sync(workspace).stands_on
    workspace.ledger.mark_unproved(contract.name, receipt(workspace).server, "a test")
    assert sync(workspace).stands_on == 0
    change_one(sql)
    assert sync(workspace).stands_on
    monkeypatch.setattr(copies, "MOST_DELTAS", 1)
    assert sync(workspace).stands_on == 0
    sql("UPDATE t SET s = s + 1 WHERE a < 150")  # less than half
    assert sync(workspace).written == 150
    monkeypatch.setattr(copies, "MOST_DELTAS", 16)
    sql("UPDATE t SET s = s + 1 WHERE a < 150")
    assert sync(workspace).written == 150
    assert sync(workspace).stands_on == 0  # together more than half
    sql("ALTER TABLE t ADD COLUMN more INT", "UPDATE t SET more = 1 WHERE a = 3")
    assert sync(workspace).stands_on == 0
    change_one(sql)
    assert sync(workspace).stands_on
    sql("UPDATE t SET s = s + 1")  # found out by reading keys and hashes
    assert (sync(workspace).stands_on, sync(workspace).stands_on > 0) == (0, True)


# --- days, a lost ledger, orphans -----------------------------------------------------------------


@pytest.mark.full
def test_a_complete_copy_takes_the_place_of_its_day_alone(
    workspace: Workspace,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync(workspace)
    change_one(sql)
    sync(workspace)
    today = newest(workspace).window.day
    plan = next_load.plan_window

    def tomorrow(*parts: Any) -> Any:
        window = plan(*parts)
        return type(window)(window.kind, window.lo, window.hi, today + timedelta(days=1))

    monkeypatch.setattr(next_load, "plan_window", tomorrow)
    sql("DELETE FROM t WHERE a = 3")
    assert sync(workspace).stands_on
    assert rows_by_day(workspace) == {today: ROWS + 1, today + timedelta(days=1): 1}
    assert_exact(workspace, server, database)
    load_table(workspace, workspace.config.table("t"), complete=True)
    assert rows_by_day(workspace) == {today: ROWS + 1, today + timedelta(days=1): ROWS - 1}
    sync(workspace)
    assert_exact(workspace, server, database)


def rows_by_day(workspace: Workspace) -> dict[Any, int]:
    table = workspace.lake.load(raw_of(workspace))
    assert table is not None
    days: pa.Table = table.scan(selected_fields=("_mirror_day",)).to_arrow()
    return {e["values"]: e["counts"] for e in days["_mirror_day"].value_counts().to_pylist()}


@pytest.mark.full
def test_a_lost_ledger_knows_chains_again(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    contract = workspace.config.table("t")
    sync(workspace)
    for _ in range(2):
        change_one(sql)
        sync(workspace)
    before = [(x.seq, x.receipt) for x in workspace.ledger.successful_loads(contract.name)]
    forget_all(workspace)
    rebuild_table(workspace.ledger, workspace.lake, contract, "test")
    found = [(x.seq, x.receipt) for x in workspace.ledger.successful_loads(contract.name)]
    assert found == before
    assert_exact(workspace, server, database)
    change_one(sql)
    assert sync(workspace).stands_on == before[0][0]
    assert_exact(workspace, server, database)


@pytest.mark.full
def test_a_delta_that_files_alone_tell_of_is_never_taken_for_the_table(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    contract = workspace.config.table("t")
    sync(workspace)
    change_one(sql)
    sync(workspace)
    table = workspace.lake.load(raw_of(workspace))
    assert table is not None
    forget_all(workspace)
    # As after an expiry by others: no commit tells of these loads any more.
    head = table.current_snapshot()
    assert head is not None
    from mirrorlake.operations.repairing import restore_ledger

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restore_ledger, "history", lambda _: [])
        rebuild_table(workspace.ledger, workspace.lake, contract, "test")
    with pytest.raises(LakeError, match="hold what changed alone"):
        refold_table(workspace, contract)
    assert sync(workspace).stands_on == 0
    assert_exact(workspace, server, database)


def forget_all(workspace: Workspace) -> None:
    import sqlite3

    path = workspace.config.ledger.url.removeprefix("sqlite:///")
    name = workspace.config.table("t").name
    with sqlite3.connect(path) as ledger:
        for table in ("loads", "windows", "folds", "raw_files"):
            ledger.execute(f"DELETE FROM {table} WHERE table_name = ?", (name,))


def test_indexes_that_nothing_needs_are_orphans(
    workspace: Workspace, sql: Callable[..., Any]
) -> None:
    sync(workspace)
    first = index_file(workspace)
    change_one(sql)
    sync(workspace)
    assert not first.exists()
    left = index_file(workspace)
    stray = left.with_name("stray.index")
    stray.write_bytes(b"x")
    recover_table(workspace, workspace.config.table("t"), timedelta(0))
    assert left.exists()
    assert not stray.exists()
    assert datetime.now(UTC) - newest(workspace).started_at < timedelta(hours=1)


def test_another_run_that_commits_meanwhile(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    sync(workspace)
    change_one(sql)
    held = load_run.record_written

    def other(*parts: Any) -> None:
        held(*parts)
        raise CommitConflict("planted", table="t", retryable=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_run, "record_written", other)
        with pytest.raises(CommitConflict):
            sync(workspace)
    assert sync(workspace).stands_on
    assert_exact(workspace, server, database)


# --- kills ----------------------------------------------------------------------------------------

KILLED_AT = (
    *(
        "copy.compared",
        "copy.indexed",
        "chunk.written",
        "delta.found",
        "commit.before",
        "branch.made",
    ),
    *("branch.committed", "delta.proved", "branch.proved", "commit.after", "ledger.success"),
)
LOADED = """
import sys
from pathlib import Path
from mirrorlake.config import load_config
from mirrorlake.load.copies import copies
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.workspace import Workspace
copies.SMALL_ROWS = 10
config = load_config(Path(sys.argv[1]))
load_table(Workspace.open(config), config.table("t"))
"""


@pytest.mark.full
def test_kills(
    workspace: Workspace,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    sync(workspace)
    for number, failpoint in enumerate(KILLED_AT):
        # A row changes, one comes, one goes: twice, so that what the dead run saw is old.
        sql(f"UPDATE t SET v = 'k{number}' WHERE a = 50", f"DELETE FROM t WHERE a = {60 + number}")
        done = subprocess.run(
            [sys.executable, "-c", LOADED, str(workspace.config.path)],
            env={**os.environ, "MIRRORLAKE_FAILPOINT": failpoint},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, (failpoint, done.stderr[-2000:])
        sql(f"UPDATE t SET v = 'l{number}' WHERE a = 51", f"DELETE FROM t WHERE a = {90 + number}")
        found = sync(workspace)
        # A commit that nobody recorded names its index: the next copy goes on from there.
        assert found.stands_on, failpoint
        assert_exact(workspace, server, database)
    recover_table(workspace, workspace.config.table("t"), timedelta(0))
    assert [path.name for path in index_file(workspace).parent.iterdir()] == [
        index_file(workspace).name
    ]


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.full
def test_what_arrow_can_not_digest_is_digested_by_spark(
    workspace: Workspace,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values that keep their original text, on either side of the sum."""
    sync(workspace)
    asked: list[int] = []
    tally = load_proof.tally_table

    def told(spark: Callable[[], Any], *parts: Any) -> Any:
        def counted() -> Any:
            asked.append(1)
            return spark()

        return tally(counted, *parts)

    monkeypatch.setattr(copies, "tally_table", told)
    sql("UPDATE t SET at = '0000-00-00', v = NULL WHERE a < 5", "DELETE FROM t WHERE a = 8")
    assert (sync(workspace).stands_on > 0, len(asked)) == (True, 1)
    sql("UPDATE t SET n = -1, x = x'00ff' WHERE a < 3", "DELETE FROM t WHERE a = 4")
    assert (sync(workspace).stands_on > 0, len(asked)) == (True, 3)
    assert_exact(workspace, server, database)
    sql("UPDATE t SET at = '2024-05-01' WHERE a = 2")
    assert sync(workspace).originals == 3
    assert_exact(workspace, server, database)


KEYS = (
    *("BIGINT UNSIGNED", "DECIMAL(25,3)", "DECIMAL(9,2)", "VARBINARY(40)", "BINARY(16)"),
    *("CHAR(70)", "YEAR", "TINYINT", "BIT(9)", "UUID"),
)


@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    [
        k if k in ("DECIMAL(25,3)", "CHAR(70)", "UUID") else pytest.param(k, marks=pytest.mark.full)
        for k in KEYS
    ],
)
def test_keys_of_every_type_are_found_again(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    kind: str,
) -> None:
    sql(f"CREATE TABLE t (k {kind} NOT NULL, n INT NOT NULL, v INT, PRIMARY KEY (k, n))")
    values = {"YEAR": "1901 + {0}", "UUID": "UUID()"}
    made = values.get(kind.split("(")[0], "{0}")
    for n in range(90):
        sql(f"INSERT INTO t VALUES ({made.format(n)}, {n}, 0)")
    sql("ANALYZE TABLE t")
    workspace = engine_for({"t": {"mode": "full", "key": ["k", "n"], "verify": True}})
    sync(workspace)
    sql("UPDATE t SET v = 1 WHERE n IN (3, 89)", "DELETE FROM t WHERE n IN (0, 50)")
    found = sync(workspace)
    assert (found.stands_on > 0, found.rows, found.written, found.gone) == (True, 88, 4, 2)
    assert_deduped(workspace, server, database)


@pytest.mark.parametrize("contract", [{"verify": False}, {"key": ["at"]}, {"key": ["d"]}])
def test_tables_that_are_always_copied_whole(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], contract: dict[str, Any]
) -> None:
    make_table(sql)
    sql("ALTER TABLE t MODIFY at DATETIME NOT NULL, MODIFY d DOUBLE NOT NULL")
    sql("ALTER TABLE t ADD UNIQUE (at), ADD UNIQUE (d)")
    values = ", ".join(
        f"({n}, '', 1, {n}, '', '2024-01-01' + INTERVAL {n} DAY, '', 1)" for n in range(50)
    )
    sql(f"INSERT INTO t VALUES {values}", "ANALYZE TABLE t")
    workspace = engine_for({"t": CONTRACT | contract})
    for _ in range(2):
        load_table(workspace, workspace.config.table("t"))
        change_one(sql)
    assert (receipt(workspace).stands_on, receipt(workspace).row_index) == (0, None)


@pytest.mark.full
def test_a_layer_that_somebody_wrote_to_is_put_right(
    workspace: Workspace, sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    contract = workspace.config.table("t")
    sync(workspace)
    change_one(sql)
    sync(workspace)
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert deduped is not None
    head = deduped.current_snapshot()
    assert head is not None
    deduped.delete("a = 77")
    change_one(sql)
    assert sync(workspace).stands_on
    assert_deduped(workspace, server, database)
    # Set back to before the last copies.
    deduped = deduped.refresh()
    deduped.manage_snapshots().set_current_snapshot(snapshot_id=head.parent_snapshot_id).commit()
    sql("UPDATE t SET v = '' WHERE a = 90")
    assert sync(workspace).stands_on
    assert_exact(workspace, server, database)
