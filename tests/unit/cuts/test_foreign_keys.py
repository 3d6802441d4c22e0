"""Which columns of foreign keys the lake's values tell apart as MySQL does, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirrorlake.cuts.foreign_keys import orphans_of, why_incomparable, why_undecided
from mirrorlake.cuts.ledger import CutKey, CutKeys
from mirrorlake.cuts.report import key_name, keys_sentence
from mirrorlake.sources.mysql.tables import Column

KEY = CutKey("s.shop.bookings", "of", ("account", "at"), "s.bank.accounts", ("id", "at"))
PAD, NO_PAD = "utf8mb4_bin", "utf8mb4_0900_ai_ci"


def column(name: str, kind: str, **more: Any) -> Column:
    told: dict[str, Any] = {
        **{"ordinal": 1, "nullable": True, "collation": None, "precision": None, "scale": None},
        **{"length": None, "fraction": None, "extra": "", "comment": ""},
        "charset": "utf8mb4" if more.get("collation") else None,
        **more,
    }
    data_type = kind.partition("(")[0].partition(" ")[0]
    return Column(name=name, data_type=data_type, column_type=kind, **told)


def varchar(length: int, collation: str = PAD, **more: Any) -> Column:
    return column("c", f"varchar({length})", collation=collation, length=length, **more)


@pytest.mark.parametrize(
    ("child", "parent", "comparable", "decides"),
    [
        (column("a", "int(11)"), column("b", "int(10)"), True, True),
        (column("a", "int(11)"), column("b", "int(10) unsigned"), False, True),
        (column("a", "bigint(20) unsigned"), column("b", "bigint(20) unsigned"), True, True),
        (
            column("a", "decimal(10,2)", precision=10, scale=2),
            column("b", "decimal(10,3)", precision=10, scale=3),
            *(False, True),
        ),
        (
            column("a", "decimal(50,2)", precision=50, scale=2),
            column("b", "decimal(50,3)", precision=50, scale=3),
            *(False, True),
        ),
        (column("a", "datetime(3)", fraction=3), column("b", "datetime"), True, True),
        (column("a", "datetime"), column("b", "timestamp"), False, True),
        (column("a", "time(3)", fraction=3), column("b", "time"), False, True),
        (column("a", "double"), column("b", "double"), True, False),
        (column("a", "varbinary(8)", length=8), column("b", "varbinary(8)", length=8), True, True),
        (column("a", "binary(4)", length=4), column("b", "binary(8)", length=8), True, False),
        (
            column("a", "enum('x','y')", collation=PAD, length=1),
            column("b", "enum('y','x')", collation=PAD, length=1),
            *(False, True),
        ),
        (
            column("a", "char(4)", collation=PAD, length=4),
            column("b", "char(8)", collation=PAD, length=8),
            *(True, True),
        ),
        # Of these the server ignores spaces at the end, or case, or accents.
        (varchar(4), varchar(8), True, False),
        (varchar(4, NO_PAD), varchar(4, NO_PAD), True, False),
        (varchar(4, "latin1_bin", charset="latin1"), varchar(4), True, False),
        (varchar(4), column("b", "varbinary(8)", length=8), False, False),
    ],
)
def test_a_value_that_is_not_found_is_an_orphan_only_where_bytes_decide(
    child: Column, parent: Column, *, comparable: bool, decides: bool
) -> None:
    assert (why_incomparable(child, parent) == "") is comparable
    if comparable:
        assert (why_undecided(child, parent) == "") is decides


@pytest.mark.parametrize(
    ("mysql", "verdict", "words"),
    [
        (None, "orphans", "3 rows have no parent; MySQL was not asked for its own"),
        (3, "as in MySQL", "3 rows have no parent, as in MySQL (written with"),
        (0, "orphans", "3 rows have no parent; in MySQL 0"),
    ],
)
def test_orphans_that_mysql_has_too_are_no_fault(
    mysql: int | None, verdict: str, words: str
) -> None:
    found = orphans_of(replace(KEY, orphans=3, in_mysql=mysql))
    assert found.verdict == verdict
    assert found.words.startswith(words)


def test_no_more_is_said_than_was_looked_at() -> None:
    holds = replace(KEY, verdict="holds", orphans=0)
    torn = replace(KEY, verdict="orphans", orphans=3)
    assert keys_sentence(None) == "Foreign keys were not looked at."
    assert keys_sentence(CutKeys()) == "No foreign key is between these tables."
    assert keys_sentence(CutKeys((holds,))) == "1 foreign key: 1 without an orphan."
    assert keys_sentence(CutKeys((holds, torn, KEY, KEY))) == (
        "4 foreign keys: 1 without an orphan, 1 with orphans, 2 not compared."
    )
    hidden = ("s.a.b", "s.a.c", "s.a.d", "s.a.e")
    assert keys_sentence(CutKeys((), hidden)) == (
        "No foreign key could be seen: this account may not see those of 4 tables (s.a.b, s.a.c, "
        "s.a.d and 1 more)."
    )
    assert keys_sentence(CutKeys((holds,), hidden[:1])) == (
        "1 foreign key: 1 without an orphan; this account may not see those of 1 table (s.a.b)."
    )
    assert key_name(KEY) == "s.shop.bookings of (account, at) → bank.accounts (id, at)"
