"""The backlog: which ended days are owed a reload."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mirrorlake.ledger import Load, Receipt, Window
from mirrorlake.operations.days.backlog import REACH, due_of
from tests.unit.operations.test_gaps import CONTRACT, RECEIPT, TODAY, day, loaded, reloaded

ZONE = ZoneInfo("UTC")
FIRST = loaded(1, "initial", None, datetime(2026, 3, 6, 12))
NEWEST = loaded(9, "live", "2026-03-10 08:00:00", datetime(2026, 3, 10, 9))


def due(*loads: Load, zone: ZoneInfo = ZONE, today: date = TODAY) -> list[date]:
    return due_of(CONTRACT, loads, zone, today)


def at(load: Load, moment: datetime) -> Load:
    """The same load, read at another moment."""
    receipt = replace(load.receipt or RECEIPT, moment=moment.isoformat(sep=" "))
    return replace(load, receipt=receipt, started_at=moment.replace(tzinfo=UTC))


def test_a_table_that_was_never_loaded_is_owed_nothing() -> None:
    assert due() == []


def test_days_that_were_open_when_they_were_read_are_owed_a_reload() -> None:
    """What ended before the first load was read whole by it; the open day is not yet due."""
    assert due(FIRST, NEWEST) == [day(6), day(7), day(8), day(9)]


def test_a_reload_pays_for_the_days_that_had_ended() -> None:
    assert due(FIRST, reloaded(5, day(6), day(8)), NEWEST) == [day(9)]
    early = at(reloaded(5, day(6), day(8)), datetime(2026, 3, 8, 4))
    assert due(FIRST, early, NEWEST) == [day(8), day(9)]


def test_a_day_that_nothing_has_read_yet_comes_with_the_next_window() -> None:
    """The source has been down since the 8th: the live window that reads on reads the 9th whole."""
    old = at(NEWEST, datetime(2026, 3, 8, 9))
    assert due(FIRST, old) == [day(6), day(7), day(8)]


def test_no_day_is_owed_for_ever() -> None:
    old = at(FIRST, datetime(2025, 1, 1))
    assert due(old, NEWEST)[0] == TODAY - REACH


def test_nothing_before_the_tables_start_is_owed() -> None:
    later = CONTRACT.model_copy(update={"start": day(8)})
    assert due_of(later, [FIRST, NEWEST], ZONE, TODAY) == [day(8), day(9)]


@pytest.mark.parametrize(("zone", "first"), [("America/New_York", day(6)), ("Asia/Tokyo", day(7))])
def test_the_calendar_that_is_behind_decides_what_had_ended(zone: str, first: date) -> None:
    """00:30 UTC on the 7th: in New York the 6th is still open."""
    early = at(FIRST, datetime(2026, 3, 7, 0, 30))
    assert due(early, NEWEST, zone=ZoneInfo(zone))[0] == first


def test_what_a_rebuilt_ledger_does_not_know_is_not_guessed() -> None:
    unknown = replace(FIRST, window=Window("unknown", None, None, day(1)))
    assert due(unknown) == []
    assert isinstance(FIRST.receipt, Receipt)
    assert due(unknown, at(NEWEST, datetime(2026, 3, 9) + timedelta(hours=1))) == [day(9)]
