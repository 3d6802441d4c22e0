"""What is still to be committed on a server, and from when its rows may be stamped.

A window is read up to the server's clock. A row that is stamped before that and committed after it
lies behind the next window, unless that reaches back to when the row was stamped. It was stamped by
``NOW()``, which a statement fixes as it begins, so two lists are looked at, in this order:

1. *Statements that run* (``PROCESSLIST``). One that waits for a table's lock (``LOCK TABLES``, a
   dump, an ``ALTER TABLE`` that copies) has fixed its ``NOW()`` and is in no transaction yet.
2. *Transactions that are open* (``INNODB_TRX``): what left the first list meanwhile is in it, or is
   committed.

InnoDB fills the second list at most every 0.1 s, and not at all while anybody else reads it more
often: a monitor that polls every 30 ms keeps it as it was for ever (seen: MySQL 8.0, MariaDB 11.4).
So the look is a transaction itself, and only a list that shows its own statement counts. Where none
comes, ``SHOW ENGINE INNODB STATUS`` is read, which is never cached: so a run over many small tables
need not pause between them.

All of it takes the PROCESS privilege.

Source: MySQL 8.0 manual, 28.4.28 "The INFORMATION_SCHEMA INNODB_TRX Table", 15.15.2.3 "Persistence
and Consistency of InnoDB Transaction and Locking Information", 28.3.23 "PROCESSLIST", 15.17.3
"InnoDB Standard Monitor".
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from pymysql.connections import Connection

from mirrorlake.errors import SourceBusy, SourceError
from mirrorlake.sources.mysql.sessions.connect import read_clock, read_uptime, rows_of

logger = logging.getLogger(__name__)

Began = Mapping[int, datetime]
"""When (UTC, by the server's clock) something began, by the id of its connection."""
NO_CONNECTION: Final = 0
"""That of a transaction whose session is gone: prepared (XA), then detached from its connection or
recovered by a server that started again."""
_SECOND: Final = timedelta(seconds=1)
_DAY_SECONDS: Final = 86_400
_TRIES, _CACHED_SECONDS = 4, 0.12
# Two ways to look give a transaction's start to the second.
_BLUR: Final = timedelta(seconds=3)
_STARTING: Final = timedelta(minutes=1)
# None of them stamps rows of a table that is mirrored. Any other word may.
_NO_WRITES: Final = frozenset(
    (
        *("SELECT", "DO", "SHOW", "EXPLAIN", "DESC", "DESCRIBE", "USE", "HELP", "KILL", "FLUSH"),
        *("LOCK", "UNLOCK", "ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE", "ANALYZE", "CHECK"),
        *("CHECKSUM", "OPTIMIZE", "REPAIR", "BEGIN", "START", "COMMIT", "ROLLBACK", "GRANT"),
    )
)
# Comments are passed over; what MySQL executes (/*! … */) is none.
_FIRST_WORD: Final = re.compile(
    r"(?:\s|\(|/\*(?![!M]).*?\*/|--\s[^\n]*\n|#[^\n]*\n)*([A-Za-z]+)", re.DOTALL
)


class Waited(NamedTuple):
    """A statement that was seen before it had a transaction: it waited for a table, perhaps. Its
    rows are stamped when it began, and its transaction begins later.

    Attributes:
        thread: the id of its connection.
        began: when (UTC) it began.
        joined: when its transaction began; None while it has none.
    """

    thread: int
    began: datetime
    joined: datetime | None

    def to_plain(self) -> list[str]:
        """As JSON can hold it."""
        joined = [self.joined.isoformat()] if self.joined else []
        return [str(self.thread), self.began.isoformat(), *joined]

    @staticmethod
    def from_plain(plain: Sequence[str]) -> Waited:
        """What `to_plain` gave."""
        thread, began, *joined = plain
        at = datetime.fromisoformat(joined[0]) if joined else None
        return Waited(int(thread), datetime.fromisoformat(began), at)


@dataclass(frozen=True)
class OpenWrites:
    """What may still commit rows with stamps of the past; empty where nothing is open.

    Attributes:
        statements: that run or wait, and may write.
        transactions: that have written, or run a statement.
        recovered: whether one of them was recovered as the server started: the server shows its own
            start as that of the transaction, which wrote its rows before.
        waited: statements of earlier looks whose transaction, begun after the wait, is open still.
        readers_since: when the oldest transaction began that has not written yet; None where there
            is none.
    """

    statements: Began = field(default_factory=dict[int, datetime])
    transactions: Began = field(default_factory=dict[int, datetime])
    recovered: bool = False
    waited: tuple[Waited, ...] = ()
    readers_since: datetime | None = field(default=None, compare=False)

    @property
    def oldest(self) -> datetime | None:
        """From when on rows may be stamped that are not committed yet; None where none are."""
        began = [*self.statements.values(), *self.transactions.values()]
        return min((*began, *(one.began for one in self.waited)), default=None)

    def since(self, settled: datetime) -> OpenWrites:
        """The same with a bound for what was recovered: nothing stamped before ``settled`` was open
        when the last load looked, and what has begun later is stamped later."""
        if not self.recovered:
            return self
        began = min(settled, self.transactions[NO_CONNECTION])
        return replace(self, transactions={**self.transactions, NO_CONNECTION: began})

    def after(self, before: Sequence[Waited]) -> OpenWrites:
        """The same with what the look before remembered, where its transaction is open still."""
        kept: list[Waited] = []
        for one in before:
            now = self.transactions.get(one.thread)
            # Another transaction of the same connection began later.
            if now is not None and (one.joined is None or now <= one.joined + _BLUR):
                kept.append(one._replace(joined=now if one.joined is None else one.joined))
        return replace(self, waited=tuple(kept))

    def remembered(self) -> tuple[Waited, ...]:
        """What the next look must know of this one: statements that were there before their
        transaction, and those of before."""
        waiting = (
            Waited(thread, began, self.transactions.get(thread))
            for thread, began in self.statements.items()
            # The lists are read one after the other: it may have begun between them.
            if began < self.transactions.get(thread, began + _SECOND)
        )
        return (*self.waited, *waiting)


NOTHING_OPEN: Final = OpenWrites()


def read_open_writes(connection: Connection[Any]) -> OpenWrites | None:
    """What is open on the server now, but for this session; None where the account may not look.

    A replica does not show what is open on its primary.

    Raises:
        SourceBusy: the list of transactions could not be read as it is now.
        SourceError: the server was lost.
    """
    try:
        statements = _read_statements(connection)
        transactions, readers = _read_transactions(connection)
        recovered = _was_recovered(connection, transactions.get(NO_CONNECTION))
    except SourceError as error:
        if error.retryable:
            raise
        logger.info("open transactions can't be seen, so the overlap alone holds: %s", error)
        return None
    oldest_reader = min(readers, default=None)
    return OpenWrites(statements, transactions, recovered, readers_since=oldest_reader)


def may_write(text: str | None, state: str | None = None) -> bool:
    """Whether a statement may write rows, by the first of its words; one that nobody knows may.

    A SELECT or DO that waits for a lock may call a function that writes.

    >>> may_write("INSERT INTO t VALUES (1)"), may_write("/* app */ (SELECT 1)")
    (True, False)
    >>> may_write("SELECT f()", "Waiting for table metadata lock")
    True
    """
    found = _FIRST_WORD.match(text or "")
    word = found[1].upper() if found else ""
    if word in ("SELECT", "DO") and (state or "").lower().startswith("waiting for"):
        return True
    return word not in _NO_WRITES


def _read_statements(connection: Connection[Any]) -> dict[int, datetime]:
    rows = rows_of(
        connection,
        "SELECT ID, TIME, STATE, LEFT(INFO, 400), UTC_TIMESTAMP() "
        "FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() "
        "AND (INFO IS NOT NULL OR COMMAND IN ('Query', 'Execute')) "
        "AND COMMAND NOT IN ('Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID') "
        # What is replicated to here was stamped elsewhere.
        "AND USER NOT IN ('system user', 'event_scheduler')",
    )
    running = [
        (int(thread), max(int(seconds or 0), 0), clock)
        for thread, seconds, state, text, clock in rows
        if may_write(text, state)
    ]
    longest = max((seconds for _, seconds, _ in running), default=0)
    if longest > _DAY_SECONDS:
        # `SET timestamp` gives a session a clock of its own: nothing runs longer than the server.
        # One that was started by a later clock says nothing of them.
        uptime = read_uptime(connection)
        running = [one for one in running if uptime < 0 or one[1] <= uptime]
    return {
        thread: clock - timedelta(seconds=seconds) - _SECOND for thread, seconds, clock in running
    }


def _was_recovered(connection: Connection[Any], began: datetime | None) -> bool:
    """Whether a transaction without a session is one of before the server's start."""
    if began is None:
        return False
    # The server counts its uptime from when it has recovered, or from before. One that began so
    # soon after the start is taken for recovered: that only reads more.
    return began <= read_start(connection) + _STARTING


def read_start(connection: Connection[Any]) -> datetime:
    """When (UTC, by its own clock) the server started; every account may see it.

    Raises:
        SourceError: the server was lost.
    """
    return read_clock(connection) - timedelta(seconds=read_uptime(connection))


_Transactions = tuple[dict[int, datetime], list[datetime]]
"""When those began that have written or run a statement, by connection; and the others, which will
write with later clocks."""


def _read_transactions(connection: Connection[Any]) -> _Transactions:
    rows_of(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    try:
        found = _listed(connection)
        if found is None:
            # Somebody has just read the list: perhaps ourselves, for another table.
            found = _of_status(connection)
        for _ in range(_TRIES):
            if found is None:
                time.sleep(_CACHED_SECONDS)
                found = _listed(connection)
    finally:
        rows_of(connection, "ROLLBACK")
    if found is not None:
        return found
    raise SourceBusy(
        "InnoDB's list of open transactions can't be read as it is now: others read it all the "
        "time, and its status is too long to be shown whole",
        next_step="Have whatever polls information_schema.INNODB_TRX poll less than ten times a "
        "second, then sync again",
        retryable=True,
    )


# The list shows the local time of the server's machine, which has an hour of autumn twice: the
# earlier of both is taken, by the larger of the zone's offsets around it. The statement names
# itself in its first letters.
_LISTED: Final = """
SELECT %s, trx_mysql_thread_id,
  trx_started - INTERVAL GREATEST(
    COALESCE(TIMESTAMPDIFF(SECOND, trx_started - INTERVAL 1 DAY,
      CONVERT_TZ(trx_started - INTERVAL 1 DAY, '+00:00', 'SYSTEM')), 0),
    COALESCE(TIMESTAMPDIFF(SECOND, trx_started + INTERVAL 1 DAY,
      CONVERT_TZ(trx_started + INTERVAL 1 DAY, '+00:00', 'SYSTEM')), 0)) SECOND,
  trx_is_read_only = 0 AND (trx_rows_modified > 0 OR trx_query IS NOT NULL), trx_query
FROM information_schema.innodb_trx"""


def _listed(connection: Connection[Any]) -> _Transactions | None:
    """The list of transactions; None where it is not of this moment."""
    look = f"mirrorlake looks {uuid.uuid4().hex}"
    rows = rows_of(connection, _LISTED, (look,))
    own = connection.thread_id()
    if not any(int(thread) == own and look in str(text) for _, thread, _, _, text in rows):
        return None
    found: dict[int, datetime] = {}
    readers: list[datetime] = []
    for _, thread, began, writes, _ in rows:
        if int(thread) == own:
            continue
        if writes:
            found[int(thread)] = min(began, found.get(int(thread), began))
        else:
            readers.append(began)
    return found, readers


_ENTRY: Final = re.compile(r"[^,\n]*, ACTIVE(?: \([A-Z ]+\))? (\d+) sec")
_THREAD: Final = re.compile(r"^(?:MySQL|MariaDB) thread id (\d+),[^\n]*\n?([^\n]*)", re.MULTILINE)
_NO_STATEMENT: Final = ("---", "Trx ", "TABLE ", "RECORD ")


def _of_status(connection: Connection[Any]) -> _Transactions | None:
    clock = read_clock(connection)
    ((*_, text),) = rows_of(connection, "SHOW ENGINE INNODB STATUS")
    return transactions_of_status(str(text), clock, connection.thread_id())


def transactions_of_status(text: str, clock: datetime, own: int) -> _Transactions | None:
    """The transactions in InnoDB's status, but for the connection ``own``; None where it is cut, so
    that some may be missing."""
    _, head, rest = text.partition("LIST OF TRANSACTIONS FOR EACH SESSION:")
    # The last one: a statement's text, which may hold anything, comes before it.
    section, end, _ = rest.rpartition("\n--------\nFILE I/O\n--------")
    if not head or not end or "... truncated..." in section:
        return None
    found: dict[int, datetime] = {}
    readers: list[datetime] = []
    for entry in section.split("\n---TRANSACTION ")[1:]:
        active, thread = _ENTRY.match(entry), _THREAD.search(entry)
        number = int(thread[1]) if thread else NO_CONNECTION
        if active is None or number == own:
            continue
        statement = thread[2] if thread and not thread[2].startswith(_NO_STATEMENT) else ""
        writes = bool(statement) and may_write(statement)
        began = clock - timedelta(seconds=int(active[1])) - _SECOND
        if "undo log entries" in entry or writes or thread is None:
            found[number] = min(began, found.get(number, began))
        else:
            readers.append(began)
    return found, readers
