"""Each day of a table in one state, and none is called proved that may not be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from mirrorlake.ledger import Load, Proof, Receipt, Window
from mirrorlake.operations.days.gaps import Stretch
from mirrorlake.report.calendar import DayProofs, calendar_of, count_days

FIRST, TODAY = date(2026, 3, 1), date(2026, 3, 10)
PROOF = Proof(
    **{"check_id": "c", "table": "t", "asked": "full", "lo": None, "hi": None},
    **{"verdict": "equal", "source_rows": 9, "lake_rows": 9, "source_digest": "a"},
    **{"lake_digest": "a", "waiting": 0, "differences": 0, "server": "s", "position": ""},
    source_time=datetime(2026, 3, 8, 7, tzinfo=UTC),
    **{"snapshot_id": 1, "through_seq": 5, "code": "1"},
    started_at=datetime(2026, 3, 8, 7, tzinfo=UTC),
    **{"seconds": 1.0, "source_bytes": 1, "evidence": "", "days_before": date(2026, 3, 7)},
)
RECEIPT = Receipt(1, 1, 1, "0", "2026-03-09", None, "server", "", 0, 0, 0.0)
LOADED = [Stretch("t", None, TODAY, "loaded")]


def day_proof(day: int, verdict: str, at: int = 9, **more: object) -> Proof:
    bounds = {"days_from": date(2026, 3, day), "days_before": date(2026, 3, day + 1)}
    when = datetime(2026, 3, at, 8, tzinfo=UTC)
    found = replace(PROOF, check_id=f"d{day}{at}", asked="partition", verdict=verdict, **bounds)
    return replace(found, day=date(2026, 3, day), started_at=when, source_time=when, **more)  # type: ignore[arg-type]


def load(seq: int, kind: str, lo: str | None) -> Load:
    now = datetime(2026, 3, 9, tzinfo=UTC)
    window = Window(kind, lo, None, now.date())
    return Load(seq, f"l{seq}", 1, "t", "success", "r", window, None, 1, now, now, RECEIPT, None)


def said(stretches: list[Stretch], known: DayProofs) -> str:
    """A letter for each day."""
    runs = calendar_of(stretches, known, FIRST, TODAY)
    assert runs[0].first == FIRST
    assert runs[-1].last == TODAY
    assert all(b.first == a.last + timedelta(days=1) for a, b in pairwise(runs))
    return "".join(run.state[0] * run.days for run in runs)


def test_loaded_is_not_proved() -> None:
    assert said(LOADED, DayProofs()) == "l" * 10


def test_what_a_whole_check_compared_is_proved_up_to_where_rows_were_old_enough() -> None:
    assert said(LOADED, DayProofs([PROOF])) == "pppppp" + "llll"


def test_days_that_were_written_since_are_stale() -> None:
    """A window reads from its beginning on; a day before it may be another one by its clock."""
    live = load(6, "live", "2026-03-05 00:00:00")
    assert said(LOADED, DayProofs([PROOF], [live])) == "ppp" + "sss" + "llll"
    # Of a load that does not say what it read, nothing is left of the proof.
    assert said(LOADED, DayProofs([PROOF], [load(6, "repair", None)])) == "ssssss" + "llll"
    assert said(LOADED, DayProofs([PROOF], [load(5, "live", None)])) == "pppppp" + "llll"


def test_a_mark_takes_every_proof_before_it() -> None:
    after = (PROOF.started_at + timedelta(seconds=1), "ALTER TABLE")
    assert said(LOADED, DayProofs([PROOF], marked=after)) == "ssssss" + "llll"
    before = (PROOF.started_at - timedelta(seconds=1), "ALTER TABLE")
    assert said(LOADED, DayProofs([PROOF], marked=before)) == "pppppp" + "llll"
    unproved = [Stretch("t", None, TODAY, "unproved", "ALTER TABLE")]
    assert said(unproved, DayProofs([PROOF])) == "s" * 10


@pytest.mark.parametrize("verdict", ["different", "undecided"])
def test_a_check_that_is_not_equal_proves_nothing(verdict: str) -> None:
    wrong = replace(PROOF, verdict=verdict)
    assert said(LOADED, DayProofs([wrong])) == "l" * 10
    # One half equal, the other not: a day has rows in both.
    half = replace(PROOF, hi="5"), replace(PROOF, lo="5", verdict=verdict)
    assert said(LOADED, DayProofs(half)) == "l" * 10


def test_a_day_that_differs_is_red_until_a_later_check_finds_it_equal() -> None:
    wrong = day_proof(3, "different", differences=2)
    assert said(LOADED, DayProofs([PROOF, wrong])) == "ppdppp" + "llll"
    again = day_proof(3, "equal", at=10)
    assert said(LOADED, DayProofs([PROOF, wrong, again])) == "pppppp" + "llll"
    whole = replace(PROOF, started_at=wrong.started_at + timedelta(hours=1), check_id="later")
    assert said(LOADED, DayProofs([wrong, whole])) == "pppppp" + "llll"
    # ... and is not red either where something was written since that later check.
    live = load(6, "live", "2026-03-02")
    assert said(LOADED, DayProofs([wrong, whole], [live])) == "ssssss" + "llll"


def test_a_day_that_was_compared_by_itself_is_proved_alone() -> None:
    alone = day_proof(4, "equal")
    assert said(LOADED, DayProofs([alone])) == "lllp" + "l" * 6
    assert said(LOADED, DayProofs([alone], [load(6, "live", "2026-03-05")])) == "llls" + "l" * 6
    assert said(LOADED, DayProofs([alone], [load(6, "live", "2026-03-06")])) == "lllp" + "l" * 6
    too_new = replace(alone, days_from=None, days_before=None)
    assert said(LOADED, DayProofs([too_new])) == "l" * 10
    # Rows of it may be among those that a later check of keys found different.
    later = replace(PROOF, verdict="different", started_at=alone.started_at + timedelta(hours=1))
    assert "p" not in said(LOADED, DayProofs([alone, later]))


def test_what_was_not_read_is_never_proved() -> None:
    stretches = [
        Stretch("t", date(2026, 3, 2), date(2026, 3, 3), "reloaded"),
        Stretch("t", date(2026, 3, 4), date(2026, 3, 4), "errored", "lost"),
        Stretch("t", date(2026, 3, 5), date(2026, 3, 5), "unknown", "rolled back"),
        Stretch("t", date(2026, 3, 6), TODAY, "not asked", "last loaded"),
    ]
    assert said(stretches, DayProofs([PROOF])) == "n" + "pp" + "e" + "u" + "nnnnn"
    found = count_days(calendar_of(stretches, DayProofs([PROOF]), FIRST, TODAY))
    assert found == {"proved": 2, "errored": 1, "unknown": 1, "not asked": 5}
