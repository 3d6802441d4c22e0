"""Bytes as they are: BINARY, VARBINARY, BLOB, shapes, and MariaDB's types that have one text.

Source: MySQL 8.0 manual, 11.3.3 "The BINARY and VARBINARY Types" (padding), 11.4.3 "Supported
Spatial Data Formats" (internal geometry storage); MariaDB knowledge base, "UUID Data Type",
"INET6", "INET4".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from mirrorlake.sources.mysql.binlog.cells import ColumnCells, spans
from mirrorlake.sources.mysql.binlog.events.payload import unpack_column
from mirrorlake.sources.mysql.binlog.values.decoded import Decoded

_DASHES = (8, 13, 18, 23)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def varying(cells: ColumnCells) -> Decoded:
    """Bytes of any number."""
    return Decoded(cells.binary())


def padded(size: int) -> Callable[[ColumnCells], Decoded]:
    """BINARY(size): the log leaves out the zeros at its end."""

    def decode(cells: ColumnCells) -> Decoded:
        ends = np.arange(len(cells) + 1, dtype=np.int64) * size
        shown = cells.padded(size).reshape(-1)
        return Decoded(spans(shown, ends[:-1], ends[1:], cells.null))

    return decode


def uuid(cells: ColumnCells) -> Decoded:
    """UUID, in small letters."""
    given = cells.padded(16)
    digits = np.empty((len(cells), 32), dtype=np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[given >> 4], _HEX[given & 15]
    shown = np.full((len(cells), 36), ord("-"), dtype=np.uint8)
    shown[:, [n for n in range(36) if n not in _DASHES]] = digits
    ends = np.arange(len(cells) + 1, dtype=np.int64) * 36
    texts = spans(shown.reshape(-1), ends[:-1], ends[1:], cells.null)
    return Decoded(texts.cast(pa.large_string()))


def inet4(cells: ColumnCells) -> Decoded:
    """INET4."""
    return _printed(cells, 4, lambda given: ".".join(map(str, given)))


def inet6(cells: ColumnCells) -> Decoded:
    """INET6, as MariaDB prints it."""
    return _printed(cells, 16, _inet6_text)


def _printed(cells: ColumnCells, size: int, text: Callable[[bytes], str]) -> Decoded:
    known: dict[bytes, str] = {}
    found: list[str | None] = []
    rows = cells.padded(size).tobytes()
    nulls: Iterable[bool] = [False] * len(cells) if cells.null is None else cells.null
    for place, null in enumerate(nulls):
        given = rows[place * size : (place + 1) * size]
        if null:
            found.append(None)
        elif (known_text := known.get(given)) is not None:
            found.append(known_text)
        else:
            found.append(known.setdefault(given, text(given)))
    return Decoded(pa.array(found, pa.large_string()))


def _inet6_text(given: bytes) -> str:
    """An address as MariaDB prints it: the first of the longest runs of zeros is left out, even of
    one; the last four bytes are in decimals if only zeros, or ffff, are before them.

    >>> _inet6_text(bytes(15) + b"\\1"), _inet6_text(bytes(10) + b"\\xff\\xff\\1\\2\\3\\4")
    ('::1', '::ffff:1.2.3.4')
    """
    words = [int.from_bytes(given[n : n + 2], "big") for n in range(0, 16, 2)]
    at, length = _longest_gap(words)
    mapped = length == 6 or (length == 5 and words[5] == 0xFFFF)
    parts: list[str] = []
    place = 0
    while place < 8:
        if place == at:
            parts.append(("" if parts else ":") + ":")
            place += length
        elif place == 6 and at == 0 and mapped:
            return "".join(parts) + str(ipaddress.IPv4Address(given[12:]))
        else:
            parts.append(f"{words[place]:x}" + (":" if place < 7 else ""))
            place += 1
    return "".join(parts)


def _longest_gap(words: list[int]) -> tuple[int, int]:
    """Where the longest run of zeros begins, and how long it is; (-1, 0) without one."""
    best, at = (-1, 0), 0
    while at < len(words):
        length = 0
        while at + length < len(words) and not words[at + length]:
            length += 1
        if length > best[1]:
            best = (at, length)
        at += length + 1
    return best


def unpacked(cells: ColumnCells) -> ColumnCells:
    """The values of a COMPRESSED column, as those of any other."""
    values = [b"" if value is None else unpack_column(value) for value in cells.to_list()]
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    flat = np.frombuffer(b"".join(values) + bytes(8), dtype=np.uint8)
    return ColumnCells(flat, ends[:-1], ends[1:] - ends[:-1], cells.null)
