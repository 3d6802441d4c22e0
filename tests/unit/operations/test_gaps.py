"""Gaps and backfills: what is told of each day, and which windows a backfill asks for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config import TableContract, default_namespaces
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Load, OpenWindow, Receipt, Window
from mirrorlake.operations.days.backfill_windows import BackfillWindow, plan_backfill
from mirrorlake.operations.days.gaps import Stretch, stretches_of

TODAY = date(2026, 3, 10)
CONTRACT = TableContract(
    source="s",
    database="shop",
    table="t",
    mode="incremental",
    key=("id",),
    cursor="at",
    namespaces=default_namespaces("s", "shop"),
)
RECEIPT = Receipt(1, 1, 1, "0", "", None, "server", "", 0, 0, 0.0)


def day(number: int) -> date:
    return date(2026, 3, number)


def loaded(seq: int, kind: str, lo: str | None, moment: datetime) -> Load:
    text = moment.isoformat(sep=" ")
    now = moment.replace(tzinfo=UTC)
    window = Window(kind, lo, text, moment.date())
    receipt = replace(RECEIPT, moment=text)
    return Load(
        seq, f"l{seq}", 1, "s.shop.t", "success", "raw", window, None, 1, now, now, receipt, None
    )


def reloaded(seq: int, first: date, last: date) -> Load:
    load = loaded(seq, "reload", None, datetime(2026, 3, 10, 4))
    hi = (last + timedelta(days=1)).isoformat()
    return replace(load, window=Window("reload", first.isoformat(), hi, TODAY))


def failed(kind: str, lo: str | None, hi: str | None, error: str = "lost") -> OpenWindow:
    return OpenWindow("x", Window(kind, lo, hi, TODAY), "errored", error)


def told(contract: TableContract = CONTRACT, loads=(), unread=()) -> list[tuple[object, ...]]:
    return [(s.first, s.last, s.state) for s in stretches_of(contract, loads, unread, TODAY)]


def test_a_table_that_was_never_loaded_was_never_asked() -> None:
    assert told() == [(None, TODAY, "not asked")]
    assert told(CONTRACT.model_copy(update={"start": day(1)})) == [(day(1), TODAY, "not asked")]


def test_a_first_load_covers_everything_up_to_its_moment() -> None:
    first = loaded(1, "initial", None, datetime(2026, 3, 8, 12))
    assert told(loads=[first]) == [(None, day(8), "loaded"), (day(9), TODAY, "not asked")]


def test_days_before_a_first_load_that_began_later_were_never_asked() -> None:
    first = loaded(1, "initial", "2026-03-05 00:00:00", datetime(2026, 3, 10, 1))
    moved = CONTRACT.model_copy(update={"start": day(1)})
    assert told(moved, [first]) == [(day(1), day(4), "not asked"), (day(5), TODAY, "loaded")]


def test_a_reload_shows_and_so_does_one_that_failed() -> None:
    loads = [
        loaded(1, "initial", "2026-03-01 00:00:00", datetime(2026, 3, 10, 1)),
        reloaded(2, day(2), day(4)),
    ]
    unread = [failed("reload", "2026-03-04", "2026-03-06")]
    begun = CONTRACT.model_copy(update={"start": day(1)})
    assert told(begun, loads, unread) == [
        (day(1), day(1), "loaded"),
        (day(2), day(3), "reloaded"),
        (day(4), day(5), "errored"),
        (day(6), TODAY, "loaded"),
    ]


def test_a_live_window_that_failed_leaves_the_days_since_the_last_one() -> None:
    first = loaded(1, "initial", None, datetime(2026, 3, 8, 12))
    unread = [failed("live", "2026-03-08 11:30:00", None)]
    assert told(loads=[first], unread=unread) == [
        (None, day(7), "loaded"),
        (day(8), TODAY, "errored"),
    ]


def test_what_was_read_elsewhere_is_unproved_and_filled_by_one_window() -> None:
    loads = [loaded(1, "initial", None, datetime(2026, 3, 8, 12)), reloaded(2, day(2), day(4))]
    found = stretches_of(CONTRACT, loads, (), TODAY, "another server")
    assert [(s.first, s.last, s.state, s.reason) for s in found[:1]] == [
        (None, day(8), "unproved", "another server")
    ]
    assert [s.state for s in found[1:]] == ["not asked"]
    assert pieces(found, "missing", day(1), TODAY) == [(day(1), TODAY, True)]


def pieces(stretches: list[Stretch], which: str, first: date, last: date, size: int = 31):
    found = plan_backfill(CONTRACT, stretches, first, last, which, size)
    return [(p.first, p.last, p.live) for p in found]


def stretch(first: date | None, last: date, state: str) -> Stretch:
    return Stretch("s.shop.t", first, last, state)


HISTORY = [
    stretch(day(1), day(2), "not asked"),
    stretch(day(3), day(5), "loaded"),
    stretch(day(6), day(6), "errored"),
    stretch(day(7), day(8), "reloaded"),
    stretch(day(9), TODAY, "not asked"),
]


def test_missing_days_are_reloads_and_what_is_ahead_is_one_live_window() -> None:
    assert pieces(HISTORY, "missing", day(1), TODAY) == [
        (day(1), day(2), False),
        (day(6), day(6), False),
        (day(9), TODAY, True),
    ]


def test_only_what_failed() -> None:
    assert pieces(HISTORY, "errored", day(1), TODAY) == [(day(6), day(6), False)]


def test_all_of_a_range_in_windows_of_a_size() -> None:
    assert pieces(HISTORY, "all", day(3), day(6), 2) == [
        (day(3), day(4), False),
        (day(5), day(5), False),
        (day(6), day(6), False),
    ]


def test_a_table_that_was_never_loaded_is_one_window() -> None:
    never = [stretch(None, TODAY, "not asked")]
    assert pieces(never, "missing", day(1), TODAY, 2) == [(day(1), TODAY, True)]


@pytest.mark.parametrize(("first", "last", "size"), [(day(2), day(1), 31), (day(1), day(2), 0)])
def test_a_range_that_is_none(first: date, last: date, size: int) -> None:
    with pytest.raises(ConfigError, match="is no range to fill"):
        pieces(HISTORY, "all", first, last, size)


states = st.sampled_from(["loaded", "reloaded", "errored", "not asked"])


@given(st.lists(states, min_size=1, max_size=20), st.integers(1, 5), st.data())
def test_every_wanted_day_is_in_exactly_one_window(
    found: list[str], size: int, data: st.DataObject
) -> None:
    begin = TODAY - timedelta(days=len(found) - 1)
    days = [begin + timedelta(days=n) for n in range(len(found))]
    history = [stretch(d, d, s) for d, s in zip(days, found, strict=True)]
    first = data.draw(st.sampled_from(days))
    last = data.draw(st.sampled_from([d for d in days if d >= first]))
    planned: list[BackfillWindow] = plan_backfill(CONTRACT, history, first, last, "missing", size)
    covered = [
        p.first + timedelta(days=n) for p in planned for n in range((p.last - p.first).days + 1)
    ]
    wanted = [
        d
        for d, s in zip(days, found, strict=True)
        if s in ("not asked", "errored") and first <= d <= last
    ]
    assert sorted(covered) == wanted
    assert all((p.last - p.first).days < size for p in planned if not p.live)


def test_a_backfill_of_a_full_table_is_one_copy_today() -> None:
    """MySQL has no older copy: three days were shown, and one was copied."""
    full = CONTRACT.model_copy(update={"mode": "full", "start": None})
    stretches = [Stretch(full.name, None, TODAY, "not asked")]
    days = TODAY - timedelta(days=2)
    assert plan_backfill(full, stretches, days, TODAY, "missing", 31) == [
        BackfillWindow(full, TODAY, TODAY, live=True)
    ]
    yesterday = TODAY - timedelta(days=1)
    assert plan_backfill(full, stretches, days, yesterday, "all", 31) == []


def test_days_before_a_start_that_moved_back_were_never_asked() -> None:
    first = loaded(1, "initial", "2026-03-05 00:00:00", datetime(2026, 3, 10, 8))
    window = loaded(2, "live", "2026-03-10 07:30:00", datetime(2026, 3, 10, 9))
    start = CONTRACT.model_copy(update={"start": day(5)})
    assert told(start, [first, window]) == [(day(5), TODAY, "loaded")]
    earlier = CONTRACT.model_copy(update={"start": day(2)})
    wanted = [(day(2), day(4), "not asked"), (day(5), TODAY, "loaded")]
    assert told(earlier, [first, window]) == wanted
    assert told(CONTRACT, [first, window]) == [(None, day(4), "not asked"), *wanted[1:]]
