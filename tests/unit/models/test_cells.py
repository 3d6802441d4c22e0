"""Cells of a test: exactly the value that is written, or refused."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.models.files.cells import CellRefused, as_sql, binary_text, cell, shown

KEPT: list[tuple[Any, str, Any, str]] = [
    (None, "int", None, "NULL"),
    ("TRUE", "boolean", True, "true"),
    ("-128", "tinyint", -128, "-128"),
    ("+7", "smallint", 7, "7"),
    ("-2147483648", "int", -(2**31), "-2147483648"),
    ("9223372036854775807", "bigint", 2**63 - 1, "9223372036854775807"),
    ("1.1", "decimal(10,2)", Decimal("1.10"), "1.10"),
    ("1e2", "decimal(10,2)", Decimal("100.00"), "100.00"),
    ("-0.00", "decimal(4,2)", Decimal("0.00"), "0.00"),
    ("12.00", "decimal(2,0)", Decimal(12), "12"),
    ("9" * 38, "decimal(38,0)", Decimal("9" * 38), "9" * 38),
    ("0.1", "float", "0.1", "0.1"),
    ("16777216", "float", "16777216.0", "16777216.0"),
    ("3.4028235e38", "float", "3.4028235e+38", "3.4028235e+38"),
    ("1e-45", "float", "1e-45", "1e-45"),
    ("0.1", "double", "0.1", "0.1"),
    ("-0", "double", "-0.0", "-0.0"),
    ("NaN", "double", "NaN", "NaN"),
    ("-infinity", "float", "-Infinity", "-Infinity"),
    ("", "string", "", "''"),
    ("NULL", "string", "NULL", "'NULL'"),
    (" x", "string", " x", "' x'"),
    ("a\tb", "string", "a\tb", "'a\\tb'"),
    ("X'00fF'", "binary", b"\x00\xff", "X'00FF'"),
    ("X''", "binary", b"", "X''"),
    ("1969-12-31", "date", -1, "1969-12-31"),
    ("0001-01-01", "date", -719162, "0001-01-01"),
    ("2024-02-29 23:59:59.123456", "timestamp_ntz", 1709251199123456, "2024-02-29 23:59:59.123456"),
    ("2024-02-29", "timestamp", 1709164800000000, "2024-02-29 00:00:00Z"),
    ("2024-02-29T01:00+01:00", "timestamp", 1709164800000000, "2024-02-29 00:00:00Z"),
    (["1", None], "array<int>", (1, None), "[1, NULL]"),
    ({"b": "2", "a": None}, "map<string,int>", (("a", None), ("b", 2)), "{a: NULL, b: 2}"),
    ({"Y": "z"}, "struct<x:int,y:string>", (None, "z"), "{x: NULL, y: z}"),
]


@pytest.mark.parametrize(("written", "kind", "value", "words"), KEPT)
def test_a_cell_is_the_value_that_is_written(
    written: Any, kind: str, value: Any, words: str
) -> None:
    found = cell(written, kind)
    assert found == value
    assert type(found) is type(value)
    assert shown(found, kind) == words


@pytest.mark.parametrize(
    ("written", "kind", "words"),
    [
        ("yes", "boolean", "'yes' is not true or false"),
        ("128", "tinyint", "128 does not fit into tinyint"),
        ("9223372036854775808", "bigint", "does not fit into bigint"),
        ("1.0", "int", "'1.0' is no whole number"),
        ("1_000", "int", "is no whole number"),
        ("١", "int", "is no whole number"),
        ("1.105", "decimal(10,2)", "1.105 does not fit into decimal(10,2): it would be 1.10"),
        ("100", "decimal(4,2)", "100 does not fit into decimal(4,2)"),
        ("1" * 39, "decimal(38,0)", "does not fit into decimal(38,0)"),
        ("NaN", "decimal(4,2)", "'NaN' is no number"),
        ("16777217", "float", "16777217 does not fit into float: it would be 16777216.0"),
        ("1e39", "float", "1e39 does not fit into float"),
        ("1e400", "double", "1e400 does not fit into double"),
        ("0.12345678901234567890", "double", "it would be 0.12345678901234568"),
        ("1,5", "double", "'1,5' is no number"),
        ("00FF", "binary", "is not how bytes are written: X'00FF'"),
        ("X'0'", "binary", "is not how bytes are written"),
        ("2024-02-30", "date", "'2024-02-30' is no date"),
        ("2024-02-29 00:00", "date", "is no date"),
        ("2024-02-29 12:00:00.1234567", "timestamp", "is no timestamp: write it like"),
        ("2024-02-29 24:00", "timestamp", "hour must be in 0..23"),
        ("2024-02-29 12:00Z", "timestamp_ntz", "has a zone, and timestamp_ntz has none"),
        (["1"], "int", "one value is expected, of type int"),
        ({"a": "1"}, "string", "one value is expected"),
        ("1", "array<int>", "a list is expected"),
        (["x"], "array<int>", "'x' is no whole number"),
        ("1", "struct<x:int>", "a mapping is expected"),
        ({"z": "1"}, "struct<x:int>", "struct<x:int> has no field z"),
        ("1", "interval day", "a value of type interval day can't be written in a test"),
    ],
)
def test_what_has_no_place_in_its_type_is_refused(written: Any, kind: str, words: str) -> None:
    with pytest.raises(CellRefused) as caught:
        cell(written, kind)
    assert words in str(caught.value)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_float_is_read_from_its_shortest_text(number: float) -> None:
    text = binary_text(number, "float")
    assert struct.pack("<f", float(text)) == struct.pack("<f", number)
    assert cell(text, "float") == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_is_read_from_its_shortest_text(number: float) -> None:
    assert cell(binary_text(number, "double"), "double") == repr(number)


def test_moments_beyond_the_calendar_are_shown_as_counts() -> None:
    assert shown(10**8, "date") == "100,000,000 days after 1970"
    assert shown(10**18, "timestamp") == "1,000,000,000,000,000,000 microseconds after 1970"


def test_values_as_spark_takes_them() -> None:
    assert as_sql(cell("it's \\", "string"), "string") == "'it\\'s \\\\'"
    assert as_sql(cell("2024-02-29", "date"), "date") == "date_from_unix_date(19782)"
    assert as_sql(None, "array<int>") == "CAST(NULL AS array<int>)"
