"""MySQL's numbers of dates, made dates: held to Python's own calendar."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.sources.mysql.types.calendar import dates_of, datetimes_of


@pytest.mark.full
def test_every_day_of_the_calendar() -> None:
    days = [date(1, 1, 1) + timedelta(n) for n in range(date.max.toordinal())]
    numbers = pa.array([d.year * 10_000 + d.month * 100 + d.day for d in days])
    dates, texts = dates_of(numbers)
    assert dates.equals(pa.array(days, pa.date32()))
    assert texts.null_count == len(days)


@pytest.mark.parametrize("year", [0, 1, 1900, 1999, 2000, 2023, 2024, 9999])
def test_every_number_of_a_year_is_a_date_or_keeps_its_text(year: int) -> None:
    parts = [(month, day) for month in range(13) for day in range(32)]
    dates, texts = dates_of(pa.array([year * 10_000 + m * 100 + d for m, d in parts]))
    for (month, day), value, text in zip(parts, dates.to_pylist(), texts.to_pylist(), strict=True):
        try:
            expected: Any = (date(year, month, day), None)
        except ValueError:
            expected = (None, f"{year:04}-{month:02}-{day:02}")
        assert (value, text) == expected


@settings(deadline=None)
@given(st.lists(st.none() | st.datetimes().map(lambda t: t.replace(microsecond=0)), max_size=30))
def test_datetimes(times: list[datetime | None]) -> None:
    numbers = [None if t is None else int(f"{t.year:04}" + t.strftime("%m%d%H%M%S")) for t in times]
    found, texts = datetimes_of(pa.array(numbers, pa.int64()))
    assert found.to_pylist() == times
    assert texts.null_count == len(times)


def test_datetimes_that_no_calendar_has_keep_their_text() -> None:
    found, texts = datetimes_of(pa.array([0, 20240015123456, 20230229000001, 20240229000001, None]))
    assert found.to_pylist() == [None, None, None, datetime(2024, 2, 29, 0, 0, 1), None]
    assert texts.to_pylist() == [
        "0000-00-00 00:00:00",
        "2024-00-15 12:34:56",
        "2023-02-29 00:00:01",
        None,
        None,
    ]


def test_a_slice_is_read_from_its_own_start() -> None:
    numbers = pa.array([20240101, None, 20240102, 20240103])
    assert dates_of(numbers.slice(2))[0].to_pylist() == [date(2024, 1, 2), date(2024, 1, 3)]
