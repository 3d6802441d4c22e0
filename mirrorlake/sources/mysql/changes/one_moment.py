"""Whether snapshots of several sessions show one state of a server.

No server takes one snapshot for two sessions. But where nothing was committed between the first and
the last of them, they are one. A transaction that has written writes to InnoDB's redo log once more
as it commits, before others see its rows, whether the binary log has it or not. So, in this order:
the end of the redo log is read; then the list of open transactions, which shows one that is between
its last word in the log and its end; then the snapshots are opened; and the log must end where it
did. Where it moved, or something was open, nothing is known: there is one session then.

All of it takes the PROCESS privilege.

Source: MySQL 8.0 manual, 17.6.5 "Redo Log"; MariaDB knowledge base, "InnoDB Redo Log".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.changes.change_stamps import read_lsn
from mirrorlake.sources.mysql.changes.open_writes import read_open_writes


@dataclass(frozen=True)
class Still:
    """A moment at which no transaction was about to be committed.

    Attributes:
        lsn: where the redo log ended then.
    """

    lsn: int

    def lasts(self, connection: Connection[Any]) -> bool:
        """Whether nothing was committed since.

        Raises:
            SourceError: the server was lost.
        """
        return read_lsn(connection) == self.lsn


def find_still(connection: Connection[Any]) -> Still | None:
    """Such a moment, if it is one now; None where it is not, or the account may not see it.

    Raises:
        SourceError: the server was lost.
    """
    try:
        lsn = read_lsn(connection)
        opened = read_open_writes(connection) if lsn is not None else None
    except SourceError as error:
        if error.retryable and not connection.open:
            raise
        return None
    if lsn is None or opened is None or opened.transactions:
        return None
    return Still(lsn)
