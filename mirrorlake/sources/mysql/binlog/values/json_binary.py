"""JSON as MySQL stores it → the text that MySQL itself prints of it (``CAST(json AS CHAR)``).

Source: MySQL source, ``json_binary.h`` (the format), ``wrapper_to_string`` (the text), ``my_gcvt``
(numbers).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from mirrorlake.errors import LogUnreadable
from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.cells import ColumnCells
from mirrorlake.sources.mysql.binlog.events import wire_types as wire
from mirrorlake.sources.mysql.binlog.values.decoded import Decoded
from mirrorlake.sources.mysql.binlog.values.packed_decimals import read_decimal

_WHAT: Final = "A value of type JSON"
_DEEPEST: Final = 100
_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(5, 13)
_OPAQUE: Final = 15
_LITERALS: Final = ("null", "true", "false")
_NUMBERS: Final = {
    kind: struct.Struct(form)
    for kind, form in (
        (_INT16, "<h"),
        (_UINT16, "<H"),
        (_INT32, "<i"),
        (_UINT32, "<I"),
        (_INT64, "<q"),
        (_UINT64, "<Q"),
        (_DOUBLE, "<d"),
    )
}
_INLINED: Final = {2: (_LITERAL, _INT16, _UINT16), 4: (_LITERAL, _INT16, _UINT16, _INT32, _UINT32)}
_TIMESTAMP, _DATE, _TIME, _DATETIME = 7, wire.DATE, 11, 12
_ESCAPED: Final = {
    **{chr(n): f"\\u{n:04x}" for n in range(32)},
    **{'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"},
}
_ESCAPES: Final = str.maketrans(_ESCAPED)


@dataclass(frozen=True)
class JsonPrint:
    """What servers print differently.

    Attributes:
        points: whether a double without a fraction is 1.0, and not 1.
        line_break: what stands between the lines of bytes in base64: ``\\n`` in newer ones, a line
            break as it is in older ones, which is no JSON.
    """

    points: bool = True
    line_break: str = "\n"


def json_text(form: JsonPrint) -> Callable[[ColumnCells], Decoded]:
    """Values of a JSON column, as the server prints them."""

    def decode(cells: ColumnCells) -> Decoded:
        found = [None if v is None else read_json(v, form) for v in cells.to_list()]
        return Decoded(pa.array(found, pa.large_string()))

    return decode


def read_json(given: bytes, form: JsonPrint) -> str:
    """The text of one document.

    >>> read_json(b"\\x05\\xff\\xff", JsonPrint())
    '-1'

    Raises:
        LogUnreadable: it is cut, or not in the format.
    """
    if not given:
        return "null"  # what a lenient server stores of a document that is none
    try:
        return _JsonReader(given, form).value(given[0], 1, 1)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, LogUnreadable):
            raise
        raise unreadable(_WHAT, "it is cut") from None


class _JsonReader:
    """One document: its bytes, and how they are printed."""

    def __init__(self, given: bytes, form: JsonPrint) -> None:
        self._bytes, self._form = given, form

    def value(self, kind: int, at: int, depth: int) -> str:
        """The text of the value of this type that is stored at ``at``."""
        if depth > _DEEPEST + 1:
            raise unreadable(_WHAT, "it is too deep")
        if kind <= _LARGE_ARRAY:
            return self._container(kind, at, depth)
        if kind == _LITERAL:
            return _LITERALS[self._bytes[at]]
        if kind in _NUMBERS:
            (number,) = _NUMBERS[kind].unpack_from(self._bytes, at)
            return (
                _double_text(number, points=self._form.points) if kind == _DOUBLE else str(number)
            )
        if kind == _STRING:
            return quoted(self._sized(at).decode())
        if kind == _OPAQUE:
            return self._opaque(self._bytes[at], self._sized(at + 1))
        raise unreadable(_WHAT, f"it has a value of type {kind}")

    def _container(self, kind: int, at: int, depth: int) -> str:
        size = 2 if kind in (_SMALL_OBJECT, _SMALL_ARRAY) else 4
        count, length = self._uint(at, size), self._uint(at + size, size)
        if length > len(self._bytes) - at or count * (1 + size) > length:
            raise unreadable(_WHAT, "an object or array in it is cut")
        keys = count if kind in (_SMALL_OBJECT, _LARGE_OBJECT) else 0
        entries = at + 2 * size + keys * (size + 2)
        values = [self._entry(at, entries + n * (1 + size), size, depth + 1) for n in range(count)]
        if kind in (_SMALL_ARRAY, _LARGE_ARRAY):
            return f"[{', '.join(values)}]"
        names = [self._key(at, at + 2 * size + n * (size + 2), size) for n in range(count)]
        pairs = zip(names, values, strict=True)
        return f"{{{', '.join(f'{name}: {value}' for name, value in pairs)}}}"

    def _entry(self, start: int, at: int, size: int, depth: int) -> str:
        kind = self._bytes[at]
        if kind in _INLINED[size]:
            return self.value(kind, at + 1, depth)
        offset = self._uint(at + 1, size)
        if offset < 2 * size:
            raise unreadable(_WHAT, "a value in it is in itself")
        return self.value(kind, start + offset, depth)

    def _key(self, start: int, at: int, size: int) -> str:
        offset, length = self._uint(at, size), self._uint(at + size, 2)
        return quoted(self._take(start + offset, length).decode())

    def _opaque(self, kind: int, given: bytes) -> str:
        if kind == wire.NEWDECIMAL:
            return read_decimal(given[2:], given[0], given[1])
        if kind in (_TIMESTAMP, _DATE, _TIME, _DATETIME):
            (packed,) = struct.unpack("<q", given)
            return f'"{_moment(kind, packed)}"'
        # MySQL breaks lines as MIME does.
        lines = base64.encodebytes(given).decode().splitlines()
        return f'"base64:type{kind}:{self._form.line_break.join(lines)}"'

    def _sized(self, at: int) -> bytes:
        """Bytes behind their length, seven bits of it in each byte."""
        size = 0
        for place in range(5):
            octet = self._bytes[at + place]
            size |= (octet & 0x7F) << 7 * place
            if octet < 0x80:
                return self._take(at + place + 1, size)
        raise unreadable(_WHAT, "a length in it has no end")

    def _take(self, at: int, size: int) -> bytes:
        if at + size > len(self._bytes):
            raise unreadable(_WHAT, "it is cut")
        return self._bytes[at : at + size]

    def _uint(self, at: int, size: int) -> int:
        return int.from_bytes(self._take(at, size), "little")


def quoted(text: str) -> str:
    """A text between quotation marks, as MySQL escapes it.

    >>> print(quoted('a"\\n\\x01é'))
    "a\\"\\n\\u0001é"
    """
    return f'"{text.translate(_ESCAPES)}"'


def _double_text(number: float, *, points: bool) -> str:
    """A double as MySQL prints it: with an exponent beyond 15 digits before the point, or 14 zeros
    behind it.

    >>> _double_text(1e22, points=True), _double_text(3.0, points=True)
    ('1e22', '3.0')
    """
    sign, digits, exponent = _digits(number)
    point = len(digits) + exponent  # where the point stands, from the digits' begin
    if not -14 <= point <= 15 and not 15 < point < len(digits):
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point < len(digits):
        return f"{sign}{digits[:point]}.{digits[point:]}"
    return f"{sign}{digits}{'0' * (point - len(digits))}{'.0' if points else ''}"


def _digits(number: float) -> tuple[str, str, int]:
    """Sign, digits and exponent of the shortest text that is this number again."""
    mantissa, _, power = repr(number).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, part = mantissa.lstrip("-").partition(".")
    digits = (whole + part).lstrip("0")
    stripped = digits.rstrip("0")
    exponent = int(power or 0) - len(part) + len(digits) - len(stripped)
    return (sign, stripped, exponent) if stripped else (sign, "0", 0)


def _moment(kind: int, packed: int) -> str:
    """A date, a time or both, from the number that MySQL packs it into."""
    sign, packed = ("-" if packed < 0 else ""), abs(packed)
    micros, clock, day = packed & 0xFFFFFF, packed >> 24, packed >> 41
    if kind == _TIME:
        text = f"{sign}{clock >> 12 & 0x3FF:02}:{clock >> 6 & 63:02}:{clock & 63:02}"
        return f"{text}.{micros:06}"
    date = f"{(day >> 5) // 13:04}-{(day >> 5) % 13:02}-{day & 31:02}"
    if kind == _DATE:
        return date
    return f"{date} {clock >> 12 & 31:02}:{clock >> 6 & 63:02}:{clock & 63:02}.{micros:06}"
