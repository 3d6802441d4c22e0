"""Constants as values of Python, and casts that mean the same in every session of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

from sqlglot import exp

from mirrorlake.models.spark_sql.constants.moving_days import midnight

Constant: TypeAlias = "int | Decimal | str | bool | date | datetime | None"


class Unknown(Exception):
    """An expression that is not evaluated here. Many are met, and few are shown: its text is made
    when somebody reads it."""

    def __init__(self, what: exp.Expr | str) -> None:
        super().__init__(what)
        self._what = what

    def __str__(self) -> str:
        return self._what if isinstance(self._what, str) else self._what.sql("spark")


def held_in(number: int, bits: int) -> int:
    """A number that fits into an integer of this many bits."""
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise Unknown(str(number))
    return number


def cast_to(value: Constant, kind: str) -> Constant:
    """A value as another type.

    Raises:
        Unknown: it has no sure value there.
    """
    if value is None:
        return None
    try:
        return _CASTS[kind](value)
    except (ArithmeticError, KeyError, ValueError, TypeError):
        raise Unknown(f"{value!r} as {kind}") from None


# What Python takes besides (20240105, 2024-W01-5, other letters than T) Spark refuses; what Spark
# takes besides (2024, a day with anything behind it) has no sure value here.
_DAY = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_WHOLE = re.compile(r"[+-]?[0-9]+")


def to_date(value: Constant) -> date:
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    if isinstance(value, date):
        return value
    found = _DAY.fullmatch(_trimmed(value))
    if found is None:
        raise ValueError(value)
    year, month, day = map(int, found.groups())
    return date(year, month, day)


def to_timestamp(value: Constant) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return midnight(value)
    text = _trimmed(value)
    if _MOMENT.fullmatch(text) is None:
        return to_timestamp(to_date(value))
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def to_int(value: Constant) -> int:
    """An integer of a number or of a text that is one."""
    if isinstance(value, str):
        text = _trimmed(value)
        if _WHOLE.fullmatch(text) is None:
            raise ValueError(value)
        return int(text)
    if isinstance(value, Decimal) and value == int(value):
        return int(value)
    return int_of(value)


def int_of(value: Constant) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def to_string(value: Constant) -> str:
    if isinstance(value, datetime | bool | Decimal):
        raise TypeError(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def text_in(value: Constant) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _trimmed(value: Constant) -> str:
    """A text as Spark casts it: without blanks around it; a no-break space stays."""
    return text_in(value).strip(" \t\n\r")


_CASTS: dict[str, Callable[[Constant], Constant]] = {
    "date": to_date,
    "timestamp": to_timestamp,
    "int": lambda v: held_in(to_int(v), 32),
    "bigint": lambda v: held_in(to_int(v), 64),
    "string": to_string,
}
"""None to `smallint` and `tinyint`: sums of them overflow early, and nothing here would say so."""
