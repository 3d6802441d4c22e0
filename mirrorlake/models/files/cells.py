"""Cells of a test's rows: exactly what is written, as a value of the column's type, or refused.

A cell is a text of a YAML file, and becomes what a row of that type would hold. Values are compared
as they are here: numbers with a fraction of two (``float``, ``double``) as the shortest text that
is read as them, days and moments as a count since 1970, structs, arrays and maps as tuples.

>>> cell("1.1", "decimal(10,2)"), cell("2024-02-29", "date"), cell("X'00FF'", "binary")
(Decimal('1.10'), 19782, b'\\x00\\xff')

What belongs here: one value and its type. What doesn't: rows and tables
(`mirrorlake.models.testing.bound_tests`).

Source: Spark SQL Reference, "Data Types", "Literals".
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeAlias, cast

from mirrorlake.destinations.base import text_literal
from mirrorlake.models.spark_sql import types

Cell: TypeAlias = "bool | int | Decimal | str | bytes | tuple[Cell, ...] | None"


class CellRefused(ValueError):
    """A cell is no value of its column's type."""


_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))? ?(Z|[+-]\d{2}:\d{2})?",
    re.ASCII,
)
_BYTES = re.compile(r"[xX]'((?:[0-9a-fA-F]{2})*)'", re.ASCII)
_UNENDING = {"nan": "NaN", "infinity": "Infinity", "-infinity": "-Infinity"}


def cell(written: object, kind: str) -> Cell:
    """The value of a type that a cell is.

    Args:
        written: a text, None for NULL; of an array a list, of a map or struct a mapping.

    Raises:
        CellRefused: it is no such value, or the type has no place for it as it is written.
    """
    if written is None:
        return None
    if kind.startswith(("array<", "map<", "struct<")):
        return _nested(written, kind)
    if not isinstance(written, str):
        raise CellRefused(f"one value is expected, of type {kind}")
    read = _READERS.get("decimal" if types.is_decimal(kind) else kind)
    if read is None:
        raise CellRefused(f"a value of type {kind} can't be written in a test")
    return read(written, kind)


def _boolean(text: str, _: str) -> Cell:
    if text.lower() not in ("true", "false"):
        raise CellRefused(f"{text!r} is not true or false")
    return text.lower() == "true"


def _whole(text: str, kind: str) -> Cell:
    if not _WHOLE.fullmatch(text):
        raise CellRefused(f"{text!r} is no whole number, as {kind} is")
    number, most = int(text), 2 ** (_BITS[kind] - 1)
    if not -most <= number < most:
        raise CellRefused(f"{text} does not fit into {kind}")
    return number


def _decimal(text: str, kind: str) -> Cell:
    number = _finite(text, kind)
    precision, scale = types.digits_of(kind) or (0, 0)
    try:
        found = number.quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision))
    except InvalidOperation:
        raise CellRefused(f"{text} does not fit into {kind}") from None
    if found != number:
        raise CellRefused(f"{text} does not fit into {kind}: it would be {found}")
    return found if found else found.copy_abs()  # no zero below zero


def _finite(text: str, kind: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise CellRefused(f"{text!r} is no number, as {kind} is")
    return Decimal(text)


def _double(text: str, kind: str) -> Cell:
    if text.lower() in _UNENDING:
        return _UNENDING[text.lower()]
    number = _finite(text, kind)
    try:
        found = binary_text(float(text), kind)
    except OverflowError:
        found = "Infinity"
    if found in _UNENDING.values():
        raise CellRefused(f"{text} does not fit into {kind}")
    if Decimal(found) != number:
        raise CellRefused(f"{text} does not fit into {kind}: it would be {found}")
    return found


def binary_text(number: float, kind: str) -> str:
    """The shortest text that is read as a number of a type, ``float`` or ``double``.

    >>> binary_text(0.10000000149011612, "float"), binary_text(-0.0, "double")
    ('0.1', '-0.0')

    Raises:
        OverflowError: the type has no number so large.
    """
    if not math.isfinite(number):
        return _UNENDING[str(float(number)).replace("inf", "infinity")]
    if kind == "double":
        return repr(float(number))
    nearest = _single(number)
    short = (float(f"{nearest:.{digits}g}") for digits in range(1, 10))
    return repr(next((one for one in short if _may_be(one, nearest)), nearest))


def _single(number: float) -> float:
    """The ``float`` that is nearest to a number."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def _may_be(number: float, single: float) -> bool:
    try:
        return _single(number) == single
    except OverflowError:  # the largest one, rounded up
        return False


def _text(text: str, _: str) -> Cell:
    return text


def _bytes(text: str, _: str) -> Cell:
    found = _BYTES.fullmatch(text)
    if not found:
        raise CellRefused(f"{text!r} is not how bytes are written: X'00FF'")
    return bytes.fromhex(found[1])


def _day(text: str, kind: str) -> Cell:
    try:
        if _DAY.fullmatch(text):
            return (date.fromisoformat(text) - _EPOCH.date()).days
    except ValueError:
        pass
    raise CellRefused(f"{text!r} is no {kind}: write it like 2024-02-29")


def _moment(text: str, kind: str) -> Cell:
    found = _MOMENT.fullmatch(text)
    if not found:
        raise CellRefused(f"{text!r} is no {kind}: write it like 2024-02-29 23:59:59.123456")
    day, clock, zone = found.groups()
    if zone and kind == "timestamp_ntz":
        raise CellRefused(f"{text!r} has a zone, and {kind} has none")
    try:
        at = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone or 'Z'}")
        return (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        raise CellRefused(f"{text!r} is no {kind}: {error}") from None


_READERS: Mapping[str, Callable[[str, str], Cell]] = {
    "boolean": _boolean,
    **dict.fromkeys(_BITS, _whole),
    "decimal": _decimal,
    **dict.fromkeys(types.FRACTIONS, _double),
    "string": _text,
    "binary": _bytes,
    "date": _day,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), _moment),
}


def _nested(written: object, kind: str) -> Cell:
    fields, pair = types.fields_of(kind), types.map_of(kind)
    if fields is None and pair is None:
        if not isinstance(written, list):
            raise CellRefused(f"a list is expected, of type {kind}")
        inner = types.element(kind) or ""
        return tuple(cell(one, inner) for one in cast("list[object]", written))
    if not isinstance(written, dict):
        raise CellRefused(f"a mapping is expected (name: value), of type {kind}")
    named = cast("dict[str, object]", written)
    if fields is None:
        key, value = pair or ("", "")
        return ordered((cell(k, key), cell(v, value)) for k, v in named.items())
    known = {name.lower(): name for name in named}
    unknown = [name for name in named if name.lower() not in {one.lower() for one in fields}]
    if unknown:
        raise CellRefused(f"{kind} has no field {unknown[0]}")
    return tuple(cell(named.get(known.get(n.lower(), "")), k) for n, k in fields.items())


def ordered(pairs: Any) -> Cell:
    """The pairs of a map in one order, whatever order they came in."""
    return tuple(sorted(pairs, key=repr))


# --- as Spark takes them --------------------------------------------------------------------------


def as_sql(value: Cell, kind: str) -> str:
    """A value as Spark takes it, of exactly that type.

    >>> as_sql(19782, "date"), as_sql(None, "int")
    ('date_from_unix_date(19782)', 'CAST(NULL AS int)')
    """
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, tuple):
        return _nested_sql(value, kind)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if kind == "date":
        return f"date_from_unix_date({value})"
    if kind in ("timestamp", "timestamp_ntz"):
        # The session's zone is UTC.
        return f"CAST(timestamp_micros({value}L) AS {kind})"
    if kind == "string":
        return text_literal(str(value))
    return f"CAST('{shown(value, kind)}' AS {kind})"


def _nested_sql(value: tuple[Cell, ...], kind: str) -> str:
    fields, pair = types.fields_of(kind), types.map_of(kind)
    if fields is not None:
        parts = zip(value, fields.items(), strict=True)
        words = [f"{text_literal(n)}, {as_sql(one, k)}" for one, (n, k) in parts]
        return f"CAST(named_struct({', '.join(words)}) AS {kind})"
    if pair is not None:
        entries = cast("tuple[tuple[Cell, Cell], ...]", value)
        words = [f"{as_sql(k, pair[0])}, {as_sql(v, pair[1])}" for k, v in entries]
        return f"CAST(map({', '.join(words)}) AS {kind})"
    inner = types.element(kind) or ""
    return f"CAST(array({', '.join(as_sql(one, inner) for one in value)}) AS {kind})"


# --- as people read them --------------------------------------------------------------------------


def shown(value: Cell, kind: str) -> str:
    """A value for people, as it would be written: ``NULL`` for no value, and in quotes a text that
    could be taken for something else.

    >>> shown(19782, "date"), shown("NULL", "string"), shown(None, "string")
    ('2024-02-29', "'NULL'", 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return _nested_shown(value, kind)
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, bool):
        return str(value).lower()
    if kind in types.MOMENTS:
        return _moment_shown(cast("int", value), kind)
    if isinstance(value, str) and kind == "string":
        plain = value.isprintable() and value == value.strip() and value not in ("", "NULL")
        return value if plain else repr(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _moment_shown(count: int, kind: str) -> str:
    unit = timedelta(days=1) if kind == "date" else timedelta(microseconds=1)
    try:
        text = (_EPOCH + unit * count).replace(tzinfo=None).isoformat(sep=" ")
    except OverflowError:  # Spark's years go further than a calendar of ours
        return f"{count:,} {'days' if kind == 'date' else 'microseconds'} after 1970"
    return text[:10] if kind == "date" else f"{text}{'Z' if kind == 'timestamp' else ''}"


def _nested_shown(value: tuple[Cell, ...], kind: str) -> str:
    fields, pair = types.fields_of(kind), types.map_of(kind)
    if fields is not None:
        parts = zip(value, fields.items(), strict=True)
        return "{" + ", ".join(f"{n}: {shown(one, k)}" for one, (n, k) in parts) + "}"
    if pair is not None:
        entries = cast("tuple[tuple[Cell, Cell], ...]", value)
        words = (f"{shown(k, pair[0])}: {shown(v, pair[1])}" for k, v in entries)
        return "{" + ", ".join(words) + "}"
    inner = types.element(kind) or ""
    return "[" + ", ".join(shown(one, inner) for one in value) + "]"
