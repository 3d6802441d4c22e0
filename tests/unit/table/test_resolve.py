"""Windows and chunks: what is read next, and that nothing falls between two reads."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.config import ColumnRule
from mirrorlake.config.modes import MODES, LoadMode
from mirrorlake.errors import ConfigError, SchemaError
from mirrorlake.ledger import Receipt, Window
from mirrorlake.load.chunks.planner import plan_chunks
from mirrorlake.sources.mysql.tables import Column
from mirrorlake.table.windows import lower_bound, plan_window, replaced_from
from tests.unit.plans import load_that_ended, planned, time_column
from tests.unit.tables import column

CLOCK = datetime(2026, 3, 29, 1, 30)
DAY = date(2026, 3, 29)


# --- windows --------------------------------------------------------------------------------------


def test_full_tables_are_read_whole_every_time() -> None:
    plan = planned(mode="full")
    assert plan_window(plan, None, CLOCK) == Window("full", None, None, DAY)
    assert plan_window(plan, load_that_ended(None), CLOCK) == Window("full", None, None, DAY)


def test_a_mode_that_nothing_reads_is_refused_and_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new mode whose rows come by a queue, before any load reads one; with a cursor and without."""
    for plan in (planned(mode="full"), planned(time_column(), mode="append", cursor="at")):
        monkeypatch.setitem(cast(Any, MODES), plan.contract.mode, LoadMode(cast(Any, "queue")))
        for last in (None, load_that_ended(None), load_that_ended(CLOCK)):
            with pytest.raises(ConfigError, match="no load reads rows that come by queue"):
                plan_window(plan, last, CLOCK)


def test_a_table_that_follows_the_log_is_copied_once() -> None:
    plan = planned(mode="binlog")
    assert plan_window(plan, None, CLOCK) == Window("initial", None, None, DAY)
    assert plan_window(plan, load_that_ended(CLOCK), CLOCK) == Window("log", None, None, DAY)


@pytest.mark.parametrize("mode", ["append", "incremental"])
def test_a_first_window_is_open_on_both_sides(mode: str) -> None:
    plan = planned(time_column(), mode=mode, cursor="at")
    window = plan_window(plan, None, CLOCK)
    assert window == Window("initial", None, None, DAY)
    assert lower_bound(plan, window) == ""


def test_a_first_window_begins_with_its_start() -> None:
    plan = planned(time_column(), mode="incremental", cursor="at", start=date(2026, 2, 1))
    window = plan_window(plan, None, CLOCK)
    assert window == Window("initial", "2026-02-01 00:00:00", None, DAY)
    assert lower_bound(plan, window) == "`at` >= '2026-02-01'"


def test_a_live_window_reaches_back_by_the_overlap() -> None:
    plan = planned(time_column(), mode="incremental", cursor="at", overlap=timedelta(minutes=30))
    window = plan_window(plan, load_that_ended(datetime(2026, 3, 1, 12, 0, 0, 5)), CLOCK)
    assert window == Window("live", "2026-03-01 11:30:00.000005", None, DAY)


def test_a_live_window_never_reaches_before_the_start() -> None:
    plan = planned(time_column(), mode="incremental", cursor="at", start=date(2026, 3, 1))
    window = plan_window(plan, load_that_ended(datetime(2026, 3, 1, 0, 10)), CLOCK)
    assert window.lo == "2026-03-01 00:00:00"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati"])
def test_the_start_is_a_day_of_the_cursors_own_calendar(zone: str) -> None:
    start = date(2026, 3, 1)
    plan = planned(time_column(), mode="incremental", cursor="at", start=start, zone=zone)
    assert lower_bound(plan, plan_window(plan, None, CLOCK)) == "`at` >= '2026-03-01'"
    early = plan_window(plan, load_that_ended(datetime(2026, 2, 1)), CLOCK)
    assert lower_bound(plan, early) == "`at` >= '2026-03-01 00:00:00.000000'"


def test_a_key_cursor_reaches_back_by_keys() -> None:
    plan = planned(mode="append", cursor="id", overlap_keys=100, start=date(2026, 3, 1))
    assert plan_window(plan, None, CLOCK) == Window("initial", None, None, DAY)
    window = plan_window(plan, load_that_ended(1_000), CLOCK)
    assert window == Window("live", "900", None, DAY)
    assert lower_bound(plan, window) == "`id` >= 900"


def test_an_empty_first_load_is_followed_by_another_first_one() -> None:
    plan = planned(mode="append", cursor="id")
    assert plan_window(plan, load_that_ended(None), CLOCK).kind == "initial"


ZONES = ("Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "UTC")
MOMENTS = st.datetimes(datetime(2015, 1, 1), datetime(2030, 1, 1))
DELAYS = st.one_of(
    st.timedeltas(timedelta(0), timedelta(seconds=1)),
    st.timedeltas(timedelta(0), timedelta(hours=3)),
    st.timedeltas(timedelta(0), timedelta(days=400)),
)


def turns_back(zone: str) -> list[datetime]:
    """The hours (UTC) in which a zone's clocks went back, of some years."""
    hours = (datetime(2023, 1, 1, tzinfo=UTC) + timedelta(hours=h) for h in range(3 * 8_784))
    offsets = [(at, at.astimezone(ZoneInfo(zone)).utcoffset() or timedelta()) for at in hours]
    pairs = pairwise(offsets)
    return [now.replace(tzinfo=None) for (_, a), (now, b) in pairs if b < a]


TURNS = {zone: turns_back(zone) or [datetime(2024, 1, 1)] for zone in ZONES}
ZONE_AND_MOMENT = st.sampled_from(ZONES).flatmap(
    lambda zone: st.tuples(
        st.just(zone),
        MOMENTS
        | st.builds(
            lambda turn, around: turn + around,
            st.sampled_from(TURNS[zone]),
            st.timedeltas(timedelta(hours=-2), timedelta(hours=2)),
        ),
    )
)
OVERLAPS = st.sampled_from([timedelta(0), timedelta(minutes=30), timedelta(days=2)])


def stored(moment: datetime, zone: str, cursor: Column) -> datetime:
    """What an application in ``zone`` writes for a moment (UTC): cut to the column, never rounded."""
    wall = moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    if cursor.data_type == "date":
        return datetime.combine(wall.date(), datetime.min.time())
    return wall - timedelta(microseconds=wall.microsecond % 10 ** (6 - (cursor.fraction or 0)))


def bound_of(condition: str) -> datetime:
    """The text in ``cursor >= 'text'``."""
    found = re.fullmatch(r"`at` >= '([^']+)'", condition)
    assert found, condition
    return datetime.fromisoformat(found[1])


@settings(max_examples=500, deadline=None)
@given(
    zone_and_hi=ZONE_AND_MOMENT,
    delay=DELAYS,
    overlap=OVERLAPS,
    kind=st.sampled_from(["datetime", "date"]),
    fraction=st.integers(0, 6),
    has_key=st.booleans(),
)
def test_no_later_row_lies_below_the_next_window(
    zone_and_hi: tuple[str, datetime],
    delay: timedelta,
    overlap: timedelta,
    kind: str,
    fraction: int,
    has_key: bool,
) -> None:
    """Whatever the zone's clocks do, and however coarse the column is."""
    zone, hi = zone_and_hi
    cursor = time_column(kind, fraction)
    plan = planned(
        cursor, mode="append", cursor="at", zone=zone, overlap=overlap, key=("id",) * has_key
    )
    window = plan_window(plan, load_that_ended(hi), hi)
    assert stored(hi + delay, zone, cursor) >= bound_of(lower_bound(plan, window))


@settings(max_examples=200, deadline=None)
@given(hi=MOMENTS, delay=DELAYS, overlap=OVERLAPS, fraction=st.integers(0, 6))
def test_no_later_timestamp_lies_below_the_next_window(
    hi: datetime, delay: timedelta, overlap: timedelta, fraction: int
) -> None:
    cursor = time_column("timestamp", fraction)
    plan = planned(cursor, mode="incremental", cursor="at", overlap=overlap, zone="Europe/Berlin")
    condition = lower_bound(plan, plan_window(plan, load_that_ended(hi), hi))
    found = re.fullmatch(
        r"\(`at` >= FROM_UNIXTIME\((\d+)\) AND UNIX_TIMESTAMP\(`at`\) >= (\d+)\.(\d{6})\)",
        condition,
    )
    assert found, condition
    edge, seconds, micros = (int(digits) for digits in found.groups())
    row = stored(hi + delay, "UTC", cursor) - datetime(1970, 1, 1)
    assert row >= timedelta(seconds=seconds, microseconds=micros)
    # The index's range is in the server's wall clock: a day covers every turn of it.
    assert edge <= seconds - 86_400


@settings(max_examples=200, deadline=None)
@given(zone=st.sampled_from(ZONES), hi=MOMENTS, overlap=OVERLAPS)
def test_a_table_without_a_key_is_read_from_a_days_first_row(
    zone: str, hi: datetime, overlap: timedelta
) -> None:
    """What it replaces is whole raw days, so it reads these days whole."""
    plan = planned(time_column(), mode="append", cursor="at", zone=zone, overlap=overlap, key=())
    window = plan_window(plan, load_that_ended(hi), hi)
    bound = bound_of(lower_bound(plan, window))
    assert bound == datetime.combine(replaced_from(plan, window), datetime.min.time())


# --- clocks that are set back ---------------------------------------------------------------------


def receipt_with(ahead: timedelta | None, moment: datetime) -> Receipt:
    seconds = None if ahead is None else ahead.total_seconds()
    return Receipt(
        *(1, 1, 1, "", moment.isoformat(sep=" "), None, "server", "", 0, 0, 0.1),
        clock_ahead=seconds,
    )


@settings(max_examples=300, deadline=None)
@given(
    hi=MOMENTS,
    ahead=st.timedeltas(timedelta(days=-1), timedelta(days=1)),
    back=st.timedeltas(timedelta(0), timedelta(days=3)),
    before=st.timedeltas(timedelta(0), timedelta(days=2)),
    after=st.timedeltas(timedelta(0), timedelta(days=2)),
    known=st.booleans(),
)
def test_no_row_lies_below_a_window_though_the_clock_was_set_back(
    hi: datetime,
    ahead: timedelta,
    back: timedelta,
    before: timedelta,
    after: timedelta,
    known: bool,
) -> None:
    """However long before the next load that was, and whether an earlier release loaded last."""
    ours = hi - ahead  # this machine's clock at the last load
    last = replace(
        load_that_ended(hi),
        receipt=receipt_with(ahead if known else None, hi),
        started_at=ours.replace(tzinfo=UTC),
    )
    plan = planned(time_column(), mode="incremental", cursor="at", overlap=timedelta(0))
    row = hi + before - back  # written right after the clock was set back
    clock = row + after
    window = plan_window(plan, last, clock, ahead - back)
    assert row >= bound_of(lower_bound(plan, window)) >= hi - back - timedelta(seconds=1)


def test_a_clock_below_the_last_windows_end_is_enough() -> None:
    plan = planned(time_column(), mode="incremental", cursor="at", overlap=timedelta(minutes=30))
    window = plan_window(plan, load_that_ended(CLOCK + timedelta(hours=2)), CLOCK)
    assert window.lo == (CLOCK - timedelta(minutes=30)).isoformat(sep=" ")


# --- chunks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [None, load_that_ended(datetime(2026, 1, 1))])
def test_full_copies_and_live_windows_are_one_statement(last: Any) -> None:
    """One statement is one consistent read; the server is not even asked."""
    plans = [planned(mode="full"), planned(time_column(), mode="incremental", cursor="at")]
    for plan in plans if last else plans[:1]:
        window = plan_window(plan, last, CLOCK)
        assert plan_chunks(cast(Any, None), plan, window, 1) == (lower_bound(plan, window),)


# --- refusals -------------------------------------------------------------------------------------


def test_incremental_without_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no key"):
        planned(time_column(), mode="incremental", cursor="at", key=())


@pytest.mark.parametrize(
    ("cursor", "words"),
    [
        (column("at", "datetime", nullable=True), "can be NULL"),
        (column("at", "varchar"), "only integers and times order loads"),
        (column("at", "time"), "only integers and times order loads"),
        (column("at", "int"), "mode incremental needs a time"),
    ],
)
def test_cursors_that_order_nothing(cursor: Column, words: str) -> None:
    with pytest.raises(SchemaError, match=words) as caught:
        planned(cursor, mode="incremental", cursor="at")
    assert caught.value.column == "at"
    assert caught.value.next_step


def test_append_without_a_key_needs_a_time() -> None:
    with pytest.raises(ConfigError, match="needs a time cursor"):
        planned(mode="append", cursor="id", key=())


def test_names_are_spelled_as_the_server_spells_them() -> None:
    plan = planned(
        time_column(name="At"),
        column("E_Mail"),
        mode="incremental",
        key=("ID",),
        cursor="aT",
        columns_rules={"e_mail": ColumnRule(pii="drop")},
    )
    assert plan.key == ("id",)
    assert plan.cursor is not None
    assert plan.cursor.name == "At"
    assert plan.rules == {"E_Mail": "drop"}
