"""What an account would have to see so that its reads can be gentle, and does not.

Nothing fails for want of it. Each is found out by asking, not by reading grants: roles count.

Source: MySQL 8.0 manual, 6.2.2 "Privileges Provided by MySQL"; MariaDB knowledge base, "GRANT".
"""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.changes.replica import read_lag
from mirrorlake.sources.mysql.introspection.innodb_ids import can_see_numbers
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of


def missing_privileges(connection: Connection[Any]) -> list[str]:
    """One sentence per privilege that the account lacks, with what stays unseen for it.

    Raises:
        SourceError: the server was lost.
    """
    found: list[str] = []
    metrics = "SELECT COUNT(*) FROM information_schema.INNODB_METRICS"
    if not _may(lambda: rows_of(connection, metrics)):
        found.append(
            "without PROCESS a DDL that waits for a read, open transactions (also those that were "
            "prepared by XA before the server started) and writes that wait for a lock can't be "
            "seen: rows that commit later than `overlap` after they were "
            "stamped are missed until their day is reloaded (GRANT PROCESS ON *.* to the account)"
        )
    if not can_see_numbers(connection):
        found.append(
            "without PROCESS InnoDB's numbers of tables can't be seen: TRUNCATE, an exchanged "
            "partition, and a table that is made again with another definition go unnoticed "
            "unless AUTO_INCREMENT falls"
        )
    if not _may(lambda: read_lag(connection)):
        name = "SLAVE MONITOR" if is_mariadb(connection) else "REPLICATION CLIENT"
        found.append(
            f"without {name} a replica's lag can't be seen (if this is one: GRANT {name} ON *.* to "
            "the account)"
        )
    return found


def _may(ask: Any) -> bool:
    try:
        ask()
    except SourceError as error:
        if error.retryable:
            raise
        return False
    return True
