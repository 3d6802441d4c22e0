"""The hash of a schema version: stable over releases and servers, different for every change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.schema.versions import SchemaChanges, schema_version

COLUMNS = [("id", "int(11)"), ("größe", "decimal(12,2)"), ("when", "datetime(6)")]


def test_the_hash_never_changes() -> None:
    """It names tables in lakes that exist: another value here would orphan them."""
    version = schema_version("orders", COLUMNS)
    assert version.raw_table == "orders_v_b604685e9c"


@pytest.mark.parametrize(
    ("mariadb", "mysql"),
    [
        ("int(11)", "int"),
        ("tinyint(1)", "tinyint"),
        ("bigint(20) unsigned", "bigint unsigned"),
        ("int(10) unsigned zerofill", "int unsigned zerofill"),
        ("year(4)", "year"),
        (" mediumint(9) ", "mediumint"),
    ],
)
def test_display_widths_are_no_part_of_a_type(mariadb: str, mysql: str) -> None:
    assert schema_version("t", [("a", mariadb)]) == schema_version("t", [("a", mysql)])


@pytest.mark.parametrize(
    "other",
    [
        [("id", "bigint(20)"), *COLUMNS[1:]],
        [("id", "int(11) unsigned"), *COLUMNS[1:]],
        [COLUMNS[0], ("größe", "decimal(12,3)"), COLUMNS[2]],
        [*COLUMNS[:2], ("when", "datetime")],
        [("ID", "int(11)"), *COLUMNS[1:]],
        COLUMNS[:2],
        COLUMNS[::-1],
        [*COLUMNS, ("more", "text")],
    ],
)
def test_every_other_difference_is_another_version(other: list[tuple[str, str]]) -> None:
    assert schema_version("t", other).hash != schema_version("t", COLUMNS).hash
    assert schema_version("u", COLUMNS).hash != schema_version("t", COLUMNS).hash


NAMES = st.text(min_size=1, max_size=8)
LISTS = st.lists(st.tuples(NAMES, st.sampled_from(["text", "char(2)", "a,b"])), max_size=4)


@given(one=LISTS, other=LISTS)
def test_no_two_lists_of_columns_share_a_hash(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    """Names may hold what separates them in an encoding."""
    same = schema_version("t", one).hash == schema_version("t", other).hash
    assert same == (one == other)


def test_changes_are_told_apart() -> None:
    before = schema_version("t", [("a", "int"), ("b", "text"), ("c", "date")])
    now = schema_version("t", [("d", "int"), ("a", "bigint"), ("b", "text")])
    changes = now.changes_from(before)
    assert changes == SchemaChanges(("d",), ("c",), (("a", "int", "bigint"),))
    assert changes.words == ("d was added", "c was dropped", "a was int, is bigint")
    assert before.changes_from(before) == SchemaChanges()


def test_a_renamed_column_is_neither_dropped_nor_added() -> None:
    before = schema_version("t", [("a", "int"), ("B", "text"), ("c", "date")])
    now = schema_version("t", [("z", "bigint"), ("b", "text"), ("y", "date")])
    hints = {"z": ("q", "a")}
    changes = now.changes_from(before, hints)
    assert changes == SchemaChanges(
        ("y",), ("c",), (("z", "int", "bigint"),), (("a", "z"), ("B", "b"))
    )
    assert "a was renamed z" in changes.words


def test_a_new_order_alone_is_no_loss() -> None:
    before = schema_version("t", [("a", "int"), ("b", "text")])
    now = schema_version("t", [("b", "text"), ("a", "int")])
    assert now.hash != before.hash
    assert now.changes_from(before) == SchemaChanges()
