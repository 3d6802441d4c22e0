"""What a person decides of a first contract: it goes before what was proposed, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.init.decisions import Decisions, decide, read_decisions, rules_for
from mirrorlake.init.suggest_tables import SuggestedTable, suggest_contract
from mirrorlake.sources.mysql.binlog.requirements import LogRequirement
from mirrorlake.sources.mysql.tables import Index
from tests.unit.tables import ID, PRIMARY, column, source_table

EMAIL = column("email")
PRICE = column("price", "double")
MODIFIED = column("modified_at", "datetime")
ORDERS = suggest_contract(
    source_table(
        "orders", ID, EMAIL, PRICE, MODIFIED, indexes=(PRIMARY, Index("m", False, ("modified_at",)))
    ),
    {},
)
KINDS = suggest_contract(source_table("kinds", ID, EMAIL), {})
LACKING = (LogRequirement("log_bin", "it is OFF", "SET GLOBAL log_bin = ON"),)


def decided(*tables: SuggestedTable, missing: Any = (), **options: Any) -> list[SuggestedTable]:
    decisions = read_decisions(options.get("mode", ()), options.get("column", ()))
    return decide(tables or (ORDERS, KINDS), decisions, missing)[0]


def rules_of(table: SuggestedTable) -> dict[str, str | None]:
    return {one.column: one.rule.pii or one.rule.pci for one in table.rules}


def test_nothing_decided_is_what_was_proposed() -> None:
    assert decided() == [ORDERS, KINDS]
    assert (ORDERS.mode, KINDS.mode) == ("incremental", "full")
    assert rules_of(ORDERS) == {"email": "hash"}


def test_one_table_is_copied_whole() -> None:
    orders, kinds = decided(mode=["orders=full"])
    assert (orders.mode, orders.cursor, orders.almost) == ("full", None, None)
    assert orders.notes == ("full: decided by a person",)
    assert kinds == KINDS


def test_what_is_decided_of_a_table_goes_before_what_is_decided_of_all() -> None:
    all_by_log = decided(mode=["binlog"])
    assert [t.mode for t in all_by_log] == ["incremental", "binlog"]
    both = decided(mode=["binlog", "orders=binlog", "kinds=full"])
    assert [t.mode for t in both] == ["binlog", "full"]


def test_no_log_no_following() -> None:
    for mode in ("binlog", "orders=binlog"):
        with pytest.raises(ConfigError, match="binary log can't be followed: log_bin: it is OFF"):
            decided(missing=LACKING, mode=[mode])


@pytest.mark.parametrize("rule", ["mask", "drop", "null", "show"])
def test_a_rule_of_a_column(rule: str) -> None:
    orders, kinds = decided(column=[f"orders.email={rule}"])
    assert (rules_of(orders), orders.clean) == ({"email": rule}, None)
    assert rules_of(kinds) == {"email": "hash"}
    assert kinds.clean == "table"


def test_a_pattern_of_columns() -> None:
    assert [rules_of(t) for t in decided(column=["*.email=drop"])] == [{"email": "drop"}] * 2


def test_what_is_never_read_is_neither_key_nor_cursor() -> None:
    [orders] = decided(ORDERS, column=["orders.modified_at=never"])
    assert (orders.mode, orders.cursor, orders.key) == ("full", None, ("id",))
    [orders] = decided(ORDERS, column=["orders.id=never"])
    assert (orders.mode, orders.key) == ("full", ())
    assert any("no unique key" in w.text for w in orders.warnings)
    assert not any("no unique key" in w.text for w in ORDERS.warnings)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": ["fast"]}, "--mode 'fast' is neither binlog nor TABLE=MODE"),
        ({"mode": ["full"]}, "is neither binlog nor TABLE=MODE"),
        ({"mode": ["nobody=full"]}, "--mode 'nobody' matches no table"),
        ({"column": ["email=mask"]}, "is no TABLE.COLUMN=RULE"),
        ({"column": ["orders.email=hide"]}, "Rules: mask, hash, drop, null, show, never"),
        ({"column": ["orders.emial=mask"]}, "--column 'orders.emial' matches no column"),
        ({"column": ["orders.price=mask"]}, "only texts can be masked. Rules that it can have: "),
        ({"column": ["orders.price=hash"]}, "only int, long, decimal, string, date have one text"),
        ({"column": ["orders.id=null"]}, "it is the key"),
        ({"column": ["orders.email=hash", "orders.id=drop"]}, "needs its key"),
        ({"column": ["orders.email=drop", "orders.id=drop", "orders.email=hash"]}, "is dropped"),
    ],
)
def test_what_can_not_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        decided(**options)
    assert words in str(refused.value)


def test_the_rules_that_a_column_can_have() -> None:
    assert rules_for(ORDERS, EMAIL) == ("mask", "hash", "drop", "null", "show", "never")
    assert rules_for(ORDERS, PRICE) == ("drop", "null", "show", "never")
    assert rules_for(ORDERS, ID) == ("hash", "show", "never")


def test_nothing_is_lost_of_what_is_said_of_the_log() -> None:
    _, log = decide((ORDERS, KINDS), Decisions(by_log=True), ())
    assert (log.tables, log.written) == (1, True)
    _, log = decide((ORDERS, KINDS), Decisions(modes=(("orders", "full"),)), ())
    assert (log.tables, log.written) == (2, False)
