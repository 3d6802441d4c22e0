"""Whether a server's log says all that has to be known, and what to run where it does not.

Source: MySQL 8.0 manual, 17.1.6.4 "Binary Logging Options and Variables"; MariaDB knowledge base,
"Replication and Binary Log System Variables"; both, "GRANT".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.changes.replica import replicates
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of
from mirrorlake.sources.mysql.tables import quoted_text

_RETENTION: Final = ("binlog_expire_logs_seconds", "expire_logs_days")
_REFUSED: Final = (1227, 1142, 1044, 1045)
_FILTERS: Final = ("binlog_do_db", "binlog_ignore_db")


@dataclass(frozen=True)
class LogRequirement:
    """Something that a server's log lacks.

    Attributes:
        name: of the variable or grant.
        problem: what is so, in words for people.
        fix: the statement to run, or what to write into the server's configuration.
        needed: whether the log can't be read without; else it is advice.
    """

    name: str
    problem: str
    fix: str
    needed: bool = True

    @property
    def is_statement(self) -> bool:
        """Whether the fix is a statement, which the server can be given as it is."""
        return self.fix.startswith(("SET ", "GRANT "))


def steps_to(missing: Sequence[LogRequirement]) -> str:
    """What to do about all of these, in a sentence or two.

    >>> name = LogRequirement("n", "", "Upgrade to MySQL 9, or use another `mode`")
    >>> steps_to([LogRequirement("m", "", "SET GLOBAL m = 1"), name])
    'Run SET GLOBAL m = 1. Upgrade to MySQL 9, or use another `mode`'
    """
    statements = "; ".join(one.fix for one in missing if one.is_statement)
    others = [one.fix for one in missing if not one.is_statement]
    return ". ".join([*([f"Run {statements}"] if statements else []), *others])


def find_missing(
    connection: Connection[Any], retention: timedelta = timedelta(days=2)
) -> list[LogRequirement]:
    """What keeps a server's log from being read, or makes it risky; nothing: it qualifies.

    Sessions may set formats of their own: each row and statement that is read is looked at, too.

    Args:
        retention: for how long its log should be kept at least.

    Raises:
        SourceError: the server was lost.
    """
    found = rows_of(connection, "SHOW GLOBAL VARIABLES")
    variables = {str(name).lower(): str(value) for name, value in found}
    mariadb = is_mariadb(connection)
    return [
        *_format(variables, mariadb=mariadb),
        *_replica(connection, variables),
        *_advice(variables, retention),
        *_grants(connection, mariadb=mariadb),
    ]


def _format(variables: Mapping[str, str], *, mariadb: bool) -> Iterator[LogRequirement]:
    if not _is_on(variables.get("log_bin", "OFF")):
        name = "log_bin"
        yield LogRequirement(
            name,
            "the server keeps no binary log",
            "Write [mysqld] log_bin = binlog, server_id = 1 into its configuration, and restart it",
        )
        return
    if variables.get("server_id", "0") == "0":
        yield LogRequirement("server_id", "it is 0", "SET GLOBAL server_id = 1")
    wanted = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
    for name, value in wanted.items():
        held = variables.get(name)
        if held is None and name == "binlog_row_metadata":
            oldest = "MariaDB 10.5" if mariadb else "MySQL 8.0.1"
            problem = f"this server does not have it: rows are logged without names ({oldest} has)"
            fix = f"Upgrade to {oldest} or later, or use another `mode` for its tables"
            yield LogRequirement(name, problem, fix)
        elif held is not None and held.upper() != value:
            yield LogRequirement(name, f"it is {held}", f"SET GLOBAL {name} = {value}")
    if variables.get("binlog_row_value_options"):
        yield LogRequirement(
            "binlog_row_value_options",
            "changes of JSON are logged in part",
            "SET GLOBAL binlog_row_value_options = ''",
        )


def _replica(connection: Connection[Any], values: Mapping[str, str]) -> Iterator[LogRequirement]:
    """Whether its log lacks what it replicates: it would look as if nothing ever changed."""
    names = "log_replica_updates", "log_slave_updates"
    logged = next((values[name] for name in names if name in values), "ON")
    if not _is_on(values.get("log_bin", "OFF")) or _is_on(logged):
        return
    try:
        replica, words = replicates(connection), "this is a replica: "
    except SourceError as error:
        if error.retryable or not _is_refused(error):
            raise
        # Who may not see it is told where it is likely.
        replica, words = False, "if this is a replica, "
        if not _is_on(values.get("read_only", "OFF")):
            return
    if replica or words.startswith("if"):
        yield LogRequirement(
            "log_replica_updates",
            f"{words}its log has nothing of what it replicates",
            "Write [mysqld] log_replica_updates = ON (log_slave_updates) into its configuration, "
            "and restart it; or run RESET REPLICA ALL, if it replicates nothing any more",
            needed=replica,
        )


def _is_on(value: str) -> bool:
    return value.upper() in ("ON", "1", "YES", "TRUE")


def _advice(variables: Mapping[str, str], retention: timedelta) -> Iterator[LogRequirement]:
    kept = _kept(variables)
    if kept is not None and kept < retention:
        hours = retention.total_seconds() / 3600
        seconds = int(retention.total_seconds())
        name = "binlog_expire_logs_seconds"
        fix = f"SET GLOBAL {name} = {seconds}"
        if name not in variables:
            name, fix = "expire_logs_days", f"SET GLOBAL expire_logs_days = {-(-seconds // 86400)}"
        yield LogRequirement(
            name,
            f"logs are kept for {kept.total_seconds() / 3600:g} h: whoever does not read for that "
            f"long has to read whole tables again; {hours:g} h or more were requested",
            fix,
            needed=False,
        )
    if variables.get("binlog_checksum", "CRC32").upper() == "NONE":
        yield LogRequirement(
            "binlog_checksum",
            "events have no checksum: a damaged log may be read as other values",
            "SET GLOBAL binlog_checksum = CRC32",
            needed=False,
        )
    for name in _FILTERS:
        if variables.get(name):
            yield LogRequirement(
                name,
                f"it is {variables[name]}: of some databases nothing is logged",
                f"Take {name.replace('_', '-')} out of the server's configuration, or leave these "
                "databases out",
                needed=False,
            )


def _kept(variables: Mapping[str, str]) -> timedelta | None:
    """For how long logs are kept; None: until somebody purges them."""
    seconds = float(variables.get(_RETENTION[0]) or 0)
    seconds = seconds or float(variables.get(_RETENTION[1]) or 0) * 86_400
    return timedelta(seconds=seconds) if seconds else None


def _grants(connection: Connection[Any], *, mariadb: bool) -> Iterator[LogRequirement]:
    """What the account lacks; the server is asked, so that roles count."""
    [(account,)] = rows_of(connection, "SELECT CURRENT_USER()")
    user, _, host = str(account).rpartition("@")
    whom = f"{_named(user)}@{_named(host)}"
    if not _may(connection, "SHOW BINARY LOGS"):
        name = "BINLOG MONITOR" if mariadb else "REPLICATION CLIENT"
        yield LogRequirement(
            name,
            "the account may not see which logs there are",
            f"GRANT {name} ON *.* TO {whom}",
        )
    if not _may_replicate_from(connection):
        name = "REPLICATION SLAVE"
        yield LogRequirement(
            name, "the account may not read the log", f"GRANT {name} ON *.* TO {whom}"
        )


def _named(text: str) -> str:
    """A name as a literal that people read, and that is one whatever it has."""
    plain = text.isascii() and "'" not in text and "\\" not in text
    return f"'{text}'" if plain else quoted_text(text)


def _may(connection: Connection[Any], statement: str) -> bool:
    try:
        rows_of(connection, statement)
    except SourceError as error:
        if error.retryable or not _is_refused(error):
            raise
        return False
    return True


def _is_refused(error: SourceError) -> bool:
    return any(f"[{code}]" in str(error) for code in _REFUSED)


def _may_replicate_from(connection: Connection[Any]) -> bool:
    """By the account's own list, active roles included: it is no statement that could be tried."""
    grants = [str(row[0]).upper() for row in rows_of(connection, "SHOW GRANTS")]
    everywhere = [g.partition(" ON *.*")[0] for g in grants if " ON *.*" in g]
    return any("REPLICATION SLAVE" in g or "ALL PRIVILEGES" in g for g in everywhere)
