"""Over constants we say what Spark says, or nothing.

What Spark says is written down in tests/support/spark_constants.txt; Spark is held to it in
tests/integration/models/test_evaluate_agrees.py.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.models.spark_sql.constants.evaluate import evaluate
from mirrorlake.models.spark_sql.constants.functions import add_months
from mirrorlake.models.spark_sql.constants.values import Constant, Unknown
from mirrorlake.models.spark_sql.parser import parse_expression
from tests.support import spark_constants
from tests.support.spark_constants import read_constants

CLASSES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    "string": str,
    "boolean": bool,
    "date": date,
    "timestamp": datetime,
}


def value(text: str, **names: Constant) -> Constant:
    return evaluate(parse_expression(text), names)


def spark_text(found: Constant) -> str | None:
    """A value as Spark casts it to a text."""
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, datetime):
        assert found.utcoffset() == timedelta(0), "moments are in UTC"
        text = found.replace(tzinfo=None).isoformat(sep=" ")
        return text.rstrip("0") if "." in text else text
    return found.isoformat() if isinstance(found, date) else str(found)


@pytest.mark.parametrize("said", read_constants(), ids=lambda said: said.expression)
def test_a_value_is_what_spark_says(said: spark_constants.Constant) -> None:
    if said.type is None:
        with pytest.raises(Unknown):
            value(said.expression)
        return
    found = value(said.expression)
    assert spark_text(found) == said.text
    if found is not None:
        assert type(found) is CLASSES.get(said.type, Decimal)


def test_names_are_those_of_the_scope_alone() -> None:
    assert value("Day + 1", day=date(2024, 1, 31)) == date(2024, 2, 1)
    for text in ("nothing", "t.day", "day + nothing"):
        with pytest.raises(Unknown):
            value(text, day=date(2024, 1, 31))


def test_what_reads_rows_has_no_value() -> None:
    for text in ("1 IN (SELECT 1)", "(SELECT 1)", "sum(1)", "rand()", "current_date", "EXISTS (SELECT 1)"):  # fmt: skip
        with pytest.raises(Unknown):
            value(text)


@given(st.dates(), st.integers(-40_000, 40_000))
def test_days_are_added_or_have_no_value(day: date, number: int) -> None:
    wanted = day.toordinal() + number
    if 1 <= wanted <= date.max.toordinal():
        assert value(f"day + ({number})", day=day) == date.fromordinal(wanted)
        assert value(f"date_sub(day, {-number})", day=day) == date.fromordinal(wanted)
        assert value("datediff(a, b)", a=date.fromordinal(wanted), b=day) == number
    else:
        with pytest.raises(Unknown):
            value(f"day + ({number})", day=day)


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.integers(-600, 600))
def test_months_keep_the_day_or_end_the_month(day: date, number: int) -> None:
    found = add_months(day, number)
    assert (found.year * 12 + found.month) - (day.year * 12 + day.month) == number
    assert found.day == day.day or (found.day < day.day and (found + timedelta(days=1)).day == 1)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_integers_never_leave_64_bits(a: int, b: int) -> None:
    for operator, wanted in (("+", a + b), ("-", a - b), ("*", a * b)):
        try:
            found = value(f"a {operator} b", a=a, b=b)
        except Unknown:
            small = all(-(2**31) <= one < 2**31 for one in (a, b))
            bits = 31 if small else 63
            assert not -(2**bits) <= wanted < 2**bits
        else:
            assert found == wanted
            assert -(2**63) <= wanted < 2**63


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.decimals(allow_nan=False, allow_infinity=False),
    st.text(), st.dates(), st.datetimes(timezones=st.just(UTC)),
    st.from_regex(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9]{2}:[0-9]{2})?", fullmatch=True),
)  # fmt: skip


@given(
    st.sampled_from(
        [
            "a + b", "a - b", "a * b", "-a", "a < b", "a = b", "a AND b", "a OR b", "NOT a", "a IS NULL",
            "a IN (b, 1)", "a BETWEEN b AND a", "CAST(a AS DATE)", "CAST(a AS TIMESTAMP)",
            "CAST(a AS INT)", "CAST(a AS BIGINT)", "CAST(a AS STRING)", "trunc(a, b)", "date_trunc(b, a)",
            "date_trunc('WEEK', a)", "trunc(a, 'QUARTER')", "last_day(a)", "add_months(a, b)",
            "date_add(a, b)", "datediff(a, b)", "upper(a)", "concat(a, b)", "year(a)", "hour(a)",
            "make_date(a, b, 1)", "IF(a, b, a)", "CASE WHEN a THEN b ELSE 1 END", "a + INTERVAL 1 MONTH",
            "a - INTERVAL 3 DAYS", "a + INTERVAL 5 HOURS", "a IS TRUE",
        ]
    ),
    ANYTHING,
    ANYTHING,
)  # fmt: skip
def test_there_is_a_value_or_it_is_unknown(text: str, a: Constant, b: Constant) -> None:
    try:
        value(text, a=a, b=b)
    except Unknown:
        return
