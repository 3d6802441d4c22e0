"""Chunks in the ledger: what is kept of a load that did not end, how long, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mirrorlake.errors import LeaseHeld, LedgerError
from mirrorlake.ledger import Lease, Ledger, Load
from tests.unit.ledger.test_ledger import RECEIPT, TABLE, WINDOW, ask, ledger, started, states, url

__all__ = ["ask", "ledger", "url"]  # fixtures

BASIS = {"server": "uuid", "window": "größe"}
START: dict[str, str | None] = {"top": "7", "oldest_open": None}
BOUNDS = ("a < 'ü'", "a >= 'ü' AND a < _utf8mb4 x'F09F909F'", "a >= _utf8mb4 x'F09F909F'")
NEXT = Lease(TABLE, "another", 2)


def chunked(ledger: Ledger, table: str = TABLE) -> Load:
    """A pending load of three chunks, of which the second was read."""
    load = started(ledger, table)
    ledger.plan_chunks(load, BASIS, START, BOUNDS)
    ledger.finish_chunk(load, 1, "{}")
    return load


def test_chunks_are_kept_as_they_were_cut(ledger: Ledger) -> None:
    load = chunked(ledger)
    found = ledger.chunked_load(TABLE)
    assert found is not None
    assert (found.load, found.basis, found.start) == (load, BASIS, START)
    assert (found.bounds, found.receipts) == (BOUNDS, {1: "{}"})
    assert ledger.chunked_load("s.shop.u") is None


def test_a_load_that_died_is_gone_on_with_under_its_first_number(
    ledger: Ledger, ask: Callable[..., Any]
) -> None:
    load = chunked(ledger)
    assert ledger.fail_load(load, "the run died", keep_chunks=True)
    again = ledger.resume_load(load, NEXT, "second", 9)
    assert (again.seq, again.load_id, again.attempt) == (load.seq, load.load_id, 2)
    assert (again.state, again.parent_snapshot, again.token) == ("pending", 9, 2)
    assert (again.error, again.finished_at) == (None, None)
    assert states(ask, "windows") == ["pending"]
    ledger.finish_chunk(again, 0, "[]")
    found = ledger.chunked_load(TABLE)
    assert found is not None
    assert found.receipts == {0: "[]", 1: "{}"}
    ledger.finish_load(again, 10, RECEIPT)
    assert [done.seq for done in ledger.successful_loads(TABLE)] == [load.seq]
    assert ledger.chunked_load(TABLE) is None
    assert ask("SELECT COUNT(*) FROM chunks") == [(0,)]


def test_a_load_names_the_job_that_reads_it(ledger: Ledger) -> None:
    load = chunked(ledger)
    assert load.job_id is None
    ledger.record_job(load, "app-1")
    ledger.fail_load(load, "died", keep_chunks=True)
    (failed,) = ledger.loads(TABLE)
    assert failed.job_id == "app-1"
    again = ledger.resume_load(load, NEXT, "second", None)
    assert again.job_id is None
    ledger.record_job(load, "late")
    ledger.record_job(again, "app-2")
    ledger.finish_load(again, 1, RECEIPT)
    (done,) = ledger.successful_loads(TABLE)
    assert done.job_id == "app-2"


def test_a_stalled_owner_writes_nothing_more(ledger: Ledger, ask: Callable[..., Any]) -> None:
    stalled = chunked(ledger)
    ledger.fail_load(stalled, "taken for dead", keep_chunks=True)
    with pytest.raises(LeaseHeld):
        ledger.finish_chunk(stalled, 0, "late")
    again = ledger.resume_load(stalled, NEXT, "second", None)
    with pytest.raises(LeaseHeld):
        ledger.finish_chunk(stalled, 0, "late")
    assert not ledger.fail_load(stalled, "its own end")
    assert states(ask, "loads") == ["pending"]
    found = ledger.chunked_load(TABLE)
    assert found is not None
    assert found.receipts == {1: "{}"}
    with pytest.raises(LedgerError, match="can't be resumed"):
        ledger.resume_load(stalled, Lease(TABLE, "third", 3), "third", None)
    ledger.finish_chunk(again, 0, "[]")


def test_a_later_number_ends_it(ledger: Ledger, ask: Callable[..., Any]) -> None:
    load, other = chunked(ledger), chunked(ledger, "s.shop.u")
    ledger.fail_load(load, "died", keep_chunks=True)
    started(ledger)
    assert ledger.chunked_load(TABLE) is None
    with pytest.raises(LedgerError, match="was loaded since"):
        ledger.resume_load(load, NEXT, "second", None)
    assert states(ask, "loads") == ["errored", "pending", "pending"]
    assert ask("SELECT DISTINCT seq FROM chunks") == [(other.seq,)]
    assert ask("SELECT seq FROM chunked_loads") == [(other.seq,)]


def test_a_stalled_owner_that_starts_a_load_does_not_take_anothers_chunks(ledger: Ledger) -> None:
    load = chunked(ledger)
    ledger.fail_load(load, "died", keep_chunks=True)
    again = ledger.resume_load(load, NEXT, "second", None)
    started(ledger)  # with the first token
    ledger.finish_chunk(again, 2, "{}")


def test_a_failure_that_another_run_would_meet_keeps_nothing(
    ledger: Ledger, ask: Callable[..., Any]
) -> None:
    load = chunked(ledger)
    assert ledger.fail_load(load, "a value does not fit")
    assert ledger.chunked_load(TABLE) is None
    assert ask("SELECT COUNT(*) FROM chunks") == [(0,)]
    assert ask("SELECT COUNT(*) FROM chunked_loads") == [(0,)]


def test_after_a_week_it_is_read_anew(ledger: Ledger, ask: Callable[..., Any]) -> None:
    chunked(ledger)
    (at,) = ask("SELECT planned_at FROM chunked_loads")[0]
    assert at
    for days, there in ((6, True), (8, False)):
        moved = ledger.chunked_load(TABLE)
        assert moved is not None
        past = moved.load.started_at.replace(tzinfo=None) - timedelta(days=days)
        ask("UPDATE chunked_loads SET planned_at = ?", past.isoformat(sep=" "))
        assert (ledger.chunked_load(TABLE) is not None) is there


def test_what_may_be_gone_on_with_is_not_known_to_have_ended(ledger: Ledger) -> None:
    """Else a fold that nobody made would be looked for above its number only."""
    load = chunked(ledger)
    ledger.fail_load(load, "died", keep_chunks=True)
    assert [found.seq for found in ledger.unfolded_loads("deduped")] == [load.seq]
    ledger.create_load(TABLE, WINDOW)
    started(ledger)
    assert load.seq not in [found.seq for found in ledger.unfolded_loads("deduped")]
