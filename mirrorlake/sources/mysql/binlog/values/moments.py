"""Dates, times with a date, instants, and times of a day that may be of many days.

Source: MySQL internals, "Date and Time Data Type Representation" (since 5.6.4, and MariaDB 10.1
with ``mysql56_temporal_format``): highest byte first, so that bytes sort as values do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.cells import ColumnCells, spans
from mirrorlake.sources.mysql.binlog.values.decoded import Decoded
from mirrorlake.sources.mysql.types.calendar import dates_of, datetimes_of

INSTANT = pa.timestamp("us", "UTC")
_LAST = 10_000 * 13 << 22
_ZERO = "0000-00-00 00:00:00"


def fraction_size(digits: int) -> int:
    """The bytes of so many digits after the point of a second."""
    return (digits + 1) // 2


def date(cells: ColumnCells) -> Decoded:
    """DATE: day, month and year in three bytes."""
    words = cells.valid(cells.word(3)).astype(np.int64)
    _check(words >> 9 < 10_000, "a DATE after the year 9999")
    numbers = (words >> 9) * 10_000 + (words >> 5 & 15) * 100 + (words & 31)
    return Decoded(*dates_of(pa.array(numbers, mask=cells.null)))


def datetime(digits: int) -> Callable[[ColumnCells], Decoded]:
    """DATETIME(digits)."""

    def decode(cells: ColumnCells) -> Decoded:
        packed = cells.big(5).astype(np.int64) - (1 << 39)
        packed = cells.valid(packed)
        _check((packed >= 0) & (packed < _LAST), "a DATETIME before the year 0 or after 9999")
        months, clock = packed >> 22, packed & 0x1FFFF
        hours, minutes, seconds = clock >> 12, clock >> 6 & 63, clock & 63
        _check((hours < 24) & (minutes < 60) & (seconds < 60), "a DATETIME at no time of a day")
        days = (months // 13) * 10_000 + months % 13 * 100 + (packed >> 17 & 31)
        numbers = days * 1_000_000 + hours * 10_000 + minutes * 100 + seconds
        values, texts = datetimes_of(pa.array(numbers, mask=cells.null))
        if not digits:
            return Decoded(values, texts)
        micros = _micros(cells, digits, 5)
        whole = values.cast(pa.int64()).to_numpy(zero_copy_only=False, writable=False)
        exact = pa.array(_whole(values, whole) + micros, mask=_null(values))
        return Decoded(exact.cast(pa.timestamp("us")), _with_fractions(texts, micros, digits))

    return decode


def timestamp(digits: int) -> Callable[[ColumnCells], Decoded]:
    """TIMESTAMP(digits), an instant; the zero value keeps its text."""

    def decode(cells: ColumnCells) -> Decoded:
        seconds = cells.valid(cells.big(4)).astype(np.int64)
        micros = seconds * 1_000_000 + _micros(cells, digits, 4)
        zero = micros == 0
        null = cells.null
        if null is not None:
            zero = zero & ~null
        unset = zero if null is None else zero | null
        values = pa.array(micros, mask=unset).cast(INSTANT)
        if not zero.any():
            return Decoded(values, pa.nulls(len(cells), pa.string()))
        text = f"{_ZERO}.{'0' * digits}" if digits else _ZERO
        return Decoded(values, pa.array([text if one else None for one in zero], pa.string()))

    return decode


def time(digits: int) -> Callable[[ColumnCells], Decoded]:
    """TIME(digits), as MySQL prints it."""
    size = fraction_size(digits)

    def decode(cells: ColumnCells) -> Decoded:
        packed = cells.big(3 + size).astype(np.int64) - (1 << 23 + 8 * size)
        packed = cells.valid(packed)
        minus, size_of = packed < 0, np.abs(packed)
        clock, fraction = size_of >> 8 * size, size_of & (1 << 8 * size) - 1
        hours, minutes, seconds = clock >> 12, clock >> 6 & 63, clock & 63
        fits = (hours < 839) & (minutes < 60) & (seconds < 60) & (fraction < 100**size)
        _check(fits, "a TIME that no clock shows")
        if digits % 2:
            fraction = fraction // 10
        return Decoded(_clock_texts(cells, minus, (hours, minutes, seconds), fraction, digits))

    return decode


def _clock_texts(
    cells: ColumnCells, minus: Any, clock: tuple[Any, Any, Any], fraction: Any, digits: int
) -> pa.Array:
    """Texts like -838:59:59.999999, all in one matrix of characters."""
    hours, minutes, seconds = clock
    width = 10 + (digits + 1 if digits else 0)
    shown = np.full((len(cells), width), ord(":"), dtype=np.uint8)
    _print(shown, 1, hours, 3)
    _print(shown, 5, minutes, 2)
    _print(shown, 8, seconds, 2)
    if digits:
        shown[:, 10] = ord(".")
        _print(shown, 11, fraction, digits)
    # Hours have two digits, or three if they need them; the sign stands before the first.
    first = np.where(hours > 99, 1, 2)
    rows = np.arange(len(cells), dtype=np.int64)
    shown[rows, first - 1] = np.where(minus, ord("-"), shown[rows, first - 1])
    begin = rows * width + first - minus
    texts = spans(shown.reshape(-1), begin, (rows + 1) * width, cells.null)
    return texts.cast(pa.large_string())


def _print(shown: npt.NDArray[np.uint8], at: int, numbers: Any, digits: int) -> None:
    """Write numbers with leading zeros into a matrix of characters."""
    for place in range(digits):
        shown[:, at + place] = numbers // 10 ** (digits - 1 - place) % 10 + ord("0")


def _micros(cells: ColumnCells, digits: int, offset: int) -> npt.NDArray[np.int64]:
    """The microseconds behind ``offset`` bytes."""
    size = fraction_size(digits)
    if not size:
        return np.zeros(len(cells), dtype=np.int64)
    stored = cells.valid(cells.big(size, offset)).astype(np.int64)
    _check(stored < 100**size, "a fraction of a second that is a second or more")
    return stored * 10 ** (6 - 2 * size)


def _check(holds: Any, what: str) -> None:
    if not np.all(holds):
        raise unreadable("A row event", what)


def _null(values: pa.Array) -> Any:
    return values.is_null().to_numpy(zero_copy_only=False)


def _whole(values: pa.Array, shown: Any) -> npt.NDArray[np.int64]:
    """Whole numbers, 0 for NULL: numpy has no NULL, and makes floats of all."""
    if values.null_count:
        shown = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return shown


def _with_fractions(texts: pa.Array, micros: Any, digits: int) -> pa.Array:
    """Texts of moments without a fraction, and the digits of theirs behind them."""
    if texts.null_count == len(texts):
        return texts
    step = 10 ** (6 - digits)
    found = [
        None if text is None else f"{text}.{int(micro) // step:0{digits}}"
        for text, micro in zip(texts.to_pylist(), micros, strict=True)
    ]
    return pa.array(found, pa.string())
