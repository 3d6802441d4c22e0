"""Compressed parts of the log: whole transactions of MySQL, single events and values of MariaDB.

What comes out is never more than it was said to be.

Source: MySQL source, ``binary_log::Transaction_payload_event``; MariaDB knowledge base,
"Rows_Compressed Event", "Query_Compressed_Event", "Storage-Engine Independent Column Compression".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader, unreadable
from mirrorlake.sources.mysql.binlog.events.framing import HEADER_SIZE, LogEvent, inner_event

_END, _SIZE, _KIND, _UNPACKED = range(4)
_ZSTD, _NONE = 0, 255
_LARGEST: Final = 1 << 30
"""No event has more: the largest ``max_allowed_packet``."""
_PACKED, _RAW = 0x80, 0x08


def read_payload(event: LogEvent) -> Iterator[LogEvent]:
    """The events of a compressed transaction, one after the other as they are taken.

    Raises:
        LogUnreadable: it is cut, of an unknown compression, or has more than it says.
    """
    fields = ByteReader(event.body, f"An event ({event.name})")
    size, kind, unpacked = None, _NONE, None
    while (part := fields.packed()) != _END:
        value = ByteReader(fields.packed_bytes(), fields.what)
        if part == _SIZE:
            size = value.packed()
        elif part == _KIND:
            kind = value.packed()
        elif part == _UNPACKED:
            unpacked = value.packed()
    if kind not in (_ZSTD, _NONE):
        raise unreadable(fields.what, f"its compression is of an unknown kind ({kind})")
    size = fields.left if size is None else size
    packed = pa.BufferReader(fields.take(size))
    stream = pa.CompressedInputStream(packed, "zstd") if kind == _ZSTD else packed
    yield from _events(stream, unpacked if kind == _ZSTD else size, fields.what)


def _events(stream: pa.NativeFile, size: int | None, what: str) -> Iterator[LogEvent]:
    read = 0
    while head := _take(stream, HEADER_SIZE, what):
        length = int.from_bytes(head[9:13], "little")
        if len(head) < HEADER_SIZE or not HEADER_SIZE <= length <= _LARGEST:
            raise unreadable(what, "an event in it is cut")
        read += length
        if size is not None and read > size:
            raise unreadable(what, "there is more in it than it says")
        yield inner_event(head + _take(stream, length - HEADER_SIZE, what))
    if size is not None and read != size:
        raise unreadable(what, f"it has {read} bytes, and says {size}")


def _take(stream: pa.NativeFile, size: int, what: str) -> bytes:
    try:
        return stream.read(size)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(what, "it can't be decompressed") from error


def unpack_mariadb(given: bytes) -> bytes:
    """What MariaDB compressed of one event (``log_bin_compress``).

    Raises:
        LogUnreadable: it is cut, of an unknown compression, or of another size than it says.
    """
    fields = ByteReader(given, "A compressed event")
    head = fields.uint(1)
    if head & 0xF0 != _PACKED or not 1 <= head & 0x07 <= 4:
        raise unreadable(fields.what, f"its compression is of an unknown kind ({head:#x})")
    size = int.from_bytes(fields.take(head & 0x07), "big")
    return _inflated(fields.take(fields.left), size, fields.what, zlib.MAX_WBITS)


def unpack_column(given: bytes) -> bytes:
    """A value of a COMPRESSED column of MariaDB.

    >>> unpack_column(b""), unpack_column(b"\\0plain")
    (b'', b'plain')

    Raises:
        LogUnreadable: it is cut, of an unknown compression, or of another size than it says.
    """
    if not given:
        return b""
    what, head = "A value of a compressed column", given[0]
    if head == 0:
        return given[1:]
    length = head & 0x07
    if head & 0xF0 != _PACKED or length == 0:
        raise unreadable(what, f"its compression is of an unknown kind ({head:#x})")
    fields = ByteReader(given, what, 1)
    size = int.from_bytes(fields.take(length), "big")
    bits = -zlib.MAX_WBITS if head & _RAW else zlib.MAX_WBITS
    return _inflated(fields.take(fields.left), size, what, bits)


def _inflated(packed: bytes, size: int, what: str, bits: int) -> bytes:
    if size > _LARGEST:
        raise unreadable(what, f"it says that it has {size} bytes")
    inflater = zlib.decompressobj(bits)
    try:
        found = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise unreadable(what, "it can't be decompressed") from error
    if len(found) != size or not inflater.eof or inflater.unused_data:
        raise unreadable(what, f"it is not of {size} bytes, as it says")
    return found
