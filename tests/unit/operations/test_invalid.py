"""What of days that were declared invalid is still to be read again: told from the loads alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from mirrorlake.ledger import Lease, Ledger, Load, Receipt, Window
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.operations.days.invalid import (
    InvalidRange,
    answered_marks,
    invalid_ranges,
    period_words,
    unread_days,
)

TABLE = "s.shop.t"
RECEIPT = Receipt(
    rows=3, bytes=100, files=1, digest="00ff", moment="2026-01-02 03:04:05", hi=None,
    server="uuid", position="0-1-5", originals=0, future=0, query_seconds=0.5,
)  # fmt: skip


def day(number: int) -> date:
    return date(2025, 12, 31) + timedelta(days=number)


def mark(first: int | None, last: int | None) -> DirtyMark:
    days = (None if n is None else day(n) for n in (first, last))
    return DirtyMark("m", "d", TABLE, "", "ann", None, *days)


def reload(first: int, before: int) -> Window:
    return Window("reload", str(day(first)), str(day(before)), day(20))


def load(window: Window, receipt: Receipt | None = RECEIPT, seq: int = 9) -> Load:
    return Load(seq, "l", 1, TABLE, "success", "t_v_1", window, None, 1, None, None, receipt, None)  # type: ignore[arg-type]  # no times are needed


@pytest.mark.parametrize(
    ("marked", "windows", "left"),
    [
        ((3, 6), [], [(3, 6)]),
        ((3, 6), [reload(3, 7)], []),
        ((3, 6), [reload(1, 10)], []),
        ((3, 6), [reload(3, 4)], [(4, 6)]),
        ((3, 6), [reload(6, 9)], [(3, 5)]),
        ((3, 6), [reload(4, 6)], [(3, 3), (6, 6)]),
        ((3, 6), [reload(4, 5), reload(5, 7)], [(3, 3)]),
        ((3, 6), [reload(7, 9), reload(1, 3)], [(3, 6)]),
        ((None, 6), [reload(1, 7)], [(None, 0)]),
        ((3, None), [reload(1, 7)], [(7, None)]),
        ((3, 6), [Window("initial", None, None, day(9))], []),
        ((None, None), [Window("full", None, None, day(9))], []),
        ((3, 6), [Window("live", str(day(1)), None, day(9))], [(3, 6)]),
        ((3, 6), [Window("repair", None, None, day(9))], [(3, 6)]),
        ((3, 6), [Window("unknown", None, None, day(9))], [(3, 6)]),
    ],
)
def test_the_days_that_no_load_read_again(
    marked: tuple[int | None, int | None],
    windows: list[Window],
    left: list[tuple[int | None, int | None]],
) -> None:
    found = unread_days(mark(*marked), [load(window) for window in windows])
    days = [tuple(None if n is None else day(n) for n in period) for period in left]
    assert list(found) == days


def test_a_copy_that_wrote_what_changed_alone_does_not_count() -> None:
    window = Window("full", None, None, day(9))
    assert unread_days(mark(None, None), [load(window, replace(RECEIPT, stands_on=4))])
    assert not unread_days(mark(None, None), [load(window, None)])


def test_of_a_table_without_days_of_its_own_those_on_which_it_was_loaded() -> None:
    days = {day(3), day(5), day(9)}
    assert unread_days(mark(3, 6), [], days) == ((day(3), day(3)), (day(5), day(5)))
    keys = Window("reload", "1", "100", day(3))
    assert unread_days(mark(3, 6), [load(keys)], days) == ((day(5), day(5)),)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


def loaded(ledger: Ledger, window: Window, **meaning: object) -> int:
    load_id = ledger.create_load(TABLE, window)
    one = ledger.start_load(load_id, Lease(TABLE, "o", 1), "run", "t_v_1", None)
    ledger.finish_load(one, 1, replace(RECEIPT, meaning=meaning or None))
    return one.seq


def standing(ledger: Ledger) -> list[tuple[str, tuple[object, ...]]]:
    return [(one.words, one.unread) for one in invalid_ranges(ledger, ledger.dirty_marks())]


def test_a_mark_stands_until_its_days_are_loaded_and_every_layer_holds_them(
    ledger: Ledger,
) -> None:
    first = loaded(ledger, Window("initial", None, None, day(8)))
    ledger.record_folds(TABLE, "deduped", [first])
    ledger.record_folds(TABLE, "clean", [first])
    ledger.declare_invalid([replace(mark(3, 4), mark_id="a"), replace(mark(9, 9), mark_id="b")])
    words = [f"{TABLE} 2026-01-03 to 2026-01-04", f"{TABLE} 2026-01-09"]
    assert [name for name, _ in standing(ledger)] == words
    second = loaded(ledger, reload(3, 5))
    assert standing(ledger)[0] == (words[0], ())  # nothing is to be read, but folded
    ledger.record_folds(TABLE, "deduped", [second])
    assert [name for name, _ in standing(ledger)] == words
    ledger.record_folds(TABLE, "clean", [second])
    left = invalid_ranges(ledger, ledger.dirty_marks())
    assert [one.words for one in left] == words[1:]
    assert answered_marks(ledger.dirty_marks(), left) == ["a"]


def test_a_load_that_began_before_the_mark_does_not_answer_it(ledger: Ledger) -> None:
    load_id = ledger.create_load(TABLE, reload(3, 5))
    one = ledger.start_load(load_id, Lease(TABLE, "o", 1), "run", "t_v_1", None)
    ledger.declare_invalid([mark(3, 4)])
    ledger.finish_load(one, 1, RECEIPT)
    ledger.record_folds(TABLE, "deduped", [one.seq])
    assert standing(ledger)


def test_a_mark_that_came_after_a_load_is_not_answered_by_it(ledger: Ledger) -> None:
    ledger.declare_invalid([replace(mark(3, 4), mark_id="a")])
    seq = loaded(ledger, reload(3, 5))
    ledger.record_folds(TABLE, "deduped", [seq])
    ledger.declare_invalid([replace(mark(3, 4), mark_id="b")])
    left = invalid_ranges(ledger, ledger.dirty_marks())
    assert [one.mark.mark_id for one in left] == ["b"]


def test_days_of_a_table_that_is_read_by_keys(ledger: Ledger) -> None:
    meaning = {"mode": "append", "raw": "r", "cursor": "id", "by_time": False}
    for number in (3, 5):
        window = Window("live" if number > 3 else "initial", None, None, day(number))
        ledger.record_folds(TABLE, "deduped", [loaded(ledger, window, **meaning)])
    ledger.declare_invalid([mark(1, 9)])
    assert standing(ledger)[0][1] == ((day(3), day(3)), (day(5), day(5)))


def test_a_range_in_words() -> None:
    assert period_words((day(1), None)) == "from 2026-01-01"
    assert period_words((None, day(1))) == "until 2026-01-01"
    assert InvalidRange(mark(None, None), ()).words == TABLE
