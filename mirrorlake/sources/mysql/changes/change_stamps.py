"""What a server shows of a table's last change: two looks may show that nothing happened
between them, without reading a row.

A stamp is taken before a load reads. A later one says that the table is as it was then, by one of:

- *The server's redo log stands where it stood* (``server``). Whatever changes a row of InnoDB, in
  whichever way, is written there first: DML, cascades, TRUNCATE, an exchanged partition, LOAD DATA,
  statements that the binary log does not see (``sql_log_bin = 0``, filters, replicas that log
  nothing). So InnoDB's own log is read, and not the binary log.
- *The table's time of its last change is the same* (``table``): ``UPDATE_TIME``, which InnoDB keeps
  in memory, for each table whose rows a transaction changed.

Both hold for one life of one server, and for tables of InnoDB that were not altered meanwhile
(``CREATE_TIME``: MariaDB changes a table's definition without a record in InnoDB's log). Neither is
taken where a transaction was open at the first look that may end later without a trace: the last
record of a commit may be written before its rows are seen; and MariaDB sets the time at which the
transaction began, even one that had not written yet (seen: 11.4; MySQL 8.0 the time at which it
commits). What is open is seen with the PROCESS privilege alone.

TRUNCATE leaves both times as they are in MariaDB (seen: 11.4): the table's InnoDB number shows it.
InnoDB keeps no time of tables with partitions, and forgets it with a restart or when the table
leaves its cache: then there is none, and the table is not taken as unchanged by it.

Source: MySQL 8.0 manual, 28.3.38 "The INFORMATION_SCHEMA TABLES Table", 28.4.23 "The
INFORMATION_SCHEMA INNODB_TABLES Table", 7.1.10 "Server Status Variables"
(``Innodb_redo_log_current_lsn``, from 8.0.30), 17.17.3 "InnoDB Standard Monitor", 17.6.5 "Redo
Log" (disabling it); MariaDB knowledge base, "InnoDB Status Variables" (``Innodb_lsn_current``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from pymysql.connections import Connection

from mirrorlake.sources.mysql.changes.open_writes import read_open_writes
from mirrorlake.sources.mysql.introspection.identity import Identity, why_another
from mirrorlake.sources.mysql.introspection.innodb_ids import (
    InnodbNumbers,
    read_numbers,
    read_numbers_in,
)
from mirrorlake.sources.mysql.introspection.introspect import refresh_statistics
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, read_uptime, rows_of

Evidence: TypeAlias = Literal["server", "table"]
"""By what a table is known to be unchanged."""
BLUR: Final = timedelta(seconds=2)
"""Times of whole seconds, rounded either way."""
_AT_ONCE: Final = 500
"""Names in one statement."""
_LSN: Final = re.compile(r"^Log sequence number\s+(\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ChangeStamp:
    """What a server shows of one table's last change; moments are UTC by its clock, ISO, no zone.

    Attributes:
        server: the identity of the server (see
            `mirrorlake.sources.mysql.sessions.connect.SourcePosition`).
        started: when it was started.
        clock: when it was read, before anything below was read.
        lsn: up to where its redo log is written; None where it can't be seen, or is switched off.
        open_since: when the oldest began of what had written, or may be writing, and was not
            committed; None where nothing was.
        changed_after: no transaction that was open then will set a time of change before this.
        engine: the table's.
        made: when the table was made or altered.
        changed: when a row of it was last changed; None where InnoDB does not know.
        innodb_id: InnoDB's own number of it; None where it can't be seen.
        partitions: the same of each of its partitions; None where they can't be seen, were not
            looked at, and in stamps of an earlier release.
    """

    server: str
    started: str
    clock: str
    lsn: int | None
    open_since: str | None
    changed_after: str
    engine: str
    made: str | None
    changed: str | None
    innodb_id: int | None
    partitions: InnodbNumbers | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> ChangeStamp | None:
        """What `to_json` gave; None if another release wrote it."""
        recorded = json.loads(text)
        names = {field.name for field in fields(ChangeStamp)}
        if set(recorded) | {"partitions"} != names:
            return None
        return ChangeStamp(**recorded)


def read_stamps(
    connection: Connection[Any], tables: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], ChangeStamp]:
    """The stamps of these tables (database, name); none of those that the server does not show, and
    none at all where the account may not see what is open.

    Raises:
        SourceError: the server was lost, or was too busy to show what is open.
    """
    server = _look(connection)
    found: dict[tuple[str, str], ChangeStamp] = {}
    if server is None:
        return found
    for database in dict.fromkeys(database for database, _ in tables):
        names = [name for of, name in tables if of == database]
        numbers = read_numbers(connection, database, names)
        for some in (names[n : n + _AT_ONCE] for n in range(0, len(names), _AT_ONCE)):
            marks = ", ".join(["%s"] * len(some))
            where = f"TABLE_SCHEMA = %s AND TABLE_NAME IN ({marks})"
            for (_, name), times in _times(connection, where, (database, *some)).items():
                if name in some:  # the server may compare without regard to case
                    found[database, name] = _stamp(server, times, numbers.get(name, {}))
    return found


def read_stamps_in(
    connection: Connection[Any], databases: Sequence[str], table: str
) -> dict[str, ChangeStamp]:
    """The stamps of one table in many databases, by database; as `read_stamps`."""
    server = _look(connection)
    if server is None:
        return {}
    wanted = set(databases)
    numbers = read_numbers_in(connection, databases, table)
    return {
        database: _stamp(server, times, numbers.get(database, {}))
        for (database, name), times in _times(connection, "TABLE_NAME = %s", (table,)).items()
        if name == table and database in wanted
    }


@dataclass(frozen=True)
class _Server:
    """What all stamps of one look have in common."""

    server: str
    started: str
    clock: str
    lsn: int | None
    open_since: str | None
    changed_after: str


def _look(connection: Connection[Any]) -> _Server | None:
    server, clock, started = _server(connection)
    # After the clock, and before all that a stamp goes by: what opens later changes that.
    opened = read_open_writes(connection)
    if opened is None:
        return None
    oldest = opened.oldest
    times = [clock, oldest, opened.readers_since if is_mariadb(connection) else None]
    after = min(moment for moment in times if moment is not None)
    lsn = read_lsn(connection)
    refresh_statistics(connection)  # else MySQL 8 keeps the times of tables for a day
    return _Server(
        server=server,
        started=started.isoformat(),
        clock=clock.isoformat(),
        lsn=lsn,
        open_since=None if oldest is None else oldest.isoformat(),
        changed_after=after.isoformat(),
    )


_Times: TypeAlias = tuple[str, str | None, str | None]
"""A table's engine, when it was made or altered, and when a row of it was last changed."""


def _stamp(server: _Server, times: _Times, numbers: InnodbNumbers) -> ChangeStamp:
    engine, made, changed = times
    return ChangeStamp(
        **asdict(server),
        engine=engine,
        made=made,
        changed=changed,
        innodb_id=numbers.get(""),
        partitions={part: n for part, n in numbers.items() if part} or None,
    )


def why_unchanged(before: ChangeStamp, now: ChangeStamp) -> Evidence | None:
    """By what a table is known to be now as it was when it was read after the first stamp; None
    where it may have changed.

    >>> times = {"started": "2026-01-01T00:00:00", "clock": "2026-01-02T12:00:00"}
    >>> table = {"engine": "innodb", "made": "2026-01-01T10:00:00", "innodb_id": 7}
    >>> opened = {"open_since": None, "changed_after": "2026-01-02T12:00:00"}
    >>> read = ChangeStamp("s", **times, lsn=5, **opened, **table, changed=None)
    >>> why_unchanged(read, read)
    'server'
    >>> from dataclasses import replace
    >>> why_unchanged(read, replace(read, lsn=6))
    >>> old = replace(read, changed="2026-01-02T11:00:00")
    >>> why_unchanged(old, replace(old, lsn=6))
    'table'
    >>> why_unchanged(replace(old, changed_after="2026-01-02T10:59:00"), replace(old, lsn=6))
    """
    if not _is_one_table(before, now) or before.engine != "innodb":
        return None
    if before.lsn is not None and before.lsn == now.lsn and before.open_since is None:
        return "server"
    # TRUNCATE and an exchanged partition are seen by the number alone.
    if before.innodb_id is None or before.innodb_id != now.innodb_id:
        return None
    if before.changed is None or before.changed != now.changed:
        return None
    later = datetime.fromisoformat(before.changed_after)
    return "table" if datetime.fromisoformat(before.changed) + BLUR < later else None


def why_replaced(before: ChangeStamp, now: ChangeStamp) -> str | None:
    """What shows that a table with the same columns may have other rows, though nobody wrote to it:
    it was made again, truncated, rebuilt or altered, or a partition was; None where nothing does.

    >>> look = {"server": "s", "started": "2026-01-01T00:00:00", "clock": "2026-01-02T12:00:00"}
    >>> opened = {"lsn": 5, "open_since": None, "changed_after": "2026-01-02T12:00:00"}
    >>> table = {"engine": "innodb", "made": "2026-01-01T10:00:00", "changed": None}
    >>> read = ChangeStamp(**look, **opened, **table, innodb_id=7)
    >>> why_replaced(read, read)
    >>> from dataclasses import replace
    >>> why_replaced(read, replace(read, innodb_id=8))
    'it was truncated, or another took its place'
    >>> why_replaced(read, replace(read, made="2026-01-03T10:00:00"))
    'it was altered at 2026-01-03 10:00:00'
    """
    identities = [_identity(stamp) for stamp in (before, now)]
    sign = why_another(*identities)
    # Its definition was not looked at: it may be another one.
    in_place = sign is not None and sign.altered
    return f"it was altered at {identities[1].made}" if in_place else sign and sign.words


def _identity(stamp: ChangeStamp) -> Identity:
    """A table as a stamp shows it; without its definition, and its AUTO_INCREMENT."""
    made = None if stamp.made is None else stamp.made.replace("T", " ")
    return Identity(made, "", None, stamp.innodb_id, stamp.partitions)


def _is_one_table(before: ChangeStamp, now: ChangeStamp) -> bool:
    """Whether both are of one table, never altered between them, in one life of one server."""
    starts = [datetime.fromisoformat(stamp.started) for stamp in (before, now)]
    clocks = [datetime.fromisoformat(stamp.clock) for stamp in (before, now)]
    if before.made is None or datetime.fromisoformat(before.made) + BLUR >= clocks[0]:
        return False  # an ALTER later in that second leaves no trace
    return (
        before.server == now.server
        and abs(starts[1] - starts[0]) <= BLUR
        and clocks[0] <= clocks[1]
        and before.engine == now.engine
        and before.made == now.made
    )


def _server(connection: Connection[Any]) -> tuple[str, datetime, datetime]:
    """The server's identity, its clock, and when it was started."""
    identity = "@@server_uid" if is_mariadb(connection) else "@@server_uuid"
    server, clock = rows_of(connection, f"SELECT {identity}, UTC_TIMESTAMP(6)")[0]
    return str(server), clock, clock - timedelta(seconds=read_uptime(connection))


_LOG_STATUS = ("innodb_lsn_current", "innodb_redo_log_current_lsn", "innodb_redo_log_enabled")


def read_lsn(connection: Connection[Any]) -> int | None:
    """Up to where InnoDB's redo log is written; None where it does not say, or writes none."""
    names = ", ".join(f"'{name}'" for name in _LOG_STATUS)
    sql = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})"
    status = {str(name).lower(): str(value) for name, value in rows_of(connection, sql)}
    if status.get("innodb_redo_log_enabled", "ON").upper() != "ON":
        return None
    at = status.get("innodb_lsn_current") or status.get("innodb_redo_log_current_lsn")
    if at is None:
        # MySQL before 8.0.30.
        ((*_, text),) = rows_of(connection, "SHOW ENGINE INNODB STATUS")
        found = _LSN.search(str(text))
        at = found[1] if found else None
    return None if at is None else int(at)


def _times(
    connection: Connection[Any], where: str, values: Sequence[str]
) -> dict[tuple[str, str], _Times]:
    """The times of tables, by database and name."""
    sql = (
        "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, CREATE_TIME, UPDATE_TIME, CREATE_OPTIONS"  # noqa: S608
        f" FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND {where}"
    )
    return {
        (str(database), str(name)): (
            str(engine or "").lower(),
            made and made.isoformat(),
            None if "partitioned" in str(options).lower() else changed and changed.isoformat(),
        )
        for database, name, engine, made, changed, options in rows_of(connection, sql, values)
    }
