"""The days of rows: all of them are within the ranges, whatever these join."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.bigquery.api.statements import bounds_sql
from mirrorlake.bigquery.api.types import FieldJson
from mirrorlake.bigquery.loads.stage import refuse_too_many
from mirrorlake.bigquery.loads.table_form import PublishedForm
from mirrorlake.bigquery.loads.touched_days import (
    MOST_RANGES,
    DaysTouched,
    read_ranges,
)
from mirrorlake.errors import ConfigError

EVERY = st.dates(date(1, 1, 1), date(9999, 12, 31))
NEAR = st.dates(date(2026, 1, 1), date(2027, 1, 1))


def touched(values: list[date | None]) -> DaysTouched:
    found = DaysTouched()
    found.add(pa.array(values, pa.date32()))
    return found


@given(st.lists(st.one_of(EVERY, NEAR), max_size=400), st.booleans())
def test_ranges_hold_every_day_and_are_few(days: list[date], unset: bool) -> None:
    found = touched([*days, *([None] if unset else [])])
    ranges = found.ranges()
    assert len(ranges) <= MOST_RANGES
    assert all(any(first <= day <= last for first, last in ranges) for day in days)
    assert all(ranges[at][1] < ranges[at + 1][0] for at in range(len(ranges) - 1))
    assert {day for one in ranges for day in one} <= set(days)
    assert read_ranges(found.to_json()) == (ranges, unset)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23)))
def test_a_time_is_of_its_own_day(at: datetime) -> None:
    for kind, value in ((None, at), ("UTC", at.replace(tzinfo=UTC))):
        found = DaysTouched()
        found.add(pa.array([value], pa.timestamp("us", kind)))
        assert found.ranges() == [(at.date(), at.date())]


def test_only_few_partitions_are_loaded_at_once() -> None:
    days = touched([date(2010, 1, 1) + timedelta(days=n) for n in range(4_001)])
    columns = [FieldJson(name="at", type="DATE", mode="NULLABLE")]
    with pytest.raises(ConfigError, match="its rows are of 4,001 days in at, and BigQuery takes 4"):
        refuse_too_many("s.d.t", PublishedForm(columns, (), column="at", per="DAY"), days)
    refuse_too_many("s.d.t", PublishedForm(columns, (), column="at", per="MONTH"), days)
    refuse_too_many("s.d.t", PublishedForm(columns, ()), days)
    far = touched([None, date(1, 1, 1), date(1959, 12, 31), date(2160, 1, 1), date(2026, 1, 1)])
    assert (far.partitions("DAY"), far.unset) == (3, True)


def test_bounds_are_literals_of_the_column() -> None:
    ranges = [(date(33, 4, 3), date(33, 4, 4))]
    sql = {
        kind: bounds_sql(
            FieldJson(name="a", type=kind, mode="NULLABLE"), ranges, unset=kind == "DATE"
        )
        for kind in ("DATE", "DATETIME", "TIMESTAMP")
    }
    assert sql == {
        "DATE": "T.`a` BETWEEN DATE '0033-04-03' AND DATE '0033-04-04' OR T.`a` IS NULL",
        "DATETIME": "T.`a` BETWEEN DATETIME '0033-04-03 00:00:00'"
        " AND DATETIME '0033-04-04 23:59:59.999999'",
        "TIMESTAMP": "T.`a` BETWEEN TIMESTAMP '0033-04-03 00:00:00+00'"
        " AND TIMESTAMP '0033-04-04 23:59:59.999999+00'",
    }
    assert bounds_sql(FieldJson(name="a", type="DATE", mode="NULLABLE"), [], unset=False) == "FALSE"
