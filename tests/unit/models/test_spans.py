"""Sets of values: what both hold, what either holds, and bounds that are moved."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.models.row_filters.value_sets import ALL, NONE, Interval, ValueSet
from mirrorlake.models.spark_sql.constants.values import Unknown

OPERATORS = {
    "=": lambda x, v: x == v,
    "<": lambda x, v: x < v,
    "<=": lambda x, v: x <= v,
    ">": lambda x, v: x > v,
    ">=": lambda x, v: x >= v,
}
NUMBERS = range(-3, 13)
Term = tuple[str, int]
Terms = st.lists(st.tuples(st.sampled_from(sorted(OPERATORS)), st.integers(0, 9)), max_size=4)


def span_of(terms: list[Term], *, either: bool) -> ValueSet:
    found = NONE if either else ALL
    for operator, value in terms:
        one = ValueSet.of(operator, value)
        found = found | one if either else found & one
    return found


def numbers_of(terms: list[Term], *, either: bool) -> set[int]:
    test = any if either else all
    return {x for x in NUMBERS if test(OPERATORS[op](x, value) for op, value in terms)}


def held(span: ValueSet) -> set[int]:
    return {x for x in NUMBERS if span.touches(x, x)}


@given(Terms, st.booleans())
def test_of_integers_a_set_is_exact(terms: list[Term], either: bool) -> None:
    assert held(span_of(terms, either=either)) == numbers_of(terms, either=either)


@given(Terms, Terms)
def test_both_and_either_of_two_unions(one: list[Term], other: list[Term]) -> None:
    a, b = span_of(one, either=True), span_of(other, either=True)
    assert held(a & b) == held(a) & held(b) == held(b & a)
    assert held(a | b) == held(a) | held(b) == held(b | a)


@given(Terms, st.integers(0, 9), st.integers(0, 4), st.booleans())
def test_a_range_touches_what_one_of_its_values_is_in(
    terms: list[Term], low: int, length: int, to_high: bool
) -> None:
    span = span_of(terms, either=True)
    # Halves stand for the values between: a range is one of them all.
    halves = [low + n / 2 for n in range(2 * length + 1)]
    wanted = halves if to_high else halves[:-1]
    meant = any(any(OPERATORS[op](x, value) for op, value in terms) for x in wanted)
    if meant:
        assert span.touches(low, low + length, to_high=to_high)


@given(Terms, st.integers(-3, 3))
def test_moved_bounds(terms: list[Term], by: int) -> None:
    span = span_of(terms, either=True)
    moved = span.moved(lambda v: v + by, lambda v: v + by)
    for x in NUMBERS:
        assert moved.touches(x + by, x + by) == span.touches(x, x)
        if span.touches(x, x):
            assert span.widened(lambda v: v, lambda v: v).touches(x, x)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (ALL, "all"),
        (NONE, "none"),
        (ValueSet.of("=", None), "none"),
        (ValueSet.of("<", 3), "(-∞, 3)"),
        (ValueSet.of(">=", date(2024, 1, 5)), "[2024-01-05, ∞)"),
        (ValueSet.of("=", datetime(2024, 1, 5, 10, tzinfo=UTC)), "{2024-01-05 10:00:00+00:00}"),
        (ValueSet.of(">", 3) & ValueSet.of("<", 3), "none"),
        (ValueSet.of(">=", 3) & ValueSet.of("<=", 3), "{3}"),
        (ValueSet.of(">", 3) & ValueSet.of("<=", 3), "none"),
        (ValueSet.of("=", 1) | ValueSet.of("=", 1), "{1}"),
        (ValueSet.of("=", 1) | ALL, "all"),
        (ALL & ValueSet.of("=", 1), "{1}"),
    ],
)
def test_how_it_is_shown(span: ValueSet, text: str) -> None:
    assert str(span) == text


def test_bounds_of_two_kinds_leave_what_the_first_says() -> None:
    assert ValueSet.of(">", 3) & ValueSet.of("<", "a") == ValueSet.of(">", 3)
    assert ValueSet.of(">", 3).touches("a", "b")
    with pytest.raises(Unknown):
        Interval(3, None).meets(Interval("a", None))


def test_a_text_beside_a_day_is_one() -> None:
    span = ValueSet.of(">=", "2024-01-05") & ValueSet.of("<", date(2024, 1, 7))
    assert [span.touches(day, day) for day in (date(2024, 1, 4), date(2024, 1, 6))] == [False, True]
    assert span.touches(date(2024, 1, 1), date(2024, 1, 6), to_high=False)
    assert not span.touches(date(2024, 1, 1), date(2024, 1, 5), to_high=False)


def test_a_set_whose_bounds_have_no_place_says_so() -> None:
    with pytest.raises(OverflowError):
        ValueSet.of("=", date(9999, 12, 31)).moved(
            lambda v: v + timedelta(days=1), lambda v: v + timedelta(days=1)
        )
