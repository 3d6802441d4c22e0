"""Patterns of databases and tables: what they choose, and what is said of one that chooses
nothing."""

from __future__ import annotations

import re

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.init.choice import Choice, choose_databases, choose_tables

LISTED = {
    "shop": {"orders": "table", "order_items": "table", "customers": "table", "v_new": "view"},
    "blog": {"posts": "table", "orders": "table", "shop.x": "table"},
    "empty": {},
}


def chosen(*tables: str, exclude: tuple[str, ...] = ()) -> set[str]:
    found = choose_tables(Choice(tables=tables, exclude=exclude), LISTED)
    return {f"{database}.{name}" for database, names in found.items() for name in names}


ALL = chosen()


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("orders",), {"shop.orders", "blog.orders"}),
        (("shop.orders",), {"shop.orders"}),
        (("order*",), {"shop.orders", "shop.order_items", "blog.orders"}),
        (("*.orders",), {"shop.orders", "blog.orders"}),
        (("blog.*",), {"blog.posts", "blog.orders", "blog.shop.x"}),
        # Not every table of a database whose name begins so.
        (("s*",), {"blog.shop.x"}),
        (("shop.x",), {"blog.shop.x"}),
        (("post?", "customer[s]"), {"blog.posts", "shop.customers"}),
        (("*",), ALL),
    ],
)
def test_patterns_choose(patterns: tuple[str, ...], expected: set[str]) -> None:
    assert chosen(*patterns) == expected


def test_excluded_is_taken_from_what_is_chosen() -> None:
    assert chosen(exclude=("orders",)) == ALL - {"shop.orders", "blog.orders"}
    assert chosen("order*", exclude=("shop.*",)) == {"blog.orders"}


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(tables=("ordres",)), r"--tables 'ordres' matches no table.*mean 'shop\.orders'"),
        (Choice(tables=("Order*",)), r"mean 'shop\.orders', 'shop\.order_items'"),
        (Choice(tables=("shop.costumers",)), r"mean 'shop\.customers'"),
        (Choice(tables=("nothing_like_it",)), r"There are 'shop\.orders',.* and 1 more$"),
        (Choice(exclude=("costumers",)), r"--exclude 'costumers' matches no table.*mean"),
        (Choice(tables=("orders", "v_*")), r"--tables 'v_\*' matches no table: view alone"),
        (Choice(exclude=("*",)), "leave no table"),
        (Choice(tables=("posts",), exclude=("blog.*",)), "leave no table"),
    ],
)
def test_a_pattern_that_matches_nothing_is_an_error(choice: Choice, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_tables(choice, LISTED)
    assert re.search(words, str(caught.value)), str(caught.value)


def test_databases() -> None:
    names = ["blog", "shop", "shop_eu"]
    assert choose_databases(Choice(), names) == ("blog", "shop", "shop_eu")
    assert choose_databases(Choice(databases=("shop*",)), names) == ("shop", "shop_eu")
    with pytest.raises(ConfigError, match=r"'shops' matches no database that this.*mean 'shop'"):
        choose_databases(Choice(databases=("blog", "shops")), names)
