"""Types in their positions: which may be cursors and keys, and what is refused before a read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorlake.config import ColumnRule, SourceConfig, TableContract, default_namespaces
from mirrorlake.config.settings import EntitySection
from mirrorlake.errors import SchemaError, TypeRefused
from mirrorlake.load.chunks.planner import key_expression
from mirrorlake.sources.mysql.tables import Column, Index
from mirrorlake.table.resolve import plan_table
from tests.unit.plans import planned, time_column
from tests.unit.sources.mysql.test_types_doc import TYPES, column_of
from tests.unit.tables import source_table


def of_type(text: str, name: str = "c") -> Column:
    return replace(column_of(text), name=name, nullable=False)


@pytest.mark.parametrize("text", TYPES)
def test_a_cursor_is_an_integer_or_a_time_or_refused_by_name(text: str) -> None:
    """Nothing else has an order that we and the server surely share."""
    cursor = of_type(text)
    ordered = cursor.data_type in (
        "tinyint",
        "smallint",
        "mediumint",
        "int",
        "bigint",
        "date",
        "datetime",
        "timestamp",
    )
    if cursor.data_type == "vector":
        with pytest.raises(TypeRefused, match=r"shop\.t has columns .*: c vector"):
            planned(cursor, mode="append", cursor="c")
    elif ordered:
        assert planned(cursor, mode="append", cursor="c").cursor == cursor
    else:
        with pytest.raises(SchemaError, match="only integers and times order loads"):
            planned(cursor, mode="append", cursor="c")


def test_what_is_refused_is_named_before_anything_is_read() -> None:
    columns = (of_type("vector", "v1"), of_type("int", "n"), of_type("vector", "v 2"))
    with pytest.raises(TypeRefused) as caught:
        planned(*columns, mode="full")
    assert "v1 vector, v 2 vector" in str(caught.value)
    rules = {"v1": ColumnRule(pci="never"), "v 2": ColumnRule(pci="never")}
    assert [e.name for e in planned(*columns, mode="full", columns_rules=rules).columns] == [
        "id",
        "n",
    ]


def key_of(text: str, collation: str | None) -> str:
    key = replace(of_type(text, "k"), collation=collation, length=3)
    other = replace(of_type("varchar in utf8mb4", "z"), collation="utf8mb4_0900_ai_ci")
    index = Index("PRIMARY", True, ("k", "z"))
    table = source_table(
        "t", key, other, time_column(), indexes=(index, Index("at", False, ("at",)))
    )
    contract = TableContract(
        source="s", database="shop", table="t", key=("k", "z"), columns={}, mode="incremental",
        cursor="at", namespaces=default_namespaces("s", "shop"),
    )  # fmt: skip
    expression = key_expression(
        plan_table(contract, SourceConfig(name="s", host="h", user="u"), table)
    )
    assert expression is not None
    return expression


def trimmed(charset: str, collation: str) -> str:
    """A text's weights without those of trailing spaces."""
    space = f"WEIGHT_STRING(CONVERT(' ' USING {charset}) COLLATE {collation})"
    return f"TRIM(TRAILING {space} FROM WEIGHT_STRING(`k`))"


@pytest.mark.parametrize(
    ("text", "collation", "part"),
    [
        # MySQL pads by characters: a letter that weighs as two would have one weight too few.
        ("varchar in utf8mb4", "utf8mb4_unicode_ci", trimmed("utf8mb4", "utf8mb4_unicode_ci")),
        ("varchar in latin1", "latin1_german2_ci", trimmed("latin1", "latin1_german2_ci")),
        ("varchar in latin1", "latin1_swedish_ci", "WEIGHT_STRING(`k` AS CHAR(24))"),
        ("varchar in utf8mb4", "utf8mb4_general_ci", "WEIGHT_STRING(`k` AS CHAR(3))"),
        ("varchar in utf8mb4", "utf8mb4_bin", "WEIGHT_STRING(`k` AS CHAR(3))"),
        ("varchar in utf8mb4", "utf8mb4_0900_as_cs", "WEIGHT_STRING(`k`)"),
        ("binary", None, "CAST(`k` AS BINARY)"),
        ("float", None, "`k` + 0e0"),
        ("enum in utf8mb4", "utf8mb4_unicode_ci", "`k` + 0"),
        ("bit(64)", None, "`k` + 0"),
        ("date", None, "CAST(`k` AS BINARY)"),
    ],
)
def test_a_key_is_what_the_server_calls_one(text: str, collation: str | None, part: str) -> None:
    assert f"SHA2({part}, 256)" in key_of(text, collation)


@pytest.mark.parametrize(
    ("charset", "collation", "words"),
    [
        ("big5", "big5_chinese_ci", "under big5_chinese_ci, different characters have one weight"),
        ("utf8mb4", "utf8mb4_phone_ci", "a collation that Mirrorlake does not know"),
    ],
)
def test_keys_that_cant_be_told_apart_are_refused_by_name(
    charset: str, collation: str, words: str
) -> None:
    key = replace(of_type("varchar in utf8mb4", "k"), charset=charset, collation=collation)
    with pytest.raises(SchemaError, match=rf"tell its keys apart as MySQL does: k: .*{words}"):
        planned(key, time_column(), mode="incremental", key=("k",), cursor="at")
    # A full copy compares no keys, nor does a table whose rows never change.
    planned(key, time_column(), mode="full", key=("k",))
    planned(key, time_column(), mode="append", key=("k",), cursor="at")
    entity = EntitySection(token="k", created="at")
    with pytest.raises(SchemaError, match=rf"tell tokens apart as MySQL does: k: .*{words}"):
        planned(key, time_column(), mode="append", key=("id",), cursor="at", entity=entity)
