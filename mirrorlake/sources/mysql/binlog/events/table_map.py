"""TABLE_MAP events: which table the rows that follow are of, and how its columns are written.

Source: MySQL source, ``binary_log::Table_map_event``; MySQL 8.0 manual, ``binlog_row_metadata``;
MariaDB knowledge base, "Table Map Event".
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader, unreadable
from mirrorlake.sources.mysql.binlog.events import wire_types as wire
from mirrorlake.sources.mysql.binlog.events.table_metadata import Metadata, read_metadata

_WHAT: Final = "An event (TABLE_MAP)"
_MOST_COLUMNS = 4096
# The length of what a TABLE_MAP says of a column of each type.
_META_SIZES: Final = {
    **dict.fromkeys((wire.FLOAT, wire.DOUBLE, wire.TIMESTAMP2, wire.DATETIME2, wire.TIME2), 1),
    **dict.fromkeys((*wire.BLOBS, wire.GEOMETRY, wire.JSON, wire.VECTOR), 1),
    **dict.fromkeys((wire.VARCHAR, wire.VAR_STRING, wire.VARCHAR_COMPRESSED), 2),
    **dict.fromkeys((wire.BIT, wire.NEWDECIMAL, wire.STRING, wire.ENUM, wire.SET), 2),
    wire.BLOB_COMPRESSED: 1,
}


@dataclass(frozen=True)
class LoggedColumn:
    """One column as the log has it.

    Attributes:
        name: '' where the server does not log names.
        kind: its type by MySQL's number (`wire_types`); ENUM and SET are themselves.
        size: bytes of a value or of its length, digits of a decimal, bits, by its kind.
        scale: digits after the point: of a decimal, of seconds.
        collation: the number of its collation; None: it has none, or none is known.
        labels: of an ENUM or a SET, in its own charset.
    """

    name: str
    kind: int
    size: int = 0
    scale: int = 0
    nullable: bool = True
    unsigned: bool = False
    collation: int | None = None
    labels: tuple[bytes, ...] = ()
    geometry: int | None = None
    visible: bool = True


@dataclass(frozen=True)
class TableMap:
    """A table as rows of it are written.

    Attributes:
        key: its primary key, by the numbers of columns.
        prefixes: how many characters (or bytes) of each column of the key count; 0: all.
        full: whether names and all else that decoding needs are logged
            (``binlog_row_metadata=FULL``).
        unsigned: the columns without a sign, by their numbers; several such sets where what is
            logged can be read in more than one way: then `LoggedColumn.unsigned` is of the first.
    """

    database: str
    table: str
    columns: tuple[LoggedColumn, ...]
    key: tuple[int, ...] = ()
    prefixes: tuple[int, ...] = ()
    full: bool = False
    unsigned: tuple[frozenset[int], ...] = (frozenset(),)

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    def signed_as(self, unsigned: frozenset[int]) -> TableMap:
        """The same, read in one of the ways in which its signs can be read."""
        columns = [
            dataclasses.replace(column, unsigned=number in unsigned)
            for number, column in enumerate(self.columns)
        ]
        return dataclasses.replace(self, columns=tuple(columns), unsigned=(unsigned,))


def table_id_of(body: bytes) -> int:
    """The number under which rows name the table."""
    if len(body) < 8:
        raise unreadable(_WHAT, "it is cut")
    return int.from_bytes(body[:6], "little")


def read_names(body: bytes) -> tuple[str, str]:
    """The table's database and name, and nothing else.

    Raises:
        LogUnreadable: the event is cut.
    """
    fields = ByteReader(body, _WHAT, 8)
    return fields.name(), fields.name()


def read_table_map(body: bytes, *, mariadb: bool) -> TableMap:
    """All that the event says.

    Raises:
        LogUnreadable: it is cut, or its parts don't fit one another.
    """
    fields = ByteReader(body, _WHAT, 8)
    database, table = fields.name(), fields.name()
    count = fields.packed()
    if not 0 < count <= _MOST_COLUMNS:
        raise unreadable(_WHAT, f"{count} columns")
    kinds = fields.take(count)
    metas = ByteReader(fields.packed_bytes(), _WHAT)
    columns = [_column(kind, metas) for kind in kinds]
    if metas.left:
        raise unreadable(_WHAT, "it says more of columns than there are")
    null_bits = fields.take((count + 7) // 8)
    columns = [
        dataclasses.replace(column, nullable=bool(null_bits[n >> 3] >> (n & 7) & 1))
        for n, column in enumerate(columns)
    ]
    metadata = read_metadata(fields, tuple(c.kind for c in columns), mariadb=mariadb)
    return TableMap(
        database,
        table,
        tuple(_described(column, n, metadata) for n, column in enumerate(columns)),
        metadata.key,
        metadata.prefixes,
        bool(metadata.names),
        metadata.unsigned,
    )


def _column(kind: int, metas: ByteReader) -> LoggedColumn:
    if kind not in wire.NAMES:
        # Nobody knows how long its part of the metadata is: nothing after it can be read.
        raise unreadable(_WHAT, f"a column of type {kind}")
    meta = metas.take(_META_SIZES.get(kind, 0))
    first = meta[0] if meta else 0
    both = int.from_bytes(meta, "little")
    if kind == wire.STRING:
        return _string(first, meta[1])
    if kind == wire.NEWDECIMAL:
        return LoggedColumn("", kind, first, meta[1])
    if kind == wire.BIT:
        return LoggedColumn("", kind, first + 8 * meta[1])
    if kind in (wire.TIMESTAMP2, wire.DATETIME2, wire.TIME2):
        if first > 6:
            raise unreadable(_WHAT, f"seconds with {first} digits after the point")
        return LoggedColumn("", kind, 0, first)
    return LoggedColumn("", kind, both)


def _string(first: int, second: int) -> LoggedColumn:
    """A CHAR, BINARY, ENUM or SET: its real type, and two bits of its length within that."""
    if first & 0x30 != 0x30:
        return LoggedColumn("", first | 0x30, second | (first & 0x30 ^ 0x30) << 4)
    return LoggedColumn("", first, second)


def _described(column: LoggedColumn, number: int, metadata: Metadata) -> LoggedColumn:
    return dataclasses.replace(
        column,
        name=metadata.names[number] if metadata.names else "",
        unsigned=number in metadata.unsigned[0],
        collation=metadata.collations.get(number),
        labels=metadata.labels.get(number, ()),
        geometry=metadata.geometries.get(number),
        visible=number not in metadata.invisible,
    )
