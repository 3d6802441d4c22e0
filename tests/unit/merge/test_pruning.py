"""The bounds of a MERGE: no key of a change lies outside, whatever its type."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.merge.pruning import (
    Bounds,
    KeyRange,
    among_sql,
    bounds_sql,
    cells,
    cover,
    literal,
    may_prune,
)

TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
VALUES = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12)),
    st.lists(st.binary(max_size=12)),
    st.lists(st.decimals(-(10**20), 10**20, places=6)),
    st.lists(st.dates()),
    st.lists(TIMES),
)


def ordered(value: Any) -> Any:
    """As the lake orders: text by its bytes."""
    return value.encode() if isinstance(value, str) else value


@settings(deadline=None)
@given(values=VALUES, most=st.integers(1, 60))
def test_every_value_is_in_one_of_few_ranges_that_do_not_meet(values: list[Any], most: int) -> None:
    ranges = cover(pa.chunked_array([pa.array(values)]), most)
    assert len(ranges) <= most
    assert bool(ranges) == bool(values)
    for value in values:
        inside = [r for r in ranges if ordered(r.lo) <= ordered(value) <= ordered(r.hi)]
        assert len(inside) == 1
    for before, after in pairwise(ranges):
        assert ordered(before.lo) <= ordered(before.hi) < ordered(after.lo)


def test_ranges_are_cut_where_the_gaps_are_widest() -> None:
    newest = range(95_000, 95_400)
    ranges = cover(pa.chunked_array([[17, 40_000, *newest]]), most=3)
    assert ranges == (KeyRange(17, 17), KeyRange(40_000, 40_000), KeyRange(95_000, 95_399))
    texts = cover(pa.chunked_array([["user/1", "user/2", "user/x", "user/y"]]), most=2)
    assert texts == (KeyRange("user/1", "user/2"), KeyRange("user/x", "user/y"))
    first = datetime(2024, 1, 1, tzinfo=UTC)
    times = [first, first + timedelta(seconds=1), first + timedelta(days=9)]
    assert cover(pa.chunked_array([times]), most=2)[1] == KeyRange(times[2], times[2])


@settings(deadline=None)
@given(values=VALUES, data=st.data(), most=st.integers(1, 20))
def test_every_value_is_in_a_range_of_whole_files(
    values: list[Any], data: st.DataObject, most: int
) -> None:
    """Ranges between edges: they hold every value, and no edge lies inside one but by a cut."""
    some = data.draw(st.sets(st.sampled_from(values), max_size=6)) if values else set()
    edges = sorted(some, key=ordered)
    ranges = cells(pa.chunked_array([pa.array(values)]), edges, most)
    assert len(ranges) <= most
    assert bool(ranges) == bool(values)
    for value in values:
        assert len([r for r in ranges if _holds(r, value)]) == 1
    for r in ranges:
        assert r.lo is None or r.lo in edges
        assert r.hi is None or r.hi in edges
        assert not r.closed
    if most > len(edges):  # then every part that holds no value is left out
        for lo, hi in pairwise([None, *edges, None]):
            part = KeyRange(lo, hi, closed=False)
            met = any(_holds(part, value) for value in values)
            assert met == any(_meets(r, part, edges) for r in ranges)


def _holds(r: KeyRange, value: Any) -> bool:
    after = r.lo is None or ordered(value) >= ordered(r.lo)
    return after and (r.hi is None or ordered(value) < ordered(r.hi))


def _meets(r: KeyRange, part: KeyRange, edges: list[Any]) -> bool:
    first = 0 if r.lo is None else edges.index(r.lo) + 1
    last = len(edges) if r.hi is None else edges.index(r.hi)
    return first <= (0 if part.lo is None else edges.index(part.lo) + 1) <= last


def test_ranges_of_whole_files_as_sql() -> None:
    edges = (10, 20, 30)
    met = cells(pa.chunked_array([[1, 25, 26]]), edges)
    assert met == (KeyRange(None, 10, closed=False), KeyRange(20, 30, closed=False))
    assert bounds_sql(Bounds(met, missing=True), [("id", "int")]) == (
        "(t.`id` < CAST('10' AS int) OR "
        "(t.`id` >= CAST('20' AS int) AND t.`id` < CAST('30' AS int)) OR t.`id` IS NULL)"
    )
    newest = Bounds(cells(pa.chunked_array([[77]]), edges), missing=False)
    assert bounds_sql(newest, [("id", "int")]) == "(t.`id` >= CAST('30' AS int))"
    every = Bounds(cells(pa.chunked_array([[5, 15, 25, 35]]), edges), missing=True)
    assert bounds_sql(every, [("id", "int")]) == "true"
    hashed = bounds_sql(replace(every, hashes=(7,)), [("id", "int")])
    assert hashed == among_sql("xxhash64(t.`id`)", (7,), (0, 20, 40))


def test_a_value_without_a_place_is_bounded_by_being_null() -> None:
    assert cover(pa.chunked_array([[None, 5]])) == (KeyRange(5, 5),)
    sql = bounds_sql(Bounds((KeyRange(5, 5),), missing=True), [("id", "bigint")])
    assert sql == "(t.`id` = CAST('5' AS bigint) OR t.`id` IS NULL)"


def test_no_change_matches_nothing() -> None:
    assert Bounds((), missing=False).empty
    assert bounds_sql(Bounds((), missing=False), [("id", "bigint")]) == "(false)"


def test_the_whole_key_is_told_by_its_hash() -> None:
    bounds = Bounds((KeyRange(1, 3), KeyRange(9, 9)), missing=False, hashes=(-(2**63), 7))
    assert bounds_sql(bounds, [("a`b", "int"), ("n", "string")]) == (
        f"{among_sql('xxhash64(t.`a``b`, t.`n`)', (-(2**63), 7), (0, 20, 40))} AND "
        "(t.`a``b` BETWEEN CAST('1' AS int) AND CAST('3' AS int) OR t.`a``b` = CAST('9' AS int))"
    )


LONGS = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("parts", [(0,), (0, 20, 40)])
@given(numbers=st.lists(LONGS, min_size=1, max_size=300), others=st.lists(LONGS))
def test_a_number_is_told_by_bits(
    parts: tuple[int, ...], numbers: list[int], others: list[int]
) -> None:
    """The condition, evaluated here as Spark would: every number is in, and of others those alone
    that share a bit with one for each of their parts."""
    sql = among_sql("n", numbers, parts)
    words = [int(word) for word in sql.split("'")[1].split(",")]
    bits = 64 * len(words)
    assert [f"(shiftrightunsigned(n, {p}) & {bits - 1}L)" in sql for p in parts] == [True] * len(
        parts
    )
    assert len(numbers) * 16 < bits <= max(64, len(numbers) * 64)
    there = {(one % 2**64 >> part) % bits for one in numbers for part in parts}
    for one in [*numbers, *others]:
        places = [(one % 2**64 >> part) & (bits - 1) for part in parts]
        inside = all((words[at >> 6] >> (at & 63)) & 1 == 1 for at in places)
        assert inside == (there.issuperset(places))
        assert inside or one not in numbers


@pytest.mark.parametrize("kinds", [["double"], ["long", "float"], []])
def test_a_key_with_two_zeroes_is_not_pruned(kinds: list[str]) -> None:
    assert not may_prune(kinds)


@pytest.mark.parametrize(
    ("value", "kind", "sql"),
    [
        ("a'b\\`", "string", "CAST(X'6127625c60' AS string)"),
        (b"\x00'", "binary", "X'0027'"),
        (Decimal("-0.000001"), "decimal(38,6)", "CAST('-0.000001' AS decimal(38,6))"),
        (date(1, 2, 3), "date", "DATE'0001-02-03'"),
        (datetime(9, 1, 1), "timestamp_ntz", "TIMESTAMP_NTZ'0009-01-01 00:00:00.000000'"),
        (
            datetime(2024, 1, 1, 0, 0, 0, 5, tzinfo=UTC),
            "timestamp",
            "TIMESTAMP_LTZ'2024-01-01 00:00:00.000005+00:00'",
        ),
    ],
)
def test_literals_are_of_the_columns_own_type(value: Any, kind: str, sql: str) -> None:
    assert literal(value, kind) == sql
