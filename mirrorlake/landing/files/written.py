"""Values as a landing reads them, the other way round: typed columns made records of JSON."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np

from mirrorlake.landing.files.columns import TIMES
from mirrorlake.schema.own_columns import ORIGINAL

Texts: TypeAlias = Mapping[str, str]
"""By column, the texts of one row's values that have no place in their columns."""


def written_values(values: Sequence[Any], kind: str) -> list[Any]:
    """A column's values as JSON has them: 64-bit integers and decimals as texts.

    Args:
        kind: the column's type in Iceberg's words.

    >>> written_values([2**63, None], "long"), written_values([b"\\x00"], "binary")
    (['9223372036854775808', None], ['AA=='])
    """
    write = _WRITE.get(kind, _text if kind.startswith("decimal") else None)
    if write is None:
        return list(values)
    return [None if value is None else write(value) for value in values]


def written_rows(
    columns: Mapping[str, Sequence[Any]], types: Mapping[str, str], texts: Sequence[Texts]
) -> Iterator[dict[str, Any]]:
    """Records of columns that are written already; a time without a place in the calendar is
    written as its text, other texts stand in `ORIGINAL`."""
    names = list(columns)
    for values, held in zip(zip(*columns.values(), strict=True), texts, strict=True):
        record = dict(zip(names, values, strict=True))
        if held:
            left = dict(held)
            record |= {name: left.pop(name) for name in held if types.get(name) in TIMES}
            if left:
                record[ORIGINAL] = left
        yield record


def texts_of(entries: Sequence[Sequence[Texts] | None]) -> list[Texts]:
    """The texts of each row of a column `ORIGINAL`."""
    return [{e["column"]: e["text"] for e in row} if row else {} for row in entries]


def _text(value: int | Decimal) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _shortest(value: float) -> float:
    """The number of the fewest digits that is this FLOAT."""
    return float(str(np.float32(value)))


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _time(value: datetime) -> str:
    return value.replace(tzinfo=None).isoformat(sep=" ") + ("Z" if value.tzinfo else "")


_WRITE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "long": _text,
    "float": _shortest,
    "binary": _base64,
    "date": date.isoformat,
    "timestamp": _time,
    "timestamptz": _time,
}
