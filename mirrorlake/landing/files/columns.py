"""The columns of a table that lands: ``schemas/<cluster>/<db>/<table>.json``, read and written.

::

    {"version": 1, "columns": [
      {"name": "id", "type": "decimal(20,0)", "nullable": false, "mysql": "bigint unsigned"},
      {"name": "price", "type": "decimal(12,2)"}]}

``type`` is Iceberg's word; ``mysql``, where it is there, narrows the range of whole numbers. A
column with ``"original": true`` may have its exact text in the record's `ORIGINAL`, beside NULL or
beside what MySQL prints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mirrorlake.config.contract import TableContract
from mirrorlake.errors import SchemaError
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.schema.reserved_names import keeper_of

ORIGINALS = "list<struct<column:string,text:string>>"
"""The type of `ORIGINAL` in a snapshot's columns."""
_TYPES = {"int", "long", "float", "double", "string", "binary", "boolean"}
TIMES = {"date", "timestamp", "timestamptz"}
"""The types that have values without a place in the calendar, which land as texts."""
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_INTEGER = re.compile(r"(tiny|small|medium|big)?int(?:\(\d+\))?( unsigned)?( zerofill)?", re.I)
_BITS = {"tiny": 8, "small": 16, "medium": 24, "": 32, "big": 64}


@dataclass(frozen=True)
class LandedColumn:
    """One column: ``low`` and ``high`` bound whole numbers, both included; None elsewhere.
    ``original``: a record may give the text of a value that has no place in it."""

    name: str
    iceberg: str
    nullable: bool = True
    low: int | None = None
    high: int | None = None
    original: bool = False

    @property
    def digits(self) -> tuple[int, int] | None:
        """(precision, scale) of a decimal."""
        found = _DECIMAL.fullmatch(self.iceberg)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def has_original(self) -> bool:
        """Whether a value of it may have no place: a zero date, one that no calendar has, or what a
        record says."""
        return self.iceberg in TIMES or self.original


@dataclass(frozen=True)
class LandedSchema:
    """A table's columns in the order of its schema file.

    Attributes:
        left_out: columns that are read past.
        listed: all of the file's, where some are left out.
    """

    columns: tuple[LandedColumn, ...]
    left_out: tuple[str, ...] = ()
    listed: tuple[LandedColumn, ...] = ()

    @property
    def everything(self) -> tuple[LandedColumn, ...]:
        """All of the file's columns."""
        return self.listed or self.columns

    @property
    def has_original(self) -> bool:
        return any(column.has_original for column in self.columns)

    def types(self) -> tuple[tuple[str, str], ...]:
        """(name, Iceberg type) of a frame's columns, the originals last where there are any."""
        pairs = tuple((column.name, column.iceberg) for column in self.columns)
        return (*pairs, (ORIGINAL, ORIGINALS)) if self.has_original else pairs


def parse_schema(text: bytes, place: str, contract: TableContract | None) -> LandedSchema:
    """The columns that a schema file lists, those of ``pci: never`` left out; without a contract
    all of them.

    Raises:
        SchemaError: it is no such file, has a type that is not known, two columns of one name (in
            any case), one of ours, or lacks a column of the contract; nothing was read of its rows.
    """

    refuse = _Refusal(place, contract)
    columns: list[LandedColumn] = []
    for number, one in enumerate(_listed(text, refuse), 1):
        try:
            columns.append(_column(cast("Mapping[str, Any]", one)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise refuse(f"has a column, number {number}, that is not known: {error}") from error
    _check_names([column.name for column in columns], refuse)
    never = {name.casefold() for name in contract.excluded} if contract else set[str]()
    kept = tuple(c for c in columns if c.name.casefold() not in never)
    left_out = [c for c in columns if c.name.casefold() in never]
    names = [c.name for c in left_out]
    if any(c.original for c in left_out) and not any(c.original for c in kept):
        names.append(ORIGINAL)
    return LandedSchema(kept, tuple(names), tuple(columns) if left_out else ())


@dataclass(frozen=True)
class _Refusal:
    """Makes the error of one schema file."""

    place: str
    contract: TableContract | None

    def __call__(self, words: str, column: str | None = None) -> SchemaError:
        return SchemaError(
            f"the schema {self.place} {words}",
            table=self.contract.name if self.contract else None,
            column=column,
            next_step="docs/snapshots.md shows how it is written",
        )


def _listed(text: bytes, refuse: _Refusal) -> list[Any]:
    try:
        parsed: Any = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise refuse("is no JSON") from error
    whole = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    listed = whole.get("columns")
    if not isinstance(listed, list) or not listed or whole.get("version") != 1:
        raise refuse("is no object of version 1 with a list of columns")
    return cast("list[Any]", listed)


def _check_names(names: Sequence[str], refuse: _Refusal) -> None:
    folded = [name.casefold() for name in names]
    for name in names:
        if folded.count(name.casefold()) > 1:
            raise refuse(f"has the column {name!r} twice", name)
        keeper = keeper_of(name)
        if keeper is not None:
            raise refuse(f"calls {name!r} as {keeper}'s own are", name)
    for wanted in _named(refuse.contract):
        if wanted.casefold() not in folded:
            raise refuse(f"lacks the column {wanted!r} of the contract", wanted)


def _named(contract: TableContract | None) -> Iterable[str]:
    if contract is None:
        return
    settings = contract.snapshot
    yield from contract.key
    yield from contract.columns
    if settings is not None:
        yield from (name for name in (settings.day, settings.id_column) if name)


def _column(entry: Mapping[str, Any]) -> LandedColumn:
    name, kind = entry["name"], str(entry["type"]).strip()
    if not isinstance(name, str) or not name:
        raise ValueError("its name is no text")
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(f"{kind} is no decimal of up to 38 digits")
        kind = f"decimal({precision},{scale})"
    elif kind not in _TYPES | TIMES:
        raise ValueError(f"{kind!r} is no type: int, long, decimal(p,s), string, date, …")
    nullable = entry.get("nullable", True)
    original = entry.get("original", False)
    if not isinstance(nullable, bool) or not isinstance(original, bool):
        raise TypeError("nullable and original are true or false")
    return LandedColumn(
        name, kind, nullable, *bounds_of(kind, str(entry.get("mysql", ""))), original
    )


def bounds_of(kind: str, mysql: str = "") -> tuple[int | None, int | None]:
    """The least and the greatest whole number of a type, as MySQL's narrows it; None elsewhere."""
    bits = {"int": 32, "long": 64}.get(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if bits else (None, None)
    found = _INTEGER.fullmatch(mysql.strip())
    if found is None or not (bits or kind.endswith(",0)")):
        return low, high
    size = _BITS[(found[1] or "").lower()]
    least, most = (0, 2**size - 1) if found[2] else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
    return max(least, low if low is not None else least), min(most, high or most)


def type_of(text: str) -> str:
    """A type as a schema file may name it, spelled in one way.

    Raises:
        ValueError: there is no such type.
    """
    return _column({"name": "it", "type": text}).iceberg


def schema_text(columns: Iterable[tuple[str, str, bool, str, bool]]) -> str:
    """A schema file of (name, Iceberg type, nullable, MySQL's type, whether it may have originals
    that records give) of each column."""
    listed = [
        {"name": name, "type": kind, "nullable": nullable or original, "mysql": mysql}
        | ({"original": True} if original else {})
        for name, kind, nullable, mysql, original in columns
    ]
    lines = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in listed)
    return f'{{"version": 1, "columns": [\n  {lines}\n]}}\n'
