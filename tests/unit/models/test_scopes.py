"""Every combination of what is bound under `for` is one scope."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.errors import ModelError
from mirrorlake.models.scope_values import comprehension as module
from mirrorlake.models.scope_values.comprehension import Binding, Scopes, kind_of

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""On a busy machine a test may take its time."""
NOW = datetime(2024, 7, 9, 22, 30, tzinfo=UTC)


def scopes(condition: str | None = None, **bindings: Any) -> list[dict[str, Any]]:
    bound = tuple(Binding(name, values, 3) for name, values in bindings.items())
    return list(Scopes(bound, condition, 9).all(NOW))


def series(text: str) -> list[Any]:
    return [scope["t"] for scope in scopes(t=f"TIMESERIES({text})")]


def texts(text: str) -> list[str]:
    return [f"{one}" if type(one) is date else f"{one:%m-%d %H:%M}" for one in series(text)]


# --- series ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("'2024-02-28', '2024-03-02', 'P1D'", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("'2024-01-01', '2024-01-22', 'P1W'", ["2024-01-01", "2024-01-08", "2024-01-15"]),
        ("'2024-01-31', '2024-05-01', 'P1M'", ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"]),
        ("'2024-02-29', '2027-01-01', 'P1Y'", ["2024-02-29", "2025-02-28", "2026-02-28"]),
        ("'2024-01-01', '2024-03-01', 'P1M2D'", ["2024-01-01", "2024-02-03"]),
        ("CURRENT_DATE - 1, CURRENT_DATE, 'P1D'", ["2024-07-08"]),
        ("DATE'2024-01-01', DATE'2024-01-02', 'P1D'", ["2024-01-01"]),
        ("'9999-12-30', '9999-12-31', 'P1M'", ["9999-12-30"]),
        ("'2024-01-01', '2024-01-01 02:00', 'PT1H'", ["01-01 00:00", "01-01 01:00"]),
        ("'2024-01-01 00:10', '2024-01-01 00:40', 'PT15M'", ["01-01 00:10", "01-01 00:25"]),
        ("'2024-01-01T00:00Z', '2024-01-01T05:00+02:00', 'PT2H'", ["01-01 00:00", "01-01 02:00"]),
        ("CURRENT_TIMESTAMP - INTERVAL 1 HOUR, CURRENT_TIMESTAMP, 'PT1H'", ["07-09 21:30"]),
        # Days of a zone are 23 and 25 hours long when its clocks are changed; hours are hours.
        ("'2024-03-30 00:00', '2024-04-02 00:00', 'P1D', 'Europe/Berlin'", ["03-29 23:00", "03-30 23:00", "03-31 22:00"]),
        ("'2024-10-26 00:00', '2024-10-29 00:00', 'P1D', 'Europe/Berlin'", ["10-25 22:00", "10-26 22:00", "10-27 23:00"]),
        ("'2024-10-27 02:00', '2024-10-27 04:00', 'PT1H', 'Europe/Berlin'", ["10-27 00:00", "10-27 01:00", "10-27 02:00"]),
        ("'2024-03-31 01:00', '2024-03-31 04:00', 'PT1H', 'Europe/Berlin'", ["03-31 00:00", "03-31 01:00"]),
        ("'2011-12-29 00:00', '2012-01-01 00:00', 'P1D', 'Pacific/Apia'", ["12-29 10:00", "12-30 10:00"]),
        ("'2024-01-01', '2024-01-03', 'P1D', '+05:30'", ["2024-01-01", "2024-01-02"]),
    ],
)  # fmt: skip
def test_a_series(text: str, found: list[str]) -> None:
    assert texts(text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("'2024-01-01', '2024-01-02'", "takes a start, an end, and a period"),
        *((f"'2024-01-01', '2024-01-02', '{period}'", "is no period") for period in
          ("1D", "P", "PT", "P1DT", "P0D", "P-1D", "P1.5D", "P1S", "PT1S", "p1d", "P1D1M", "")),
        ("'2024-01-01', '2024-01-02', 'P99999999999D'", "is longer than time is"),
        ("'2024-01-01', '2024-01-02', 'P1D', 'Europe/Berlln'", "unknown time zone"),
        ("'yesterday', '2024-01-02', 'P1D'", "'yesterday' is no date or time"),
        ("'20240101', '2024-01-02', 'P1D'", "is no date or time"),
        ("'2024-W01-1', '2024-01-09', 'P1D'", "is no date or time"),
        ("'2024-02-30', '2024-04-02', 'P1D'", "is no date or time"),
        ("7, 9, 'P1D'", "7 is no date or time"),
        ("'0001-01-01', '0001-01-03', 'P1D', '+14:00'", "before the year 1"),
        ("nothing, '2024-01-02', 'P1D'", "can't be evaluated: nothing"),
    ],
)  # fmt: skip
def test_a_series_that_is_none(text: str, words: str) -> None:
    with pytest.raises(ModelError, match=r"`for`: t: ") as caught:
        series(text)
    assert words in str(caught.value)
    assert (caught.value.line, caught.value.col) == (3, 1)


def steps(start: datetime, end: datetime, unit: str, count: int, zone: ZoneInfo) -> list[datetime]:
    """A series as one counts it by hand: each calendar day or month, each hour."""
    found: list[datetime] = []
    until, number = end.replace(tzinfo=zone).timestamp(), 0
    while True:
        if unit == "H":
            at = start.replace(tzinfo=zone).timestamp() + 3600 * count * number
        elif unit == "D":
            wall = start + timedelta(days=count * number)
            at = wall.replace(tzinfo=zone).timestamp()
        else:
            year, month = start.year, start.month
            for _ in range(count * number):
                year, month = (year + 1, 1) if month == 12 else (year, month + 1)
            day = min(start.day, calendar.monthrange(year, month)[1])
            at = datetime(year, month, day, start.hour, start.minute, tzinfo=zone).timestamp()
        if at >= until:
            return found
        found.append(datetime.fromtimestamp(at, UTC))
        number += 1


@settings(BUSY, max_examples=150)
@given(
    st.datetimes(datetime(2023, 1, 1), datetime(2025, 12, 31)),
    st.integers(1, 4000),
    st.sampled_from("HDM"),
    st.integers(1, 40),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
)  # fmt: skip
def test_a_series_is_what_one_counts_by_hand(
    start: datetime, hours: int, unit: str, count: int, zone: str
) -> None:
    start = start.replace(second=0, microsecond=0)
    end = start + timedelta(hours=hours)
    period = f"PT{count}H" if unit == "H" else f"P{count}{unit}"
    wanted = steps(start, end, unit, count, ZoneInfo(zone))
    if not wanted:  # both bounds are in the hour that a clock's change leaves out
        return
    found = series(f"'{start:%Y-%m-%d %H:%M}', '{end:%Y-%m-%d %H:%M}', '{period}', '{zone}'")
    assert found == wanted
    assert all(a < b for a, b in pairwise(found))


# --- the rest -------------------------------------------------------------------------------------


def test_the_issues_example() -> None:
    found = scopes(
        t="TIMESERIES('2024-01-01', '2024-01-03', 'P1D')", day="DATE(t)", store=("Paris", "Detroit")
    )
    assert found == [
        {"t": date(2024, 1, day), "day": date(2024, 1, day), "store": store}
        for day in (1, 2)
        for store in ("Paris", "Detroit")
    ]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ("RANGE(3, 6)", [3, 4, 5]),
        ("RANGE(0, 10, 4)", [0, 4, 8]),
        (("1", "-2", "0"), [1, -2, 0]),
        # What is no number as one writes it stays the text that it is.
        (("01", "2"), ["01", "2"]),
        (("1", "x"), ["1", "x"]),
        (("no", "on", "yes"), ["no", "on", "yes"]),
        (("10:30", "2024-01-05"), ["10:30", "2024-01-05"]),
        (("1" * 30,), ["1" * 30]),
        ("1 + 1", [2]),
        ("LAST_DAY('2024-02-01')", [date(2024, 2, 29)]),
        ("CURRENT_DATE", [date(2024, 7, 9)]),
        ("CURRENT_TIMESTAMP", [NOW]),
    ],
)
def test_other_values(values: Any, found: list[Any]) -> None:
    assert [scope["x"] for scope in scopes(x=values)] == found


def test_a_binding_may_name_those_before_it_and_a_condition_all() -> None:
    found = scopes("b <> a AND DATE'2024-07-09' = CURRENT_DATE", a="RANGE(0, 3)", b="RANGE(a, 3)")
    assert [(one["a"], one["b"]) for one in found] == [(0, 1), (0, 2), (1, 2)]
    # Of what is NULL nothing is known, and no scope is made.
    assert scopes("a = 1 OR NULL", a="RANGE(0, 3)") == [{"a": 1}]


def test_without_bindings_there_is_one_scope() -> None:
    assert scopes() == [{}]
    assert Scopes().names == ()


@pytest.mark.parametrize(
    ("condition", "bindings", "words", "line"),
    [
        (None, {"a": "RANGE(3, 3)"}, "the model has no scope", 9),
        ("FALSE", {}, "the model has no scope", 9),
        (None, {"a": "b", "b": "RANGE(0, 2)"}, "a: can't be evaluated: b", 3),
        (None, {"a": "RANGE(1)"}, "RANGE takes", 3),
        (None, {"a": "RANGE('1', '2')"}, "RANGE takes", 3),
        (None, {"a": "RANGE(0, 5, 0)"}, "the step of a RANGE is a number above 0", 3),
        (None, {"a": "RANGE(-9000000000000000000, 9000000000000000000)"}, "can be counted", 3),
        (None, {"a": "RANGE(0,"}, "can't be read", 3),
        (None, {"a": "1, 2"}, "one expression is expected", 3),
        (None, {"a": "(SELECT 1)"}, "can't be evaluated", 3),
        (None, {"a": ("x", "y", "x")}, "a: x is there twice", 3),
        ("a >", {"a": "1"}, "can't be read", 9),
        ("rand() > 1", {"a": "1"}, "`if` can't be evaluated", 9),
    ],
)
def test_what_is_wrong(
    condition: str | None, bindings: dict[str, Any], words: str, line: int
) -> None:
    with pytest.raises(ModelError) as caught:
        scopes(condition, **bindings)
    assert words in str(caught.value)
    assert caught.value.line == line


def test_more_scopes_than_any_model_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SCOPES", 10)
    assert len(scopes(a="RANGE(0, 10)")) == 10
    for bindings in ({"a": "RANGE(0, 11)"}, {"a": "RANGE(0, 4)", "b": "RANGE(0, 3)"}):
        with pytest.raises(ModelError, match="more than 10 scopes"):
            scopes(**bindings)
    with pytest.raises(ModelError, match="more than 10 scopes"):
        series("'2024-01-01', '2025-01-01', 'P1D'")


@pytest.mark.parametrize(
    ("condition", "bindings", "count", "line"),
    [
        ("a = b", {"a": "RANGE(0, 10000)", "b": "RANGE(0, 10000)"}, "100,000,000", 4),
        # Of names that depend on others, those that were looked at until then.
        ("a = b", {"a": "RANGE(0, 10000)", "b": "RANGE(a, 10000)"}, "more than 1,000", 4),
        (None, {"a": "RANGE(0, 10000)", "b": "RANGE(a, 0)"}, "more than 1,000", 3),
    ],
)
def test_more_combinations_than_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
    condition: str | None,
    bindings: dict[str, str],
    count: str,
    line: int,
) -> None:
    monkeypatch.setattr(module, "MOST_COMBINATIONS", 1_000)
    bound = tuple(Binding(name, text, 3 + n) for n, (name, text) in enumerate(bindings.items()))
    with pytest.raises(ModelError, match="combinations before `if`: at most 1,000 are") as caught:
        Scopes(bound, condition, 9).all(NOW)
    assert f"`for` has {count} combinations" in caught.value.message
    assert caught.value.line == line


def test_the_types_of_names() -> None:
    bindings = {"d": "DATE'2024-01-01'", "t": "CURRENT_TIMESTAMP", "n": "7", "l": "3000000000"}
    bindings |= {"s": "'x'", "b": "TRUE", "x": "1.50"}
    found = Scopes(tuple(Binding(k, v, 1) for k, v in bindings.items()))
    found = found.types(found.all(NOW))
    assert {name: one.type for name, one in found.items()} == {
        "d": "date", "t": "timestamp", "n": "int", "l": "bigint", "s": "string", "b": "boolean",
        "x": "decimal(3,2)",
    }  # fmt: skip
    assert not any(one.nullable for one in found.values())
    assert kind_of(None) == "void"
