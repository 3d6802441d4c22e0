"""Values by their bytes, as the servers' sources say that they are written."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import suppress
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import LogUnreadable, MirrorlakeError
from mirrorlake.sources.mysql.binlog.cells import ColumnCells, locate
from mirrorlake.sources.mysql.binlog.events.payload import unpack_column, unpack_mariadb
from mirrorlake.sources.mysql.binlog.row_scanner import make_scan, scan_images
from mirrorlake.sources.mysql.binlog.values import (
    binaries,
    json_binary,
    moments,
    numbers,
    packed_decimals,
    texts,
)
from mirrorlake.sources.mysql.binlog.values.decoded import Decoded


def cells(*values: bytes | None, size: int | None = None) -> ColumnCells:
    """Cells of these values; of a fixed size their NULLs take none."""
    parts = [value or b"" for value in values]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    flat = np.frombuffer(b"".join(parts) + bytes(8), dtype=np.uint8)
    null = np.array([value is None for value in values])
    sizes = ends[1:] - ends[:-1]
    return ColumnCells(flat, ends[:-1], size or sizes, null if null.any() else None)


def shown(decoded: Decoded) -> list[Any]:
    return decoded.values.to_pylist()


class NoServer:
    """Nobody is asked."""

    def convert(self, charset: str, values: Sequence[bytes]) -> list[texts.ConvertedText]:
        raise AssertionError(charset)


def test_whole_numbers() -> None:
    three = cells(b"\xff\xff\xff", b"\0\0\x80", None, b"\xff\xff\x7f")
    signed = numbers.integer(3, numbers.pa.int32(), unsigned=False)(three)
    assert shown(signed) == [-1, -8388608, None, 8388607]
    unsigned = numbers.integer(3, numbers.pa.int32(), unsigned=True)(three)
    assert shown(unsigned) == [16777215, 8388608, None, 8388607]
    eight = cells(b"\xff" * 8, bytes(8), None)
    assert shown(numbers.integer(8, numbers.UNSIGNED_LONG, unsigned=True)(eight)) == [
        *(Decimal(2**64 - 1), Decimal(0), None)
    ]
    assert shown(numbers.integer(8, numbers.pa.int64(), unsigned=False)(eight)) == [-1, 0, None]


def test_years_and_bits() -> None:
    assert shown(numbers.year(cells(b"\0", b"\1", b"\xff", None))) == [0, 1901, 2155, None]
    assert shown(numbers.bits(9)(cells(b"\1\xff", None, b"\0\1"))) == [511, None, 1]
    assert shown(numbers.bits(64)(cells(b"\xff" * 8))) == [Decimal(2**64 - 1)]
    with pytest.raises(LogUnreadable, match="more than 9 bits"):
        numbers.bits(9)(cells(b"\2\0"))


@given(st.integers(1, 65), st.data())
def test_decimals_are_what_was_packed(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, min(precision, 30)))
    size = packed_decimals.decimal_size(precision, scale)
    wanted = data.draw(
        st.lists(st.none() | st.integers(-(10**precision) + 1, 10**precision - 1), min_size=1)
    )
    column = cells(*(None if n is None else pack(n, precision, scale) for n in wanted), size=size)
    found = shown(packed_decimals.decimal(precision, scale)(column))
    for number, value in zip(wanted, found, strict=True):
        if number is None:
            assert value is None
        else:
            assert int(Decimal(value).scaleb(scale, context=WIDE)) == number
    if precision > 38:
        for text in found:
            assert text is None or text.lstrip("-").partition(".")[2].__len__() == scale


WIDE = Context(prec=80)


def pack(number: int, precision: int, scale: int) -> bytes:
    """A decimal in the server's form, by its description."""
    digits = f"{abs(number):0{precision}}"
    found = b""
    for count in packed_decimals.groups_of(precision, scale):
        part, digits = digits[:count], digits[count:]
        found += int(part).to_bytes((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[count], "big")
    first = bytes([found[0] ^ 0x80]) + found[1:]
    return bytes(b ^ 0xFF for b in first) if number < 0 else first


def test_a_decimal_with_impossible_digits_is_an_error() -> None:
    with pytest.raises(LogUnreadable, match="DECIMAL"):
        packed_decimals.decimal(2, 0)(cells(b"\xe4"))  # 100


def test_dates() -> None:
    day = ((2024 << 9) | (2 << 5) | 29).to_bytes(3, "little")
    wrong = ((2023 << 9) | (2 << 5) | 31).to_bytes(3, "little")
    found = moments.date(cells(day, bytes(3), None, wrong))
    assert shown(found) == [datetime.date(2024, 2, 29), None, None, None]
    assert found.originals.to_pylist() == [None, "0000-00-00", None, "2023-02-31"]
    with pytest.raises(LogUnreadable, match="9999"):
        moments.date(cells(b"\xff\xff\xff"))


def moment(year: int, month: int, day: int, h: int = 0, m: int = 0, s: int = 0) -> bytes:
    packed = (((year * 13 + month) << 5 | day) << 17) | h << 12 | m << 6 | s
    return (packed + (1 << 39)).to_bytes(5, "big")


def test_datetimes() -> None:
    values = [
        moment(9999, 12, 31, 23, 59, 59) + b"\x0f\x42\x3f",
        moment(0, 0, 0) + bytes(3),
        None,
        moment(2023, 2, 31, 1, 2, 3) + b"\0\0\x0a",
    ]
    found = moments.datetime(6)(cells(*values, size=8))
    assert shown(found) == [datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999), None, None, None]
    assert found.originals.to_pylist() == [
        *(None, "0000-00-00 00:00:00.000000", None, "2023-02-31 01:02:03.000010")
    ]
    tenths = moments.datetime(1)(cells(moment(2024, 1, 1) + bytes([90])))
    assert shown(tenths) == [datetime.datetime(2024, 1, 1, microsecond=900_000)]
    for wrong in (moment(2024, 1, 1, 24), moment(2024, 1, 1, 1, 60), b"\0" * 5):
        with pytest.raises(LogUnreadable):
            moments.datetime(0)(cells(wrong))
    with pytest.raises(LogUnreadable, match="fraction"):
        moments.datetime(2)(cells(moment(2024, 1, 1) + bytes([100])))


def test_instants() -> None:
    values = [b"\0\0\0\1\0\1", bytes(6), None, b"\xff\xff\xff\xff\x27\x0f"]
    found = moments.timestamp(4)(cells(*values, size=6))
    utc = datetime.UTC
    assert shown(found) == [
        datetime.datetime(1970, 1, 1, 0, 0, 1, 100, tzinfo=utc),
        *(None, None),
        datetime.datetime(2106, 2, 7, 6, 28, 15, 999_900, tzinfo=utc),
    ]
    assert found.originals.to_pylist() == [None, "0000-00-00 00:00:00.0000", None, None]


@given(st.integers(0, 6), st.data())
def test_times_of_a_day(digits: int, data: st.DataObject) -> None:
    size = moments.fraction_size(digits)
    parts = st.tuples(
        st.booleans(), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59),
        st.integers(0, 10**digits - 1),
    )  # fmt: skip
    wanted = data.draw(st.lists(st.none() | parts, min_size=1))
    values: list[bytes | None] = []
    said: list[str | None] = []
    for one in wanted:
        if one is None:
            values.append(None)
            said.append(None)
            continue
        minus, h, m, s, part = one
        stored = part * (10 if digits % 2 else 1)
        packed = (h << 12 | m << 6 | s) << 8 * size | stored
        minus = minus and packed > 0
        values.append(
            ((1 << 23 + 8 * size) + (-packed if minus else packed)).to_bytes(3 + size, "big")
        )
        fraction = f".{part:0{digits}}" if digits else ""
        said.append(f"{'-' if minus else ''}{h:02}:{m:02}:{s:02}{fraction}")
    assert shown(moments.time(digits)(cells(*values, size=3 + size))) == said


def test_bytes_that_are_padded_and_printed() -> None:
    assert shown(binaries.padded(4)(cells(b"a", b"", None, b"abcd"))) == [
        *(b"a\0\0\0", bytes(4), None, b"abcd")
    ]
    with pytest.raises(LogUnreadable, match="more than 4 bytes"):
        binaries.padded(4)(cells(b"abcde"))
    given = bytes.fromhex("123e4567e89b12d3a456426655440000").rstrip(b"\0")
    assert shown(binaries.uuid(cells(given, None))) == [
        "123e4567-e89b-12d3-a456-426655440000",
        None,
    ]
    assert shown(binaries.inet4(cells(b"\x0a\0\0\1", b"\1", None))) == ["10.0.0.1", "1.0.0.0", None]
    assert shown(binaries.inet6(cells(bytes(15) + b"\1", b""))) == ["::1", "::"]


def test_labels() -> None:
    enum = texts.enum(1, [b"a", "ü".encode()], "utf8mb4", NoServer())
    found = enum(cells(b"\1", b"\0", None, b"\2"))
    assert shown(found) == ["a", "", None, "ü"]
    assert found.originals.to_pylist() == [None, "0", None, None]
    with pytest.raises(LogUnreadable, match="without a label"):
        enum(cells(b"\3"))
    chosen = texts.set_of(1, [b"a", b"b c", "ü".encode()], "utf8mb4", NoServer())
    assert shown(chosen(cells(b"\7", b"\0", None, b"\5"))) == ["a,b c,ü", "", None, "a,ü"]
    with pytest.raises(LogUnreadable, match="without a label"):
        chosen(cells(b"\x08"))


def test_text_that_is_none_in_its_charset_is_an_error_without_the_text() -> None:
    with pytest.raises(LogUnreadable) as caught:
        texts.text("utf8mb4", NoServer())(cells(b"secret\xff"))
    assert "secret" not in str(caught.value)


@given(st.binary(max_size=60))
def test_json_of_any_bytes_is_a_text_or_an_error(given: bytes) -> None:
    with suppress(LogUnreadable):
        assert isinstance(json_binary.read_json(given, json_binary.JsonPrint()), str)


def test_json_that_contains_itself_is_an_error() -> None:
    inner = b"\x02" + b"\x01\0\x20\0" + b"\x02\0\0" + bytes(24)
    with pytest.raises(LogUnreadable):
        json_binary.read_json(inner, json_binary.JsonPrint())


@given(st.binary(max_size=40))
def test_compressed_bytes_are_unpacked_or_an_error(given: bytes) -> None:
    for unpack in (unpack_mariadb, unpack_column):
        try:
            unpack(given)
        except LogUnreadable:
            continue


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 4)), min_size=1, max_size=70), st.data())
def test_images_are_found_column_by_column(
    widths: list[tuple[bool, int]], data: st.DataObject
) -> None:
    """The scanner, the columns and a reading by hand agree; a cut image is an error."""
    wanted = data.draw(
        st.lists(
            st.tuples(*(st.none() | (st.binary(min_size=size, max_size=size) if fixed else st.binary(max_size=9)) for fixed, size in widths)),
            min_size=1, max_size=6,
        )
    )  # fmt: skip
    images = bytearray()
    for row in wanted:
        nulls = sum(1 << n for n, value in enumerate(row) if value is None)
        images += nulls.to_bytes((len(widths) + 7) // 8, "little")
        for value, (fixed, size) in zip(row, widths, strict=True):
            if value is not None:
                images += (b"" if fixed else len(value).to_bytes(size, "little")) + value
    starts: list[int] = []
    scan = make_scan(widths)
    assert scan_images(scan, images, 0, starts) == len(wanted)
    found = locate(images + bytes(8), starts, widths)
    assert [*zip(*(column.to_list() for column in found), strict=True)] == [*wanted]
    cut = data.draw(st.integers(0, len(images) - 1))
    try:
        count = scan_images(scan, images[:cut], 0, starts := [])
    except MirrorlakeError:
        assert starts == []
    else:
        assert count < len(wanted)
