"""Clean of an older version, by the rules of now: nothing that is hidden now is shown of then."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, NestedField, StringType, StructType

from mirrorlake.config import TableContract
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.serving.clean_at_version import clean_at
from mirrorlake.serving.views import ViewText

OVER = "lake.s_d.t VERSION AS OF 'cut_x'"


def contract(**columns: Any) -> TableContract:
    names = {"source": "s", "database": "d", "table": "t", "mode": "binlog", "key": ["id"]}
    spaces = {"raw": "s_d__raw", "deduped": "s_d", "clean": "s_d__clean"}
    return TableContract.model_validate(names | {"namespaces": spaces, "columns": columns})


def schema(*names: str, **ids: int) -> Schema:
    """Columns that have these field ids; `names` from 1 on."""
    found = {name: number for number, name in enumerate(names, 1)} | ids
    return Schema(
        *(NestedField(n, name, StringType(), required=False) for name, n in found.items())
    )


def shown(text: ViewText | None) -> dict[str, str]:
    """Column → its SQL."""
    assert text is not None
    listed = text.sql.removeprefix("SELECT ").partition(" FROM lake.")[0]
    pairs = (part.rsplit(" AS ", 1) for part in listed.split(", "))
    return {name.strip("`"): sql for sql, name in pairs}


@pytest.mark.parametrize(
    ("columns", "now", "then", "plain", "hidden", "absent"),
    [
        ({"b": {"pii": "null"}}, schema("a", "b"), schema("a", "b"), {"a"}, {"b"}, set()),
        # Renamed since: by the rule of its name of now.
        ({"c": {"pii": "null"}}, schema("a", c=2), schema("a", "b"), {"a"}, {"b"}, set()),
        # By its name of then as well: the names of two were exchanged.
        ({"a": {"pii": "null"}}, schema("b", "a"), schema("a", "b"), set(), {"a", "b"}, set()),
        # Dropped since, whatever the contract says of it; and another one has its name now.
        ({}, schema("a"), schema("a", "b"), {"a"}, set(), {"b"}),
        ({"b": {"pii": "show"}}, schema("a", b=3), schema("a", "b"), {"a"}, set(), {"b"}),
        # Added since.
        ({}, schema("a", "b"), schema("a"), {"a"}, set(), {"b"}),
        # Never to be shown, and never to be read.
        ({"b": {"pii": "drop"}}, schema("a", "b"), schema("a", "b"), {"a"}, set(), {"b"}),
        ({"b": {"pci": "never"}}, schema("a", "b"), schema("a", "b"), {"a"}, set(), {"b"}),
        # A view has no key to hash by.
        ({"b": {"pii": "hash"}}, schema("a", "b"), schema("a", "b"), {"a"}, set(), {"b"}),
    ],
)
def test_what_is_shown(
    columns: Any, now: Schema, then: Schema, plain: set[str], hidden: set[str], absent: set[str]
) -> None:
    found = shown(clean_at(contract(**columns), now, then, (), OVER))
    assert found.keys() == plain | hidden
    assert {name for name, sql in found.items() if sql.strip("`") == name} == plain
    assert not found.keys() & absent


def test_what_waits_for_the_contract_is_not_shown_either() -> None:
    both = schema("a", "b")
    assert shown(clean_at(contract(), both, both, ("b",), OVER)).keys() == {"a"}
    assert clean_at(contract(), both, both, ("a", "b"), OVER) is None


def test_originals_are_those_of_columns_that_are_shown_as_they_are() -> None:
    entry = StructType(
        NestedField(12, "column", StringType()), NestedField(13, "text", StringType())
    )
    originals = NestedField(10, ORIGINAL, ListType(11, entry), required=False)
    then = Schema(*schema("a", "b", "c").fields, originals)
    found = clean_at(contract(b={"pii": "mask"}), schema("a", "b"), then, (), OVER)
    assert found is not None
    assert "x -> x.column IN ('a')" in found.sql
    assert found.columns == ("a", "b", ORIGINAL)
