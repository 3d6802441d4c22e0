"""What clean shows of deduped's columns, by the contract alone."""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType

from mirrorlake.config import ColumnRule, TableContract, default_namespaces
from mirrorlake.serving.clean_select import clean_select

ENTRY = StructType(NestedField(91, "column", StringType()), NestedField(92, "text", StringType()))
DEDUPED = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "eMail", StringType()),
    NestedField(3, "card", StringType()),
    NestedField(4, "note", StringType()),
    NestedField(9, "_mirror_original", ListType(90, ENTRY)),
)
NAMES = [field.name for field in DEDUPED.fields]


def ruled(**columns: dict[str, Any]) -> TableContract:
    return TableContract(
        source="s",
        database="d",
        table="t",
        mode="full",
        key=("id",),
        columns={name: ColumnRule(**rule) for name, rule in columns.items()},
        namespaces=default_namespaces("s", "d"),
    )


def shown(
    made: TableContract, held: tuple[str, ...] = (), there: tuple[str, ...] = ()
) -> list[str]:
    found = clean_select(made, DEDUPED, held, [*NAMES, *there])
    return [name for name, _ in found.columns]


def test_rules_hold_in_any_case_and_under_earlier_names() -> None:
    assert shown(ruled()) == NAMES
    dropped = ["id", "card", "note", "_mirror_original"]
    assert shown(ruled(EMAIL={"pii": "drop"})) == dropped
    assert shown(ruled(address={"pii": "drop", "renamed_from": ["email"]})) == dropped
    assert "eMail" in shown(
        ruled(address={"pii": "drop", "renamed_from": ["email"]}, email={"pii": "show"})
    )
    assert shown(ruled(card={"pci": "never"})) == ["id", "eMail", "note", "_mirror_original"]
    assert shown(ruled(), held=("note",)) == ["id", "eMail", "card", "_mirror_original"]


def test_originals_of_each_column_with_a_rule_are_left_out() -> None:
    made = ruled(address={"pii": "mask", "renamed_from": ["email"]}, card={"pci": "never"})
    [original] = [
        sql
        for name, sql in clean_select(made, DEDUPED, ["note"], NAMES).columns
        if name == "_mirror_original"
    ]
    assert all(f"'{name}'" in original for name in ("eMail", "address", "card", "note"))


def test_a_hash_is_shown_once_it_is_there() -> None:
    made = ruled(email={"pii": "hash"})
    assert clean_select(made, DEDUPED, (), NAMES).lacking == ("eMail",)
    found = clean_select(made, DEDUPED, (), [*NAMES, "_mirror_hash_eMail"])
    assert found.lacking == ()
    assert dict(found.columns)["eMail"] == "`_mirror_hash_eMail`"


def test_what_is_not_there_is_not_named() -> None:
    assert [name for name, _ in clean_select(ruled(), DEDUPED, (), ["id"]).columns] == ["id"]
