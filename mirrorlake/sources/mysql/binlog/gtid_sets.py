"""MySQL's sets of global transaction ids, with and without tags.

Source: MySQL 8.4 manual, 19.1.3.1 "GTID Format and Storage"; MySQL source, ``Gtid_set::encode``
(the form in which COM_BINLOG_DUMP_GTID takes one).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader, unreadable

Intervals: TypeAlias = tuple[tuple[int, int], ...]
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.ASCII)
_INTERVAL = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)
_LAST = 2**63 - 2
_TAGGED = 1 << 56 | 1


@dataclass(frozen=True, order=True)
class MysqlGtid:
    """One transaction: the server that committed it first, a tag or '', and its number there."""

    server: uuid.UUID
    tag: str
    number: int

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.server}{tag}:{self.number}"


@dataclass(frozen=True)
class GtidSet:
    """A set of transactions, as half-open intervals of numbers by server and tag.

    >>> first = GtidSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-3:5:blue:7")
    >>> print(first)
    3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:5:blue:7
    """

    intervals: Mapping[tuple[uuid.UUID, str], Intervals] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """From its text, as ``@@gtid_executed`` has it.

        Raises:
            SourceError: it is none.
        """
        found: dict[tuple[uuid.UUID, str], list[tuple[int, int]]] = {}
        for part in "".join(text.split()).lower().split(","):
            if not part:
                continue
            name, *rest = part.split(":")
            server, tag = _uuid(name, text), ""
            if not rest:
                raise _no_set(text)
            for one in rest:
                if _TAG.fullmatch(one):
                    tag = one
                else:
                    found.setdefault((server, tag), []).append(_interval(one, text))
        return cls({key: _joined(parts) for key, parts in found.items()})

    def __str__(self) -> str:
        by_server: dict[uuid.UUID, list[str]] = {}
        for server, tag in sorted(self.intervals, key=lambda key: (key[0].bytes, key[1])):
            parts = by_server.setdefault(server, [])
            parts += [tag] if tag else []
            for first, end in self.intervals[server, tag]:
                parts.append(str(first) if end == first + 1 else f"{first}-{end - 1}")
        return ",".join(":".join([str(server), *parts]) for server, parts in by_server.items())

    def __contains__(self, gtid: MysqlGtid) -> bool:
        parts = self.intervals.get((gtid.server, gtid.tag), ())
        return any(first <= gtid.number < end for first, end in parts)

    def __le__(self, other: GtidSet) -> bool:
        """Whether the other one has all of these transactions."""
        return not self.minus(other).intervals

    def add(self, gtid: MysqlGtid) -> GtidSet:
        """The set with one transaction more."""
        key, number = (gtid.server, gtid.tag), gtid.number
        parts = self.intervals.get(key, ())
        if parts and parts[-1][1] == number:
            # Nearly always: the next one.
            joined = (*parts[:-1], (parts[-1][0], number + 1))
        else:
            joined = _joined([*parts, (number, number + 1)])
        return GtidSet({**self.intervals, key: joined})

    def union(self, other: GtidSet) -> GtidSet:
        """What either has."""
        keys = {*self.intervals, *other.intervals}
        both = {k: (*self.intervals.get(k, ()), *other.intervals.get(k, ())) for k in keys}
        return GtidSet({key: _joined(parts) for key, parts in both.items()})

    def minus(self, other: GtidSet) -> GtidSet:
        """What this one has and the other has not."""
        found: dict[tuple[uuid.UUID, str], Intervals] = {}
        for key, parts in self.intervals.items():
            left = list(parts)
            for first, end in other.intervals.get(key, ()):
                left = [
                    piece
                    for a, b in left
                    for piece in ((a, min(b, first)), (max(a, end), b))
                    if piece[0] < piece[1]
                ]
            if left:
                found[key] = tuple(left)
        return GtidSet(found)

    def encode(self) -> bytes:
        """The set as a server takes it; the newer form only where there is a tag."""
        tagged = any(tag for _, tag in self.intervals)
        count = len(self.intervals)
        found = [(count << 8 | _TAGGED if tagged else count).to_bytes(8, "little")]
        for server, tag in sorted(self.intervals, key=lambda key: (key[0].bytes, key[1])):
            found.append(server.bytes)
            if tagged:
                found.append(bytes([len(tag) << 1]) + tag.encode())
            parts = self.intervals[server, tag]
            found.append(len(parts).to_bytes(8, "little"))
            found += [number.to_bytes(8, "little") for part in parts for number in part]
        return b"".join(found)

    @classmethod
    def decode(cls, given: bytes) -> GtidSet:
        """From what `encode` gives, and a server writes.

        Raises:
            LogUnreadable: it is none.
        """
        fields = ByteReader(given, "A set of GTIDs")
        count = fields.uint(8)
        tagged = bool(count >> 56)
        if tagged:
            count = count >> 8 & 0xFFFFFFFFFFFF
        found: dict[tuple[uuid.UUID, str], list[tuple[int, int]]] = {}
        for _ in range(count):
            server, tag = uuid.UUID(bytes=fields.take(16)), ""
            if tagged:
                tag = fields.text(fields.take(fields.uint(1) >> 1))
            parts = found.setdefault((server, tag), [])
            for _ in range(fields.uint(8)):
                first, end = fields.uint(8), fields.uint(8)
                if not 0 < first < end:
                    raise unreadable(fields.what, f"an interval from {first} to {end}")
                parts.append((first, end))
        if fields.left:
            raise unreadable(fields.what, "there is more behind it")
        return cls({key: _joined(parts) for key, parts in found.items() if parts})


def _joined(parts: Iterable[tuple[int, int]]) -> Intervals:
    """Intervals in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(parts):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return tuple(found)


def _uuid(name: str, text: str) -> uuid.UUID:
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name, re.ASCII):
        raise _no_set(text)
    return uuid.UUID(name)


def _interval(one: str, text: str) -> tuple[int, int]:
    found = _INTERVAL.fullmatch(one)
    first = int(found[1]) if found else 0
    last = int(found[2] or found[1]) if found else 0
    if not 0 < first <= last <= _LAST:
        raise _no_set(text)
    return first, last + 1


def _no_set(text: str) -> SourceError:
    shown = text if len(text) < 200 else f"{text[:200]}…"
    return SourceError(
        f"{shown!r} is no set of GTIDs of MySQL",
        next_step="Write it as @@gtid_executed has it: uuid:1-5,uuid:tag:7",
    )
