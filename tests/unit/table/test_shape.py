"""What a table's change of columns makes a sync say."""

from __future__ import annotations

import pytest

from mirrorlake.config import ColumnRule, Namespaces, TableContract
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.table.shape import change_words

WORD = "varchar(20)"


def version(*columns: tuple[str, str]) -> SchemaVersion:
    return SchemaVersion("t", (("id", "int"), *columns))


@pytest.mark.parametrize(
    ("before", "now", "named"),
    [
        ([("Secret", WORD), ("open", WORD)], [("open", WORD), ("Secret", WORD)], ["open"]),
        ([("Secret", WORD), ("other", WORD)], [("other", WORD), ("Secret", WORD)], []),
        ([("Secret", WORD), ("n", "int")], [("n", "int"), ("Secret", WORD)], []),
        ([("a", WORD), ("b", WORD), ("Secret", WORD)], [("b", WORD), ("a", WORD), ("Secret", WORD)], []),
        ([("Secret", WORD), ("open", WORD)], [("open", WORD)], []),
    ],
)  # fmt: skip
def test_names_that_may_have_been_exchanged_past_a_rule(
    before: list[tuple[str, str]], now: list[tuple[str, str]], named: list[str]
) -> None:
    drop = ColumnRule(pii="drop")
    contract = TableContract(
        source="s",
        database="d",
        table="t",
        mode="full",
        key=("id",),
        namespaces=Namespaces(raw="r", deduped="d", clean="c"),
        columns={"secret": drop, "other": drop},
    )
    words = change_words(contract, version(*now), [version(*before)])
    found = [one.partition(" ")[0] for one in words if "stands where Secret stood" in one]
    assert found == named
