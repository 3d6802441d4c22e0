"""docs/costs.md is what its prices, its mirror and the committed figures come to."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tools import costs
from tools.costs import Measured, Mirror, Month, Prices

ONES = Measured(**{field.name: 1.0 for field in fields(Measured)})
MIRROR = Mirror(
    tables=10,
    source_gb=5,
    source_rows=2_000_000,
    moving=2,
    loads_a_day=24,
    rows_a_day=1_000_000,
    checks_a_month=3,
    kept_days=7,
)


def test_the_page_is_what_is_computed_now() -> None:
    text = costs.PAGE.read_text("utf-8")
    assert text == costs.page_with(text, costs.computed()), "python -m tools.costs --write"
    assert "**examples**" in text


def test_a_month_by_hand() -> None:
    month = costs.month_of(MIRROR, replace(ONES, load_a=9, load_b=50, stored=0.5))
    loads = 2 * 24 * 30
    assert month.class_a == loads * 9
    assert month.class_b == loads * 50
    assert month.stored_gb == pytest.approx(2.5 + 2 * 24 * 7 * 1e-6)
    assert month.databases_gb == pytest.approx(loads * 2e-6)
    assert month.cpu_hours == pytest.approx((loads + 30 + 6) / 3600)
    assert month.server_hours == pytest.approx((30 + 6) / 3600)


def test_a_first_sync_by_hand() -> None:
    first = costs.first_of(MIRROR, replace(ONES, first_a=12, first_b=18, first_cpu=3600))
    assert (first.class_a, first.class_b, first.cpu_hours) == (120, 180, 2)


def test_each_thing_has_its_price() -> None:
    prices = Prices("b", gb_month=2, class_a_1000=3, class_b_1000=5, cpu_hour=7, database_month=11)
    month = Month(1000, 2000, 4, 0, 6, 8)
    assert month.cost(prices) == {"calls": 13, "stored": 8, "CPU": 42, "Postgres": 11}


def test_prices_say_where_they_are_from() -> None:
    clouds, _, about = costs.read_prices()
    assert set(clouds) == {"Google Cloud", "AWS", "Azure"}
    assert about["as_of"]
    assert about["source"]
    assert "EXAMPLES" in costs.PRICES.read_text("utf-8")
