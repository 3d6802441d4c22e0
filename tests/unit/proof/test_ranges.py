"""How rows are cut into groups, and what is old enough: pure, without a server."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import ProofError, TypeRefused
from mirrorlake.proof.forms.canonical import Form, form_of
from mirrorlake.proof.forms.differences import Difference, Field, Formatter, Value, compare_rows
from mirrorlake.proof.forms.rows import Row, RowForm, row_form
from mirrorlake.proof.ranges.ranges import (
    EVERYWHERE,
    Range,
    Tally,
    differing,
    ordered_column,
    plan_grid,
    total,
)
from mirrorlake.sources.mysql.tables import Column


def column(name: str = "id", kind: str = "bigint", **more: object) -> Column:
    fields = {
        "ordinal": 1,
        "data_type": kind,
        "column_type": kind,
        "nullable": False,
        "charset": None,
        "collation": None,
        "precision": None,
        "scale": None,
        "length": None,
        "fraction": None,
        "extra": "",
        "comment": "",
    }
    return Column(name=name, **{**fields, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kinds", "found"), [(["bigint", "varchar"], "a"), (["varchar", "bigint"], None), ([], None)]
)
def test_ranges_are_of_a_key_that_begins_with_an_integer(
    kinds: list[str], found: str | None
) -> None:
    ordered = ordered_column([column(name, kind) for name, kind in zip("ab", kinds, strict=False)])
    assert (ordered and ordered.name) == found


@pytest.mark.parametrize(
    ("keys", "held"),
    [
        (Range(), ["N", "-1", "3", "4", "8", "9", "99"]),
        (Range(4, 9), ["4", "8"]),
        (Range(4), ["4", "8", "9", "99"]),
        # What is no number, as NULL, comes before all.
        (Range(None, 9), ["N", "-1", "3", "4", "8"]),
    ],
)
def test_which_keys_a_range_holds(keys: Range, held: list[str]) -> None:
    cells = ["N", "-1", "3", "4", "8", "9", "99"]
    answers = [keys.holds(cell) for cell in cells]
    assert answers == [cell in held for cell in cells]


@given(st.integers(-(2**63), 2**63), st.integers(0, 10**6), st.integers(0, 10**7))
def test_every_key_is_in_exactly_the_group_that_says_so(low: int, span: int, rows: int) -> None:
    grid = plan_grid(column(), EVERYWHERE, low, low + span, rows)
    ends = [grid.range_of(g) for g in range(-1, grid.count + 1)]
    assert ends[0].lo is None
    assert ends[-1].hi is None
    assert all(a.hi == b.lo for a, b in pairwise(ends))
    for key in (low, low + span, low + span // 2):
        group = (key - grid.first) // grid.width
        found = grid.range_of(group)
        assert found.lo is not None
        assert found.hi is not None
        assert found.lo <= key < found.hi
    covered = [g for groups in grid.queries(rows) for g in groups]
    assert covered == list(range(grid.count))


def test_groups_that_differ() -> None:
    same, other, less = Tally(2, 7), Tally(2, 8), Tally(1, 7)
    assert differing({0: same, 1: same, 2: same}, {0: same, 1: other, 3: less}) == [1, 2, 3]
    assert total({0: same, 1: other}) == Tally(4, 15)


def test_a_range_is_shown_and_written() -> None:
    assert (str(Range(3, None)), str(Range(None, 9)), str(EVERYWHERE)) == ("3..", "..9", "..")
    assert Range(3, 9).source(column("a`b")) == "`a``b` >= 3 AND `a``b` < 9"
    assert EVERYWHERE.lake(column()) == ""


def test_a_wide_key_does_not_overflow() -> None:
    grid = plan_grid(column(), EVERYWHERE, -(2**63), 2**63 - 1, 1)
    assert "DECIMAL" in grid.source


def test_a_type_without_a_form_is_refused_by_name() -> None:
    with pytest.raises(TypeRefused, match="column v is vector"):
        form_of(column("v", "vector"), originals=False)


def test_small_packets_get_digests_and_smaller_ones_are_refused() -> None:
    texts = [column(f"t{n}", "varchar", length=255, charset="utf8mb4") for n in range(10)]
    assert "LENGTH" in row_form(texts, False, 1 << 24).source
    assert "LENGTH" not in row_form(texts, False, 1024).source
    with pytest.raises(ProofError, match="max_allowed_packet"):
        row_form(texts, False, 100)


ROWS = RowForm(
    tuple(Form(n, "string", n, n, n, n, text=True) for n in ("id", "a")), originals=False
)


def row(key: str, a: str, strays: str = "") -> Row:
    return Row((key,), (key, a), (key, a), strays=strays)


def test_a_row_that_is_equal_makes_the_others_second_ones() -> None:
    found = compare_rows(ROWS, ["id"], [row("1", "x")], [row("1", "y"), row("1", "x")])
    assert [(d.kind, d.note) for d in found] == [("extra", ": a second row")]
    found = compare_rows(ROWS, ["id"], [row("1", "x")], [row("1", "y"), row("1", "z")])
    assert [d.kind for d in found] == ["changed", "extra"]
    assert compare_rows(ROWS, ["id"], [row("1", "x")], [row("1", "x")]) == []


def test_an_original_that_no_column_accounts_for_is_a_difference() -> None:
    [found] = compare_rows(ROWS, ["id"], [row("1", "x")], [row("1", "x", strays="!")])
    assert [f.source.column for f in found.fields] == ["_mirror_original"]


def test_values_of_hidden_columns_are_told_by_a_keyed_digest() -> None:
    field = Field(Value("A", "x", text=True), Value("A", None, text=True))
    changed = Difference("changed", (Value("id", "1"),), (field,))
    [shown] = Formatter((), "k" * 16).lines(changed)
    assert "(val='x') and the lake (val=NULL)" in shown
    [hidden] = Formatter(("a",), "k" * 16).lines(changed)
    assert "'x'" not in hidden
    assert "keyed digest" in hidden
    [unkeyed] = Formatter(("a",), None).lines(changed)
    assert "(val=(hidden)) and the lake (val=NULL)" in unkeyed


def test_long_values_that_begin_alike_are_told_apart() -> None:
    ours = Row(("1",), ("1", "d1"), ("1", "long"))
    theirs = Row(("1",), ("1", "d2"), ("1", "long"))
    [found] = compare_rows(ROWS, ["id"], [ours], [theirs])
    assert found.fields[0].source.shown != found.fields[0].lake.shown
