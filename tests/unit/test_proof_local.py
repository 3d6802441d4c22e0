"""Forms that Arrow makes: those of the SQL, written out, and nothing where there is none."""

from __future__ import annotations

import hashlib
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.mysql.introspect import Column
from mirrorlake.proof import local
from mirrorlake.proof.forms import form_of
from tests.unit.test_proof_ranges import column

TEXT = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}


def forms(one: Column, values: list[Any], kind: pa.DataType) -> list[str]:
    form = form_of(one, originals=True)
    made = local._form(one, form, pa.array(values, kind))
    return [cell.decode("utf-8", "replace") for cell in made.to_pylist()]


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("one", "kind", "values", "expected"),
    [
        (column("c", "int", nullable=True), pa.int32(), [1, -7, None], ["1", "-7", "N"]),
        (column("c", "bigint"), pa.int64(), [-(2**63)], ["-9223372036854775808"]),
        (
            column("c", "bigint", column_type="bigint unsigned"),
            pa.decimal128(20, 0),
            [Decimal(2**64 - 1)],
            ["18446744073709551615"],
        ),
        (
            column("c", "decimal", precision=12, scale=6),
            pa.decimal128(12, 6),
            [Decimal("0.000001"), Decimal(-5), Decimal(0)],
            ["0.000001", "-5.000000", "0.000000"],
        ),
        (
            column("c", "double", nullable=True),
            pa.float64(),
            [-0.0, 0.0, 1.5, None],
            ["8000000000000000", "0000000000000000", struct.pack(">d", 1.5).hex().upper(), "N"],
        ),
        (column("c", "float"), pa.float32(), [0.5], [struct.pack(">d", 0.5).hex().upper()]),
        (column("c", "date"), pa.date32(), [date(1, 2, 3)], ["0001-02-03"]),
        (
            column("c", "datetime"),
            pa.timestamp("us"),
            [datetime(2020, 1, 2, 3, 4, 5)],
            ["2020-01-02 03:04:05"],
        ),
        (
            column("c", "datetime", fraction=3),
            pa.timestamp("us"),
            [datetime(1900, 1, 2, 3, 4, 5, 120_000)],
            ["1900-01-02 03:04:05.120"],
        ),
        (
            column("c", "timestamp", fraction=6),
            pa.timestamp("us", "UTC"),
            [datetime(2020, 1, 2, 3, 4, 5, 7, tzinfo=UTC)],
            ["2020-01-02 03:04:05.000007"],
        ),
        (column("c", "time"), pa.string(), ["-838:59:59"], ["10:-838:59:59"]),
        (
            column("c", "varchar", length=20, nullable=True, **TEXT),
            pa.string(),
            ["", "ä,b", "N", None],
            ["0:", "4:ä,b", "1:N", "N"],
        ),
        (column("c", "longtext", **TEXT), pa.string(), ["ä"], [sha256("ä".encode())]),
        (column("c", "binary", length=2), pa.binary(), [b"\0\xff"], ["00FF"]),
        (column("c", "blob", nullable=True), pa.binary(), [b"\0", None], [sha256(b"\0"), "N"]),
    ],
)
def test_the_forms_of_a_type(
    one: Column, kind: pa.DataType, values: list[Any], expected: list[str]
) -> None:
    assert forms(one, values, kind) == expected


def test_more_digits_than_are_declared_have_no_form() -> None:
    late = [datetime(2020, 1, 2, 3, 4, 5, 120_001)]
    for digits in (0, 3, 5):
        with pytest.raises(local._Unsaid):
            forms(column("c", "datetime", fraction=digits), late, pa.timestamp("us"))


def test_the_ends_of_a_span_as_values() -> None:
    assert local._value(column("c", "int"), "-7") == -7
    unsigned = column("c", "bigint", column_type="bigint unsigned")
    assert local._value(unsigned, "18446744073709551615") == Decimal(2**64 - 1)
    assert local._value(column("c", "timestamp"), "2020-01-02 03:04:05.5").tzinfo is UTC
    with pytest.raises(local._Unsaid):
        local._value(column("c", "date"), "2020-00-10")
