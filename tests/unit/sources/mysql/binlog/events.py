"""Events made by hand, byte by byte."""

from __future__ import annotations

import struct
from zlib import crc32

from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds


def event(
    kind: int, body: bytes, end: int = 0, flags: int = 0, *, checksum: bool = True, at: int = 0
) -> bytes:
    size = 19 + len(body) + 4 * checksum
    packed = struct.pack("<IBIIIH", at, kind, 1, size, end, flags) + body
    return packed + (struct.pack("<I", crc32(packed)) if checksum else b"")


def description(
    version: bytes = b"8.0.12",
    *,
    checksums: bool = True,
    created: int = 0,
    in_use: bool = False,
    rows: tuple[int, int] = (8, 10),
) -> bytes:
    """A file's description; ``rows``: the lengths of row events' heads, of the first version and of
    the second."""
    lengths = bytearray(40)
    lengths[kinds.TABLE_MAP - 1] = 8
    lengths[kinds.WRITE_ROWS_V1 - 1], lengths[kinds.WRITE_ROWS - 1] = rows
    body = struct.pack("<H50sIB", 4, version, created, 19) + bytes(lengths) + bytes([checksums])
    whole = event(kinds.FORMAT_DESCRIPTION, body)
    if in_use:
        whole = whole[:17] + b"\1\0" + whole[19:]
    return whole


def rotate(file: str = "bin.000001", offset: int = 4, *, checksum: bool = True) -> bytes:
    body = struct.pack("<Q", offset) + file.encode()
    return event(kinds.ROTATE, body, flags=0x20, checksum=checksum)


def packed(number: int) -> bytes:
    return bytes([number]) if number < 0xFB else b"\xfc" + struct.pack("<H", number)


def name(text: str) -> bytes:
    return packed(len(text.encode())) + text.encode() + b"\0"


def part(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + packed(len(body)) + body


def texts(*given: bytes) -> bytes:
    return b"".join(packed(len(text)) + text for text in given)


def table_map(
    kind_bytes: bytes,
    metas: bytes,
    *parts: bytes,
    table_id: int = 7,
    table: str = "t",
    names: bool = True,
) -> bytes:
    """The body of a TABLE_MAP event of database d; columns are called c0, c1, …"""
    count = len(kind_bytes)
    body = table_id.to_bytes(6, "little") + bytes(2) + name("d") + name(table)
    body += packed(count) + kind_bytes + packed(len(metas)) + metas + b"\xff" * ((count + 7) // 8)
    if names:
        body += part(4, texts(*(f"c{n}".encode() for n in range(count))))
    return body + b"".join(parts)


def rows(
    columns: int, *images: bytes, table_id: int = 7, update: bool = False, second: bool = True
) -> bytes:
    """The body of a row event in which every column is."""
    every = b"\xff" * ((columns + 7) // 8) * (1 + update)
    head = table_id.to_bytes(6, "little") + bytes(2) + (b"\2\0" if second else b"")
    return head + packed(columns) + every + b"".join(images)
