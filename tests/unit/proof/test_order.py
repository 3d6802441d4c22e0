"""Spans of keys: every row is in exactly one, in the order of the key; without a server."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.proof.forms.canonical import form_of
from mirrorlake.proof.ranges.order import (
    Part,
    after_condition,
    among_condition,
    bound_of,
    ordered_parts,
    span_conditions,
)
from mirrorlake.proof.ranges.ranges import Span, bound_text
from mirrorlake.sources.mysql.tables import Column
from tests.unit.proof.test_ranges import column

NUMBERS = (column("a", "int"), column("b", "decimal", precision=9, scale=1))
BIN = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}


def parts_of(*columns: Column) -> tuple[Part, ...]:
    return ordered_parts(columns, [form_of(c, originals=True) for c in columns], ())


def rows_in(rows: list[tuple[object, ...]], condition: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(":memory:") as lite:
        lite.execute("CREATE TABLE t (a, b)")
        lite.executemany("INSERT INTO t VALUES (?, ?)", rows)
        return lite.execute(f"SELECT a, b FROM t WHERE {condition or 'true'}").fetchall()


@given(
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4),
    st.sampled_from([1, 2]),
)
def test_spans_that_follow_each_other_hold_every_row_once(
    cuts: set[tuple[int, int]], width: int
) -> None:
    parts = parts_of(*NUMBERS)[:width]
    ends = sorted({cut[:width] for cut in cuts})
    bounds = [None, *(tuple(str(n) for n in end) for end in ends), None]
    rows: list[tuple[object, ...]] = [*product(range(4), range(4))]
    nulls: list[tuple[object, ...]] = [(None, 1), (1, None), (None, None), (3, None)]
    in_source, in_lake = [], []
    for low, high in pairwise(bounds):
        source, lake = span_conditions(parts, Span(low, high))
        if lake:
            # SQLite compares numbers; Spark's word for the type is not its own.
            lake = lake.replace("decimal(9,1)", "numeric")
        found = rows_in(rows, source)
        in_source += found
        in_lake += (held := rows_in(rows + nulls, lake))
        assert sorted(found) == sorted(r for r in held if None not in r)
        values = [None if b is None else tuple(int(c) for c in b) for b in (low, high)]
        for row in found:
            assert values[0] is None or row[:width] >= values[0]
            assert values[1] is None or row[:width] < values[1]
    assert sorted(in_source) == sorted(rows)
    assert sorted(map(str, in_lake)) == sorted(map(str, rows + nulls))


def test_what_comes_after_some_cells() -> None:
    rows: list[tuple[object, ...]] = [*product(range(3), range(3))]
    parts = parts_of(*NUMBERS)
    assert min(rows_in(rows, after_condition(parts, ("1", "1")))) == (1, 2)
    assert min(rows_in(rows, after_condition(parts[:1], ("1",)))) == (2, 0)


@pytest.mark.parametrize(
    ("one", "ordered"),
    [
        (column("c", "bigint"), True),
        (column("c", "decimal", precision=38, scale=0), True),
        (column("c", "decimal", precision=39, scale=0), False),
        (column("c", "date"), True),
        (column("c", "datetime", fraction=6), True),
        (column("c", "timestamp"), True),
        (column("c", "binary", length=16), True),
        (column("c", "varbinary", length=255), True),
        (column("c", "varbinary", length=256), False),
        (column("c", "varchar", length=255, **BIN), True),
        (column("c", "char", length=36, charset="ascii", collation="ascii_bin"), True),
        (column("c", "varchar", length=256, **BIN), False),
        (
            column("c", "varchar", length=9, charset="utf8mb4", collation="utf8mb4_general_ci"),
            False,
        ),
        # 0x80 is the euro sign, which comes after ÿ in Unicode.
        (column("c", "varchar", length=9, charset="latin1", collation="latin1_bin"), False),
        (column("c", "enum", **BIN), False),
        (column("c", "double"), False),
        (column("c", "time"), False),
        (column("c", "year"), False),
        (column("c", "uuid"), False),
    ],
)
def test_which_columns_both_sides_order_alike(one: Column, ordered: bool) -> None:
    assert bool(parts_of(one)) is ordered
    assert len(parts_of(NUMBERS[0], one, NUMBERS[1])) == (3 if ordered else 1)


def test_values_that_are_not_to_be_told_are_no_ends() -> None:
    forms = [form_of(c, originals=True) for c in NUMBERS]
    assert ordered_parts(NUMBERS, forms, ["A"]) == ()
    assert len(ordered_parts(NUMBERS, forms, ["B"])) == 1
    with pytest.raises(ValueError, match="shorter"):
        ordered_parts(NUMBERS, forms[:1], ())


def test_ends_are_kept_and_read_again() -> None:
    text = column("t", "varchar", length=20, **BIN)
    day = column("d", "date")
    parts = parts_of(text, day, column("x", "binary", length=2), NUMBERS[1])
    cells = ("7:a,b😀"[:2] + "a\"b'ä,", "0000-00-00", "00FF", "-1.5")
    cells = (f"{len(cells[0][2:].encode())}:{cells[0][2:]}", *cells[1:])
    assert bound_of(bound_text(cells), parts) == cells
    assert str(Span(None, cells)) == f"..{bound_text(cells)}"
    assert bound_text(("3:aä",)) == '["3:aä"]'
    assert Span(cells).bounds == (bound_text(cells), None)
    other = ("9:a", "2020-13-xx", "0g", "1e3")
    for number, wrong in enumerate(other):
        changed = (*cells[:number], wrong, *cells[number + 1 :])
        assert bound_of(bound_text(changed), parts) is None
    good = '"1:a", "2020-01-01", "00"'
    assert bound_of(f'[{good}, "1"]', parts) == ("1:a", "2020-01-01", "00", "1")
    for text_ in (None, "", "17", "[", "{}", '["1:a"]', f"[{good}]", f"[{good}, 1]"):
        assert bound_of(text_, parts) is None


def test_literals_of_both_sides() -> None:
    [padded] = parts_of(column("t", "varchar", length=4, **BIN))
    assert padded.literals("2:a'") == ("_utf8mb4 x'6127'", "'a\\'  '")
    assert padded.lake == "rpad(`t`,4,' ')"
    [bare] = parts_of(
        column("t", "varchar", length=4, charset="utf8mb4", collation="utf8mb4_0900_bin")
    )
    assert (bare.literals("1:a")[1], bare.lake) == ("'a'", "`t`")
    [raw] = parts_of(column("x", "varbinary", length=9))
    assert raw.literals("00FF") == ("x'00FF'", "'00FF'")
    assert raw.lake == "hex(`x`)"
    assert raw.pruned("00", "FF") == ["(`x` >= X'00')", "(`x` <= X'FF')"]
    [day] = parts_of(column("d", "date"))
    assert day.literals("2020-01-01") == ("_utf8mb4 x'323032302d30312d3031'", "'2020-01-01'")
    assert day.lake.startswith("nullif(CASE WHEN try_element_at(")
    assert day.lake.endswith(",'N')")
    [whole, broken] = parts_of(*NUMBERS)
    assert (whole.literals("-1"), whole.lake) == (("-1", "-1"), "`a`")
    assert broken.literals("-1.5") == ("-1.5", "CAST('-1.5' AS decimal(9,1))")


@pytest.mark.parametrize(
    ("collation", "padded"),
    [
        *((f"{charset}_bin", True) for charset in ("utf8mb4", "utf8mb3", "utf8", "ascii")),
        *((f"{charset}_nopad_bin", False) for charset in ("utf8mb4", "utf8mb3", "ascii")),
        ("utf8mb4_0900_bin", False),
    ],
)
def test_which_collations_fill_up_with_spaces(collation: str, padded: bool) -> None:
    charset = collation.split("_")[0]
    [part] = parts_of(column("t", "char", length=2, charset=charset, collation=collation))
    assert part.literals("1:a")[1] == ("'a '" if padded else "'a'")


def test_a_span_names_what_its_first_column_implies() -> None:
    parts = parts_of(*NUMBERS)
    lake = span_conditions(parts, Span(("1", "2"), ("3", "4")))[1]
    assert lake.startswith("(`a` >= 1) AND (`a` <= 3) AND coalesce(")
    assert span_conditions((), Span()) == span_conditions(parts, Span()) == ("", "")
    with pytest.raises(ValueError, match="shorter"):
        span_conditions(parts, Span(("1",)))


def test_files_are_left_out_by_what_a_span_implies_alone() -> None:
    [day] = parts_of(column("d", "date"))
    low, high = day.pruned("2020-01-01", "2020-02-01")
    # A date without a place in its type stands beside NULL.
    assert low == "(`d` >= DATE'2020-01-01' OR `d` IS NULL)"
    assert high == "(`d` <= DATE'2020-02-01' OR `d` IS NULL)"
    assert day.pruned("2020-00-01", "2020-02-01") == [high]
    assert day.pruned(None, "2020-02-01") == []
    assert day.pruned("2020-01-01", None) == [low]
    [text] = parts_of(column("t", "varchar", length=4, **BIN))
    assert text.pruned("1:a", "1:b") == []
    [number] = parts_of(NUMBERS[0])
    assert number.pruned("1", None) == ["(`a` >= 1)"]


DAY = column("d", "date")
TEXT = replace(column("t", "varchar"), length=20, charset="utf8mb4", collation="utf8mb4_bin")


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (["7", "-0.5"], "(`a` IN (7)) AND (`b` IN (CAST('-0.5' AS decimal(9,1))))"),
        (["7", "N"], "(`a` IN (7))"),
        (["N", "1"], "(`b` IN (CAST('1' AS decimal(9,1))))"),
    ],
)
def test_a_key_is_asked_for_by_what_the_lake_holds(key: list[str], told: str) -> None:
    """A NULL has no literal: its column then leaves out nothing."""
    names = [c.name for c in NUMBERS]
    assert among_condition(parts_of(*NUMBERS), [dict(zip(names, key, strict=True))]) == told


def test_a_key_of_times_may_be_beside_its_column() -> None:
    found = among_condition(parts_of(DAY), [{"d": "2020-02-29"}, {"d": "2020-01-01"}])
    assert found == "(`d` IN (DATE'2020-01-01', DATE'2020-02-29') OR `d` IS NULL)"
    assert among_condition(parts_of(DAY), [{"d": "2020-02-29"}, {"d": "2020-02-00"}]) == ""
    assert among_condition(parts_of(DAY), [{"d": "!"}]) == ""


def test_a_key_of_text_is_asked_for_as_it_is_stored() -> None:
    """Not filled up with spaces, as its order would have it; and never by half of it."""
    parts = parts_of(TEXT)
    assert among_condition(parts, [{"t": "4:it's"}]) == "(`t` IN ('it\\'s'))"
    assert among_condition(parts, [{"t": "9:it's"}]) == ""
    assert among_condition(parts, []) == ""
