"""Ranges of keys as a person names them: from a to b, both of them in it.

What is written becomes the forms by which both sides order the key
(`mirrorlake.proof.ranges.order`), or is refused: half a moment, or a number of more places than the
column has, would be another end than the one that was meant.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from mirrorlake.errors import ConfigError
from mirrorlake.proof.ranges.order import Part, span_conditions
from mirrorlake.proof.ranges.range_ends import is_at_most
from mirrorlake.proof.ranges.ranges import Range, Span

_INCLUDED = " included"
_NARROW = {"ascii": "\x7f", "utf8mb3": "\uffff", "utf8": "\uffff"}
"""The last character of charsets that do not hold every one."""


@dataclass(frozen=True)
class Named:
    """Both ends as they were written; None: no bound."""

    lo: str | None
    hi: str | None

    def __str__(self) -> str:
        return f"{self.lo or ''}..{self.hi or ''}"


@dataclass(frozen=True)
class Closed(Span):
    """A span that holds its upper end too."""

    @property
    def bounds(self) -> tuple[str | None, str | None]:
        """As they are kept; the upper one says that it is no first key after the range."""
        low, high = super().bounds
        return low, None if high is None else high + _INCLUDED


def read_keys(text: str) -> Named:
    """What ``--keys`` says: ``a..b``, and an end between quotes as JSON writes a text.

    >>> read_keys('"a..b"..c')
    Named(lo='a..b', hi='c')

    Raises:
        ConfigError: it can't be read, or in two ways.
    """
    low, rest = _read_end(text, text)
    if not rest.startswith(".."):
        raise _unread(text)
    high, rest = _read_end(rest[2:], text)
    if rest:
        raise _unread(text)
    return Named(low, high)


def _read_end(text: str, whole: str) -> tuple[str | None, str]:
    """The end that a text begins with, and what comes after it."""
    if text.startswith('"'):
        try:
            found, length = json.JSONDecoder().raw_decode(text)
        except ValueError as error:
            raise _unread(whole) from error
        return str(found), text[length:]
    end, dots, rest = text.partition("..")
    # Of three dots, which one belongs to a key?
    if rest.startswith("."):
        raise _unread(whole)
    return end or None, dots + rest


def _unread(text: str) -> ConfigError:
    return ConfigError(
        f"--keys {text!r} is no range of keys",
        next_step="Write --keys a..b, either end may be left out; a key that holds .. or begins "
        'with a quote, as JSON writes a text: --keys \'"a..b".."c"\'',
    )


def integer_range(table: str, named: Named) -> Range:
    """The range of an integer.

    Raises:
        ConfigError: an end is no whole number, or they are the wrong way round.
    """
    try:
        low = None if named.lo is None else int(named.lo)
        high = None if named.hi is None else int(named.hi)
    except ValueError as error:
        raise _refused(table, named, "its key begins with an integer: 100..199") from error
    if low is not None and high is not None and low > high:
        raise _refused(table, named, "the first key is after the last one")
    return Range(low, None if high is None else high + 1)


def closed_span(table: str, part: Part, named: Named) -> Closed | Range:
    """The span of a key of one column.

    Raises:
        ConfigError: an end is no value of the column, or they are the wrong way round.
    """
    try:
        low, high = (None if end is None else (form_of(part, end),) for end in (named.lo, named.hi))
    except ValueError as error:
        raise _refused(table, named, f"its key is {part.column.column_type}: {error}") from error
    found = Closed(low, high)
    if low is None and high is None:
        return Range()
    ends = Span(low).bounds[0], Span(high).bounds[0]
    if ends[0] and ends[1] and ends[0] != ends[1] and is_at_most(ends[1], ends[0]):
        raise _refused(table, named, "the first key is after the last one")
    return found


def _refused(table: str, named: Named, why: str) -> ConfigError:
    return ConfigError(
        f"table {table}: --keys {str(named)!r} names no keys of it: {why}",
        table=table,
        next_step="Write --keys a..b with keys as MySQL shows them",
    )


def conditions_of(parts: tuple[Part, ...], span: Span) -> tuple[str, str]:
    """The rows of a span in each side's SQL, '' for all; see `span_conditions`."""
    if not isinstance(span, Closed) or span.hi is None:
        return span_conditions(parts, span)
    part, low = parts[0], None if span.lo is None else span.lo[0]
    ours, theirs = part.literals(span.hi[0])
    source, lake = span_conditions(parts, Span(span.lo))
    pruned = part.pruned(low, span.hi[0])[1:]
    # NULL, which comes before all, is in a span that has no beginning.
    upper = (f"{part.source} <= {ours}", f"NOT coalesce({part.lake} > {theirs},false)")
    return (
        " AND ".join(c for c in (source, upper[0]) if c),
        " AND ".join(c for c in (*pruned, lake, upper[1]) if c),
    )


def form_of(part: Part, text: str) -> str:
    """The form of a value of one column, as MySQL would make it.

    Raises:
        ValueError: it is no such value; how it is to be written.
    """
    column = part.column
    if column.data_type in ("char", "varchar"):
        if text and max(text) > _NARROW.get(column.charset or "", "\U0010ffff"):
            raise ValueError(f"not every character is one of {column.charset}")
        return f"{len(text.encode())}:{text}"
    if column.data_type in ("binary", "varbinary"):
        return _bytes(text, column.length or 0, fixed=column.data_type == "binary")
    if column.data_type == "decimal":
        return _decimal(text, column.precision or 10, column.scale or 0)
    if column.data_type in ("date", "datetime", "timestamp"):
        return _moment(text, column.data_type == "date", column.fraction or 0)
    return str(int(text))


def _bytes(text: str, length: int, *, fixed: bool) -> str:
    digits = text.removeprefix("0x").upper()
    if not re.fullmatch("([0-9A-F]{2})*", digits) or len(digits) > 2 * length:
        raise ValueError(f"write up to {length} bytes in hexadecimal, such as 0x00FF")
    return digits.ljust(2 * length, "0") if fixed else digits


def _decimal(text: str, digits: int, scale: int) -> str:
    """Not by Decimal's arithmetic, which rounds to 28 digits without a word."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("NaN")
    fits = number.is_finite() and number.copy_abs() < 10 ** (digits - scale)
    form = f"{number.copy_abs() if number == 0 else number:.{scale}f}" if fits else ""
    # What has more places than the column, which it would be rounded to, is another number.
    if not fits or Decimal(form) != number:
        raise ValueError(f"write a number of up to {digits - scale} digits and {scale} places")
    return form


def _moment(text: str, day: bool, places: int) -> str:
    shape = r"([0-9]{4}-[0-9]{2}-[0-9]{2})" + ("" if day else r" ([0-9:]{8})([.][0-9]{1,6})?")
    how = "write YYYY-MM-DD" if day else "write YYYY-MM-DD hh:mm:ss"
    found = re.fullmatch(shape, text)
    if found is None:
        raise ValueError(how)
    fraction = "" if day else (found[3] or "")[1:].rstrip("0")
    year, month, date = (int(number) for number in found[1].split("-"))
    # Dates with zeros are keys too; `datetime` has none of them.
    calendar = f"{year or 2000:04}-{month or 1:02}-{date or 1:02}"
    try:
        datetime.fromisoformat(f"{calendar} {'00:00:00' if day else found[2]}")
    except ValueError as error:
        raise ValueError(how) from error
    if len(fraction) > places:
        raise ValueError(f"a moment of it has {places} places of a second")
    if day:
        return found[1]
    return f"{found[1]} {found[2]}" + (f".{fraction.ljust(places, '0')}" if places else "")
