"""The shop's rows: deterministic, with every awkward value that the demo promises."""

from __future__ import annotations

import re
from datetime import date, datetime
from random import Random

import pytest

from demo.contract import demo_contract
from mirrorlake.trial import shop_rows
from mirrorlake.trial.shop_rows import SHOP_TABLES, ShopRow

NOW = datetime.fromisoformat("2026-03-01 12:00:00")


def rows(table: str, count: int = 3_000, seed: int = 1) -> list[ShopRow]:
    rng = Random(seed)  # noqa: S311
    make = {
        "customers": lambda n: shop_rows.customer_row(rng, n, NOW),
        "orders": lambda n: shop_rows.order_row(rng, n, NOW),
        "order_items": lambda n: shop_rows.item_row(rng, n, 1, 5),
        "payments": lambda n: shop_rows.payment_row(rng, n, shop_rows.Decimal(1), NOW),
        "events": lambda n: shop_rows.event_row(rng, n),
        "products": lambda n: shop_rows.product_row(rng, n, NOW),
    }[table]
    return [make(n) for n in range(count)]


@pytest.mark.parametrize("table", SHOP_TABLES)
def test_a_row_has_the_columns_of_its_table(table: str) -> None:
    declared = re.findall(r"^ {4}([a-z_]+) [A-Z]", SHOP_TABLES[table].ddl, re.MULTILINE)
    declared = [name for name in declared if name not in {"created_at", "modified_at"}]
    assert [name for name in declared if name != "id"] == list(rows(table, 1)[0])


@pytest.mark.parametrize("table", SHOP_TABLES)
def test_the_seed_decides(table: str) -> None:
    assert rows(table, 50) == rows(table, 50)
    assert rows(table, 50) != rows(table, 50, seed=2)


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("customers", "birth_date", [None, "0000-00-00"]),
        ("customers", "last_login", [None, "0000-00-00 00:00:00"]),
        ("customers", "marketing", [0, 1, 2]),
        ("customers", "notes", [None, "", " ", "trailing  ", "calls back 📞"]),
        ("customers", "utc_offset", ["-00:30:00"]),
        ("orders", "channel", ["", "web,app", "web,app,gift,express"]),
        ("orders", "picked_in", [None, "838:59:59", "-838:59:59"]),
        ("orders", "paid_at", [None, "0000-00-00 00:00:00"]),
        ("payments", "reference", [2**64 - 1]),
        ("payments", "card_number", [None]),
        ("events", "token", [None, b"", b"\x00"]),
        ("products", "model_year", [None, 0, 1901, 2155]),
    ],
)
def test_awkward_values_appear(table: str, column: str, values: list[object]) -> None:
    made = [row[column] for row in rows(table)]
    assert all(value in made for value in values)


def test_negative_zero_and_a_half_date_and_a_long_note_appear() -> None:
    made = rows("customers")
    assert "-0.0" in {repr(row["balance"]) for row in made}
    assert any(str(row["birth_date"]).endswith("-00") for row in made)
    assert any(len(str(row["notes"])) > 65_535 for row in made)


def test_real_dates_are_real() -> None:
    for row in rows("customers"):
        if row["birth_date"] and not str(row["birth_date"]).endswith("-00"):
            assert date.fromisoformat(str(row["birth_date"])) <= NOW.date()


def test_card_numbers_pass_luhn() -> None:
    for seed in range(200):
        digits = [int(d) for d in shop_rows.card_number(Random(seed))]  # noqa: S311
        assert len(digits) == 16
        assert (
            sum(sum(divmod(d * 2, 10)) if i % 2 == 0 else d for i, d in enumerate(digits)) % 10 == 0
        )


def test_the_contract_names_every_shop_table_and_the_port() -> None:
    text = demo_contract(4711, "127.0.0.2")
    assert text.count("port: 4711") == text.count("host: 127.0.0.2") == 2
    assert "{host}" not in text
    assert "{port}" not in text
    assert all(re.search(rf"^ +{name}:", text, re.MULTILINE) for name in SHOP_TABLES)
