"""Packets of MySQL's protocol, as far as a carrier of bytes reads and writes them itself."""

from __future__ import annotations

import os
import socket

from pymysql.constants import CLIENT

_OFFERED = (
    CLIENT.LONG_PASSWORD
    | CLIENT.LONG_FLAG
    | CLIENT.CONNECT_WITH_DB
    | CLIENT.PROTOCOL_41
    | CLIENT.TRANSACTIONS
    | CLIENT.SECURE_CONNECTION
    | CLIENT.MULTI_RESULTS
    | CLIENT.PLUGIN_AUTH
)
_AUTOCOMMIT = 2
OK = b"\0\0\0" + _AUTOCOMMIT.to_bytes(2, "little") + b"\0\0"
_UTF8MB4 = 45


def greeting(version: str) -> bytes:
    """The first packet of a server (protocol 10); the challenge is never looked at again."""
    challenge = os.urandom(20).translate(bytes.maketrans(b"\0$", b"ab"))
    return b"".join(
        (
            b"\x0a",
            version.encode() + b"\0",
            (1).to_bytes(4, "little"),
            challenge[:8] + b"\0",
            (_OFFERED & 0xFFFF).to_bytes(2, "little"),
            bytes([_UTF8MB4]),
            _AUTOCOMMIT.to_bytes(2, "little"),
            (_OFFERED >> 16).to_bytes(2, "little"),
            bytes([21]) + bytes(10),
            challenge[8:] + b"\0",
            b"mysql_native_password\0",
        )
    )


def packet(content: bytes, number: int) -> bytes:
    return len(content).to_bytes(3, "little") + bytes([number]) + content


def read_packet(reader: socket.socket) -> bytes:
    head = read_exactly(reader, 4)
    return read_exactly(reader, int.from_bytes(head[:3], "little"))


def read_exactly(reader: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = reader.recv(size - len(found))
        if not part:
            raise OSError("the reader went away")
        found += part
    return found
