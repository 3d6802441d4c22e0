"""Which partitions a model keeps, and which readers would look for others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from mirrorlake.errors import ModelError
from mirrorlake.models.model import Project
from mirrorlake.models.products import ScopeProduct
from mirrorlake.models.retention import Retention, split_scopes
from mirrorlake.models.scopes import text_of
from tests.unit.models.test_project import NOW, compiled, contract  # noqa: F401 - fixtures

Compiled = Callable[..., Project]


def days(first: date, last: date, *, month: bool = False) -> list[date]:
    found = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return [day for day in found if day.day == 1] if month else found


@pytest.mark.parametrize(
    ("retention", "now", "kept"),
    [
        (Retention(0, timedelta(days=2), "2d"), datetime(2024, 3, 5, tzinfo=UTC), 2),
        # Until a moment before, the third ended less than two days ago.
        (Retention(0, timedelta(days=2), "2d"), datetime(2024, 3, 4, 23, 59, tzinfo=UTC), 3),
        (Retention(1, timedelta(0), "P1M"), datetime(2024, 3, 5, tzinfo=UTC), 5),
        # The newest has no end.
        (Retention(0, timedelta(hours=1), "1h"), datetime(2030, 1, 1, tzinfo=UTC), 1),
    ],
)
def test_those_that_ended_long_enough_ago_are_gone(
    retention: Retention, now: datetime, kept: int
) -> None:
    values = days(date(2024, 2, 29), date(2024, 3, 4))
    scopes = ScopeProduct({"day": values, "shop": ["a", "b"]})
    stay, gone = split_scopes(scopes, "day", retention, now)
    assert [scope["day"] for scope in stay] == [d for d in values[-kept:] for _ in "ab"]
    assert len(stay) + len(gone) == len(scopes)
    listed = split_scopes([*scopes], "day", retention, now)
    assert [[*part] for part in listed] == [[*stay], [*gone]]


def test_months_are_the_calendars() -> None:
    months = days(date(2023, 11, 1), date(2024, 3, 31), month=True)
    scopes = ScopeProduct({"month": months})
    retention = Retention(1, timedelta(0), "P1M")
    for now, first in (
        (datetime(2024, 3, 31, tzinfo=UTC), "2024-02-01"),
        (datetime(2024, 2, 29, tzinfo=UTC), "2024-01-01"),
        (datetime(2024, 3, 1, tzinfo=UTC), "2024-02-01"),
    ):
        stay, _ = split_scopes(scopes, "month", retention, now)
        assert text_of(stay[0]["month"]) == first, now


DAILY = """---
retention: {retention}
for: {{day: "TIMESERIES('2024-01-01', CURRENT_DATE, '{period}')"}}
---
SELECT id FROM s_d.sales WHERE DATE(sold_at) = day"""
READERS = {
    "same day": ("P1D", "day = of_day"),
    "a week": ("P1D", "day BETWEEN DATE_SUB(of_day, 6) AND of_day"),
    "its month": ("P1M", "day >= of_day AND day < ADD_MONTHS(of_day, 1)"),
    "the month before": ("P1M", "day >= ADD_MONTHS(of_day, -1) AND day < of_day"),
    "month to date": ("P1D", "day BETWEEN TRUNC(of_day, 'MM') AND of_day"),
    "a year": ("P1D", "day BETWEEN ADD_MONTHS(of_day, -12) AND of_day"),
}
READER = """---
for: {{of_day: "TIMESERIES('2024-01-01', CURRENT_DATE, '{period}')"}}
---
SELECT id FROM m.daily WHERE {where}"""


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_that_compiles_finds_what_it_reads_on_each_day_of_a_year(
    compiled: Compiled,  # noqa: F811
    reader: str,
) -> None:
    """Whoever looks back further than is kept is refused; who is not finds all partitions when its
    own time is over, and a period later."""
    period, where = READERS[reader]
    accepted = 0
    for retention in (2, 3, 8, 9, 32, 33, 63, 64, 94, 95, 400):
        project = compiled(
            m__daily=DAILY.format(retention=f"{retention}d", period="P1D"),
            m__reader=READER.format(period=period, where=where),
        )
        fits = not project.problems
        accepted += fits
        assert fits == _always_there(retention, period, where), (retention, project.problems)
    assert accepted


def _always_there(retention: int, period: str, where: str) -> bool:
    """By brute force, with the calendar alone."""
    months = period == "P1M"
    starts = days(date(2024, 1, 1), date(2025, 12, 31), month=months)
    for begin, end in pairwise(starts):
        over = end + (end - begin)
        if over > date(2025, 4, 1):
            break
        oldest = _first_read(begin, where)
        # It ended a day later; nothing is before the first day there is.
        ended = max(oldest, date(2024, 1, 1)) + timedelta(days=1)
        if ended <= over - timedelta(days=retention):
            return False
    return True


def _first_read(day: date, where: str) -> date:
    back = {"DATE_SUB(of_day, 6)": 6}
    for words, number in back.items():
        if words in where:
            return day - timedelta(days=number)
    if "TRUNC" in where:
        return day.replace(day=1)
    if "-12" in where:
        return (day - timedelta(days=366 if day.month > 2 else 365)).replace(day=min(day.day, 28))
    if "-1)" in where:
        return (day - timedelta(days=1)).replace(day=1)
    return day


def test_what_is_wrong_with_a_retention_is_said_with_its_place(compiled: Compiled) -> None:  # noqa: F811
    header = "---\nretention: {}\n{}---\nSELECT id FROM s_d.sales"
    of_days = "for: {day: \"TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')\"}\n"
    for retention, rest, words in (
        ("2 weeks", of_days, "m/a.sql:2:"),
        ("0d", of_days, "longer than nothing"),
        ("P0D", of_days, "is no period"),
        ("9d", "", "partitioned by no names"),
        ("9d", "for: {shop: [a, b]}\n", "partitioned by no names"),
        ("9d", "materialized: view\n", "partitioned by no names"),
    ):
        try:
            project = compiled(m__a=header.format(retention, rest))
        except ModelError as error:
            found = str(error)
        else:
            found = str(project.problems)
        assert words in found, (retention, rest, found)


def test_a_view_shows_what_is_there(compiled: Compiled) -> None:  # noqa: F811
    project = compiled(
        m__daily=DAILY.format(retention="9d", period="P1D"),
        m__shown="---\nmaterialized: view\n---\nSELECT id FROM m.daily",
        m__all="SELECT COUNT(*) AS n FROM m.daily",
    )
    assert list(project.models) == ["m.daily", "m.shown"]
    [problem] = project.problems
    assert "reads all partitions of m.daily" in problem.message
    assert "m/all.sql:1:" in problem.message
    assert len(project.models["m.daily"].scopes) == 9
    assert NOW.date() - timedelta(days=9) == date(2024, 2, 24)
    assert project.models["m.daily"].key_of(project.models["m.daily"].scopes[0]) == "day=2024-02-24"
