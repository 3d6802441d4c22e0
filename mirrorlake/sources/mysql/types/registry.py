"""The types of MySQL and MariaDB that are kept: one entry each, and what follows from it.

A new type is an entry here. What is selected of it and what Iceberg holds is its family's
(`mirrorlake.sources.mysql.types.exact_types`); a new family has a function there, too. The proof
has lists of its own (`mirrorlake.proof.forms.canonical`), on purpose: it shares no code with what
it checks.

Source: MySQL 8.0 manual, chapter 11 "Data Types"; MariaDB knowledge base, "Data Types".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Family: TypeAlias = Literal[
    "integer", "year", "decimal", "float", "bit", "moment", "time",
    "text", "label", "json", "bytes", "shape", "printed",
]  # fmt: skip


@dataclass(frozen=True)
class MySQLType:
    """One type, by the name that information_schema gives it.

    Attributes:
        family: how it is kept. ``moment``: dates and times of a calendar; ``label``: kept as
            numbers, printed as text; ``printed``: a type of MariaDB that has one text.
        bits: of an integer.
        size: of one value: ``large``: up to 64 KB; ``huge``: up to 4 GB.
    """

    family: Family
    bits: int = 0
    size: Literal["small", "large", "huge"] = "small"


TYPES: Final[Mapping[str, MySQLType]] = {
    "tinyint": MySQLType("integer", bits=8),
    "smallint": MySQLType("integer", bits=16),
    "mediumint": MySQLType("integer", bits=24),
    "int": MySQLType("integer", bits=32),
    "bigint": MySQLType("integer", bits=64),
    "year": MySQLType("year"),
    "decimal": MySQLType("decimal"),
    "float": MySQLType("float"),
    "double": MySQLType("float"),
    "bit": MySQLType("bit"),
    "date": MySQLType("moment"),
    "datetime": MySQLType("moment"),
    "timestamp": MySQLType("moment"),
    "time": MySQLType("time"),
    "char": MySQLType("text"),
    "varchar": MySQLType("text"),
    "tinytext": MySQLType("text"),
    "text": MySQLType("text", size="large"),
    "mediumtext": MySQLType("text", size="huge"),
    "longtext": MySQLType("text", size="huge"),
    "enum": MySQLType("label"),
    "set": MySQLType("label"),
    "json": MySQLType("json", size="huge"),
    "binary": MySQLType("bytes"),
    "varbinary": MySQLType("bytes"),
    "tinyblob": MySQLType("bytes"),
    "blob": MySQLType("bytes", size="large"),
    "mediumblob": MySQLType("bytes", size="huge"),
    "longblob": MySQLType("bytes", size="huge"),
    "geometry": MySQLType("shape", size="huge"),
    "point": MySQLType("shape"),
    "linestring": MySQLType("shape", size="huge"),
    "polygon": MySQLType("shape", size="huge"),
    "geometrycollection": MySQLType("shape", size="huge"),
    "geomcollection": MySQLType("shape", size="huge"),
    "multipoint": MySQLType("shape", size="huge"),
    "multilinestring": MySQLType("shape", size="huge"),
    "multipolygon": MySQLType("shape", size="huge"),
    "uuid": MySQLType("printed"),
    "inet4": MySQLType("printed"),
    "inet6": MySQLType("printed"),
}


def _of(*families: Family) -> tuple[str, ...]:
    return tuple(name for name, kind in TYPES.items() if kind.family in families)


INTEGERS: Final = _of("integer")
TIMES: Final = _of("moment")
"""What a cursor may be besides an integer: dates, and times with a date."""
TEXTS: Final = _of("text")
LABELS: Final = _of("label")
BYTES: Final = _of("bytes")
PRINTED: Final = _of("printed")
LARGE: Final = frozenset(name for name, kind in TYPES.items() if kind.size == "large")
HUGE: Final = frozenset(name for name, kind in TYPES.items() if kind.size == "huge")
