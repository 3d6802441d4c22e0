"""The lattice of stored types: no order of versions gives another type, and none loses a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.schema.lattice import Common, common_type, holds_all

PLAIN = ("int", "long", "float", "double", "string", "binary", "date", "timestamp", "timestamptz")
DECIMALS = tuple(f"decimal({p},{s})" for p in range(1, 39) for s in range(p + 1))
# Where an integer, a double or the widest decimal stops holding another.
EDGES = tuple(
    f"decimal({p},{s})"
    for p, s in (
        *((1, 0), (1, 1), (9, 0), (10, 0), (11, 0), (12, 2), (15, 0), (15, 1), (16, 0), (19, 0)),
        *((20, 0), (28, 28), (38, 0), (38, 10), (38, 19), (38, 38)),
    )
)
TYPES = st.one_of(st.sampled_from(PLAIN), st.sampled_from(EDGES), st.sampled_from(DECIMALS))
LISTS = st.lists(TYPES, min_size=1, max_size=6)
UTC = st.booleans()


def joined(types: Sequence[str], utc: bool) -> str:
    return common_type(types, utc=utc).type


@given(one=TYPES, utc=UTC, times=st.integers(1, 4))
def test_a_type_with_itself_is_itself(one: str, utc: bool, times: int) -> None:
    assert common_type([one] * times, utc=utc) == Common(one, "its type in every version")
    assert holds_all(one, one, utc=utc)


@given(one=TYPES, other=TYPES, utc=UTC)
def test_which_of_two_comes_first_never_matters(one: str, other: str, utc: bool) -> None:
    assert joined([one, other], utc) == joined([other, one], utc)


@given(types=st.lists(TYPES, min_size=3, max_size=3), utc=UTC)
def test_three_in_every_grouping_and_order_are_one_type(types: list[str], utc: bool) -> None:
    whole = joined(types, utc)
    for a, b, c in permutations(types):
        assert joined([a, joined([b, c], utc)], utc) == whole
        assert joined([joined([a, b], utc), c], utc) == whole
        assert joined([a, b, c], utc) == whole


@given(data=st.data(), types=LISTS, utc=UTC)
def test_the_order_of_versions_and_their_number_never_matter(
    data: st.DataObject, types: list[str], utc: bool
) -> None:
    other = data.draw(st.permutations([*types, *data.draw(st.lists(st.sampled_from(types)))]))
    assert joined(other, utc) == joined(types, utc)


@given(types=LISTS, utc=UTC)
def test_the_type_in_common_holds_all_of_each(types: list[str], utc: bool) -> None:
    found = joined(types, utc)
    assert all(holds_all(one, found, utc=utc) for one in types)


@given(types=LISTS, other=TYPES, utc=UTC)
def test_no_narrower_type_holds_all_of_each(types: list[str], other: str, utc: bool) -> None:
    if all(holds_all(one, other, utc=utc) for one in types):
        assert holds_all(joined(types, utc), other, utc=utc)


@given(types=LISTS, more=LISTS, utc=UTC)
def test_with_more_versions_it_only_gets_wider(
    types: list[str], more: list[str], utc: bool
) -> None:
    assert holds_all(joined(types, utc), joined([*types, *more], utc), utc=utc)


@given(one=TYPES, wider=TYPES, other=TYPES, utc=UTC)
def test_wider_versions_have_no_narrower_type_in_common(
    one: str, wider: str, other: str, utc: bool
) -> None:
    """Monotone: wider in, wider out."""
    wider = joined([one, wider], utc)
    assert holds_all(joined([one, other], utc), joined([wider, other], utc), utc=utc)


@given(a=TYPES, b=TYPES, c=TYPES, utc=UTC)
def test_holding_is_an_order(a: str, b: str, c: str, utc: bool) -> None:
    if holds_all(a, b, utc=utc) and holds_all(b, c, utc=utc):
        assert holds_all(a, c, utc=utc)
    if holds_all(a, b, utc=utc) and holds_all(b, a, utc=utc):
        assert a == b


@given(types=LISTS, utc=UTC)
def test_text_holds_everything_and_nothing_else_holds_every_text(
    types: list[str], utc: bool
) -> None:
    assert joined([*types, "string"], utc) == "string"
    for one in types:
        assert holds_all(one, "string", utc=utc)
        assert holds_all("string", one, utc=utc) is (one == "string")


@given(types=LISTS)
def test_another_clock_than_utc_gives_the_same_type_or_text(types: list[str]) -> None:
    ours, other = joined(types, True), joined(types, False)
    assert other in (ours, "string")
    if not {"timestamptz"} & set(types) or not {"date", "timestamp"} & set(types):
        assert other == ours


def _size(decimal: str) -> tuple[int, int]:
    precision, scale = decimal.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def _extremes(kind: str) -> list[Fraction]:
    """The ends of an exact number's range, and its smallest step."""
    if kind in ("int", "long"):
        half = 2 ** (31 if kind == "int" else 63)
        return [Fraction(-half), Fraction(half - 1), Fraction(1)]
    precision, scale = _size(kind)
    step = Fraction(1, 10**scale)
    return [-(10**precision - 1) * step, (10**precision - 1) * step, step]


def _has(kind: str, value: Fraction) -> bool:
    """Whether a type has this very number, by arithmetic alone."""
    if kind == "double":
        try:
            return Fraction(float(value)) == value
        except OverflowError:
            return False
    low, high, step = _extremes(kind)
    return low <= value <= high and (value / step).denominator == 1


EXACT = ("int", "long", *EDGES)


@pytest.mark.parametrize("held", EXACT)
@pytest.mark.parametrize("wanted", [*EXACT, "double"])
def test_an_exact_number_is_held_by_a_type_that_has_its_extremes(held: str, wanted: str) -> None:
    every = all(_has(wanted, value) for value in _extremes(held))
    integers = {"int", "long"}
    if wanted in integers and held not in integers:
        # decimal(9,0) and int have decimal(10,0) in common: one rule for all decimals.
        assert not holds_all(held, wanted)
    elif holds_all(held, wanted):
        assert every
    elif wanted != "double":
        assert not every


Row = tuple[str, str, str, str | None]
"""Two types, what they have in common by UTC, and by another clock where that differs."""
TABLE: list[Row] = [
    ("int", "long", "long", None),
    ("int", "decimal(1,0)", "decimal(10,0)", None),
    ("int", "decimal(5,2)", "decimal(12,2)", None),
    ("int", "decimal(20,0)", "decimal(20,0)", None),
    ("int", "decimal(38,0)", "decimal(38,0)", None),
    ("int", "decimal(38,28)", "decimal(38,28)", None),
    ("int", "decimal(38,29)", "string", None),
    ("int", "decimal(38,38)", "string", None),
    ("int", "decimal(28,28)", "decimal(38,28)", None),
    ("int", "float", "double", None),
    ("int", "double", "double", None),
    ("int", "date", "string", None),
    ("int", "timestamp", "string", None),
    ("int", "timestamptz", "string", None),
    ("int", "string", "string", None),
    ("int", "binary", "string", None),
    ("long", "decimal(20,0)", "decimal(20,0)", None),
    ("long", "decimal(5,2)", "decimal(21,2)", None),
    ("long", "decimal(38,0)", "decimal(38,0)", None),
    ("long", "decimal(38,38)", "string", None),
    ("long", "float", "string", None),
    ("long", "double", "string", None),
    ("long", "date", "string", None),
    ("long", "string", "string", None),
    ("long", "binary", "string", None),
    ("decimal(20,0)", "decimal(38,0)", "decimal(38,0)", None),
    ("decimal(20,0)", "decimal(38,38)", "string", None),
    ("decimal(20,0)", "decimal(38,18)", "decimal(38,18)", None),
    ("decimal(20,0)", "decimal(38,19)", "string", None),
    ("decimal(20,0)", "float", "string", None),
    ("decimal(20,0)", "double", "string", None),
    ("decimal(20,0)", "string", "string", None),
    ("decimal(20,0)", "binary", "string", None),
    ("decimal(38,0)", "decimal(38,38)", "string", None),
    ("decimal(38,0)", "double", "string", None),
    ("decimal(38,38)", "double", "string", None),
    ("decimal(38,38)", "float", "string", None),
    ("decimal(15,0)", "double", "double", None),
    ("decimal(15,0)", "float", "double", None),
    ("decimal(16,0)", "double", "string", None),
    ("decimal(15,1)", "double", "string", None),
    ("decimal(8,2)", "decimal(12,4)", "decimal(12,4)", None),
    ("decimal(12,2)", "decimal(8,4)", "decimal(14,4)", None),
    ("float", "double", "double", None),
    ("float", "date", "string", None),
    ("float", "string", "string", None),
    ("double", "timestamp", "string", None),
    ("double", "string", "string", None),
    ("double", "binary", "string", None),
    ("date", "timestamp", "timestamp", None),
    ("date", "timestamptz", "timestamptz", "string"),
    ("date", "string", "string", None),
    ("date", "binary", "string", None),
    ("timestamp", "timestamptz", "timestamptz", "string"),
    ("timestamp", "string", "string", None),
    ("timestamp", "binary", "string", None),
    ("timestamptz", "string", "string", None),
    ("timestamptz", "binary", "string", None),
    ("string", "binary", "string", None),
]


@pytest.mark.parametrize(("one", "other", "by_utc", "by_another"), TABLE)
def test_pairs(one: str, other: str, by_utc: str, by_another: str | None) -> None:
    for a, b in ((one, other), (other, one)):
        assert joined([a, b], True) == by_utc
        assert joined([a, b], False) == (by_another or by_utc)


def _listed(types: Sequence[str]) -> str:
    return " and ".join((", ".join(types[:-1]), types[-1]))


@given(types=st.lists(TYPES, min_size=2, max_size=4, unique=True), utc=UTC)
def test_the_reason_names_the_types_that_it_is_for(types: list[str], utc: bool) -> None:
    found = common_type(types, utc=utc)
    if found.type == "string":
        assert found.why == f"no other type holds every {_listed(types)}: exact text"
    elif found.type in types:
        others = [one for one in types if one != found.type]
        assert found.why == f"it holds every {' and '.join(others)}"
    else:
        assert found.why == f"the narrowest that holds every {_listed(types)}"


@pytest.mark.parametrize(
    ("types", "why"),
    [
        (["int"], "its type in every version"),
        (["int", "int"], "its type in every version"),
        (["int", "long"], "it holds every int"),
        (["long", "int"], "it holds every int"),
        (["int", "decimal(5,2)"], "the narrowest that holds every int and decimal(5,2)"),
        (["int", "long", "decimal(38,0)"], "it holds every int and long"),
        (["int", "date"], "no other type holds every int and date: exact text"),
        (["int", "int", "date"], "no other type holds every int and date: exact text"),
    ],
)
def test_reasons(types: list[str], why: str) -> None:
    assert common_type(types).why == why


def test_a_column_that_was_text_once_says_so() -> None:
    """Which of them are texts is what a reader wants to know."""
    assert common_type(["int", "string", "date"]).why == (
        "no other type holds every int, string and date: exact text"
    )


def test_all_pairs_are_idempotent_against_their_result() -> None:
    """Exhaustive over the edges: a version of the type in common changes nothing."""
    for a, b in product((*PLAIN, *EDGES), repeat=2):
        for utc in (True, False):
            found = joined([a, b], utc)
            assert joined([a, b, found], utc) == found == joined([found, a, b], utc)


@pytest.mark.parametrize("call", [common_type, lambda types: common_type(types, utc=False)])
def test_any_iterable_will_do(call: Callable[..., Common]) -> None:
    assert call(iter(["int", "long", "int"])).type == "long"
