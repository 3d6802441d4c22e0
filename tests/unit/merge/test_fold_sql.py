"""The fold's SQL: names may be anything that MySQL allows, and stay names."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.config import ColumnRule
from mirrorlake.merge.statements import (
    clean_layer,
    clean_view_sql,
    deduped_layer,
    merge_sql,
    with_originals,
)
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.table.resolve import ResolvedTable
from tests.unit.plans import planned, time_column
from tests.unit.tables import column

HOSTILE = ["a`b", "a'b", 'a"b', "x; DROP TABLE t --", "a.b", "a\\b", "select", "größe 😀", "{x}"]
NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
    ).filter(lambda name: not name.casefold().startswith("_mirror_")),
)
TOKEN = re.compile(r"`((?:[^`]|``)*)`|'((?:[^'\\]|\\.)*)'", re.DOTALL)


def parts_of(sql: str) -> tuple[str, list[str], list[str]]:
    """SQL without its quoted parts; the names in backticks; the texts in quotes."""
    names: list[str] = []
    texts: list[str] = []

    def taken(match: re.Match[str]) -> str:
        if match[1] is not None:
            names.append(match[1].replace("``", "`"))
            return "`?`"
        texts.append(re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL))
        return "'?'"

    return TOKEN.sub(taken, sql), names, texts


def plan_of(text: str, when: str, number: str, *, mode: str = "full") -> ResolvedTable:
    """A keyed table of three more columns with these names, the first with a rule."""
    columns = [column(text), time_column(name=when), column(number, "double")]
    rules = {text: ColumnRule(pii="mask"), when: ColumnRule(pii="null")}
    return planned(*columns, mode=mode, columns_rules=rules)


@settings(deadline=None)
@given(names=st.lists(NAMES, min_size=3, max_size=3, unique_by=str.casefold))
def test_hostile_names_change_nothing_of_a_statement_but_its_names(names: list[str]) -> None:
    if "id" in (n.casefold() for n in names):
        return
    hostile, plain = plan_of(*names), plan_of("x1", "x2", "x3")
    renamed = dict(zip(["x1", "x2", "x3"], names, strict=True))
    for statement in (merge_of_deduped, merge_of_clean, clean_view_sql):
        skeleton, found, texts = parts_of(statement(hostile))
        expected, plain_names, plain_texts = parts_of(statement(plain))
        assert skeleton == expected
        assert found == [renamed.get(n, n) for n in plain_names]
        assert texts == [renamed.get(t, t) for t in plain_texts]


def merge_of_deduped(plan: ResolvedTable) -> str:
    return merge_sql(plan, deduped_layer(plan))


def merge_of_clean(plan: ResolvedTable) -> str:
    return merge_sql(plan, clean_layer(plan))


@given(name=st.one_of(NAMES, st.just("a{original:b}")))
def test_a_hashed_columns_original_is_found_by_its_name(name: str) -> None:
    if name.casefold() == "id":
        return
    plan = planned(
        column(name), mode="full", clean="table", columns_rules={name: ColumnRule(pii="hash")}
    )
    sql = {n: s for n, _, s in clean_layer(plan).columns}[name]
    skeleton, names, texts = parts_of(with_originals(sql, originals=True))
    assert skeleton == (
        "mirror_hash(CAST(`?` AS string), try_element_at("
        f"filter({ORIGINAL}, x -> x.column = '?'), 1).text)"
    )
    assert (names, texts) == ([name], [name])
    without, names, _ = parts_of(with_originals(sql, originals=False))
    assert without == "mirror_hash(CAST(`?` AS string), CAST(NULL AS STRING))"
    assert names == [name]


def test_a_merge_writes_changed_rows_alone() -> None:
    plan = planned(time_column(), column("n", "double"), mode="incremental", cursor="at")
    sql = merge_of_deduped(plan)
    assert sql.startswith(
        "MERGE INTO `lake`.`s_shop`.`t` t USING mirror_changes s ON t.`id` = s.`id` "
    )
    # SQL calls 0.0 and -0.0 equal: doubles are compared by their text.
    assert "NOT (CAST(t.`n` AS STRING) <=> CAST(s.`n` AS STRING))" in sql
    assert f"NOT (t.`{ORIGINAL}` <=> s.`{ORIGINAL}`)" in sql
    assert "NOT (t.`id` <=> s.`id`)" not in sql
    assert "NOT MATCHED BY SOURCE" not in sql


def test_only_a_full_copy_deletes_what_it_lacks() -> None:
    plan = planned(mode="full")
    gone = "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    assert merge_sql(plan, deduped_layer(plan), whole=True).endswith(gone)
    assert gone not in merge_of_deduped(plan), "of a copy that wrote what changed"


def test_a_table_of_keys_alone_has_nothing_to_update() -> None:
    assert "UPDATE" not in merge_of_deduped(planned(mode="full"))


def test_originals_of_ruled_columns_are_not_shown() -> None:
    two = [time_column(name="seen"), time_column(name="hidden")]
    plan = planned(*two, mode="full", columns_rules={"hidden": ColumnRule(pii="null")})
    assert "x.column NOT IN ('hidden')" in clean_view_sql(plan)
    both = {"hidden": ColumnRule(pii="null"), "seen": ColumnRule(pii="drop")}
    assert ORIGINAL not in clean_view_sql(planned(*two, mode="full", columns_rules=both))
