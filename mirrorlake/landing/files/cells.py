"""Values as they were written, made typed columns: exactly, or not at all. Nothing passes a double.

Each kind has one rule for one value (`_RULES`), which gives the value, says that it has no place
(its text is kept beside it), or refuses it with a reason that never shows it. Where all texts of a
column have the plain form (`_PLAIN`), Arrow converts them at once, to the same values.

Source: MySQL 8.0 manual, 9.1 "Literal Values"; RFC 8259, section 6 "Numbers".
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.landing.files.columns import LandedColumn

pc: Any = _compute  # its functions are made at import: type checkers see none of them


class Number(str):
    """A number of JSON as it was written, digit by digit."""

    __slots__ = ()


class Refused(ValueError):
    """A value that its column can't hold; the message does not show it."""


class _NoPlace(Exception):
    """A value that is NULL in its column, with its text kept beside it."""


LandedValue: TypeAlias = Any
_NUMBER = re.compile(r"-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,12}))?"
    r"(Z| UTC|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_LONGEST = 400  # characters of a number: a larger exponent would take all memory to write out


@dataclass
class Converted:
    """A column: its values, the texts that have no place, and the reasons, by row."""

    values: Any
    originals: dict[int, str] = field(default_factory=dict[int, str])
    refused: dict[int, str] = field(default_factory=dict[int, str])


def convert(column: LandedColumn, written: Sequence[LandedValue]) -> Converted:
    """A column of values as they were written: None, texts, `Number`, bool; anything else is
    refused. Refused values are NULL in ``values``."""
    plain = _converted_at_once(column, written)
    if plain is not None:
        return Converted(plain)
    rule = _RULES[column.iceberg.partition("(")[0]]
    found = Converted(None)
    values: list[Any] = []
    for row, value in enumerate(written):
        try:
            values.append(_one(column, rule, value))
        except _NoPlace as unplaced:
            values.append(None)
            found.originals[row] = str(unplaced)
        except Refused as error:
            values.append(None)
            found.refused[row] = f"column {column.name!r} {error}"
    found.values = pa.array(values, arrow_type(column))
    return found


def arrow_type(column: LandedColumn) -> pa.DataType:
    """The Arrow type of a column's values."""
    if column.digits is not None:
        return pa.decimal128(*column.digits)
    return _ARROW[column.iceberg]


_ARROW: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}


def _one(
    column: LandedColumn, rule: Callable[[LandedColumn, LandedValue], Any], value: LandedValue
) -> Any:
    if value is None:
        if not column.nullable:
            raise Refused("is NULL, which its schema does not let it be")
        return None
    return rule(column, value)


# --- one value ------------------------------------------------------------------------------------


def _exact(value: LandedValue) -> Decimal:
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Refused("is no number")
    if len(value) > _LONGEST or abs(int(found[3] or 0)) > _LONGEST:
        raise Refused("is a number out of range")
    try:
        return Decimal(value)
    except InvalidOperation as error:
        raise Refused("is no number") from error


def _integer(column: LandedColumn, value: LandedValue) -> int:
    number = _exact(value)
    if number != number.to_integral_value():
        raise Refused("is no whole number")
    return _in_range(column, int(number))


def _in_range(column: LandedColumn, number: int) -> int:
    low, high = column.low, column.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise Refused("is a number out of range")
    return number


def _decimal(column: LandedColumn, value: LandedValue) -> Decimal:
    precision, scale = column.digits or (38, 0)
    number = _exact(value)
    # Digit by digit: a context of decimals would round.
    whole = Fraction(number) * 10**scale
    if whole.denominator != 1:
        raise Refused(f"has more decimal places than {column.iceberg}")
    if abs(whole.numerator) >= 10**precision:
        raise Refused("is a number out of range")
    if scale == 0:
        _in_range(column, whole.numerator)
    sign, digits, _ = Decimal(whole.numerator).as_tuple()
    return Decimal((sign, digits, -scale))


def _double(_: LandedColumn, value: LandedValue) -> float:
    _exact(value)
    number = float(value)
    if not math.isfinite(number):
        raise Refused("is a number out of range")
    return number


def _float(column: LandedColumn, value: LandedValue) -> float:
    """The nearest FLOAT of the text itself: through a double it could be rounded twice."""
    wide = _double(column, value)
    with np.errstate(over="ignore"):
        near = np.float32(wide)
    if not np.isfinite(near):
        raise Refused("is a number out of range")
    exact = Fraction(_exact(value))
    if Fraction(wide) != exact:
        with np.errstate(over="ignore"):
            below, above = (np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf))
        around = (below, near, above)
        real = [n for n in around if np.isfinite(n)]
        best = min(real, key=lambda n: (abs(Fraction(float(n)) - exact), _odd(n)))
        near = near if float(best) == float(near) else best
    return float(near)


def _odd(number: Any) -> int:
    return int(np.asarray(number, np.float32).view(np.int32)) & 1


def _string(_: LandedColumn, value: LandedValue) -> str:
    if isinstance(value, Number) or not isinstance(value, str):
        raise Refused("is no text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Refused("holds half a surrogate pair, which is no text") from error
    return value


def _binary(_: LandedColumn, value: LandedValue) -> bytes:
    if isinstance(value, Number) or not isinstance(value, str):
        raise Refused("is no text in base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("is no text in base64") from error


def _boolean(_: LandedColumn, value: LandedValue) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false") and not isinstance(value, Number):
        return value == "true"
    raise Refused("is neither true nor false")


def _date(_: LandedColumn, value: LandedValue) -> date:
    found = _DATE.fullmatch(value) if _is_text(value) else None
    if found is None:
        raise Refused("is no date, like 2026-01-31")
    try:
        return date(*map(int, found.groups()))
    except ValueError:
        raise _NoPlace(value) from None  # a zero date, or one that no calendar has


def _timestamp(column: LandedColumn, value: LandedValue) -> datetime:
    found = _TIME.fullmatch(value) if _is_text(value) else None
    day = _DATE.fullmatch(value) if found is None and _is_text(value) else None
    if found is None and day is None:
        raise Refused("is no time, like 2026-01-31 12:00:00.000000")
    if found is None:
        raise Refused("is a date without a time")
    text, hour, minute, second, fraction, zone = found.groups()
    if zone and column.iceberg == "timestamp":
        raise Refused("has a zone, and its column has none")
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise Refused("has a clock that there is not")
    micros = (fraction or "").ljust(6, "0")
    if micros[6:].strip("0"):
        raise Refused("has more than six decimal places of a second")
    try:
        base = date(*map(int, text.split("-")))
    except ValueError:
        raise _NoPlace(value) from None
    clock = time(int(hour), int(minute), int(second), int(micros[:6]))
    moment = datetime.combine(base, clock)
    if column.iceberg == "timestamp":
        return moment
    try:
        return (moment - _offset(zone)).replace(tzinfo=UTC)
    except OverflowError as error:
        raise Refused("is a time out of range") from error


def _offset(zone: str | None) -> timedelta:
    """What a zone's text is ahead of UTC; a time without one is in UTC."""
    if not zone or zone in ("Z", " UTC"):
        return timedelta(0)
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 14 or minutes > 59:
        raise Refused("has a zone that there is not")
    ahead = timedelta(hours=hours, minutes=minutes)
    return -ahead if zone[0] == "-" else ahead


def _is_text(value: LandedValue) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


_RULES: dict[str, Callable[[LandedColumn, LandedValue], Any]] = {
    "int": _integer,
    "long": _integer,
    "decimal": _decimal,
    "float": _float,
    "double": _double,
    "string": _string,
    "binary": _binary,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
}


# --- a column at once -----------------------------------------------------------------------------

_TEXTS = ({str}, {str, type(None)})
_NUMBERS = (*_TEXTS, {Number}, {Number, type(None)}, {str, Number}, {str, Number, type(None)})
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_PLAIN_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


def _converted_at_once(column: LandedColumn, written: Sequence[LandedValue]) -> Any:
    """The column, where every value has the plain form of its kind; else None."""
    kinds = set(map(type, written))
    numeric = column.digits is not None or column.iceberg in ("int", "long")
    if kinds not in (_NUMBERS if numeric else _TEXTS):
        return None
    if type(None) in kinds and not column.nullable:
        return None
    form = _plain_form(column)
    if form is None:
        return None
    try:
        texts = pa.array(written, pa.string())
        if form and pc.all(pc.match_substring_regex(texts, form)).as_py() is False:
            return None
        if column.iceberg in ("date", "timestamp", "timestamptz") and _has_year_0(texts):
            return None
        found = texts.cast(pa.int64() if column.iceberg == "int" else _plain_type(column))
        return _bounded(column, found)
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return None  # one of them is not plain: value by value then


def _plain_form(column: LandedColumn) -> str | None:
    if column.digits is not None:
        precision, scale = column.digits
        before = f"-?[0-9]{{1,{precision - scale}}}" if precision > scale else "-?0"
        return rf"\A{before}(\.[0-9]{{1,{scale}}})?\z" if scale else rf"\A{before}\z"
    return {
        "int": r"\A-?[0-9]{1,18}\z",
        "long": r"\A-?[0-9]{1,19}\z",
        "string": "",
        "date": rf"\A{_PLAIN_DATE}\z",
        "timestamp": rf"\A{_PLAIN_DATE}[ T]{_CLOCK}\z",
        "timestamptz": rf"\A{_PLAIN_DATE}[ T]{_CLOCK}\z",
    }.get(column.iceberg)


def _plain_type(column: LandedColumn) -> pa.DataType:
    return pa.timestamp("us") if column.iceberg == "timestamptz" else arrow_type(column)


def _has_year_0(texts: Any) -> bool:
    return pc.any(pc.starts_with(texts, "0000")).as_py() is True


def _bounded(column: LandedColumn, found: Any) -> Any:
    if column.iceberg == "timestamptz":
        return found.cast(pa.timestamp("us", "UTC"))  # as they are: these clocks are UTC's
    if column.low is not None and column.high is not None:
        span = pc.min_max(found).as_py()
        if span["min"] is not None and not column.low <= span["min"] <= span["max"] <= column.high:
            return None
    return found.cast(arrow_type(column))
