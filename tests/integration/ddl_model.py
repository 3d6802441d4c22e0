"""What the layers must hold after any history of DDL: in plain Python, from the documents alone.

MySQL's own text of each cell is kept as it was when a load read it. From these texts follow the
view over raw (docs/types.md, "One column, several types"), and deduped (docs/adding-a-table.md,
"Schema changes"): no code of the engine is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import pyarrow as pa
from pymysql.connections import Connection

Texts: TypeAlias = "dict[str, str | None]"
"""Column → its value as MySQL prints it."""
Cell: TypeAlias = "tuple[Any, str | None]"
"""A value, and the original text beside it."""

_DIGITS = {"int": 10, "long": 19}
_WHOLE = {"int": 2**31, "long": 2**63}
_MOST_OF_DOUBLE = 2**53


@dataclass(frozen=True)
class Reading:
    """A source table at one moment: its columns' lake types in MySQL's order, its rows by id."""

    types: dict[str, str]
    rows: dict[int, Texts]


def read(session: Connection[Any], database: str, table: str) -> Reading:
    """The table as the server prints it."""
    with session.cursor() as cursor:
        cursor.execute(
            "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "
            "%s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (database, table),
        )
        types = {name: lake_type(kind) for name, kind in cursor.fetchall()}
        cells = ", ".join(f"CAST(`{name.replace('`', '``')}` AS CHAR)" for name in types)
        cursor.execute(f"SELECT {cells} FROM {database}.{table}")
        found = [dict(zip(types, row, strict=True)) for row in cursor.fetchall()]
    for name, kind in types.items():
        for row in found if kind == "double" else ():
            row[name] = None if row[name] is None else _double_text(float(row[name]))
    return Reading(types, {int(str(row["id"])): row for row in found})


def _double_text(number: float) -> str:
    """Java's text of a DOUBLE: 1024.0, and 1.0E20 outside of 0.001 to 10 million."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    exact = Decimal(repr(number)).normalize()
    first, *rest = exact.as_tuple().digits
    digits = "".join(map(str, rest)) or "0"
    return f"{'-' if number < 0 else ''}{first}.{digits}E{exact.adjusted()}"


def lake_type(mysql: str) -> str:
    """The lake's type of a ``COLUMN_TYPE``; times say their digits after the second: they are a
    part of their text."""
    base, _, sizes = mysql.rstrip(")").partition("(")
    if base == "decimal":
        return mysql
    if base == "datetime":
        return f"timestamp({sizes or 0})"
    found = {"int": "int", "bigint": "long", "double": "double", "date": "date"}
    return found.get(base, "string")


def arrow_words(kind: pa.DataType) -> str:
    """An Arrow type in the words of this module; all times have the lake's digits."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    known = {"int32": "int", "int64": "long", "date32[day]": "date", "timestamp[us]": "timestamp"}
    return known.get(str(kind), str(kind).removeprefix("large_"))


def united(types: Iterable[str]) -> str:
    """The type in which a column of several is shown over all versions of its table."""
    kinds = {_plain(kind) for kind in types}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {"date", "timestamp"}:
        return "timestamp"
    if "double" in kinds:
        others = [_digits(kind) for kind in kinds - {"double"}]
        small = all(sizes and sizes[0] <= 15 and sizes[1] == 0 for sizes in others)
        return "double" if small else "string"
    if kinds <= {"int", "long"}:
        return "long"
    exact = [sizes for kind in kinds if (sizes := _digits(kind))]
    whole, scale = (max(sizes) for sizes in zip(*exact, strict=True)) if exact else (0, 0)
    fits = len(exact) == len(kinds) and whole + scale <= 38
    return f"decimal({whole + scale},{scale})" if fits else "string"


def _plain(kind: str) -> str:
    return "timestamp" if kind.startswith("timestamp") else kind


def _digits(kind: str) -> tuple[int, int] | None:
    """Digits before and after the point of an exact number; None of any other type."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def cell_in(text: str | None, then: str, now: str) -> Cell:
    """A value of one type as a column of another has it: the value, or None and its text."""
    if text is None:
        return None, None
    value = _value(text, then, now) if _is_placed(text, then) else None
    return (value, None) if value is not None else (None, text)


def _is_placed(text: str, kind: str) -> bool:
    """Whether a value has a place in its own type: a date of zeros has none."""
    if _plain(kind) not in ("date", "timestamp"):
        return True
    try:
        return date.fromisoformat(text[:10]).year > 0
    except ValueError:
        return False


def _value(text: str, then: str, now: str) -> Any:
    if now == "string":
        return text
    if then == "string":
        return _of_text(text, now)
    if _plain(then) in ("date", "timestamp"):
        moment = datetime.fromisoformat(text)
        if now == "date":
            return (
                moment.date() if moment == datetime.combine(moment, datetime.min.time()) else None
            )
        return moment if _plain(now) == "timestamp" else None
    if _plain(now) in ("date", "timestamp"):
        return None
    number = Decimal(text)
    mixed = "double" in (then, now) and then != now
    if mixed and (number != int(number) or abs(number) > _MOST_OF_DOUBLE):
        return None
    return _number(number, now)


def _number(number: Decimal, now: str) -> Any:
    """A number as another type of numbers has it; None where it would be another number."""
    if now == "double":
        return float(number)
    if now in _WHOLE:
        fits = number == int(number) and -_WHOLE[now] <= number < _WHOLE[now]
        return int(number) if fits else None
    whole, scale = _digits(now) or (0, 0)
    shifted = number.scaleb(scale)
    return number if shifted == int(shifted) and abs(number) < 10**whole else None


def _of_text(text: str, now: str) -> Any:
    """A text as a value of another type: only where it is the one text that such a value has."""
    try:
        if _plain(now) == "timestamp":
            digits = int(now[10:-1])
            moment = datetime.fromisoformat(text)
            shape = f"{moment:%Y-%m-%d %H:%M:%S}" + f".{moment.microsecond:06d}"[: digits + 1]
            return moment if text == (shape if digits else shape[:19]) else None
        if now == "date":
            return date.fromisoformat(text) if len(text) == 10 else None
        if now == "double":
            return float(text) if text == _double_text(float(text)) else None
        number = _number(Decimal(text), now)
    except (ValueError, InvalidOperation):
        return None
    if number is None:
        return None
    _, scale = _digits(now) or (0, 0)
    return number if text == f"{number:.{scale}f}" else None


@dataclass(frozen=True)
class Loaded:
    """What one load read."""

    load_id: str
    types: dict[str, str]
    rows: dict[int, Texts]


@dataclass
class Model:
    """Every load, oldest first, and which of them saw each key last.

    Attributes:
        earlier: column → the names that it had, as the contract says; all in lower case.
    """

    loads: list[Loaded] = field(default_factory=list)
    seen: dict[int, int] = field(default_factory=dict)
    earlier: dict[str, list[str]] = field(default_factory=dict)

    def take(self, loaded: Loaded) -> None:
        self.seen |= dict.fromkeys(loaded.rows, len(self.loads))
        self.loads.append(loaded)

    @property
    def names(self) -> list[str]:
        """The columns that the newest load had."""
        return list(self.loads[-1].types)

    def called_then(self, number: int, name: str) -> str | None:
        """The name that stands for a column of now in what a load read; None if none does."""
        there = {one.lower(): one for one in self.loads[number].types}
        # Where several of its names are met, it still had the oldest: the others are other columns'.
        chain = (*reversed(self.earlier.get(name.lower(), [])), name.lower())
        return next((there[one] for one in chain if one in there), None)

    def name_then(self, number: int, name: str) -> str | None:
        """What a column of now was called when a load read it; None if it was not there."""
        found = self.called_then(number, name)
        if found is None:
            return None
        # Up to the last load that saw an older one of its names, it was another column's.
        chain = (*reversed(self.earlier.get(name.lower(), [])), name.lower())
        older = set(chain[: chain.index(found.lower())])
        later = ({one.lower() for one in load.types} for load in self.loads[number:])
        taken = any(names & older for names in later)
        return None if taken else found

    def view(self) -> tuple[dict[str, str], dict[tuple[str, int], dict[str, Cell]]]:
        """The view over raw: each column (in lower case) with its type; and (load, id) → its
        cells."""
        now = {name.lower() for name in self.names}
        every = range(len(self.loads))
        # A name that one of them had in any version is that one's in all of them.
        taken = now | {
            (self.called_then(number, one) or one).lower() for one in now for number in every
        }
        former = {n.lower() for load in self.loads for n in load.types} - taken
        types: dict[str, str] = {}
        rows: dict[tuple[str, int], dict[str, Cell]] = {
            (load.load_id, key): {} for load in self.loads for key in load.rows
        }
        for name in sorted(now | former):
            called = [self.called_then(number, name) for number in every]
            pairs = [(ld, n) for ld, n in zip(self.loads, called, strict=True) if n is not None]
            types[name] = united(load.types[n] for load, n in pairs)
            for number, load in enumerate(self.loads):
                n = self.name_then(number, name)
                if n is None:
                    continue
                for key, texts in load.rows.items():
                    cell = cell_in(texts[n], load.types[n], types[name])
                    rows[load.load_id, key][name] = cell
        return types, rows

    def deduped(self) -> dict[int, dict[str, Cell]]:
        """Deduped: each key as the load that saw it last read it, in the columns of now."""
        found: dict[int, dict[str, Cell]] = {}
        for key, number in self.seen.items():
            load = self.loads[number]
            found[key] = {}
            for name, kind in self.loads[-1].types.items():
                then = self.name_then(number, name)
                found[key][name] = (
                    cell_in(load.rows[key][then], load.types[then], kind) if then else (None, None)
                )
        return found


def cells_of(row: Mapping[str, Any], originals: str) -> dict[str, Cell]:
    """A row of the lake as cells, its columns in lower case, without what is Mirrorlake's own."""
    texts = {entry["column"]: entry["text"] for entry in row.get(originals) or ()}
    assert texts.keys() <= row.keys(), f"an original of a column that is not there: {texts}"
    return {
        name.lower(): (value, texts.get(name))
        for name, value in row.items()
        if not name.startswith("_mirror_")
    }
