"""How a server is made to send its log: as to a replica, over a session like all others of ours.

Source: MySQL internals, "COM_REGISTER_SLAVE", "COM_BINLOG_DUMP", "COM_BINLOG_DUMP_GTID"; MySQL 8.0
manual, 17.1.6 (``@source_heartbeat_period``, ``binlog_checksum``); MariaDB knowledge base,
"Replication Protocol", "5-Slave Registration" (``@mariadb_slave_capability``,
``@slave_connect_state``).
"""

from __future__ import annotations

import contextlib
import logging
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, Self

import pymysql

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import LogPurged, SourceError
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.sessions.connect import (
    is_mariadb,
    open_session,
    read_position,
    rows_of,
    source_error,
    without_secret,
)

_REGISTER, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E
_NON_BLOCK, _THROUGH_GTID = 1, 4
_LOST: Final = 2013  # CR_SERVER_LOST
_FATAL: Final = 1236  # ER_SOURCE_FATAL_ERROR_READING_BINLOG
_DENIED: Final = (1045, 1227)
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
_LONGEST: Final = 0xFFFFFF
_PURGED: Final = (
    "could not find first log file",
    "purged",
    "not in the master's binlog",
    "exceeds",
)
_PURGED_MORE: Final = ("> file size", "impossible position", "not found in binlog", "gtid_purged")
_SAME_ID: Final = ("same server_uuid/server_id", "same server_id")

logger = logging.getLogger(__name__)


class LogTransport:
    """One connection over which a server sends its log.

    Attributes:
        start: where it begins. Give it to the reader: it may be another form of what was requested.
        checksums: whether events have checksums before a file says so.

    Args:
        server_id: the number of this replica, which no other replica of the server may have.
        server: the identity of the server that must answer (`SourcePosition`); '' for any.
        follow: whether to wait for more at the log's end, rather than to end there.
        heartbeat: seconds after which the server says that there is nothing new.
    """

    def __init__(
        self,
        source: SourceConfig,
        start: StreamPosition,
        server_id: int,
        *,
        follow: bool,
        heartbeat: float = 1.0,
        server: str = "",
    ) -> None:
        """Raises: SourceError: unreachable, refused, or another server answers."""
        self.start, self._source, self._follow = _startable(start), source, follow
        self._server_id = server_id
        # PyMySQL has no public way to send a command, and to read what comes.
        self._connection: Any = open_session(source)
        try:
            self._refuse_other(server)
            self.checksums = self._prepare(heartbeat)
            self._register()
            self._request()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        # Not a farewell: the server reads nothing any more.
        with contextlib.suppress(pymysql.Error, OSError):
            self._connection._force_close()

    def _refuse_other(self, server: str) -> None:
        found = read_position(self._connection).server if server else server
        if found != server:
            raise SourceError(
                f"source {self._source.name} is answered by server {found}, and its log was to be "
                f"read from {server}",
                source=self._source.name,
                next_step="Point the contract at one server: two servers' logs are not one",
            )

    def _prepare(self, heartbeat: float) -> bool:
        """Say what is understood here, and how long to wait; returns whether there are checksums
        at first."""
        nanoseconds = int(heartbeat * 1e9)
        statements = [
            "SET @master_binlog_checksum = @@global.binlog_checksum,"
            " @source_binlog_checksum = @@global.binlog_checksum",
            f"SET @master_heartbeat_period = {nanoseconds},"
            f" @source_heartbeat_period = {nanoseconds}",
            # Whoever is slow to take rows is not lost.
            "SET SESSION net_write_timeout = 3600",
        ]
        if is_mariadb(self._connection):
            statements += [
                "SET SESSION max_statement_time = 0",
                "SET @mariadb_slave_capability = 4",
            ]
        for statement in statements:
            rows_of(self._connection, statement)
        gtids = self.start.start.gtids
        if is_mariadb(self._connection) and self.start.start.log is None:
            for statement in (
                "SET @slave_connect_state = %s",
                "SET @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0",
            ):
                rows_of(self._connection, statement, (str(gtids),) if "%s" in statement else ())
        [(kind,)] = rows_of(self._connection, "SELECT @@global.binlog_checksum")
        return str(kind).upper() != "NONE"

    def _register(self) -> None:
        """Appear among the server's replicas, so that people see who reads."""
        name = b"mirrorlake"
        body = struct.pack("<I", self._server_id) + bytes([len(name)]) + name + bytes(2)
        self._send(_REGISTER, body + struct.pack("<HII", 0, 0, 0))
        self._packet()

    def _request(self) -> None:
        flags = 0 if self._follow else _NON_BLOCK
        log, gtids = self.start.start.log, self.start.start.gtids
        if log is None and isinstance(gtids, GtidSet):
            encoded = gtids.encode()
            head = struct.pack("<HIIQI", flags | _THROUGH_GTID, self._server_id, 0, 4, len(encoded))
            self._send(_DUMP_GTID, head + encoded)
            return
        file, offset = (log.file, log.offset) if log else ("", 4)
        self._send(_DUMP, struct.pack("<IHI", offset, flags, self._server_id) + file.encode())

    def _send(self, command: int, body: bytes) -> None:
        try:
            self._connection._execute_command(command, body)
        except (pymysql.Error, OSError) as error:
            raise source_error(error, self._source) from error

    def packets(self) -> Iterator[bytes]:
        """The events, each with header and checksum, as long as there are.

        Raises:
            LogPurged: the server has not the position.
            SourceError: the server was lost, or refuses.
        """
        while (packet := self._packet()) is not None:
            yield packet

    def _packet(self) -> bytes | None:
        """The next packet without its first byte, which says what it is; None at the log's end."""
        given = self._read()
        kind = given[0] if given else _EOF
        if kind == _OK:
            return given[1:]
        if kind == _EOF and len(given) < 9:
            return None
        if kind == _ERROR:
            raise self._refused(given)
        raise SourceError(
            f"source {self._source.name} sent something that is no event of its binary log",
            source=self._source.name,
            next_step="Connect to the server itself: a proxy may not pass a binary log on",
        )

    def _read(self) -> bytes:
        stream: Any = self._connection._rfile
        try:
            found = b""
            while True:
                head = stream.read(4)
                size = int.from_bytes(head[:3], "little")
                part = stream.read(size)
                if len(head) < 4 or len(part) < size:
                    raise pymysql.err.OperationalError(
                        _LOST, "Lost connection to MySQL server while its binary log was read"
                    )
                if size < _LONGEST:
                    return found + part if found else part
                found += part
        except (pymysql.Error, OSError, ValueError, AttributeError) as error:
            raise source_error(_lost(error), self._source) from error

    def _refused(self, given: bytes) -> SourceError:
        code = int.from_bytes(given[1:3], "little")
        words = given[9:].decode(errors="replace") if given[3:4] == b"#" else given[3:].decode()
        words = without_secret(words, self._source)
        if code in _DENIED:
            return SourceError(
                f"source {self._source.name} does not let the account read its binary log: "
                f"{words} [{code}]",
                source=self._source.name,
                next_step="Run GRANT REPLICATION SLAVE ON *.* TO the account",
            )
        if code != _FATAL:
            return source_error(pymysql.err.OperationalError(code, words), self._source)
        lower, name = words.lower(), self._source.name
        if any(one in lower for one in (*_PURGED, *_PURGED_MORE)):
            start = self.start.start
            where = start.log if start.log is not None else start.gtids
            return LogPurged(
                f"source {name} does not have position {where} of its binary log (any more): "
                f"{words} [{code}]",
                source=name,
                next_step="Read its tables again: what changed since is in no log. Keep logs for "
                "longer (binlog_expire_logs_seconds)",
            )
        taken = any(one in lower for one in _SAME_ID)
        return SourceError(
            f"source {name} ended the reading of its binary log: {words} [{code}]",
            source=name,
            next_step=f"Give this reader a server id of its own, not {self._server_id}"
            if taken
            else "",
            retryable=not taken,
        )


def _lost(error: Exception) -> Exception:
    """The driver's word for a connection that is gone, whatever it died of here."""
    if isinstance(error, ValueError | AttributeError):
        return pymysql.err.OperationalError(_LOST, "the connection was closed")
    return error


def _startable(start: StreamPosition) -> StreamPosition:
    """A position from which a server can be told to begin: the command has 32 bits for an offset,
    so that a file beyond 4 GB is read from its begin, and what is known passed over.

    Raises:
        SourceError: it names neither a file nor transactions.
    """
    begin = start.start
    if begin.log is None and begin.gtids is None:
        raise SourceError("a position of a binary log names neither a file nor transactions")
    if begin.log is None or begin.log.offset < 1 << 32:
        return start
    return replace(start, since=StreamPosition(LogPosition(begin.log.file, 4), begin.gtids))
