"""Where a server's binary log stands, and whether tables can follow it.

What belongs here: what a server says of its log. What doesn't: its events
(`mirrorlake.sources.mysql.binlog`).

Source: MySQL 8.0 manual, 13.7.7.1 "SHOW BINARY LOGS", 17.1.6.4 "Binary Logging Options and
Variables".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import Framing, read_rotate
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.replica_ids import choose_server_id
from mirrorlake.sources.mysql.binlog.requirements import find_missing, steps_to
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.sessions.connect import read_clock, rows_of


@dataclass(frozen=True)
class LogPlace:
    """A place in one server's log, between two transactions.

    Attributes:
        position: with its file and offset, always.
        made: when its file was begun, by the server's clock in whole seconds since 1970: a file
            of the same name that was begun at another time is of another log (RESET MASTER).
    """

    position: StreamPosition
    made: int

    @property
    def log(self) -> LogPosition:
        assert self.position.log is not None  # noqa: S101 (see above)
        return self.position.log

    def to_text(self) -> str:
        return json.dumps({**json.loads(self.position.to_text()), "made": self.made})

    @classmethod
    def parse(cls, text: str) -> LogPlace:
        """From what `to_text` gives.

        Raises:
            SourceError: it is no place.
        """
        position = StreamPosition.parse(text)
        made = json.loads(text).get("made")
        if position.log is None or not isinstance(made, int):
            raise SourceError(f"{text!r} is no place in a binary log")
        return cls(position, made)


@dataclass(frozen=True)
class LogEnd:
    """Where a log ended when a server was asked.

    Attributes:
        clock: the server's (UTC) just before: what was committed until then is in the log.
        files: the log's files, and how long each is.
    """

    clock: datetime
    position: LogPosition
    files: Mapping[str, int]


def read_end(connection: Connection[Any], source: SourceConfig) -> LogEnd:
    """Where the log ends now.

    Raises:
        SourceError: the server keeps none, or the account may not see it.
    """
    clock = read_clock(connection)
    files = {str(row[0]): int(row[1]) for row in rows_of(connection, "SHOW BINARY LOGS")}
    if not files:
        raise without_log(source)
    file = list(files)[-1]
    return LogEnd(clock, LogPosition(file, files[file]), files)


class LogFiles:
    """The packets of a log, and when each of its files was begun, as far as they say.

    Attributes:
        made: by file, of those of which the beginning came: before any other event of it is given.
    """

    def __init__(self, transport: LogTransport) -> None:
        self.made: dict[str, int] = {}
        self._transport = transport
        self._framing = Framing(transport.checksums)
        self._file = ""

    def packets(self) -> Generator[bytes]:
        """What the transport gives. A file's name is given once its beginning is known."""
        held: list[bytes] = []
        for packet in self._transport.packets():
            held.append(packet)
            if self._note(packet):
                continue
            yield from held
            held.clear()
        yield from held

    def _note(self, packet: bytes) -> bool:
        """Take in what a packet says of files; whether the one after it says more."""
        kind = packet[4] if len(packet) > 4 else 0
        if kind not in (kinds.ROTATE, kinds.FORMAT_DESCRIPTION):
            return False
        event = self._framing.read(packet)
        if kind == kinds.ROTATE:
            self._file = read_rotate(event)[0]
            return True
        self.made[self._file] = event.timestamp
        return False


def new_server_id(connection: Connection[Any]) -> int:
    """A number for a replica that no other has: two runs may read one server side by side.

    Raises:
        SourceError: the server was lost.
    """
    return choose_server_id(connection, uuid.uuid4().hex)


def refuse_unfollowable(
    connection: Connection[Any], source: SourceConfig, tables: Collection[tuple[str, str]]
) -> None:
    """See that a server logs all that is needed to follow these tables (database, name).

    Raises:
        SourceError: it does not; all of what it lacks, with what to run.
    """
    missing = [one for one in find_missing(connection) if one.needed]
    if missing:
        problems = "; ".join(f"{one.name}: {one.problem}" for one in missing)
        raise SourceError(
            f"source {source.name}: its binary log can't be followed: {problems}",
            source=source.name,
            next_step=f"{steps_to(missing)}. Sessions that are open keep what they have",
        )
    only, never = _filters(connection)
    databases = {database for database, _ in tables}
    lacking = sorted(name for name in databases if name in never or (only and name not in only))
    if lacking:
        raise SourceError(
            f"source {source.name}: its binary log has nothing of {', '.join(lacking)}: "
            "binlog-do-db or binlog-ignore-db leaves it out",
            source=source.name,
            next_step="Take that out of the server's configuration, or use another mode there",
        )
    mixed = sorted(".".join(names) for names in tables if names != (*map(str.lower, names),))
    if mixed and lowered_when_found(connection):
        raise SourceError(
            f"source {source.name}: its binary log may call {', '.join(mixed)} by a name in lower "
            "case (`lower_case_table_names` is 2): changes would not be found",
            source=source.name,
            next_step="Use another mode there",
        )


def lowered_when_found(connection: Connection[Any]) -> bool:
    """Whether tables keep the case of their names and are found without regard to it, as on macOS.

    Source: MySQL 8.0 manual, 9.2.3 "Identifier Case Sensitivity".

    Raises:
        SourceError: the server was lost.
    """
    [(lowered,)] = rows_of(connection, "SELECT @@GLOBAL.lower_case_table_names")
    return int(lowered) == 2


def _filters(connection: Connection[Any]) -> tuple[set[str], set[str]]:
    """The databases that alone are logged (none: all are), and those that are not."""
    try:
        # MySQL 8.2 and later; what came before it has another word.
        [found] = rows_of(connection, "SHOW BINARY LOG STATUS")
    except SourceError as error:
        if "[1064]" not in str(error):
            raise
        [found] = rows_of(connection, "SHOW /* before 8.2, MariaDB */ MASTER STATUS")
    only, never = ({name for name in str(text or "").split(",") if name} for text in found[2:4])
    return only, never


def without_log(source: SourceConfig) -> SourceError:
    """The error of a server that keeps no log."""
    return SourceError(
        f"source {source.name} keeps no binary log",
        source=source.name,
        next_step="Switch log_bin on in the server, or choose another `mode` for its tables",
    )
