"""The optional part of a TABLE_MAP: signs, charsets, names, labels, the key.

Source: MySQL source, ``Table_map_event::Optional_metadata_field_type``; "More Metadata Is Written
Into Binary Log" (the MySQL server team); MariaDB source, ``Table_map_log_event``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader, unreadable
from mirrorlake.sources.mysql.binlog.events import wire_types as wire

_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAME, _SET_LABELS, _ENUM_LABELS = range(1, 7)
_GEOMETRY, _KEY, _KEY_WITH_PREFIX, _DEFAULT_LABEL_CHARSET, _LABEL_CHARSET = range(7, 12)
_VISIBILITY: Final = 12

_TEXTS: Final = (wire.STRING, wire.VAR_STRING, wire.VARCHAR, *wire.BLOBS, wire.VECTOR)
"""Types that have a charset; a VECTOR has the binary one (seen: MySQL 9.7.4)."""
_MARIADB_TEXTS: Final = (*_TEXTS, wire.GEOMETRY, wire.VARCHAR_COMPRESSED, wire.BLOB_COMPRESSED)
"""In MariaDB a shape is a BLOB, and has a charset; compressed columns keep theirs."""
_NUMBERS: Final = (*wire.INTEGERS, wire.NEWDECIMAL, wire.FLOAT, wire.DOUBLE)
"""Types that have a bit for their sign. YEAR has one in MariaDB (seen: 10.11.19 to 11.8.9) and in
newer versions of MySQL (seen: 9.7.4), and had none in 8.0.12; nothing in the log says which."""


@dataclass
class Metadata:
    """What is logged of columns, by their numbers.

    Attributes:
        unsigned: the numbers without a sign; several such sets, where what is logged can be read in
            more than one way.
    """

    unsigned: tuple[frozenset[int], ...] = (frozenset(),)
    collations: dict[int, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    labels: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    geometries: dict[int, int] = field(default_factory=dict)
    key: tuple[int, ...] = ()
    prefixes: tuple[int, ...] = ()
    invisible: set[int] = field(default_factory=set)


def read_metadata(fields: ByteReader, kinds: Sequence[int], *, mariadb: bool) -> Metadata:
    """The rest of a TABLE_MAP event. Parts of later servers are passed over.

    Raises:
        LogUnreadable: a part does not fit the columns.
    """
    return _MetadataReader(kinds, mariadb=mariadb).read(fields)


class _MetadataReader:
    def __init__(self, kinds: Sequence[int], *, mariadb: bool) -> None:
        self._kinds, self._mariadb = kinds, mariadb
        self._texts = self._of(*(_MARIADB_TEXTS if mariadb else _TEXTS))
        self._found = Metadata()

    def read(self, fields: ByteReader) -> Metadata:
        while fields.left:
            kind = fields.uint(1)
            part = ByteReader(fields.packed_bytes(), f"{fields.what}, part {kind},")
            self._part(kind, part)
        return self._found

    def _part(self, kind: int, part: ByteReader) -> None:
        found = self._found
        if kind == _SIGNEDNESS:
            found.unsigned = self._signs(part)
        elif kind == _NAME:
            found.names = self._names(part)
        elif kind in (_SET_LABELS, _ENUM_LABELS):
            self._labels(part, self._of(wire.SET if kind == _SET_LABELS else wire.ENUM))
        elif kind == _GEOMETRY:
            found.geometries = self._each(part, self._of(wire.GEOMETRY))
        elif kind in (_KEY, _KEY_WITH_PREFIX):
            self._key(part, prefixed=kind == _KEY_WITH_PREFIX)
        elif kind == _VISIBILITY:
            every = range(len(self._kinds))
            found.invisible = {*every} - self._flagged(part, every)
        elif kind in (_DEFAULT_CHARSET, _DEFAULT_LABEL_CHARSET):
            found.collations |= self._defaulted(part, self._collated(kind))
        elif kind in (_COLUMN_CHARSET, _LABEL_CHARSET):
            found.collations |= self._each(part, self._collated(kind))

    def _collated(self, kind: int) -> list[int]:
        texts = kind in (_DEFAULT_CHARSET, _COLUMN_CHARSET)
        return self._texts if texts else self._of(wire.ENUM, wire.SET)

    def _key(self, part: ByteReader, *, prefixed: bool) -> None:
        parts = self._pairs(part) if prefixed else [(n, 0) for n in self._list(part)]
        if any(number >= len(self._kinds) for number, _ in parts):
            raise unreadable(part.what, "the key has a column that the table has not")
        self._found.key = tuple(number for number, _ in parts)
        self._found.prefixes = tuple(prefix for _, prefix in parts)

    def _of(self, *kinds: int) -> list[int]:
        return [n for n, kind in enumerate(self._kinds) if kind in kinds]

    def _signs(self, part: ByteReader) -> tuple[frozenset[int], ...]:
        """The numbers without a sign, with a bit for YEAR and without one, where both can be."""
        with_years = self._of(*_NUMBERS, wire.YEAR)
        if self._mariadb or wire.YEAR not in self._kinds:
            return (frozenset(self._flagged(part, with_years)),)
        bits = part.take(part.left)
        given = int.from_bytes(bits, "big")
        fitting = [
            frozenset(c for c in _set_in(bits, columns) if self._kinds[c] != wire.YEAR)
            for columns in (with_years, self._of(*_NUMBERS))
            # Behind the last column's bit there are none.
            if len(bits) == (len(columns) + 7) // 8 and not given & (1 << -len(columns) % 8) - 1
        ]
        if not fitting:
            raise unreadable(part.what, f"{len(bits)} bytes of bits for {len(with_years)} columns")
        return tuple(dict.fromkeys(fitting))

    def _flagged(self, part: ByteReader, columns: Sequence[int]) -> set[int]:
        """The columns whose bit is set."""
        bits = part.take(part.left)
        if len(bits) != (len(columns) + 7) // 8:
            raise unreadable(part.what, f"{len(bits)} bytes of bits for {len(columns)} columns")
        return _set_in(bits, columns)

    def _list(self, part: ByteReader) -> list[int]:
        found: list[int] = []
        while part.left:
            found.append(part.packed())
        return found

    def _pairs(self, part: ByteReader) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        while part.left:
            found.append((part.packed(), part.packed()))
        return found

    def _each(self, part: ByteReader, columns: Sequence[int]) -> dict[int, int]:
        numbers = self._list(part)
        if len(numbers) != len(columns):
            raise unreadable(part.what, f"{len(numbers)} values for {len(columns)} columns")
        return dict(zip(columns, numbers, strict=True))

    def _defaulted(self, part: ByteReader, columns: Sequence[int]) -> dict[int, int]:
        usual = part.packed()
        found = dict.fromkeys(columns, usual)
        for place, other in self._pairs(part):
            if place >= len(columns):
                raise unreadable(part.what, f"a charset of column {place} of {len(columns)}")
            found[columns[place]] = other
        return found

    def _names(self, part: ByteReader) -> tuple[str, ...]:
        found: list[str] = []
        while part.left:
            found.append(part.text(part.packed_bytes()))
        if len(found) != len(self._kinds):
            raise unreadable(part.what, f"{len(found)} names for {len(self._kinds)} columns")
        return tuple(found)

    def _labels(self, part: ByteReader, columns: Sequence[int]) -> None:
        for column in columns:
            count = part.packed()
            self._found.labels[column] = tuple(part.packed_bytes() for _ in range(count))
        if part.left:
            raise unreadable(part.what, "labels of more columns than there are")


def _set_in(bits: bytes, columns: Sequence[int]) -> set[int]:
    """The columns whose bit is set, the highest bit of a byte first."""
    return {c for n, c in enumerate(columns) if bits[n >> 3] >> (7 - (n & 7)) & 1}
