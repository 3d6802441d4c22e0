"""Where a server's log ends now, and as which replica it is read.

Source: MySQL 8.0 manual, 13.7.7 "SHOW Statements" (``BINARY LOGS``, ``REPLICAS``); MariaDB
knowledge base, "Global Transaction ID", "SHOW SLAVE HOSTS".
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.binlog.gtid_lists import GtidList
from mirrorlake.sources.mysql.binlog.gtid_sets import GtidSet
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of

_FIRST: Final = 2**31
_COUNT: Final = 2**31 - 1
_UNKNOWN_STATEMENT: Final = "[1064]"
_REFUSED: Final = ("[1227]", "[1045]")


def read_log_end(connection: Connection[Any]) -> StreamPosition:
    """How far a server's log goes: by its transactions where it numbers them, else by file.

    What a reader is then given are all transactions that are not in it; one that was being
    committed meanwhile is given, never left out.

    Raises:
        SourceError: the server was lost, keeps no log, or does not show it to the account.
    """
    if is_mariadb(connection):
        [(text,)] = rows_of(connection, "SELECT @@global.gtid_binlog_pos")
        return StreamPosition(None, GtidList.parse(str(text or "")))
    [(mode, text)] = rows_of(connection, "SELECT @@global.gtid_mode, @@global.gtid_executed")
    if str(mode).upper() == "ON":
        return StreamPosition(None, GtidSet.parse(str(text or "")))
    logs = rows_of(connection, "SHOW BINARY LOGS")
    return StreamPosition(LogPosition(str(logs[-1][0]), int(logs[-1][1])))


def choose_server_id(connection: Connection[Any], name: str) -> int:
    """A number under which nobody else is a replica of the server, the same each time for a name
    as long as it is free.

    A server ends the reading of a replica whose number another one comes with. Replicas that do
    not show, because the account may not see them, may have it all the same.

    Args:
        name: of whatever reads: no two readers of one server have the same.

    Raises:
        SourceError: the server was lost.
    """
    [(own,)] = rows_of(connection, "SELECT @@global.server_id")
    taken = {int(own), *_replicas(connection)}
    digest = hashlib.sha256(name.encode()).digest()
    wanted = int.from_bytes(digest[:8], "big") % _COUNT
    while _FIRST + wanted in taken:
        wanted = (wanted + 1) % _COUNT
    return _FIRST + wanted


def _replicas(connection: Connection[Any]) -> list[int]:
    """The numbers of replicas that are there now; none where they can't be seen."""
    statements = ["SHOW REPLICAS", "SHOW SLAVE HOSTS"]  # the second before MySQL 8.0.22
    if is_mariadb(connection):
        statements = statements[1:]
    for statement in statements:
        try:
            return [int(row[0]) for row in rows_of(connection, statement)]
        except SourceError as error:
            if any(code in str(error) for code in _REFUSED):
                return []
            if _UNKNOWN_STATEMENT not in str(error):
                raise
    return []
