"""Which rows are old enough to be compared: as late as can be, and never one that may still come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.proof.scope import Scope, settled_scope

SETTLE = timedelta(minutes=10)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")


def scope_of(moment: datetime, zone: str, kind: str = "datetime") -> Scope:
    """The scope of an incremental table whose newest load shows this moment (UTC)."""
    column = SimpleNamespace(name="modified_at", data_type=kind)
    contract = SimpleNamespace(
        mode="incremental", cursor="modified_at", settle=SETTLE, start=None, overlap_keys=0
    )
    told = moment.replace(tzinfo=None).isoformat(sep=" ")
    load: Any = SimpleNamespace(receipt=SimpleNamespace(moment=told, oldest_open=None))
    table: Any = SimpleNamespace(column=lambda _: column)
    source: Any = SimpleNamespace(zone=ZoneInfo(zone))
    asked: Any = contract
    return settled_scope(table, asked, source, load)


def bound_of(moment: datetime, zone: str, kind: str = "datetime") -> datetime:
    return datetime.fromisoformat(scope_of(moment, zone, kind).below.strip("'"))


@pytest.mark.parametrize(
    ("moment", "zone", "bound"),
    [
        # No clock is turned near: settle alone waits, an hour more would be a check of nothing.
        ((2026, 7, 1, 12), "UTC", (2026, 7, 1, 11, 50)),
        ((2026, 7, 1, 12), "Europe/Berlin", (2026, 7, 1, 13, 50)),
        ((2026, 1, 5, 12), "America/New_York", (2026, 1, 5, 6, 50)),
        # Turned back at 01:00 UTC on 2026-10-25: from 02:59:59 to 02:00:00.
        ((2026, 10, 25, 0, 55), "Europe/Berlin", (2026, 10, 25, 1, 45)),
        ((2026, 10, 25, 1, 30), "Europe/Berlin", (2026, 10, 25, 2, 20)),
        # Turned forward at 01:00 UTC on 2026-03-29: no time comes twice.
        ((2026, 3, 29, 0, 55), "Europe/Berlin", (2026, 3, 29, 1, 45)),
    ],
)
def test_what_waits_is_what_settle_says(
    moment: tuple[int, ...], zone: str, bound: tuple[int, ...]
) -> None:
    at = datetime(*moment, tzinfo=UTC)  # type: ignore[misc, arg-type]
    assert bound_of(at, zone) == datetime(*bound)  # type: ignore[misc, arg-type]


def test_a_timestamp_knows_no_zone() -> None:
    at = datetime(2026, 10, 25, 0, 55, tzinfo=UTC)
    assert bound_of(at, "Europe/Berlin", "timestamp") == datetime(2026, 10, 25, 0, 45)


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2027, 1, 1)),
    st.timedeltas(timedelta(0), timedelta(days=3)),
    st.sampled_from(ZONES),
)
def test_no_row_that_may_still_come_is_compared(
    moment: datetime, later: timedelta, zone: str
) -> None:
    """Whatever is written once the settle time has begun is stamped at the bound, or above it."""
    written = (moment.replace(tzinfo=UTC) - SETTLE + later).astimezone(ZoneInfo(zone))
    assert written.replace(tzinfo=None) >= bound_of(moment, zone)


@given(st.integers(-200, 200), st.integers(0, 200), st.sampled_from(ZONES))
def test_nor_around_the_turn_of_a_clock(before: int, later: int, zone: str) -> None:
    for year in (2025, 2026):
        for turn in ((10, 26, 1), (10, 25, 1), (11, 2, 6), (11, 1, 6), (4, 5, 15), (4, 4, 15)):
            moment = datetime(year, *turn, tzinfo=UTC) + timedelta(minutes=before)
            written = moment - SETTLE + timedelta(minutes=later)
            stamped = written.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
            assert stamped >= bound_of(moment, zone)
