"""`mirrorlake follow`: what is committed is in clean a moment later, exactly once, whatever dies."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest
from click.testing import CliRunner, Result

from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.operations.following import follower
from mirrorlake.operations.following.followed_round import FollowedRound
from mirrorlake.operations.following.followed_tables import followed_tables
from mirrorlake.operations.following.follower import FollowTerms, follow_source
from mirrorlake.operations.following.log_owner import is_followed
from mirrorlake.operations.other_writers import moved_lake
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
from mirrorlake.workspace import Workspace
from tests.integration.conftest import USER, Place, share_session
from tests.integration.hands import LakePart, set_back
from tests.integration.operations.test_follow_log import (
    LOG,
    TABLE,
    assert_equal,
    kinds,
    raw_rows,
    sync_all,
    two_loads,
)
from tests.soak.runs import Order, Runner
from tests.support.postgres import running_postgres

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
SECONDS = 300.0
PROGRAM = [sys.executable, "-c", "from mirrorlake.cli.main import main; main()"]


class Following:
    """A follower in a thread."""

    def __init__(
        self, workspace: Workspace, terms: FollowTerms | None = None, source: str = "s"
    ) -> None:
        self.workspace, self.source, self.stop = workspace, source, threading.Event()
        self.rounds: list[FollowedRound] = []
        self.waits: list[str] = []
        self.error: BaseException | None = None
        self._terms, self._seen = terms, 0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        parts = (self.stop, self.rounds.append, self.waits.append, self._terms)
        try:
            follow_source(self.workspace, self.source, *parts)
        except BaseException as error:  # noqa: BLE001 - the test's thread looks at it
            self.error = error

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def until(self, holds: Callable[[], bool], seconds: float = SECONDS) -> None:
        deadline, pause = time.monotonic() + seconds, 0.05
        while not holds():
            assert self.error is None
            assert time.monotonic() < deadline, (self.rounds[-3:], self.waits)
            time.sleep(pause)
            pause = min(1.5 * pause, 0.4)  # to look takes what the follower needs

    def caught_up(self, rows: int) -> None:
        """Wait until so many rows have come since the last wait."""
        self.until(lambda: sum(sum(one.rows.values()) for one in self.rounds[self._seen :]) >= rows)
        self._seen = len(self.rounds)


@contextmanager
def following(
    workspace: Workspace, terms: FollowTerms | None = None, source: str = "s"
) -> Iterator[Following]:
    found = Following(workspace, terms, source)
    found.start()
    try:
        yield found
    finally:
        found.end()


def follow_once(workspace: Workspace) -> list[FollowedRound]:
    rounds: list[FollowedRound] = []
    terms = FollowTerms(once=True)
    follow_source(workspace, "s", threading.Event(), rounds.append, lambda _: None, terms)
    return rounds


def test_changes_arrive_while_it_runs(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), TABLE.format("u"), "INSERT INTO t (id) VALUES (1), (2)")
    workspace = engine_for({"t": LOG, "u": LOG})
    with following(workspace) as running:
        running.caught_up(2)
        assert is_followed(workspace.ledger, "s")
        # In one transaction: a round may end between two.
        sql(
            *("BEGIN", "INSERT INTO t (id) VALUES (3)", "DELETE FROM t WHERE id = 1"),
            *("UPDATE t SET amount = 1", "COMMIT"),
        )
        running.caught_up(3)
        assert_equal(workspace, server, "t", "u")
        sql("INSERT INTO u (id) VALUES (7)")
        running.caught_up(1)
        assert_equal(workspace, server, "t", "u")
    assert not is_followed(workspace.ledger, "s")
    assert not running.waits
    assert all(one.reached and not one.failed for one in running.rounds)
    assert kinds(workspace, "t") == ["initial", "log"]
    found = sync_all(workspace)
    assert {one.window for one in found.values()} == {"unchanged"}


@pytest.mark.full
def test_a_table_that_is_altered_or_added_is_read_while_others_go_on(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), TABLE.format("u"), TABLE.format("late"))
    workspace = engine_for({"t": LOG, "u": LOG})
    sync_all(workspace)
    edited = [engine_for({"t": LOG, "u": LOG, "late": LOG}).config]
    begun = threading.Event()
    terms = FollowTerms(reload=lambda: edited.pop() if edited and begun.is_set() else None)
    with following(workspace, terms) as running:
        sql("ALTER TABLE t ADD COLUMN more INT DEFAULT 7", "INSERT INTO u (id) VALUES (1)")
        running.until(lambda: any("t" in str(one.changed) for one in running.rounds))
        sql("INSERT INTO t (id, more) VALUES (1, 8)", "DELETE FROM u WHERE id = 1")
        running.caught_up(3)
        sql("INSERT INTO late (id) VALUES (1)")
        begun.set()
        running.until(lambda: any("late" in str(one.changed) for one in running.rounds))
        sql("INSERT INTO late (id) VALUES (2)", "UPDATE t SET more = 9")
        running.caught_up(2)
    other = engine_for({"t": LOG, "u": LOG, "late": LOG})
    assert_equal(other, server, "t", "u", "late")
    assert (kinds(other, "u")[0], set(kinds(other, "u")[1:])) == ("initial", {"log"})


@contextmanager
def busy(server: EmbeddedServer, threads: int) -> Iterator[None]:
    """A server that has so much to do: a copy of ours waits, its log does not."""
    over = threading.Event()
    begun = threading.Barrier(threads + 1)

    def work() -> None:
        with server.admin() as admin, admin.cursor() as cursor:
            begun.wait(60)
            while not over.is_set():
                cursor.execute("SELECT SLEEP(3)")  # few gaps, however busy this machine is

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    begun.wait(60)
    try:
        yield
    finally:
        over.set()
        for thread in running:
            thread.join()


def test_tables_are_followed_while_another_is_copied(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), TABLE.format("large"), "INSERT INTO large (id) VALUES (1), (2)")
    slow = {"back_off": {"threads_running": 15, "wait": "10m"}}
    workspace = engine_for({"t": LOG}, slow)
    sync_all(workspace)
    edited = [engine_for({"t": LOG, "large": LOG}, slow).config]
    name = edited[0].table("large").name
    ledger = workspace.ledger
    terms = FollowTerms(reload=lambda: edited.pop() if edited else None)
    with following(workspace, terms) as running:
        with busy(server, 40):
            running.until(lambda: ledger.last_load(name, "pending") is not None)
            for number in range(2):
                sql(f"INSERT INTO t (id) VALUES ({number})", "INSERT INTO large (id) VALUES (10)")
                running.caught_up(1)
                assert_equal(workspace, server)
                sql("DELETE FROM large WHERE id = 10")
            assert ledger.last_load(name, "success") is None, "it is being copied still"
            assert running.rounds[-1].left_out == (name,)
        running.until(lambda: running.rounds[-1].left_out == ())
        running.caught_up(2)
        sql("INSERT INTO large (id) VALUES (11)", "INSERT INTO t (id) VALUES (11)")
        running.caught_up(2)
    other = engine_for({"t": LOG, "large": LOG})
    assert_equal(other, server, "t", "large")
    assert kinds(other, "large")[0] == "initial"
    assert kinds(other, "large").count("initial") == 1


@pytest.mark.parametrize("how", ["once", "while it runs"])
def test_a_layer_that_others_set_back_is_put_right_while_mysql_is_quiet(
    server: EmbeddedServer,
    place: Place,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    monkeypatch.setattr(moved_lake, "LOOKED_EVERY", 0.5)
    workspace = two_loads(sql, engine_for)
    contract = workspace.config.table("t")
    deduped = LakePart(place, Identifier(contract.namespaces.deduped, contract.table))

    def others_set_back() -> None:
        set_back(deduped)
        assert deduped.load().scan().to_arrow().num_rows == 1

    if how == "once":
        others_set_back()
        follow_once(workspace)
    else:
        with following(workspace) as running:
            running.until(lambda: len(running.rounds) == 1)
            others_set_back()
            running.until(lambda: "set forward again" in str([r.changed for r in running.rounds]))
    assert_equal(workspace, server)
    assert kinds(workspace, "t") == ["initial", "log"]


def test_a_server_that_is_lost_is_waited_for(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"))
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    with following(workspace) as running:
        running.until(lambda: len(running.rounds) == 1)
        for (number,) in sql(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s", values=(USER,)
        ):
            with contextlib.suppress(pymysql.Error):
                sql(f"KILL {number}")
        sql("INSERT INTO t (id) VALUES (1)")
        running.until(lambda: bool(running.waits))
        running.caught_up(1)
    assert "Tried again in 1 s" in running.waits[0]
    assert_equal(workspace, server)


@pytest.mark.full
def test_followers_and_syncs_side_by_side(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that both read on, as after one was stalled for longer than its lease."""
    number = iter(range(9))
    monkeypatch.setattr(follower, "follower_lease", lambda source: f"{source}-{next(number)}")
    sql(TABLE.format("t"), TABLE.format("u"))
    workspace = engine_for({"t": LOG, "u": LOG})
    sync_all(workspace)
    with (
        Workspace.open(workspace.config, spark=workspace.spark) as other,
        following(workspace) as one,
        following(other) as two,
    ):
        for part in range(3):
            for name in "tu":
                ids = ", ".join(f"({n})" for n in range(part * 10, part * 10 + 10))
                sql(f"INSERT INTO {name} (id) VALUES {ids}")
            with contextlib.suppress(AssertionError):  # another run may have a table
                sync_all(workspace)
        for running in (one, two):
            running.until(lambda running=running: len(running.rounds) > 1)
    sync_all(workspace)
    assert_equal(workspace, server, "t", "u")
    for name in "tu":
        rows = raw_rows(workspace, workspace.config.table(name))
        assert Counter(row["id"] for row in rows) == Counter(range(30))


def test_a_second_follower_stands_by(sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE.format("t"))
    workspace = engine_for({"t": LOG})
    with following(workspace) as first:
        first.until(lambda: bool(first.rounds))
        with (
            Workspace.open(workspace.config, spark=workspace.spark) as other,
            following(other) as second,
        ):
            second.until(lambda: bool(second.waits))
            assert "another process follows source s" in second.waits[0]
            first.end()
            second.until(lambda: bool(second.rounds))


@pytest.mark.full
def test_a_purged_log_has_its_tables_read_again(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"))
    workspace = engine_for({"t": LOG})
    follow_once(workspace)
    sql("INSERT INTO t (id) VALUES (1), (2)", "FLUSH BINARY LOGS", "DELETE FROM t WHERE id = 1")
    newest = sql("SHOW BINARY LOGS")[-1][0]
    deadline = time.monotonic() + 20
    while len(sql("SHOW BINARY LOGS")) > 1:
        sql(f"PURGE BINARY LOGS TO '{newest}'")
        assert time.monotonic() < deadline
        time.sleep(0.2)
    [found] = [one for one in follow_once(workspace) if one.is_busy]
    assert "purged" in str(found.changed)
    assert_equal(workspace, server)


STEPS = ["commit.after", "follow.loaded", "fold.committed"]
MORE_STEPS = [
    *("ledger.pending", "commit.before", "ledger.success", "log.table", "fold.before"),
    *("fold.recorded", "clean.committed", "follow.folded", "log.progress", "commit.after:2"),
]


@pytest.mark.parametrize("steps", [STEPS, pytest.param(MORE_STEPS, marks=pytest.mark.full)])
def test_one_that_is_killed_at_any_step_loses_nothing_and_adds_nothing_twice(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, runner: Runner, steps: list[str]
) -> None:
    sql(TABLE.format("a"), TABLE.format("b"))
    workspace = engine_for({"a": LOG, "b": LOG})
    sync_all(workspace)
    for number, step in enumerate(steps):
        at = 100 * number
        for name in "ab":
            sql(
                f"INSERT INTO {name} (id, name) VALUES ({at}, 'x{at}'), ({at + 1}, NULL)",
                f"UPDATE {name} SET id = id + 50 WHERE id = {at}",
                f"DELETE FROM {name} WHERE id = {at - 99}",
            )
        parts = ("follow", "s", "--once")
        order = Order(workspace.config.path, act="command", failpoint=step, arguments=parts)
        run = runner.run(order)
        assert run.code == -signal.SIGKILL, (step, run.code, run.error)
        sql(f"UPDATE a SET amount = {number}", f"INSERT INTO b (id) VALUES ({at + 7})")
        follow_once(workspace)
        assert_equal(workspace, server, "a", "b")
    for name in "ab":
        contract = workspace.config.table(name)
        inserted = Counter(
            row["id"] for row in raw_rows(workspace, contract) if row["_mirror_op"] == "insert"
        )
        assert set(inserted.values()) == {1}
        assert prove_raw_layer(workspace, contract).verdict == "equal"


@pytest.mark.full
def test_small_rounds_follow_a_long_log_to_its_end(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"))
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    sql(*(f"INSERT INTO t (id) VALUES ({n}), ({n + 1000})" for n in range(12)))
    rounds: list[FollowedRound] = []
    terms = FollowTerms(limits=BatchLimits(rows=8), once=True)
    follow_source(workspace, "s", threading.Event(), rounds.append, lambda _: None, terms)
    done = [sum(one.rows.values()) for one in rounds]
    assert (sum(done), max(done)) == (24, 8)
    assert [one.reached for one in rounds] == [False] * (len(rounds) - 1) + [True]
    assert (rounds[0].lag_bytes or 0) > 0
    assert_equal(workspace, server)


def test_a_signal_ends_it_after_its_round(sql: Sql, engine_for: EngineFor) -> None:
    """A process of its own, which needs no Spark: the table's first copy is folded without."""
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1)")
    path = engine_for({"t": LOG}).config.path
    command = [*PROGRAM, "follow", "s", "--config", str(path), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        first = json.loads(run.stdout.readline())
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=SECONDS)
    assert (run.returncode, errors) == (0, "")
    assert list(first["tables"].values()) == [1]
    assert first["errors"] == []


def test_what_is_printed(
    place: Place, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_session(place, monkeypatch)
    sql(
        TABLE.format("t"),
        "INSERT INTO t (id) VALUES (1)",
        "CREATE TABLE m (id INT PRIMARY KEY, p INT) ENGINE = MyISAM",
    )
    workspace = engine_for({"t": LOG, "m": LOG})

    def follow(*words: str) -> Result:
        parts = ["follow", "s", "--once", "--config", str(workspace.config.path), *words]
        return CliRunner().invoke(cli, parts)

    found = follow("--json")
    [line] = [json.loads(text) for text in found.stdout.splitlines()]
    assert sorted(line) == [
        *("at", "changed", "errors", "lag_bytes", "lag_seconds", "left_out", "load_seconds"),
        *("position", "rows", "seconds", "shown", "tables", "tenants"),
    ]
    assert [one["table"] for one in line["errors"]] == [workspace.config.table("m").name]
    assert found.exit_code == line["errors"][0]["code"]
    again = follow()
    assert "lag 0." in again.output
    assert "1 table failed" in again.output


@pytest.mark.full
def test_the_ledger_may_be_on_postgres(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1), (2)")
    workspace = engine_for({"t": LOG})
    with running_postgres() as postgres:
        with postgres.admin() as admin:
            admin.execute("CREATE DATABASE ledger_follow")
        ledger = workspace.config.ledger.model_copy(update={"url": postgres.url("ledger_follow")})
        config = workspace.config.model_copy(update={"ledger": ledger})
        with Workspace.open(config, spark=workspace.spark) as other:
            sync_all(other)
            sql("DELETE FROM t WHERE id = 1", "INSERT INTO t (id) VALUES (3)")
            follow_once(other)
            assert_equal(other, server)
            assert kinds(other, "t") == ["initial", "log"]
            assert {one.window for one in sync_all(other).values()} == {"unchanged"}


@pytest.mark.full
def test_what_the_log_was_not_told_is_found_by_a_check(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1), (2)")
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    sync_all(workspace)
    sql("SET sql_log_bin = 0", "DELETE FROM t WHERE id = 1", "SET sql_log_bin = 1")
    time.sleep(2.1)  # MySQL says in whole seconds when the table was changed
    follow_once(workspace)
    found = check_table(workspace, contract, Ask("full"))
    assert found.verdict == "different"
    assert [one.kind for one in found.differences] == ["extra"]


def test_what_can_not_be_followed_is_one_error(sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE.format("t"))
    config = engine_for({"t": {"mode": "full", "key": ["id"]}}).config
    with pytest.raises(ConfigError, match=r"no source 'other'.* Its servers are: s"):
        followed_tables(config, "other")
    with pytest.raises(ConfigError, match="no table of it has `mode: binlog`"):
        followed_tables(config, "s")
