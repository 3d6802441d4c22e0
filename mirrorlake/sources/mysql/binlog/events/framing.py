"""Events as they come: the header, the checksum, and the format description by which both are read.

Source: MySQL internals, "Binary Log Event Header", "Format Description Event"; MySQL 8.0 manual,
``binlog_checksum``; MariaDB knowledge base, "2-Binlog Event Header", "Format Description Event".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from mirrorlake.errors import LogUnreadable
from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader, unreadable
from mirrorlake.sources.mysql.binlog.events.event_kinds import (
    FORMAT_DESCRIPTION,
    ROTATE,
    TABLE_MAP,
    WRITE_ROWS,
    WRITE_ROWS_V1,
    name_of,
)

HEADER_SIZE: Final = 19
_HEADER = struct.Struct("<IBIIIH")
_CHECKSUM = struct.Struct("<I")
_ARTIFICIAL = 0x0020
IGNORABLE: Final = 0x0080
"""The flag of an event that a reader who does not know it may leave out."""
_LONGEST_NAME = 511


class LogEvent(NamedTuple):
    """One event, its checksum verified.

    Attributes:
        timestamp: seconds since 1970, of the statement.
        end: where the file's next event begins, modulo 2³²; 0: it does not say (MariaDB within a
            transaction), or is in no file.
        size: with header and checksum.
        body: what follows the header, without the checksum.
    """

    kind: int
    timestamp: int
    server_id: int
    end: int
    flags: int
    size: int
    body: bytes

    @property
    def placed(self) -> bool:
        """Whether it says where it is. One that the server made for this connection does not."""
        return bool(self.end) and not self.flags & _ARTIFICIAL

    @property
    def name(self) -> str:
        return name_of(self.kind)


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """What a file of the log says of itself.

    Attributes:
        version: the server's that wrote it.
        begun: whether the server had just started: a transaction that has no end before it was
            rolled back.
        checksums: whether its events have one.
    """

    version: str
    begun: bool
    checksums: bool

    @property
    def mariadb(self) -> bool:
        return "mariadb" in self.version.lower()


class Framing:
    """Bytes of one connection → events.

    Args:
        checksums: whether an event has a checksum before any file's description says so.
    """

    def __init__(self, checksums: bool) -> None:
        self._checksums = checksums
        self.description: FormatDescription | None = None

    def read(self, given: bytes) -> LogEvent:
        """One event, of all these bytes.

        Raises:
            LogUnreadable: they are no event, or not whole, or their checksum is another.
        """
        if len(given) < HEADER_SIZE:
            raise unreadable("An event", f"it has {len(given)} bytes, and a header {HEADER_SIZE}")
        timestamp, kind, server_id, size, end, flags = _HEADER.unpack_from(given)
        if size != len(given):
            raise unreadable("An event", f"it has {len(given)} bytes, and says {size}")
        if kind == FORMAT_DESCRIPTION:
            return self._describe(
                given, LogEvent(kind, timestamp, server_id, end, flags, size, given[HEADER_SIZE:])
            )
        if not self._checksums:
            return LogEvent(kind, timestamp, server_id, end, flags, size, given[HEADER_SIZE:])
        if (
            size < HEADER_SIZE + 4
            or crc32(memoryview(given)[:-4]).to_bytes(4, "little") != given[-4:]
        ):
            raise unreadable(f"An event ({name_of(kind)})", "its checksum is that of other bytes")
        return LogEvent(kind, timestamp, server_id, end, flags, size, given[HEADER_SIZE:-4])

    def _describe(self, given: bytes, event: LogEvent) -> LogEvent:
        self.description = _read_description(given)
        self._checksums = self.description.checksums
        return event


def inner_event(given: bytes) -> LogEvent:
    """An event out of a compressed transaction: it has a header and no checksum.

    Raises:
        LogUnreadable: the bytes are none.
    """
    return Framing(checksums=False).read(given)


def pack_event(event: LogEvent) -> bytes:
    """The event as `inner_event` reads it."""
    size = HEADER_SIZE + len(event.body)
    head = (event.timestamp, event.kind, event.server_id, size, event.end, event.flags)
    return _HEADER.pack(*head) + event.body


def _read_description(given: bytes) -> FormatDescription:
    """What a file says of itself, from its whole event.

    Raises:
        LogUnreadable: it is cut, changed, or of a format before MySQL 5.6 and MariaDB 10.
    """
    what = "A format description"
    fields = ByteReader(given, what, HEADER_SIZE, len(given) - 5)
    if fields.left < 0:
        raise unreadable(what, "it is too short")
    version, server = fields.uint(2), fields.take(50).rstrip(b"\0")
    created, header = fields.uint(4), fields.uint(1)
    lengths = fields.take(fields.left)
    if version != 4 or header != HEADER_SIZE or len(lengths) < WRITE_ROWS_V1:
        raise unreadable(what, f"version {version}, a header of {header} bytes")
    # Newer servers (seen: MySQL 9.7.4) write row events of the second version alone.
    rows = lengths[WRITE_ROWS_V1 - 1], *lengths[WRITE_ROWS - 1 : WRITE_ROWS]
    if lengths[TABLE_MAP - 1] != 8 or (rows[0] != 8 and rows != (0, 10)):
        raise unreadable(what, "row events have a format of before MySQL 5.1.4")
    algorithm = given[-5]
    if algorithm not in (0, 1):
        raise unreadable(what, f"its checksums are of an unknown kind ({algorithm})")
    if algorithm:
        # Computed before the file was marked as one that is in use.
        flags = bytes([given[17] & ~1 & 0xFF, given[18]])
        if crc32(given[:17] + flags + given[19:-4]) != _CHECKSUM.unpack(given[-4:])[0]:
            raise unreadable(what, "its checksum is that of other bytes")
    return FormatDescription(fields.text(server), created != 0, bool(algorithm))


def read_rotate(event: LogEvent) -> tuple[str, int]:
    """The file that comes next, and the offset in it, of a ROTATE event.

    Raises:
        LogUnreadable: it is cut.
    """
    fields = ByteReader(event.body, f"An event ({name_of(ROTATE)})")
    offset, name = fields.uint(8), fields.take(fields.left)
    if not name or len(name) > _LONGEST_NAME or offset < 4:
        raise unreadable(fields.what, "it names no file")
    return fields.text(name), offset


def unknown_event(event: LogEvent) -> LogUnreadable:
    """The error of an event whose kind nobody here knows, and that may not be left out."""
    return unreadable(f"An event of kind {event.kind}", "nobody here knows that kind")
