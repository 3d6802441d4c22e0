"""What every row has in a column that was added, where a statement says a constant.

Source: MySQL 8.0 manual, 11.6 "Data Type Default Values": the explicit default, or of a column that
can't be NULL the implicit one of its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from mirrorlake.sources.mysql.ddl.actions import AddColumn
from mirrorlake.sources.mysql.tables import Column

_TEXT: Final = re.compile(r"'([^'\\]*)'")
_NUMBER: Final = re.compile(r"-?\d+(\.\d*)?")
_WHOLE: Final = re.compile(r"-?\d+")
_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXTS: Final = ("tinytext", "text", "mediumtext", "longtext")
_WORDS: Final = {"TRUE": "1", "FALSE": "0"}


@dataclass(frozen=True)
class AddedValue:
    """A value that all rows have: its text, in the form that its type has; None: NULL."""

    text: str | None


def constant_of(column: Column, added: AddColumn) -> AddedValue | None:
    """What all rows have in a column that was added; None where that can't be told for sure.

    Args:
        column: as the server describes it.
    """
    declared = added.column
    if declared.generated or declared.counts:
        return None
    if declared.default is None and not column.nullable:
        implicit = _IMPLICIT.get(column.data_type)
        return implicit(column) if implicit is not None else None
    if declared.default in (None, "NULL"):
        return AddedValue(None) if column.nullable else None
    if column.data_type in _TEXTS and not column.mariadb:
        return None  # MySQL passes over such a default, where it is not strict
    explicit, said = _EXPLICIT.get(column.data_type), str(declared.default)
    said = _WORDS.get(said.upper(), said)
    quoted = _TEXT.fullmatch(said)
    number = column.data_type in (*_BITS, "decimal") and _NUMBER.fullmatch(said)
    if explicit is None or (quoted is None and not number):
        return None
    text = explicit(column, quoted[1] if quoted else said)
    return None if text is None else AddedValue(text)


def _integer(column: Column, said: str) -> str | None:
    bits = _BITS[column.data_type]
    least, most = (0, 2**bits) if column.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not _WHOLE.fullmatch(said):
        return None
    return str(int(said)) if least <= int(said) < most else None


def _decimal(column: Column, said: str) -> str | None:
    if not _NUMBER.fullmatch(said) or column.precision is None or column.precision > 38:
        return None
    number, scale = Decimal(said), column.scale or 0
    whole = number.scaleb(scale)
    if whole != whole.to_integral_value() or abs(whole) >= 10**column.precision:
        return None
    return None if column.unsigned and number < 0 else f"{number:.{scale}f}"


def _text(column: Column, said: str) -> str | None:
    """Of characters that are the same in every charset that has them at all."""
    fits = column.length is None or len(said) <= column.length
    cut = column.data_type == "char" and said.endswith(" ")
    return said if said.isascii() and said.isprintable() and fits and not cut else None


def _label(column: Column, said: str) -> str | None:
    return said if said in _labels(column) and said.isascii() else None


def _labels(column: Column) -> list[str]:
    return [found.replace("''", "'") for found in _LABEL.findall(column.column_type)]


def _first_label(column: Column) -> AddedValue | None:
    labels = _labels(column)
    return AddedValue(labels[0]) if labels and labels[0].isascii() else None


def _moment(form: str) -> Callable[[Column, str], str | None]:
    def read(_: Column, said: str) -> str | None:
        try:
            # No other spelling: `2026-1-1` is one, too.
            return said if datetime.strptime(said, form).strftime(form) == said else None  # noqa: DTZ007 - a wall time
        except ValueError:
            return None

    return read


_EXPLICIT: Final[Mapping[str, Callable[[Column, str], str | None]]] = {
    **dict.fromkeys(_BITS, _integer),
    "decimal": _decimal,
    **dict.fromkeys(("char", "varchar", *_TEXTS), _text),
    "enum": _label,
    "date": _moment("%Y-%m-%d"),
    "datetime": _moment("%Y-%m-%d %H:%M:%S"),
}
_ZERO: Final = dict.fromkeys(_BITS, lambda _: AddedValue("0"))
_EMPTY: Final = dict.fromkeys(("char", "varchar", *_TEXTS), lambda _: AddedValue(""))
_IMPLICIT: Final[Mapping[str, Callable[[Column], AddedValue | None]]] = {
    **_ZERO,
    **_EMPTY,
    "decimal": lambda column: AddedValue(f"{Decimal(0):.{column.scale or 0}f}"),
    "enum": _first_label,
}
