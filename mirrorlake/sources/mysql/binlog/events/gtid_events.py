"""Events that begin a transaction: its global id, and when it was committed.

Source: MySQL source, ``binary_log::Gtid_event``, ``mysql::serialization`` (the form of tagged
ones); MariaDB knowledge base, "Gtid Event".
"""

from __future__ import annotations

import functools
import struct
import uuid
from typing import Final, NamedTuple

from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader, unreadable
from mirrorlake.sources.mysql.binlog.events.event_kinds import (
    ANONYMOUS_GTID,
    GTID_TAGGED,
    MARIADB_GTID,
)
from mirrorlake.sources.mysql.binlog.events.framing import LogEvent
from mirrorlake.sources.mysql.binlog.gtid_lists import MariadbGtid
from mirrorlake.sources.mysql.binlog.gtid_sets import MysqlGtid
from mirrorlake.sources.mysql.binlog.positions import Gtid

_MICROSECONDS: Final = 1_000_000
_CLASSIC = struct.Struct("<B16sQ")
_TIMES: Final = _CLASSIC.size + 17
# Of MariaDB's flags.
_STANDALONE, _GROUP_COMMIT, _PREPARED, _COMPLETED = 1, 2, 64, 128
# Fields of a tagged one, in the order of their numbers.
_FLAGS, _UUID, _NUMBER, _TAG = 0, 1, 2, 3
_IMMEDIATE, _ORIGINAL = 6, 7
_SIGNED = (_NUMBER, 4, 5)
_BYTES = {_FLAGS: 1, _UUID: 16}
_LAST_FIELD = 11


class TransactionStart(NamedTuple):
    """What the log says of a transaction before its first change.

    Attributes:
        gtid: None: the server numbers none.
        committed_at: in microseconds since 1970, UTC: where it was committed first. MariaDB, and
            MySQL before 8.0.1, know the second alone.
        standalone: whether it is one statement that ends it, where the server says so (MariaDB).
        prepared: whether it ends by being prepared (XA), where the server says so (MariaDB).
    """

    gtid: Gtid | None
    committed_at: int
    standalone: bool | None = None
    prepared: bool = False


def read_start(event: LogEvent) -> TransactionStart:
    """What a GTID event of any server says.

    Raises:
        LogUnreadable: it is cut, or of an unknown form.
    """
    if event.kind == MARIADB_GTID:
        return _mariadb(event)
    return _tagged(event) if event.kind == GTID_TAGGED else _mysql(event)


def _mariadb(event: LogEvent) -> TransactionStart:
    fields = ByteReader(event.body, f"An event ({event.name})")
    sequence, domain, flags = fields.uint(8), fields.uint(4), fields.uint(1)
    gtid = MariadbGtid(domain, event.server_id, sequence)
    return TransactionStart(
        gtid, event.timestamp * _MICROSECONDS, bool(flags & _STANDALONE), bool(flags & _PREPARED)
    )


def _mysql(event: LogEvent) -> TransactionStart:
    body = event.body
    if len(body) < _CLASSIC.size:
        raise unreadable(f"An event ({event.name})", "it is cut")
    _, server, number = _CLASSIC.unpack_from(body)
    gtid = None if event.kind == ANONYMOUS_GTID else MysqlGtid(_server(server), "", number)
    committed_at = 0
    # A logical clock, and since 8.0.1 the times: seven bytes, whose highest bit announces others.
    if len(body) >= _TIMES + 7 and body[_CLASSIC.size] == 2:
        committed_at = int.from_bytes(body[_TIMES : _TIMES + 7], "little")
        if committed_at >> 55:
            committed_at = int.from_bytes(body[_TIMES + 7 : _TIMES + 14], "little")
    return TransactionStart(gtid, committed_at or event.timestamp * _MICROSECONDS)


@functools.lru_cache(maxsize=64)
def _server(given: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=given)


def _tagged(event: LogEvent) -> TransactionStart:
    fields = ByteReader(event.body, f"An event ({event.name})")
    version, _, last_needed = _number(fields), _number(fields), _number(fields)
    if version != 1 or last_needed > _LAST_FIELD + 1:
        raise unreadable(fields.what, "it is of a newer form")
    found: dict[int, int] = {}
    server, tag = uuid.UUID(int=0), ""
    while fields.left:
        number = _number(fields)
        if number in _BYTES:
            octets = [_number(fields) for _ in range(_BYTES[number])]
            if max(octets) > 255:
                raise unreadable(fields.what, "a byte in it is none")
            server = uuid.UUID(bytes=bytes(octets)) if number == _UUID else server
        elif number == _TAG:
            tag = fields.text(fields.take(_number(fields)))
        elif number <= _LAST_FIELD:
            found[number] = _number(fields, signed=number in _SIGNED)
        else:
            break  # of a later server, which says that it is not needed
    if _NUMBER not in found or not server.int:
        raise unreadable(fields.what, "it has no GTID")
    committed_at = found.get(_ORIGINAL) or found.get(_IMMEDIATE)
    gtid = MysqlGtid(server, tag, found[_NUMBER])
    return TransactionStart(gtid, committed_at or event.timestamp * _MICROSECONDS)


def _number(fields: ByteReader, *, signed: bool = False) -> int:
    """A number of variable length: as many 1 bits at its low end as bytes follow the first."""
    first = fields.take(1)[0]
    more = (~first & 0xFF & -(~first & 0xFF)).bit_length() - 1 if first != 0xFF else 8
    rest = fields.uint(more)
    value = rest if more == 8 else first >> (more + 1) | rest << max(7 - more, 0)
    if not signed:
        return value
    return -(value >> 1) - 1 if value & 1 else value >> 1
