"""A day of copies is proved only if the newest copy of that day was compared, and nothing has been
done to it since."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

from mirrorlake.ledger import Proof
from mirrorlake.ledger.reports.since import LoadFigures
from mirrorlake.report.copy_days import CopyChecks, load_days

DAY = date(2026, 3, 8)
PROOF = Proof(
    **{"check_id": "c", "table": "t", "asked": "full", "lo": None, "hi": None},
    **{"verdict": "equal", "source_rows": 9, "lake_rows": 9, "source_digest": "a"},
    **{"lake_digest": "a", "waiting": 0, "differences": 0, "server": "s", "position": ""},
    source_time=datetime(2026, 3, 8, 7, tzinfo=UTC),
    **{"snapshot_id": 1, "through_seq": 5, "code": "1"},
    started_at=datetime(2026, 3, 8, 7, tzinfo=UTC),
    **{"seconds": 1.0, "source_bytes": 1, "evidence": ""},
)


def copy(seq: int, hour: int, day: int = 8) -> LoadFigures:
    at = datetime(2026, 3, day, hour, tzinfo=UTC)
    return LoadFigures(seq, 1, "success", "full", at, at, None, at, 9)


def said(loads: list[LoadFigures], checks: CopyChecks) -> tuple[str, str]:
    (run,) = load_days(loads, checks, DAY, DAY)
    return run.state, run.words


def test_the_newest_copy_of_the_day_was_compared() -> None:
    state, words = said([copy(4, 5), copy(5, 6)], CopyChecks([PROOF]))
    assert (state, words.endswith("; 2 copies that day")) == ("proved", True)
    # Copies of other days are said there.
    assert said([copy(5, 6), copy(6, 6, day=9)], CopyChecks([PROOF]))[0] == "proved"
    assert said([], CopyChecks([PROOF]))[0] == "proved"


def test_a_copy_that_came_after_the_check_was_not_compared() -> None:
    state, words = said([copy(5, 6), copy(6, 9)], CopyChecks([PROOF]))
    assert (state, words.endswith("; 1 copy came later that day")) == ("stale", True)
    # By its number, whatever its clock said.
    assert said([copy(5, 6), copy(6, 3)], CopyChecks([PROOF]))[0] == "stale"
    # One half was looked at before that copy, the other after it.
    halves = [replace(PROOF, hi="5"), replace(PROOF, lo="5", through_seq=6)]
    assert said([copy(5, 6), copy(6, 9)], CopyChecks(halves))[0] == "stale"
    again = replace(PROOF, check_id="d", through_seq=6)
    assert said([copy(5, 6), copy(6, 9)], CopyChecks([PROOF, again]))[0] == "proved"


def test_a_mark_since_takes_the_proof() -> None:
    after = datetime(2026, 3, 8, 8, tzinfo=UTC), "ALTER TABLE"
    state, words = said([copy(5, 6)], CopyChecks([PROOF], marked=after))
    assert (state, words.endswith("marked unproved since: ALTER TABLE")) == ("stale", True)
    before = datetime(2026, 3, 8, 6, tzinfo=UTC), "ALTER TABLE"
    assert said([copy(5, 6)], CopyChecks([PROOF], marked=before))[0] == "proved"


def test_other_hands_take_the_proof() -> None:
    state, words = said([copy(5, 6)], CopyChecks([PROOF], moved="its deduped table is gone"))
    assert (state, words.endswith("; its deduped table is gone")) == ("unknown", True)
    assert said([copy(5, 6)], CopyChecks(moved="its deduped table is gone"))[0] == "loaded"
