"""Names that columns have in the lake alone: what is said to MySQL keeps MySQL's."""

from __future__ import annotations

import dataclasses

import pytest

from mirrorlake.config.contract import TableContract
from mirrorlake.config.settings import Namespaces
from mirrorlake.errors import SchemaError
from mirrorlake.proof.forms.canonical import form_of
from mirrorlake.sources.mysql.introspection.lake_names import in_lake
from mirrorlake.sources.mysql.tables import ForeignKey, Index
from mirrorlake.sources.mysql.types.exact_types import exact_column
from tests.unit.tables import column, source_table

KINDS = (
    *("int", "bigint", "bit", "decimal", "double", "date", "datetime", "timestamp", "time", "year"),
    *("varchar", "longtext", "json", "enum", "set", "binary", "blob", "point"),
)
NAMED = source_table(
    "t",
    column("_Pos", "int"),
    column("other", "int"),
    indexes=(Index("PRIMARY", True, ("_Pos",)), Index("both", False, ("other", "_Pos"))),
    foreign_keys=(ForeignKey(("_Pos",), "CASCADE", "RESTRICT"),),
)


def contract(**names: str) -> TableContract:
    spaces = Namespaces(raw="r", deduped="d", clean="c")
    return TableContract(
        source="s", database="shop", table="t", mode="full", namespaces=spaces, lake_names=names
    )


@pytest.mark.parametrize("kind", KINDS)
def test_statements_differ_by_mysqls_name_alone(kind: str) -> None:
    plain = column("moved", kind, nullable=True)
    if kind in ("enum", "set"):
        plain = dataclasses.replace(plain, charset="latin2", collation="latin2_bin")
    named = dataclasses.replace(plain, source="_pos")
    before, now = exact_column(plain), exact_column(named)
    assert before is not None
    assert now is not None
    assert before.source == ""
    assert (now.name, now.source) == ("moved", "_pos")
    assert now.select == before.select.replace("`moved`", "`_pos`")
    assert "`moved`" in before.select
    assert now.original == (before.original and before.original.replace("`moved`", "`_pos`"))
    for originals in (False, True):
        one, other = form_of(plain, originals), form_of(named, originals)
        for field in dataclasses.fields(one):
            was, is_now = getattr(one, field.name), getattr(other, field.name)
            # Spark's names stand between backticks, too.
            assert is_now in (was, str(was).replace("`moved`", "`_pos`")), field.name
            if field.name.startswith("lake"):
                assert is_now == was


def test_without_a_name_nothing_changes() -> None:
    assert in_lake(NAMED, contract()) is NAMED
    assert "source" not in repr(NAMED)
    assert NAMED.columns[0].sql == "`_Pos`"


def test_a_table_is_translated_once_and_whole() -> None:
    found = in_lake(NAMED, contract(_pos="position"))
    assert [(c.name, c.sql) for c in found.columns] == [
        ("position", "`_Pos`"),
        ("other", "`other`"),
    ]
    assert [index.columns for index in found.indexes] == [("position",), ("other", "position")]
    assert found.foreign_keys[0].columns == ("position",)
    assert in_lake(found, contract(_pos="position")) is found


def test_a_name_of_another_column_is_refused() -> None:
    with pytest.raises(SchemaError, match="_pos is to be called OTHER in the lake, and MySQL has"):
        in_lake(NAMED, contract(_pos="OTHER"))
