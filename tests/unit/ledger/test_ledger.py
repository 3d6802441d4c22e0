"""The ledger: what each state means, and that a table has one writer, whoever races for it."""

from __future__ import annotations

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mirrorlake.config.database_url import with_driver
from mirrorlake.errors import LeaseHeld, LedgerError
from mirrorlake.ledger import (
    LEDGER_VERSION,
    Lease,
    Ledger,
    Load,
    RawFile,
    Receipt,
    Repair,
    Tenant,
    Window,
)
from mirrorlake.ledger.database import database
from mirrorlake.ledger.database.servers import alone, kind_of
from mirrorlake.ledger.lake import leases
from mirrorlake.ledger.lake.lake_heads import LakeHead
from mirrorlake.ledger.reports.since import LoadFigures
from mirrorlake.schema.versions import SchemaVersion, schema_version

TABLE = "s.shop.t"
WINDOW = Window("live", "2026-01-01 00:00:00", None, date(2026, 1, 2))
RECEIPT = Receipt(
    rows=3,
    bytes=100,
    files=1,
    digest="00ff",
    moment="2026-01-02 03:04:05.000006",
    hi="2026-01-02 03:04:05.000006",
    server="uuid",
    position="0-1-5",
    originals=0,
    future=0,
    query_seconds=0.5,
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'sub folder' / 'ledger ü.db'}"


@pytest.fixture
def ledger(url: str) -> Ledger:
    return Ledger(url)


@pytest.fixture
def ask(ledger: Ledger, url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """The ledger's file, past the ledger."""

    def ask(query: str, *values: Any) -> list[tuple[Any, ...]]:
        with sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None) as database:
            return database.execute(query, values).fetchall()

    return ask


def started(ledger: Ledger, table: str = TABLE, window: Window = WINDOW) -> Load:
    """A load that is pending."""
    load_id = ledger.create_load(table, window)
    return ledger.start_load(load_id, Lease(table, "somebody", 1), "run", "t_v_1", None)


def states(ask: Callable[..., Any], kind: str) -> list[str]:
    order = "seq" if kind == "loads" else "created_at"
    return [state for (state,) in ask(f"SELECT state FROM {kind} ORDER BY {order}")]


# --- loads ----------------------------------------------------------------------------------------


def test_a_load_goes_from_created_over_pending_to_success(
    ledger: Ledger, ask: Callable[..., Any]
) -> None:
    load_id = ledger.create_load(TABLE, WINDOW)
    assert states(ask, "windows") == ["created"]
    assert ledger.last_load(TABLE) is None
    load = ledger.start_load(load_id, Lease(TABLE, "o", 7), "run", "t_v_1", 42)
    assert (states(ask, "windows"), states(ask, "loads")) == (["pending"], ["pending"])
    assert (load.load_id, load.attempt, load.parent_snapshot) == (load_id, 1, 42)
    assert load.window == WINDOW
    assert ledger.unsettled_loads(TABLE) == [load]
    assert ledger.successful_loads(TABLE) == []
    ledger.finish_load(load, 43, RECEIPT)
    (done,) = ledger.successful_loads(TABLE)
    assert (done.state, done.snapshot_id, done.receipt) == ("success", 43, RECEIPT)
    assert done.window.hi == RECEIPT.hi
    assert done.finished_at is not None
    assert done.finished_at.utcoffset() == timedelta(0)
    assert ledger.unsettled_loads(TABLE) == []


def test_no_load_before_a_tables_history_waits_for_a_fold(ledger: Ledger) -> None:
    """A table that follows a log, and is read again from the beginning: what it read before of its
    log goes into no layer any more."""
    first, left, again = (started(ledger) for _ in range(3))
    ledger.finish_load(first, 1, RECEIPT)
    ledger.record_folds(TABLE, "deduped", [first.seq])
    assert ledger.unfolded_tables("deduped") == set()
    ledger.finish_load(left, 2, RECEIPT)
    assert ledger.unfolded_tables("deduped") == {TABLE}
    ledger.finish_load(again, 3, dataclasses.replace(RECEIPT, began=again.seq))
    assert ledger.unfolded_tables("deduped") == {TABLE}
    ledger.record_folds(TABLE, "deduped", [again.seq])
    assert ledger.unfolded_tables("deduped") == set()


def test_figures_since_are_those_of_each_load(ledger: Ledger) -> None:
    """What reports read of all tables at once is what is read of each."""
    before = datetime.now(UTC) - timedelta(days=1)
    with ledger.lease(TABLE, "r"), ledger.lease("s.shop.u", "r"):
        first, other = started(ledger), started(ledger, "s.shop.u")
        ledger.finish_load(first, 1, RECEIPT)
        ledger.fail_load(other, "lost")
        second = started(ledger)
        ledger.finish_load(second, 2, dataclasses.replace(RECEIPT, rows=8, began=first.seq))
    for scanned in (3, 4):
        ledger.record_cost(TABLE, "deduped", first.seq, scanned, 10, 0.5)
    ledger.record_cost(TABLE, "clean", first.seq, None, 1)
    found = ledger.loads_since(before)
    assert {name: [x.seq for x in some] for name, some in found.items()} == {
        TABLE: [first.seq, second.seq],
        "s.shop.u": [other.seq],
    }
    assert found[TABLE] == [LoadFigures.of(load) for load in ledger.loads(TABLE)]
    assert [x.rows for x in found[TABLE]] == [RECEIPT.rows, 8]
    assert found["s.shop.u"][0].error == "lost"
    assert [*ledger.loads_since(before, "s.shop.u")] == ["s.shop.u"]
    assert ledger.loads_since(datetime.now(UTC) + timedelta(days=1)) == {}
    costs = ledger.costs_since(before)[TABLE]
    assert [(one.step, one.scanned, one.written) for one in costs] == [
        ("clean", None, 1),
        ("deduped", 7, 20),
    ]
    assert ledger.newest_receipts() == {TABLE: ledger.newest_receipt(TABLE)}
    assert ledger.landmarks_of_all() == {TABLE: ledger.landmarks(TABLE)}
    assert ledger.unread_tables() == {"s.shop.u"}
    assert (ledger.proofs_since(before), ledger.repairs_since(before)) == ({}, {})
    assert ledger.day_proofs_since(before.date()) == {}
    ledger.mark_unproved(TABLE, "server", "why")
    assert ledger.newest_marks() == {TABLE: ledger.newest_mark(TABLE)}


def test_a_failure_keeps_its_reason_until_a_later_success_covers_it(
    ledger: Ledger, ask: Callable[..., Any]
) -> None:
    failed = started(ledger)
    ledger.fail_load(failed, "x" * 10_000)
    last = ledger.last_load(TABLE)
    assert last is not None
    assert (last.state, last.error) == ("errored", "x" * 4_000)
    # It may have landed after all: only a later success makes that no matter.
    assert [load.seq for load in ledger.unsettled_loads(TABLE)] == [failed.seq]
    ledger.create_load(TABLE, WINDOW)
    ledger.finish_load(started(ledger), 1, RECEIPT)
    assert states(ask, "windows") == ["superseded", "superseded", "success"]
    assert ledger.unsettled_loads(TABLE) == []


def test_a_success_covers_its_own_table_alone(ledger: Ledger, ask: Callable[..., Any]) -> None:
    other = started(ledger, "s.shop.u")
    ledger.finish_load(started(ledger), 1, RECEIPT)
    assert [load.seq for load in ledger.unsettled_loads("s.shop.u")] == [other.seq]
    assert states(ask, "windows") == ["pending", "success"]


def test_a_pending_load_is_unsettled_however_old(ledger: Ledger) -> None:
    old = started(ledger)
    ledger.finish_load(started(ledger), 1, RECEIPT)
    assert [load.seq for load in ledger.unsettled_loads(TABLE)] == [old.seq]


def test_a_failed_load_that_was_found_is_a_success_without_an_error(ledger: Ledger) -> None:
    load = started(ledger)
    ledger.fail_load(load, "lost the connection")
    ledger.finish_load(load, 5, RECEIPT)
    (found,) = ledger.successful_loads(TABLE)
    assert (found.seq, found.error) == (load.seq, None)


def test_attempts_of_one_window_are_counted(ledger: Ledger) -> None:
    load_id = ledger.create_load(TABLE, WINDOW)
    lease = Lease(TABLE, "o", 1)
    attempts = [ledger.start_load(load_id, lease, "r", "t_v_1", None) for _ in range(3)]
    assert [load.attempt for load in attempts] == [1, 2, 3]
    assert [load.seq for load in attempts] == sorted({load.seq for load in attempts})


def test_a_sequence_number_is_never_given_out_twice(
    ledger: Ledger, ask: Callable[..., Any]
) -> None:
    gone = started(ledger).seq
    ask("DELETE FROM loads")
    assert started(ledger).seq > gone


def test_last_and_successful_loads_are_told_by_sequence(ledger: Ledger) -> None:
    first, second, third = (started(ledger) for _ in range(3))
    for load in (third, first):
        ledger.finish_load(load, load.seq, RECEIPT)
    ledger.fail_load(second, "no")
    assert [load.seq for load in ledger.successful_loads(TABLE)] == [first.seq, third.seq]
    assert [load.seq for load in ledger.successful_loads(TABLE, first.seq)] == [third.seq]
    for state, seq in ((None, third.seq), ("success", third.seq), ("errored", second.seq)):
        last = ledger.last_load(TABLE, state)
        assert last is not None
        assert last.seq == seq
    assert ledger.last_load("s.shop.nobody") is None


def test_a_receipt_tells_which_moment_each_chunk_shows() -> None:
    """By MySQL's position too; a receipt of one statement shows one."""
    at = datetime.fromisoformat(RECEIPT.moment)
    assert (RECEIPT.moments, RECEIPT.moments_of()) == (None, [(at, "0-1-5")])
    told = {"prefix": "0-1-", "chunks": [[2.5, "77"], [0.0, "5"], [0.000001, "6"]]}
    receipt = Receipt.from_json(dataclasses.replace(RECEIPT, moments=told).to_json())
    assert receipt.moments is not None
    assert receipt.moments_of() == [
        (at + timedelta(seconds=2.5), "0-1-77"),
        (at, "0-1-5"),
        (at + timedelta(microseconds=1), "0-1-6"),
    ]


def test_a_receipt_survives_its_text() -> None:
    assert Receipt.from_json(RECEIPT.to_json()) == RECEIPT


# --- what was folded, defined, seen ---------------------------------------------------------------


def test_folds_are_kept_per_layer_and_recorded_once(ledger: Ledger) -> None:
    ledger.record_folds(TABLE, "deduped", [1, 2])
    ledger.record_folds(TABLE, "deduped", [2, 3, 3])
    ledger.record_folds(TABLE, "clean", [1])
    ledger.record_folds(TABLE, "clean", [])
    assert ledger.folded_loads(TABLE, "deduped") == {1, 2, 3}
    assert ledger.folded_loads(TABLE, "clean") == {1}
    assert ledger.folded_loads("s.shop.u", "clean") == set()


def test_definitions_are_replaced_and_forgotten(ledger: Ledger) -> None:
    for text in ("SELECT 1", "SELECT 2"):
        ledger.record_definition("view v", text)
    assert ledger.definition("view v") == "SELECT 2"
    ledger.forget_definition("view v")
    assert ledger.definition("view v") is None


def test_schema_versions_come_in_the_order_in_which_they_were_last_met(ledger: Ledger) -> None:
    one = schema_version("t", [("a", "int")])
    two = schema_version("t", [("a", "int"), ("größe", "text")])
    for version in (one, two):
        ledger.record_schema_version(TABLE, version)
    assert ledger.schema_versions(TABLE) == [one, two]
    ledger.record_schema_version(TABLE, one)
    assert ledger.schema_versions(TABLE) == [two, one]
    assert ledger.schema_versions("s.shop.u") == []


# --- leases ---------------------------------------------------------------------------------------


def test_a_lease_is_held_by_one_and_named_to_the_other(url: str) -> None:
    with Ledger(url).lease(TABLE, "run-1"):
        other = Ledger(url)
        with pytest.raises(LeaseHeld) as caught, other.lease(TABLE, "run-2"):
            pass
        assert caught.value.retryable
        assert f"by run run-1 (process {os.getpid()})" in str(caught.value)
        with other.lease("s.shop.u", "run-2"):
            pass  # another table is free
    with other.lease(TABLE, "run-2"):
        pass


def test_every_owner_has_a_higher_token(url: str) -> None:
    tokens: list[int] = []
    for _ in range(3):
        with Ledger(url).lease(TABLE, "run") as lease:
            tokens.append(lease.token)
    assert tokens == [1, 2, 3]


@pytest.mark.parametrize("known", [False, True])
def test_of_racing_runs_exactly_one_wins(url: str, known: bool) -> None:
    """Each with a ledger of its own, for a table nobody ever held, and for one that was released."""
    if known:
        with Ledger(url).lease(TABLE, "earlier"):
            pass
    runs = 8
    ledgers = [Ledger(url) for _ in range(runs)]
    start, done = threading.Barrier(runs, timeout=60), threading.Barrier(runs, timeout=60)

    def race(number: int) -> int | None:
        start.wait()
        try:
            with ledgers[number].lease(TABLE, f"run-{number}"):
                done.wait()
                return number
        except LeaseHeld:
            done.wait()
            return None

    with ThreadPoolExecutor(runs) as pool:
        winners = [n for n in pool.map(race, range(runs)) if n is not None]
    assert len(winners) == 1


def test_racing_loads_have_numbers_of_their_own(url: str) -> None:
    ledgers = [Ledger(url) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        seqs = list(pool.map(lambda n: started(ledgers[n % 4], f"s.shop.t{n}").seq, range(40)))
    assert len(set(seqs)) == 40


def expire(ask: Callable[..., Any]) -> None:
    ask("UPDATE leases SET expires_at = '2000-01-01 00:00:00.000000'")


def test_a_stalled_owner_may_not_commit_once_another_took_over(
    url: str, ask: Callable[..., Any]
) -> None:
    stalled, other = Ledger(url), Ledger(url)
    with stalled.lease(TABLE, "stalled") as lease:
        stalled.check_lease(lease)
        expire(ask)
        stalled.check_lease(lease)  # late, and nobody came: still its own
        with other.lease(TABLE, "other") as taken:
            with pytest.raises(LeaseHeld, match="run other"):
                stalled.check_lease(lease)
            other.check_lease(taken)
        with pytest.raises(LeaseHeld, match="another run"):
            stalled.check_lease(lease)


def test_a_stalled_owner_that_ends_releases_nothing_of_anothers(
    url: str, ask: Callable[..., Any]
) -> None:
    stalled, other = Ledger(url), Ledger(url)
    with stalled.lease(TABLE, "stalled"):
        expire(ask)
        held = other.lease(TABLE, "other")
        lease = held.__enter__()
    other.check_lease(lease)
    with pytest.raises(LeaseHeld), stalled.lease(TABLE, "again"):
        pass
    held.__exit__(None, None, None)


def test_a_lease_is_renewed_while_it_is_held(
    url: str, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is renewed every second; a busy machine may come to it late.
    monkeypatch.setattr(leases, "LEASE_TIME", timedelta(seconds=4))
    with Ledger(url).lease(TABLE, "slow"):
        first = second = ask("SELECT expires_at FROM leases")
        while second == first:  # ended by the suite's limit of time, if ever
            time.sleep(0.05)
            second = ask("SELECT expires_at FROM leases")
        assert second > first
        with pytest.raises(LeaseHeld), Ledger(url).lease(TABLE, "other"):
            pass


HOLDER = """
import sys, time
from mirrorlake.ledger import Ledger
with Ledger(sys.argv[1]).lease("s.shop.t", "dead"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_process(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lease until it is killed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def test_a_dead_process_gives_its_lease_up_at_once(url: str) -> None:
    ledger = Ledger(url)
    with another_process(url) as holder:
        with pytest.raises(LeaseHeld), ledger.lease(TABLE, "next"):
            pass
        holder.send_signal(signal.SIGKILL)
        # Dead, but its exit code was not asked for yet: a zombie holds nothing.
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        with ledger.lease(TABLE, "next") as lease:
            assert lease.token == 2
    with ledger.lease(TABLE, "after"):
        pass


@pytest.mark.parametrize(
    "owner",
    ["another machine|1|123|run|x", "{machine}|{pid}|-1|run|x"],
    ids=["another machine", "a process id given out again"],
)
def test_who_is_taken_for_dead(url: str, ask: Callable[..., Any], owner: str) -> None:
    """Of another machine nobody knows: its lease is waited out."""
    with Ledger(url).lease(TABLE, "me"):
        ((mine,),) = ask("SELECT owner FROM leases")
        text = owner.format(machine=mine.split("|")[0], pid=os.getpid())
        ask("UPDATE leases SET owner = ?", text)
        foreign = owner.startswith("another")
        if foreign:
            with pytest.raises(LeaseHeld), Ledger(url).lease(TABLE, "other"):
                pass
            expire(ask)
        with Ledger(url).lease(TABLE, "other"):
            pass


# --- the database itself --------------------------------------------------------------------------


def test_a_lock_is_waited_for_and_then_told(url: str, ledger: Ledger, tmp_path: Path) -> None:
    patient = Ledger(url, timedelta(seconds=0.5))
    with sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        begun = time.monotonic()
        with pytest.raises(LedgerError, match=r"locked \(waited up to 0\.5 s\)") as caught:
            patient.last_load(TABLE)
        assert time.monotonic() - begun >= 0.5
        assert caught.value.retryable
        other.execute("ROLLBACK")
    assert patient.last_load(TABLE) is None


def test_a_newer_ledger_is_refused(ledger: Ledger, url: str, ask: Callable[..., Any]) -> None:
    ask("UPDATE mirrorlake_meta SET value = ?", str(LEDGER_VERSION + 1))
    with pytest.raises(LedgerError, match="Install the Mirrorlake that wrote it"):
        Ledger(url)


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"this is no database, but it is long enough to be looked at" * 20)
    with pytest.raises(LedgerError) as caught:
        Ledger(f"sqlite:///{path}")
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert "move it away" in str(caught.value)


def test_a_password_is_not_shown() -> None:
    shown = Ledger.shown_url("postgresql://me:hunter2@host/db")
    assert shown == "postgresql://me:***@host/db"


def test_times_are_utc(ledger: Ledger) -> None:
    load = started(ledger)
    assert load.started_at.utcoffset() == timedelta(0)
    assert abs(datetime.now(load.started_at.tzinfo) - load.started_at) < timedelta(minutes=1)


# --- reloads, holds, older ledgers ----------------------------------------------------------------


def reload_of(first: str, hi: str) -> Window:
    return Window("reload", first, hi, date(2026, 1, 2))


def test_a_reload_keeps_its_bounds_and_moves_no_window(ledger: Ledger) -> None:
    live = started(ledger)
    ledger.finish_load(live, 1, RECEIPT)
    again = started(ledger, window=reload_of("2026-01-01", "2026-01-03"))
    ledger.finish_load(again, 2, RECEIPT)
    last, moving = (
        ledger.last_load(TABLE, "success"),
        ledger.last_load(TABLE, "success", moving=True),
    )
    assert last is not None
    assert (last.seq, last.window.hi) == (again.seq, "2026-01-03")
    assert moving is not None
    assert moving.seq == live.seq


@pytest.mark.parametrize(
    ("success", "left"),
    [
        (WINDOW, ["2026-01-05", "2026-01-06"]),
        (reload_of("2026-01-05", "2026-01-06"), ["2026-01-01 00:00:00", "2026-01-06"]),
        (reload_of("2026-01-01", "2026-02-01"), ["2026-01-01 00:00:00"]),
        (
            reload_of("2026-01-06", "2026-01-07"),
            ["2026-01-01 00:00:00", "2026-01-05", "2026-01-06"],
        ),
    ],
)
def test_a_success_covers_unread_windows_of_its_kind_within_it(
    ledger: Ledger, success: Window, left: list[str]
) -> None:
    for window in (
        WINDOW,
        reload_of("2026-01-05", "2026-01-06"),
        reload_of("2026-01-06", "2026-01-08"),
    ):
        ledger.fail_load(started(ledger, window=window), "lost")
    assert {w.error for w in ledger.open_windows(TABLE)} == {"lost"}
    ledger.finish_load(started(ledger, window=success), 1, RECEIPT)
    assert [w.window.lo for w in ledger.open_windows(TABLE)] == left


def test_a_hold_ends_by_itself_or_by_word(ledger: Ledger) -> None:
    now = datetime.now(UTC)
    assert ledger.held("shop") is None
    ledger.hold("shop", now - timedelta(seconds=1))
    assert ledger.held("shop") is None
    ledger.hold("shop", now + timedelta(hours=1), "new disks")
    held = ledger.held("shop")
    assert held is not None
    assert (held.until, held.reason) == (now + timedelta(hours=1), "new disks")
    assert ledger.held("other") is None
    assert ledger.release("shop")
    assert not ledger.release("shop")
    assert ledger.held("shop") is None


def test_a_ledger_of_version_6_is_brought_to_this_one(
    url: str, ledger: Ledger, ask: Callable[..., Any]
) -> None:
    load = started(ledger)
    ask("ALTER TABLE refusals DROP COLUMN first_refused_at")
    ask("ALTER TABLE tenants DROP COLUMN verdict_words")
    ask("ALTER TABLE tenants DROP COLUMN log_place")
    ask("ALTER TABLE costs DROP COLUMN seconds")
    ask("DROP TABLE dirty_marks")
    ask("UPDATE mirrorlake_meta SET value = '6' WHERE name = 'version'")
    opened = Ledger(url)
    assert [found.seq for found in opened.unsettled_loads(TABLE)] == [load.seq]
    assert ask("SELECT value FROM mirrorlake_meta WHERE name = 'version'") == [
        (str(LEDGER_VERSION),)
    ]
    opened.record_refusal("other", "its schema changed")
    assert opened.refusals()["other"].since == opened.refusals()["other"].at
    tenant = Tenant("s", "d", datetime.now(UTC), verdict_words="it moved", log_place="there")
    opened.record_tenants("g.t", [tenant])
    assert opened.tenants("g.t")["s", "d"] == tenant
    opened.record_cost(TABLE, "deduped", 1, 5, 7, 2.5)
    assert [one.seconds for one in opened.costs(TABLE, datetime(2000, 1, 1, tzinfo=UTC))] == [2.5]
    assert opened.dirty_marks() == []


def test_a_ledger_of_before_version_6_is_refused(url: str, ask: Callable[..., Any]) -> None:
    Ledger(url)
    ask("UPDATE mirrorlake_meta SET value = '5' WHERE name = 'version'")
    with pytest.raises(LedgerError, match=r"has version 5; .* takes is 6\. Name another"):
        Ledger(url)
    assert ask("SELECT value FROM mirrorlake_meta WHERE name = 'version'") == [("5",)]


def test_a_refusal_says_since_when(ledger: Ledger) -> None:
    ledger.record_refusal(TABLE, "one thing")
    first = ledger.refusals()[TABLE].at
    ledger.record_refusal(TABLE, "another thing")
    again = ledger.refusals()[TABLE]
    assert (again.error, again.since) == ("another thing", first)
    assert again.at > first
    ledger.forget_refusal(TABLE)
    assert ledger.refusals() == {}
    ledger.record_refusal(TABLE, "one thing")
    assert ledger.refusals()[TABLE].since > again.at


def test_a_repair_is_written_at_its_beginning_and_at_its_end(ledger: Ledger) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    begun = Repair(
        repair_id="r1",
        table=TABLE,
        asked="full",
        why="1 changed",
        keys=1,
        digests=("aa",),
        before={"mysql": "1:0", "lake": "1:1"},
        after={},
        load_ids=(),
        before_snapshot=1,
        after_snapshot=None,
        code="c",
        started_at=at,
        finished_at=None,
        outcome="begun",
        evidence=("a.json",),
    )
    ledger.write_repair(begun)
    assert ledger.repairs(TABLE) == [begun]
    assert ledger.interrupt_repairs(TABLE) == 1
    assert ledger.repairs(TABLE)[0].outcome == "interrupted"
    # It lived after all.
    ended = dataclasses.replace(
        begun, outcome="equal", load_ids=("x",), finished_at=at, after={"mysql": "1:0"}
    )
    ledger.write_repair(ended)
    assert ledger.repairs(TABLE) == [ended]
    assert ledger.interrupt_repairs(TABLE) == 0


def test_a_repair_that_failed_leaves_no_gap(ledger: Ledger) -> None:
    with ledger.lease(TABLE, "run") as lease:
        for _ in range(2):
            load_id = ledger.create_load(TABLE, Window("repair", None, None, date(2026, 1, 2)))
            load = ledger.start_load(load_id, lease, "run", "t_v_1", None)
            ledger.fail_load(load, "lost")
        assert ledger.open_windows(TABLE) == []
        ledger.finish_load(load, 1, RECEIPT)
    assert ledger.last_load(TABLE, "success", moving=True) is None


def test_two_versions_with_one_hash_are_refused(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows would stand in one raw table, and one would take the other's place here."""
    monkeypatch.setattr(SchemaVersion, "hash", "0123456789")
    first, second = (schema_version("t", [("id", "int"), (name, "int")]) for name in "ab")
    ledger.record_schema_version(TABLE, first)
    ledger.record_schema_version(TABLE, first)
    with pytest.raises(LedgerError, match="two of its schema versions have the hash 0123456789"):
        ledger.record_schema_version(TABLE, second)
    assert ledger.schema_versions(TABLE) == [first]
    ledger.record_schema_version("s.shop.other", second)


# --- the lake -------------------------------------------------------------------------------------


def test_a_ledger_is_of_one_lake_whoever_says_so_first(ledger: Ledger) -> None:
    assert ledger.lake() is None
    with ThreadPoolExecutor(4) as pool:
        claimed = set(pool.map(lambda n: ledger.claim_lake(f"lake {n}", "file:///läke"), range(8)))
    assert len(claimed) == 1
    assert ledger.lake() == (*claimed, "file:///läke")
    ledger.record_lake("another", "gs://bucket/lake")
    assert ledger.lake() == ("another", "gs://bucket/lake")


def test_heads_are_kept_by_the_lake_tables_name(ledger: Ledger) -> None:
    first = LakeHead("s_shop", "t", TABLE, "uuid", None, 0, "file:///1.metadata.json")
    other = dataclasses.replace(first, lake_table="u", table="s.shop.u", snapshot_id=2**62)
    ledger.record_lake_heads([first, other])
    now = dataclasses.replace(first, snapshot_id=7, sequence=3)
    ledger.record_lake_heads([now])
    assert ledger.lake_heads(TABLE) == [now]
    assert sorted(ledger.lake_heads(), key=lambda head: head.lake_table) == [now, other]
    ledger.forget_lake_heads([now.name])
    assert ledger.lake_heads() == [other]


def test_a_load_that_raw_lost_is_an_open_window_until_it_is_read_again(ledger: Ledger) -> None:
    kept, lost = (started(ledger) for _ in range(2))
    for number, load in enumerate((kept, lost), 1):
        file = RawFile(f"{number}.parquet", load.raw_table, load.seq, 3, 100, "00")
        ledger.record_raw_files(TABLE, [file])
        ledger.finish_load(load, number, RECEIPT)
    (_, gone) = ledger.successful_loads(TABLE)
    ledger.lose_loads([gone], "raw lost it")
    assert [load.seq for load in ledger.successful_loads(TABLE)] == [kept.seq]
    assert [file.seq for file in ledger.raw_files(TABLE)] == [kept.seq]
    (window,) = ledger.open_windows(TABLE)
    assert (window.load_id, window.state, window.error) == (lost.load_id, "unknown", "raw lost it")
    assert [load.seq for load in ledger.unknown_loads(TABLE)] == [lost.seq]
    # Where a backup brings it back, it is found as one that died is.
    assert [load.seq for load in ledger.unsettled_loads(TABLE)] == [lost.seq]
    again = started(ledger, window=Window("initial", None, None, WINDOW.day))
    ledger.finish_load(again, 3, RECEIPT)
    assert ledger.open_windows(TABLE) == []


def test_what_is_done_together_is_done_whole_or_not_at_all(ledger: Ledger) -> None:
    ledger.record_definition("view v", "before")
    seen: list[str | None] = []

    def fail() -> None:
        seen.append(ledger.definition("view v"))
        raise ValueError

    with pytest.raises(ValueError):
        ledger.together(lambda: ledger.record_definition("view v", "after"), fail)
    assert seen == ["after"]
    assert ledger.definition("view v") == "before"
    ledger.together(
        lambda: ledger.record_definition("view v", "after"),
        lambda: ledger.together(lambda: ledger.forget_definition("view w"), lambda: None),
    )
    assert ledger.definition("view v") == "after"


def test_nobody_else_sees_half_of_what_is_done_together(ledger: Ledger, url: str) -> None:
    other = Ledger(url)
    seen: list[str | None] = []
    ledger.together(
        lambda: ledger.record_definition("view v", "after"),
        lambda: seen.append(other.definition("view v")),
    )
    assert seen == [None]


def test_one_that_is_set_up_is_opened_while_another_run_sets_it_up(
    ledger: Ledger, url: str
) -> None:
    """Else runs that begin at once wait for one another, and hold what the first of them needs."""
    database, wait = ledger.database, timedelta(seconds=1)
    kind = kind_of(with_driver(url))
    with database.begin() as connection, alone(connection, kind, wait):
        assert Ledger(url, wait).identity() == ledger.identity()


def test_of_many_that_open_a_new_ledger_one_makes_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for it, and then look: each looking at every table, under the lock, would
    have the last of them wait too long."""
    make, look, made = database.METADATA.create_all, database._is_set_up, list[object]()
    all_looked, looked = threading.Barrier(4, timeout=30), threading.local()

    def is_set_up(connection: sa.Connection) -> bool:
        found = look(connection)
        if not hasattr(looked, "once"):
            looked.once = True
            all_looked.wait()
        return found

    def create(*given: Any) -> None:
        made.append(given)
        make(*given)

    monkeypatch.setattr(database, "_is_set_up", is_set_up)
    monkeypatch.setattr(database.METADATA, "create_all", create)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: Ledger(url).identity(), range(4)))
    assert (len(found), len(made)) == (1, 1)


def test_who_waited_for_a_new_ledger_sees_all_of_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is not given up before it is committed."""
    commit, committing = database.Database._commit, threading.Event()

    def slowly(self: database.Database, connection: sa.Connection, *, writes: bool) -> None:
        if writes and not committing.is_set():
            committing.set()
            time.sleep(1)  # for as long as another one needs to look at every table
        commit(self, connection, writes=writes)

    monkeypatch.setattr(database.Database, "_commit", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: Ledger(url).identity())
        assert committing.wait(30)
        second = pool.submit(lambda: Ledger(url).identity())
    assert first.result() == second.result()


@pytest.mark.parametrize("version", ["", "many", "17.0"])
def test_a_version_that_is_no_number_is_one_line(
    ledger: Ledger, url: str, ask: Callable[..., Any], version: str
) -> None:
    ledger.identity()
    ask("UPDATE mirrorlake_meta SET value = ? WHERE name = 'version'", version)
    with pytest.raises(LedgerError, match=f"says that its version is '{version}'"):
        Ledger(url)


@pytest.mark.parametrize(
    "end", ["\ud7ff", "\U0010ffff", "é\U0010ffff\U0010ffff", "%", "_", "\\", "a"]
)
def test_definitions_are_found_by_how_their_names_begin(ledger: Ledger, end: str) -> None:
    """Whatever code point is the last one, or the next one is none of a text's."""
    kept = {f"view {end}", f"view {end}z", f"view {end}é"}
    for name in kept | {"view", "view ", f"vieW {end}", "view \ue000", "view b"}:
        ledger.record_definition(name, "")
    assert ledger.definitions(f"view {end}").keys() == kept
    ledger.record_definition("\U0010ffffz", "")
    assert ledger.definitions("\U0010ffff").keys() == {"\U0010ffffz"}


def test_a_table_that_is_missing_is_made(ledger: Ledger, url: str) -> None:
    """One that an earlier release did not have, or that was not made when its first run died."""
    with ledger.database.begin() as connection:
        connection.execute(sa.text("DROP TABLE costs"))
    Ledger(url)
    with ledger.database.read() as connection:
        assert sa.inspect(connection).has_table("costs")


@pytest.mark.parametrize(
    ("pragma", "said", "step"),
    [
        ("query_only = ON", "readonly database", "Make the file and its folder writable"),
        ("max_page_count = 1", "disk is full", "Make room on its disk"),
    ],
)
def test_a_file_that_cant_be_written_is_not_said_to_be_held(
    tmp_path: Path, pragma: str, said: str, step: str
) -> None:
    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA {pragma}")

    url = f"sqlite:///{tmp_path}/ledger.db"
    Ledger(url)
    sa.event.listen(sa.Engine, "connect", limit)
    try:
        with (
            pytest.raises(LedgerError, match=said) as caught,
            Ledger(url).lease(TABLE + "t" * 100_000, "run"),  # its last page has no room for it
        ):
            pass
    finally:
        sa.event.remove(sa.Engine, "connect", limit)
    assert step in str(caught.value)
    assert "waited" not in str(caught.value)


def test_a_file_that_cant_be_opened_is_not_said_to_be_held(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(LedgerError, match="a file that this user may read and write") as caught:
        Ledger(f"sqlite:///{tmp_path}/ledger.db")
    assert "waited" not in str(caught.value)


def test_an_older_file_in_the_place_of_an_open_one_is_not_said_to_be_held(
    tmp_path: Path,
) -> None:
    here, older = tmp_path / "ledger.db", tmp_path / "older.db"
    opened = Ledger(f"sqlite:///{here}")
    Ledger(f"sqlite:///{older}")
    with sqlite3.connect(older) as database:
        database.execute("ALTER TABLE tenants DROP COLUMN log_place")
        database.execute("UPDATE mirrorlake_meta SET value = '16' WHERE name = 'version'")
    older.replace(here)
    with pytest.raises(LedgerError, match=r"no such column.* Run it again") as caught:
        opened.tenants(TABLE)
    assert "waited" not in str(caught.value)
    assert Ledger(f"sqlite:///{here}").tenants(TABLE) == {}
