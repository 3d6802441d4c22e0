"""Days: which can't be loaded, and how those that can come together."""

from __future__ import annotations

import itertools
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dagster_mirrorlake.assets.days import refused_days, spans
from mirrorlake.config import Namespaces, TableContract

OPEN = date(2024, 5, 10)


def contract(**fields: object) -> TableContract:
    base = {"source": "s", "database": "d", "table": "t", "mode": "full"}
    names = Namespaces(raw="r", deduped="d", clean="c")
    return TableContract(**{**base, "namespaces": names, **fields})  # type: ignore[arg-type]


@given(st.lists(st.dates(date(2024, 1, 1), date(2024, 2, 1))))
def test_spans_are_the_days_in_as_few_ranges_as_there_can_be(days: list[date]) -> None:
    found = spans(days)
    told = [f + timedelta(days=n) for f, last in found for n in range((last - f).days + 1)]
    assert told == sorted(set(days))
    assert all(b[0] - a[1] > timedelta(days=1) for a, b in itertools.pairwise(found))


def test_a_copy_of_a_past_day_can_not_be_made_but_may_be_there() -> None:
    days = [OPEN - timedelta(days=2), OPEN - timedelta(days=1), OPEN]
    refused = refused_days(contract(), days, days[:1], OPEN)
    assert list(refused) == [days[1]]


def test_days_before_the_start_are_not_asked_for() -> None:
    wanted = contract(mode="incremental", key=("id",), cursor="at", start=OPEN)
    refused = refused_days(wanted, [OPEN - timedelta(days=1), OPEN], [], OPEN)
    assert list(refused) == [OPEN - timedelta(days=1)]
    assert "before the table's start (2024-05-10)" in str(refused)
