"""Offsets in the log of one server: a file and an offset, and which transactions are before it.

Source: MySQL 8.0 manual, 17.1.3.1 "GTID Format and Storage"; MariaDB knowledge base, "Global
Transaction ID".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import total_ordering
from typing import TypeAlias

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.binlog.gtid_lists import GtidList, MariadbGtid
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet, MysqlGtid

_NUMBERED = re.compile(r"(.+)\.(\d+)")

Gtid: TypeAlias = MysqlGtid | MariadbGtid
Gtids: TypeAlias = GtidSet | GtidList


@total_ordering
@dataclass(frozen=True)
class LogPosition:
    """A file of a server's log, and an offset in it.

    >>> LogPosition("bin.999999", 4) < LogPosition("bin.1000000", 4)
    True
    """

    file: str
    offset: int

    def __lt__(self, other: LogPosition) -> bool:
        return self._place(other) < other._place(self)

    def _place(self, other: LogPosition) -> tuple[int, int]:
        mine, others = _NUMBERED.fullmatch(self.file), _NUMBERED.fullmatch(other.file)
        if mine is None or others is None or mine[1] != others[1]:
            raise SourceError(
                f"{self} and {other} are not positions of one binary log",
                next_step="Read the tables again from this server, or name the server of before",
            )
        return int(mine[2]), self.offset

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """From what `str` gives.

        >>> LogPosition.parse("bin.000001:4").offset
        4

        Raises:
            SourceError: it is no position.
        """
        file, _, offset = text.rpartition(":")
        if not _NUMBERED.fullmatch(file) or not offset.isascii() or not offset.isdigit():
            raise SourceError(
                f"{text!r} is no position of a binary log",
                next_step="Write it as file:offset, as SHOW MASTER STATUS has them",
            )
        return cls(file, int(offset))


@dataclass(frozen=True)
class StreamPosition:
    """How far a log was read, and all that is needed to read on: by the file where that is the same
    server's, by transactions where another one is to be read.

    Attributes:
        log: where the next transaction begins, on the server that was read. None: not known yet.
        gtids: the transactions before it. None: the server numbers none.
        since: where reading has to begin again, if that is earlier: an XA transaction was prepared
            there and is still open. What was read between the two is not given out again.
    """

    log: LogPosition | None = None
    gtids: Gtids | None = None
    since: StreamPosition | None = None

    @property
    def start(self) -> StreamPosition:
        """Where reading has to begin."""
        return self.since or self

    def by_transactions(self) -> StreamPosition:
        """The same place on whatever server: for another one that has these transactions, too.

        Raises:
            SourceError: the server that was read numbers none.
        """
        if self.gtids is None:
            raise SourceError(
                "a position without GTIDs is one of a single server",
                next_step="Read the tables again from the other server",
            )
        since = None if self.since is None else self.since.by_transactions()
        return StreamPosition(None, self.gtids, since)

    def to_text(self) -> str:
        """The position as JSON, for `parse`."""
        return json.dumps(self._plain(), separators=(",", ":"))

    def _plain(self) -> dict[str, object]:
        found: dict[str, object] = {}
        if self.log is not None:
            found["log"] = str(self.log)
        if self.gtids is not None:
            found["mariadb" if isinstance(self.gtids, GtidList) else "mysql"] = str(self.gtids)
        if self.since is not None:
            found["since"] = self.since._plain()
        return found

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """From what `to_text` gives.

        >>> text = '{"log":"bin.000001:4","mariadb":"0-1-7"}'
        >>> StreamPosition.parse(text).to_text() == text
        True

        Raises:
            SourceError: it is no position.
        """
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SourceError(f"{text!r} is no position of a binary log")
        return cls._of(found)

    @classmethod
    def _of(cls, found: dict[str, object]) -> StreamPosition:
        log, since = found.get("log"), found.get("since")
        gtids: Gtids | None = None
        if "mysql" in found:
            gtids = GtidSet.parse(str(found["mysql"]))
        elif "mariadb" in found:
            gtids = GtidList.parse(str(found["mariadb"]))
        return cls(
            None if log is None else LogPosition.parse(str(log)),
            gtids,
            cls._of(since) if isinstance(since, dict) else None,
        )


def with_gtid(gtids: Gtids | None, gtid: Gtid | None) -> Gtids | None:
    """The transactions, and one more. None: MySQL numbered it not, so that no set has all that are
    before a place.

    Raises:
        SourceError: the one is of another kind of server.
    """
    if gtid is None or gtids is None:
        return gtids if gtid is not None or isinstance(gtids, GtidList) else None
    if isinstance(gtids, GtidSet) and isinstance(gtid, MysqlGtid):
        return gtids.add(gtid)
    if isinstance(gtids, GtidList) and isinstance(gtid, MariadbGtid):
        return gtids.add(gtid)
    raise SourceError(f"{gtid} and {gtids} are of different kinds of servers")


def has_gtid(gtids: Gtids | None, gtid: Gtid | None) -> bool:
    """Whether the one is among the transactions."""
    if isinstance(gtids, GtidSet) and isinstance(gtid, MysqlGtid):
        return gtid in gtids
    return isinstance(gtids, GtidList) and isinstance(gtid, MariadbGtid) and gtid in gtids
