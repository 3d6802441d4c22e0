"""As which replica a server's log is read.

Source: MySQL 8.0 manual, 13.7.7 "SHOW Statements" (``REPLICAS``); MariaDB knowledge base,
"SHOW SLAVE HOSTS".
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of

_FIRST: Final = 2**31
_COUNT: Final = 2**31 - 1
_UNKNOWN_STATEMENT: Final = "[1064]"
_REFUSED: Final = ("[1227]", "[1045]")


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
