"""Ranges of keys as a person writes them."""

from __future__ import annotations

from typing import Any

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.proof.ranges.named_ranges import (
    Closed,
    Named,
    closed_span,
    conditions_of,
    form_of,
    integer_range,
    read_keys,
)
from mirrorlake.proof.ranges.order import span_conditions
from mirrorlake.proof.ranges.ranges import Range, Span
from tests.unit.proof.test_order import BIN, parts_of
from tests.unit.proof.test_ranges import column

TEXT = column("t", "varchar", length=4, column_type="varchar(4)", **BIN)
NOPAD = column("t", "varchar", length=4, charset="utf8mb4", collation="utf8mb4_nopad_bin")
ASCII = column("t", "char", length=4, charset="ascii", collation="ascii_bin")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1..9", Named("1", "9")),
        ("..9", Named(None, "9")),
        ("1..", Named("1", None)),
        ("..", Named(None, None)),
        ("-5..-1", Named("-5", "-1")),
        ("2020-01-01 10:00:00.5..b c", Named("2020-01-01 10:00:00.5", "b c")),
        ('"a..b".."c"', Named("a..b", "c")),
        ('a.."b..c"', Named("a", "b..c")),
        ('"".."\\u00e4\\"\\\\"', Named("", 'ä"\\')),
        ('"."..', Named(".", None)),
        ("a.b..c.d", Named("a.b", "c.d")),
    ],
)
def test_ends_are_read(text: str, found: Named) -> None:
    assert read_keys(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.5", "a...b", "a..b..c", "a....", '"a"b..c', '"a..b', 'a.."b"c', 'a.."b"..', '"a"'],
)
def test_what_can_be_read_in_two_ways_or_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no range of keys") as refused:
        read_keys(text)
    assert "as JSON writes a text" in str(refused.value)


def test_integers() -> None:
    assert integer_range("t", Named("1", "9")) == Range(1, 10)
    assert integer_range("t", Named("-7", "-7")) == Range(-7, -6)
    assert integer_range("t", Named(None, None)) == Range()
    for low, high in (("9", "1"), ("a", None), (None, "1.5"), ("", None)):
        with pytest.raises(ConfigError, match="names no keys of it"):
            integer_range("t", Named(low, high))


GOOD: list[tuple[Any, str, str]] = [
    (TEXT, "aä", "3:aä"),
    (TEXT, "", "0:"),
    (ASCII, "a b", "3:a b"),
    (column("b", "varbinary", length=3), "0x00ff", "00FF"),
    (column("b", "varbinary", length=3), "", ""),
    (column("b", "binary", length=3), "0a", "0A0000"),
    (column("d", "decimal", precision=6, scale=2), "-1.5", "-1.50"),
    (column("d", "decimal", precision=6, scale=2), "-0", "0.00"),
    (column("d", "decimal", precision=6, scale=2), "1e3", "1000.00"),
    (column("d", "decimal", precision=6, scale=2), "9999.990", "9999.99"),
    (column("d", "decimal", precision=38, scale=0), "9" * 38, "9" * 38),
    (column("d", "decimal", precision=38, scale=38), "0." + "1" * 38, "0." + "1" * 38),
    (column("d", "decimal", precision=38, scale=9), "-" + "8" * 29, "-" + "8" * 29 + ".000000000"),
    (column("d", "date"), "2020-02-29", "2020-02-29"),
    (column("d", "date"), "0000-00-00", "0000-00-00"),
    (column("d", "date"), "2020-00-00", "2020-00-00"),
    (column("d", "datetime"), "2020-01-01 23:59:59", "2020-01-01 23:59:59"),
    (column("d", "datetime", fraction=3), "2020-01-01 23:59:59", "2020-01-01 23:59:59.000"),
    (column("d", "datetime", fraction=3), "2020-01-01 23:59:59.5000", "2020-01-01 23:59:59.500"),
    (column("d", "timestamp"), "2020-01-01 23:59:59.000", "2020-01-01 23:59:59"),
]


@pytest.mark.parametrize(("one", "text", "form"), GOOD)
def test_values_become_the_forms_of_their_column(one: Any, text: str, form: str) -> None:
    [part] = parts_of(one)
    assert form_of(part, text) == form
    assert part.is_form(form)


BAD: list[tuple[Any, str]] = [
    (ASCII, "ä"),
    (column("t", "char", length=4, charset="utf8mb3", collation="utf8mb3_bin"), "😀"),
    (TEXT, "\udcff"),
    (column("b", "varbinary", length=3), "0xabc"),
    (column("b", "varbinary", length=3), "xyz"),
    (column("b", "binary", length=3), "00112233"),
    (column("d", "decimal", precision=6, scale=2), "1.555"),
    (column("d", "decimal", precision=38, scale=2), "9" * 36 + ".555"),
    (column("d", "decimal", precision=6, scale=2), "9999.995"),
    (column("d", "decimal", precision=6, scale=2), "10000"),
    (column("d", "decimal", precision=6, scale=2), "NaN"),
    (column("d", "decimal", precision=6, scale=2), "Infinity"),
    (column("d", "decimal", precision=6, scale=2), "one"),
    (column("d", "date"), "2020-02-30"),
    (column("d", "date"), "2020-13-00"),
    (column("d", "date"), "2020-01-01 00:00:00"),
    (column("d", "date"), "20200101"),
    (column("d", "datetime"), "2020-01-01"),
    (column("d", "datetime"), "2020-01-01 24:00:00"),
    (column("d", "datetime"), "2020-01-01 10:00:00.5"),
    (column("d", "datetime"), "2020-01-01 10:00:00+02:00"),
    (column("d", "datetime", fraction=3), "2020-01-01 10:00:00.0005"),
]


@pytest.mark.parametrize(("one", "text"), BAD)
def test_what_is_no_value_of_the_column_is_refused(one: Any, text: str) -> None:
    [part] = parts_of(one)
    with pytest.raises(ConfigError, match="names no keys of it: its key is"):
        closed_span("t", part, Named(None, text))
    with pytest.raises(ConfigError):
        closed_span("t", part, Named(text, None))


def test_a_span_holds_both_ends() -> None:
    [part] = parts_of(TEXT)
    span = closed_span("t", part, Named("a", "b"))
    assert span == Closed(("1:a",), ("1:b",))
    assert isinstance(span, Closed)
    assert span.bounds == ('["1:a"]', '["1:b"] included')
    assert str(span) == '["1:a"]..["1:b"] included'
    assert Closed(("1:a",)).bounds == ('["1:a"]', None)
    source, lake = conditions_of((part,), span)
    b = "_utf8mb4 x'62'"
    assert source == f"`t` >= _utf8mb4 x'61' AND `t` >= _utf8mb4 x'61' AND `t` <= {b}"
    assert lake == (
        "coalesce(rpad(`t`,4,' ') >= 'a   ',false) AND NOT coalesce(rpad(`t`,4,' ') > 'b   ',false)"
    )
    # The spans of chunks are left as they were.
    for other in (Span(("1:a",), ("1:b",)), Span(), Closed(("1:a",))):
        assert conditions_of((part,), other) == span_conditions((part,), Span(other.lo, other.hi))
    assert closed_span("t", part, Named(None, None)) == Range()


def test_files_are_left_out_of_a_span_with_its_upper_end() -> None:
    [part] = parts_of(column("d", "date"))
    _, lake = conditions_of((part,), Closed(("2020-01-01",), ("2020-02-01",)))
    assert lake.count("`d` >= DATE'2020-01-01'") == 1
    assert "(`d` <= DATE'2020-02-01' OR `d` IS NULL)" in lake
    _, lake = conditions_of((part,), Closed(None, ("2020-02-01",)))
    assert lake.startswith("NOT coalesce(")


def test_a_range_that_is_surely_empty_is_refused() -> None:
    [part] = parts_of(NOPAD)
    with pytest.raises(ConfigError, match="the first key is after the last one"):
        closed_span("t", part, Named("b", "a"))
    assert closed_span("t", part, Named("a", "a")) == Closed(("1:a",), ("1:a",))
