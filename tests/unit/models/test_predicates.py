"""What a condition leaves of a column holds every value for which it is true, and little more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from mirrorlake.models.row_filters.predicates import left_by
from mirrorlake.models.row_filters.value_sets import ValueSet
from mirrorlake.models.spark_sql.constants.evaluate import evaluate
from mirrorlake.models.spark_sql.constants.values import Constant, Unknown
from mirrorlake.models.spark_sql.parser import parse_expression

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""On a busy machine a test may take its time."""
NAMES: dict[str, Constant] = {"day": date(2024, 3, 31), "n": 7, "store": "Paris"}
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
VALUES: dict[str, list[Constant]] = {
    "date": [date(2024, 1, 1) + timedelta(days=n) for n in range(-40, 480)],
    "timestamp": [NOON + timedelta(hours=7 * n) for n in range(-60, 400)],
    "int": list(range(-30, 60)),
    "string": ["", " ", "5", "10", "9", "Paris", "paris", "Paris ", "2024-1-5", "2024-06-01", "ß"],
}


def named(name: str) -> Callable[[exp.Expr], bool]:
    return lambda node: isinstance(node, exp.Column) and node.name == name


def left(condition: str, kind: str) -> ValueSet:
    return left_by(parse_expression(condition), named("c"), kind, NAMES)


def true_for(condition: exp.Expr, value: Constant) -> bool:
    try:
        return evaluate(condition, {**NAMES, "c": value}) is True
    except Unknown:
        return False


def assert_nothing_left_out(condition: str, kind: str) -> None:
    span, node = left(condition, kind), parse_expression(condition)
    out = [v for v in VALUES[kind] if true_for(node, v) and not span.touches(v, v)]
    assert out == [], f"{condition} is true for values that are not in {span}"


# --- the plain cases: no more than they mean ------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "kind", "span"),
    [
        ("c = day", "date", "{2024-03-31}"),
        ("day = c", "date", "{2024-03-31}"),
        ("c >= day AND c < day + 7", "date", "[2024-03-31, 2024-04-07)"),
        ("c BETWEEN DATE_SUB(day, 3) AND day", "date", "[2024-03-28, 2024-03-31]"),
        ("c IN ('2024-01-01', day)", "date", "{2024-01-01} ∪ {2024-03-31}"),
        ("c = day OR c = '2024-01-01'", "date", "{2024-01-01} ∪ {2024-03-31}"),
        ("c + INTERVAL 1 DAY = day", "date", "{2024-03-30}"),
        ("date_add(c, 2) <= day", "date", "(-∞, 2024-03-29]"),
        ("NOT (c < day)", "date", "[2024-03-31, ∞)"),
        ("NOT NOT c = day", "date", "{2024-03-31}"),
        ("c < TIMESTAMP'2024-03-31 10:00:00'", "date", "(-∞, 2024-03-31]"),
        ("c = '2024-03-31'", "timestamp", "{2024-03-31 00:00:00+00:00}"),
        ("c = n", "int", "{7}"),
        ("c + 1 > n", "int", "(6, ∞)"),
        ("c > n AND c < n", "int", "none"),
        ("c = '7'", "int", "{7}"),
        ("c = store", "string", "{Paris}"),
        ("c = NULL", "int", "none"),
        ("c IN (n, NULL)", "int", "{7}"),
        ("n = 8", "int", "none"),
        ("n = 7", "int", "all"),
        ("c = n AND NULL", "int", "none"),
    ],
)  # fmt: skip
def test_plain_conditions_leave_what_they_mean(condition: str, kind: str, span: str) -> None:
    assert str(left(condition, kind)) == span


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("c <> 7", "int"), ("NOT c = 7", "int"), ("NOT (c = 7 AND n = 7)", "int"), ("c <=> NULL", "int"),
        ("c IS NULL", "int"), ("c LIKE 'P%'", "string"), ("5 - c > 1", "int"), ("other = 7", "int"),
        ("c = other", "int"), ("c = 7 OR other = 7", "int"), ("CAST(c AS STRING) = '7'", "int"),
        # Spark turns the column into the other's type, in which other texts mean the same.
        ("c = 5", "string"), ("c <= DATE'2024-01-31'", "string"), ("CAST(c AS DATE) = day", "string"),
        ("c = '7'", "decimal(12,2)"), ("c = 0.1", "double"),
        # There are no bounds past the last year that Python has.
        ("c + 1 > DATE'0001-01-01'", "date"), ("last_day(c) = DATE'9999-12-31'", "date"),
        ("CAST(c AS DATE) = DATE'9999-12-31'", "timestamp"), ("year(c) = 9999", "date"),
        ("year(c) = DATE'2024-01-01'", "date"), ("trunc(c, 'YY') = DATE'9999-01-01'", "date"),
    ],
)  # fmt: skip
def test_what_cant_be_told_leaves_all(condition: str, kind: str) -> None:
    assert left(condition, kind).is_all


@pytest.mark.parametrize(
    ("condition", "kind", "low", "high"),
    [
        ("date_trunc('MONTH', c) = '2024-05-01'", "date", date(2024, 5, 1), date(2024, 6, 1)),
        ("trunc(c, 'YEAR') = '2024-01-01'", "date", date(2024, 1, 1), date(2025, 1, 1)),
        ("year(c) = 2024", "date", date(2024, 1, 1), date(2025, 1, 1)),
        ("add_months(c, 1) = '2024-02-29'", "date", date(2024, 1, 26), date(2024, 2, 1)),
        ("last_day(c) = '2024-02-29'", "date", date(2024, 2, 1), date(2024, 3, 1)),
    ],
)
def test_functions_turned_round_leave_about_their_unit(
    condition: str, kind: str, low: date, high: date
) -> None:
    (part,) = left(condition, kind).parts
    assert (part.low, part.high) == (low, high)


# --- brute force: nothing is left out -------------------------------------------------------------

_DAYS = st.dates(date(2023, 12, 1), date(2025, 2, 1)).map(lambda d: f"DATE'{d}'")
_TEXTS = st.dates(date(2023, 12, 1), date(2025, 2, 1)).map(lambda d: f"'{d}'")
_MOMENTS = st.datetimes(datetime(2023, 12, 1), datetime(2025, 2, 1)).map(
    lambda t: f"TIMESTAMP'{t:%Y-%m-%d %H:%M:%S}'"
)
_SMALL = st.integers(-14, 14)
_UNITS = st.sampled_from(["YEAR", "QUARTER", "MONTH", "WEEK", "DAY"])
_LENGTHS = st.sampled_from(["YEAR", "MONTH", "WEEK", "DAY"])


def _wrapped(kind: str) -> st.SearchStrategy[str]:
    """Expressions of the column that are in the calendar."""
    moves = st.builds(
        lambda inner, sign, count, unit: f"({inner} {sign} INTERVAL {count} {unit})",
        st.just("c"), st.sampled_from("+-"), st.integers(0, 14), _LENGTHS,
    )  # fmt: skip
    base = st.one_of(st.just("c"), moves)
    found = [
        base,
        st.builds(lambda x, u: f"date_trunc('{u}', {x})", base, _UNITS),
        st.builds(lambda x, u: f"trunc({x}, '{u}')", base, _UNITS),
        base.map(lambda x: f"last_day({x})"),
        base.map(lambda x: f"CAST({x} AS DATE)"),
        base.map(lambda x: f"CAST({x} AS TIMESTAMP)"),
        base.map(lambda x: f"to_date({x})"),
    ]
    if kind == "date":
        found += [
            st.builds(lambda x, n: f"date_add({x}, {n})", base, _SMALL),
            st.builds(lambda x, n: f"date_sub({x}, {n})", base, _SMALL),
            st.builds(lambda x, n: f"add_months({x}, {n})", base, _SMALL),
        ]
    return st.one_of(found)


def _leaves(kind: str) -> st.SearchStrategy[str]:
    operator = st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "<=>"])
    if kind == "int":
        wrapped = st.one_of(
            st.just("c"), _SMALL.map(lambda n: f"(c + {n})"), _SMALL.map(lambda n: f"({n} + c)"),
            _SMALL.map(lambda n: f"(c - {n})"), st.just("CAST(c AS BIGINT)"),
        )  # fmt: skip
        other: st.SearchStrategy[str] = st.one_of(
            _SMALL.map(str), st.just("NULL"), st.just("n"), st.just("2.5")
        )
    elif kind == "string":
        wrapped = st.just("c")
        other = st.one_of(
            st.sampled_from(["'5'", "'9'", "'10'", "store", "''", "'2024-1-3'", "NULL"]), _DAYS
        )
    else:
        wrapped = _wrapped(kind)
        other = st.one_of(_DAYS, _TEXTS, _MOMENTS, st.just("day"), st.just("NULL"))
    compared = st.builds(lambda a, o, b: f"{a} {o} {b}", wrapped, operator, other)
    flipped = st.builds(lambda a, o, b: f"{b} {o} {a}", wrapped, operator, other)
    between = st.builds(lambda a, x, y: f"{a} BETWEEN {x} AND {y}", wrapped, other, other)
    among = st.builds(lambda a, x, y: f"{a} IN ({x}, {y})", wrapped, other, other)
    return st.one_of(compared, flipped, between, among, st.sampled_from(["TRUE", "n = 7", "FALSE"]))


def _conditions(kind: str) -> st.SearchStrategy[str]:
    return st.recursive(
        _leaves(kind),
        lambda inner: st.one_of(
            st.builds(lambda a, b: f"({a}) AND ({b})", inner, inner),
            st.builds(lambda a, b: f"({a}) OR ({b})", inner, inner),
            inner.map(lambda a: f"NOT ({a})"),
        ),
        max_leaves=4,
    )


@settings(BUSY, max_examples=150)
@given(_conditions("date"))
@example("c + INTERVAL 1 MONTH = '2024-02-29'")
@example("c < TIMESTAMP'2024-03-31 10:00:00' AND c > TIMESTAMP'2024-03-31 09:00:00'")
def test_no_day_is_left_out(condition: str) -> None:
    assert_nothing_left_out(condition, "date")


@settings(BUSY, max_examples=150)
@given(_conditions("timestamp"))
@example("last_day(c) = DATE'2024-02-29'")
def test_no_moment_is_left_out(condition: str) -> None:
    assert_nothing_left_out(condition, "timestamp")


@settings(BUSY, max_examples=150)
@given(_conditions("int"))
def test_no_number_is_left_out(condition: str) -> None:
    assert_nothing_left_out(condition, "int")


@settings(BUSY, max_examples=150)
@given(_conditions("string"))
@example("c >= '2024-06-01' AND c <= DATE'2024-01-31'")
def test_no_text_is_left_out(condition: str) -> None:
    assert_nothing_left_out(condition, "string")


def test_integers_beside_texts_are_in_the_order_of_integers() -> None:
    # As texts, '9' is behind '10', and nothing would be left.
    assert str(left("c >= '9' AND c <= '10'", "int")) == "[9, 10]"


@settings(BUSY, max_examples=100)
@given(st.integers(0, 10), st.integers(0, 10), st.sampled_from(["AND", "OR"]))
def test_of_two_columns_each_is_told_by_itself(x: int, y: int, both: str) -> None:
    node = parse_expression(f"(a > {x} {both} b < {y}) AND a + 1 <= {y} + 3")
    spans = {name: left_by(node, named(name), "int", {}) for name in ("a", "b")}
    for a in range(12):
        for b in range(12):
            if evaluate(node, {"a": a, "b": b}) is True:
                assert spans["a"].touches(a, a)
                assert spans["b"].touches(b, b)
