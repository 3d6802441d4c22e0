"""Which proofs are current, and which days they prove: from the ledger's texts alone."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.proof.coverage.covered import current_proofs, is_covered, open_proofs
from mirrorlake.proof.coverage.days import Days, proved_days, whole_days
from mirrorlake.proof.ranges.range_ends import is_at_most
from mirrorlake.proof.ranges.scope import ALL, UNKNOWN, Scope
from tests.unit.proof.test_ranges import column

MAY = date(2026, 5, 1)


def proof(lo: str | None, hi: str | None, asked: str = "next", check: str = "", **more: Any) -> Any:
    fields = {
        "verdict": "equal",
        "day": None,
        "days_from": None,
        "days_before": MAY,
        "through_seq": 7,
        "started_at": datetime(2026, 5, 2, tzinfo=UTC),
    }
    check_id = check or f"{lo} {hi} {asked}"
    return SimpleNamespace(lo=lo, hi=hi, asked=asked, check_id=check_id, **{**fields, **more})


def ends(proofs: list[Any]) -> list[str]:
    return [f"{p.lo or ''}..{p.hi or ''}" for p in proofs]


def end(*cells: str) -> str:
    return json.dumps(cells)


def test_a_range_is_current_until_newer_ones_hold_it() -> None:
    old = [proof(None, "100"), proof("100", "200"), proof("200", None)]
    assert current_proofs(old) == old
    # The ends have moved: what is still partly alone stays, until the round ends.
    newer = [proof(None, "120")]
    assert ends(current_proofs(old + newer)) == ["100..200", "200..", "..120"]
    newer.append(proof("120", "230"))
    assert ends(current_proofs(old + newer)) == ["200..", "..120", "120..230"]
    newer.append(proof("230", None))
    assert current_proofs(old + newer) == newer
    assert current_proofs([*old, *newer, proof("5", "7", "keys")]) == [
        *newer,
        proof("5", "7", "keys"),
    ]
    assert ends(current_proofs([*old, *newer, proof(None, None, "full")])) == [".."]


def test_an_end_is_a_number_and_no_text() -> None:
    assert ends(current_proofs([proof("9", "10"), proof("9", "80"), proof("80", "100")])) == [
        "9..80",
        "80..100",
    ]
    assert is_covered(("-5", "99"), [("-9", "100")])
    assert not is_covered(("-9", "99"), [("-5", "100")])


def test_a_gap_is_not_covered() -> None:
    assert not is_covered((None, None), [(None, "5"), ("6", None)])
    assert is_covered((None, None), [("4", None), (None, "5")])
    assert not is_covered((None, "9"), [("0", None)])
    assert not is_covered(("0", None), [(None, "9")])
    assert not is_covered(("0", "1"), [])


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=8),
    st.lists(st.integers(0, 12)),
    st.integers(0, 12),
    st.integers(1, 8),
)
def test_what_is_covered_is_every_key_and_no_other(
    cuts: list[int], more: list[int], low: int, width: int
) -> None:
    ranges = [(str(a), str(b)) for a, b in pairwise(cuts) if a < b]
    ranges += [(str(a), str(a + 2)) for a in more]
    held = {key for a, b in ranges for key in range(int(a), int(b))}
    said = is_covered((str(low), str(low + width)), ranges)
    assert said == held.issuperset(range(low, low + width))


@pytest.mark.parametrize(
    ("one", "other", "sure"),
    [
        (end("1:a"), end("1:b"), True),
        (end("1:b"), end("1:a"), False),
        # The length before a text is no part of it.
        (end("2:aa"), end("1:b"), True),
        # A control character: before or after the end of the text, by the collation.
        (end("1:a"), end("2:a\t"), False),
        (end("2:a\t"), end("1:a"), False),
        (end("1:a"), end("2:aa"), True),
        (end("2026-01-09"), end("2026-01-10"), True),
        (end("2026-01-09"), end("2026-01-09 10:00:00"), False),
        # A number, or bytes: 99 is before 1234, x'1234' before x'99'.
        (end("99"), end("1234"), False),
        (end("1234"), end("99"), False),
        (end("1234"), end("9999"), True),
        (end("9"), end("10"), True),
        (end("-10"), end("-9"), True),
        (end("-9"), end("10"), True),
        (end("9.50"), end("10.25"), True),
        (end("10.25"), end("9.50"), False),
        (end("9F"), end("A0"), True),
        (end("A0"), end("9F"), False),
        (end("AA"), end("AA00"), True),
        (end("7", "1:b"), end("7", "1:c"), True),
        (end("7", "1:c"), end("7", "1:b"), False),
        (end("7", "1:z"), end("8", "1:a"), True),
        (end("8", "1:a"), end("7", "1:z"), False),
        # Of another key than it is now.
        (end("7"), end("8", "1:a"), False),
        (end("2026-01-09"), end("1:a"), False),
        ("5", end("7"), False),
        (end("5") + " included", end("7"), False),
        (end("5") + " included", end("5") + " included", True),
    ],
)
def test_which_end_is_surely_first(one: str, other: str, sure: bool) -> None:
    assert is_at_most(one, other) is sure
    assert is_at_most(one, one)


def test_of_a_day_the_newest_check_is_current() -> None:
    first, second = date(2026, 1, 1), date(2026, 1, 2)
    days = [
        proof(None, "5", "partition", "a", day=first),
        proof("5", None, "partition", "a", day=first),
        proof(None, None, "partition", "b", day=second),
        proof(None, "9", "partition", "c", day=first),
        proof("9", None, "partition", "c", day=first),
    ]
    assert [p.check_id for p in current_proofs(days)] == ["b", "c", "c"]
    # A day's check covers no keys, and a whole check every day.
    whole = proof(None, None, "full")
    assert current_proofs([whole, *days])[0] is whole
    assert current_proofs([*days, whole]) == [whole]
    conditions = [proof(None, None, "where", "x"), proof(None, None, "where", "y")]
    assert [p.check_id for p in current_proofs([whole, *conditions])] == [whole.check_id, "y"]


# --- days -----------------------------------------------------------------------------------------


def load(seq: int, kind: str = "live", lo: str | None = "2026-04-20T10:00:00", **more: Any) -> Any:
    receipt = SimpleNamespace(**{"looked_up": 0, "backward": None, **more})
    return SimpleNamespace(seq=seq, window=SimpleNamespace(kind=kind, lo=lo), receipt=receipt)


def days_by(proofs: list[Any], *loads: Any, marked: datetime | None = None) -> Days | None:
    found = proved_days(proofs, loads, marked)
    return found and found.days


def test_days_are_proved_when_every_key_was_compared() -> None:
    first, last = proof(None, "5"), proof("5", None)
    assert days_by([first, last]) == Days(None, MAY)
    assert days_by([first]) is None
    assert days_by([last]) is None
    assert days_by([]) is None
    assert days_by([first, proof("5", None, verdict="different")]) is None
    assert days_by([first, proof("5", None, verdict="undecided")]) is None
    # What was found before the newest look does not count.
    assert days_by([proof("5", None, verdict="different"), first, last]) == Days(None, MAY)
    assert days_by([first, last, proof("1", "2", "keys", verdict="different")]) is None
    assert days_by([proof(None, None, "full")]) == Days(None, MAY)


def test_days_were_old_enough_in_every_range() -> None:
    early = date(2026, 4, 1)
    some = proof("5", None, days_before=early, days_from=date(2026, 1, 2))
    assert days_by([proof(None, "5"), some]) == Days(date(2026, 1, 2), early)
    assert days_by([proof(None, "5"), proof("5", None, days_before=None)]) is None
    more = proof(None, "5", days_from=date(2026, 2, 3))
    assert days_by([more, some]) == Days(date(2026, 2, 3), early)


def test_a_mark_makes_proofs_old() -> None:
    begun = datetime(2026, 5, 2, tzinfo=UTC)
    assert days_by([proof(None, None)], marked=begun) is None
    assert days_by([proof(None, None)], marked=datetime(2026, 5, 1, tzinfo=UTC)) == Days(None, MAY)


def test_days_that_were_written_meanwhile_are_not_proved() -> None:
    both = [proof(None, "5"), proof("5", None, through_seq=9)]
    assert days_by(both, load(7)) == Days(None, MAY)
    assert days_by(both, load(8)) == Days(None, date(2026, 4, 19))
    assert days_by(both, load(8), load(9, lo="2026-04-10")) == Days(None, date(2026, 4, 9))
    assert days_by(both, load(8, "reload", "2026-04-15")) == Days(None, date(2026, 4, 14))
    moved = {"looked_up": 3, "backward": 0}
    assert days_by(both, load(8, "reload", "2026-04-15", **moved)) == Days(None, date(2026, 4, 14))
    for unknown in (
        load(8, "reload", "2026-04-15", looked_up=3, backward=1),
        load(8, "reload", "2026-04-15", looked_up=3),
        load(8, "repair", None),
        load(8, "initial"),
        load(8, lo=None),
        load(8, lo="20260415"),
    ):
        assert days_by(both, unknown) is None
    bare = load(8)
    bare.receipt = None
    assert days_by(both, bare) is None
    # One check compares one state of the mirror; what was loaded after it is another.
    one = [proof(None, "5", "full", "x"), proof("5", None, "full", "x")]
    assert days_by(one, load(7, "repair", None)) == Days(None, MAY)
    assert days_by(one, load(8)) == Days(None, date(2026, 4, 19))
    assert days_by(one, load(8, "repair", None)) is None


def test_a_day_that_its_own_check_found_different_is_not_proved() -> None:
    bad = date(2026, 3, 3)
    own = proof(None, None, "partition", day=bad, verdict="different")
    found = proved_days([proof(None, None, "full"), own], [])
    assert found is not None
    assert bad not in found
    assert date(2026, 3, 4) in found
    assert MAY not in found
    assert (found.checks, found.since) == (1, datetime(2026, 5, 2, tzinfo=UTC))
    again = proof(None, None, "partition", "again", day=bad)
    found = proved_days([proof(None, None, "full"), own, again], [])
    assert found is not None
    assert bad in found
    later = proved_days([own, proof(None, None, "full")], [])
    assert later is not None
    assert bad in later
    # Which rows a condition chose is not kept.
    assert days_by([proof(None, None), proof(None, None, "where", verdict="different")]) is None
    assert days_by([proof(None, None), proof(None, None, "where")]) == Days(None, MAY)


@pytest.mark.parametrize(
    ("kind", "scope", "days"),
    [
        ("datetime", ("'2026-05-01 10:00:00.5'", ""), Days(None, MAY)),
        ("date", ("'2026-05-01'", "'2026-01-02'"), Days(date(2026, 1, 2), MAY)),
        ("bigint", ("20260501", ""), None),
    ],
)
def test_which_days_are_old_enough_as_a_whole(
    kind: str, scope: tuple[str, str], days: Days | None
) -> None:
    told = Scope("", "", "", "", "", "at", *scope)
    table = SimpleNamespace(column=lambda name: column(name, kind))
    target: Any = SimpleNamespace(scope=told, table=table)
    assert whole_days(target) == days
    for other in (ALL, UNKNOWN):
        target.scope = other
        assert whole_days(target) is None


def test_a_difference_is_open_until_all_of_its_rows_were_found_equal() -> None:
    wrong = proof("100", "200", verdict="different")

    def left(*newer: Any, first: Any = wrong) -> list[str]:
        return [p.check_id for p in open_proofs([*reversed(newer), first])]

    open_still = [wrong.check_id]
    assert left() == open_still
    assert left(proof(None, "100"), proof("200", None)) == open_still
    assert left(proof("100", "150")) == open_still
    assert left(proof("100", "150"), proof("150", "300")) == []
    assert left(proof(None, None, "full")) == []
    # What could not be compared is not equal; what differs again is named once.
    unsure = proof(None, None, "full", verdict="undecided")
    assert left(unsure) == [unsure.check_id, *open_still]
    again = proof("50", "200", verdict="different")
    assert left(again) == [again.check_id]
    assert left(wrong, first=unsure) == [wrong.check_id, unsure.check_id]
    assert left(proof(None, None, "full"), first=unsure) == []
    # Nor does an equal day, or an equal condition.
    assert left(proof(None, None, "partition", day=MAY)) == open_still
    assert left(proof(None, None, "where")) == open_still


def test_a_day_and_a_condition_are_closed_by_their_own() -> None:
    day = [
        proof(None, None, "partition", "a", day=MAY),
        proof(None, None, "partition", "a", day=MAY, verdict="different"),
    ]
    equal = proof(None, None, "partition", "b", day=MAY)
    other = proof(None, None, "partition", "c", day=date(2026, 5, 2))
    whole = proof(None, None, "full")

    def left(*newest_last: Any) -> list[str]:
        return [p.check_id for p in open_proofs(newest_last[::-1])]

    assert left(*day) == left(*day, other) == left(*day, proof("1", "2", "keys")) == ["a"]
    assert left(*day, equal) == left(*day, whole) == []
    unsure = proof(None, None, "partition", "d", day=MAY, verdict="undecided")
    assert left(*day, unsure) == ["d", "a"]
    assert left(unsure, equal) == []
    where = proof(None, None, "where", "w", verdict="different")
    assert left(where, proof(None, None, "where", "x")) == ["w"]
    assert left(where, whole) == []
