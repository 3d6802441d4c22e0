"""Sessions with a MySQL server, set the same way everywhere, and errors in our words.

Every session of ours runs in UTC, in utf8mb4, with an empty ``sql_mode``, no limit of rows, and
REPEATABLE READ, and reads all of `session_variables` back: a server's own value, or a proxy that
drops ours, would change values or leave rows out silently.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote as percent

import pymysql
from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceError, TableLocked
from mirrorlake.sources.mysql.sessions import silence
from mirrorlake.sources.mysql.sessions import variables as session_variables

logger = logging.getLogger(__name__)

# Server errors that a later attempt may not meet: too many connections, lost connection, deadlock,
# a query that was killed or took too long…
_RETRYABLE = {
    *(1040, 1042, 1053, 1203, 1205, 1213, 1317, 1412, 1927),
    *(2002, 2003, 2006, 2013, 2014, 2055, 4031),
}
LOCK_SECONDS = 30
"""How long a statement of ours waits for a table's lock."""
_GONE = 2006  # CR_SERVER_GONE_ERROR
LOCKED = 1205  # ER_LOCK_WAIT_TIMEOUT
LOCKED_STEP = (
    "See SHOW PROCESSLIST and performance_schema.metadata_locks for who holds it (LOCK TABLES, a "
    "dump, a DDL), and sync again once it is free"
)
# The server stopped a statement at its time limit. The same one would take as long again.
STOPPED = {1969, 3024}
# Plugins by which a server has the client send its password itself, or a hash that is soon undone.
_GIVING_AWAY = ("mysql_clear_password", "dialog", "mysql_old_password")
_NO_PLUGIN = 2059  # CR_AUTH_PLUGIN_CANNOT_LOAD
_NO_GREETING = "Packet sequence number wrong"  # of what a server says first: it is no MySQL
_REFUSED = {1044, 1045, 1698, 1130}
_ALL_TAKEN = {1040, 1203}  # ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS


@dataclass(frozen=True)
class SourcePosition:
    """Where a source stands just before a read: what orders two observations of one row.

    ``server`` identifies the server's data directory (MySQL ``server_uuid``, MariaDB
    ``server_uid``); ``position`` is its GTID set, or '' where the server keeps no binary log;
    ``clock`` is the server's UTC time; ``identified_by`` the SQL of its identity.
    """

    server: str
    position: str
    clock: datetime
    identified_by: str = "@@server_uuid"


def session_statements(source: SourceConfig | None = None) -> tuple[str, ...]:
    """The statements that make a session ours, with the source's limit of time.

    Source: MySQL 8.0 manual, 9.7 "Comments", ``max_execution_time`` (milliseconds, SELECT alone);
    MariaDB knowledge base, "Comment Syntax", ``max_statement_time`` (seconds).
    """
    return (
        # A DDL may hold the table for hours: give up, and come back. The reader waits with the
        # interpreter's lock held, so that no lease is renewed meanwhile: shorter than a lease.
        session_variables.set_all(f"lock_wait_timeout = {LOCK_SECONDS}"),
        session_variables.ISOLATION,
        *_time_limit(source.statement_seconds if source else None),
        session_variables.mark_held(),
    )


def _time_limit(seconds: int | None) -> tuple[str, ...]:
    if seconds is None:
        return ()
    ours = f"/*M!100100 max_statement_time = {seconds} */"
    return (f"SET SESSION {ours} /*!50708 max_execution_time = {seconds * 1000} */",)


def is_retryable(code: int) -> bool:
    """Whether a later attempt may not meet this server error."""
    return code in _RETRYABLE


def rows_of(
    connection: Connection[Any], sql: str, values: Sequence[Any] = (), cursor: Any = None
) -> list[tuple[Any, ...]]:
    """All rows of one statement, values bound by the driver; by a cursor of the caller's where it
    wants the columns' names too.

    Raises:
        SourceError: the server refused it or was lost.
    """
    try:
        with connection.cursor() as own:
            chosen = own if cursor is None else cursor
            chosen.execute(sql, tuple(values) or None)
            return [tuple(row) for row in chosen.fetchall()]
    except pymysql.Error as error:
        raise source_error(error) from error


def is_mariadb(connection: Connection[Any]) -> bool:
    """Whether the server is MariaDB; its greeting says its version."""
    return "mariadb" in str(connection.get_server_info()).lower()


def read_clock(connection: Connection[Any]) -> datetime:
    """The server's UTC clock, without a zone."""
    clock: datetime = rows_of(connection, "SELECT UTC_TIMESTAMP(6)")[0][0]
    return clock


def read_uptime(connection: Connection[Any]) -> int:
    """For how many seconds the server has run, by its own clock: see `uptime_of`.

    Raises:
        SourceError: the server was lost.
    """
    return uptime_of(str(rows_of(connection, "SHOW GLOBAL STATUS LIKE 'Uptime'")[0][1]))


def uptime_of(shown: str) -> int:
    """The seconds that a server shows; fewer than none where its clock was set back to before its
    start, which it shows as a number of 64 bits without a sign.

    >>> uptime_of("3600"), uptime_of("18446744073709544418")
    (3600, -7198)
    """
    seconds = int(shown)
    return seconds if seconds < 2**63 else seconds - 2**64


def source_error(error: Exception, source: SourceConfig | None = None) -> SourceError:
    """A driver's error as a SourceError: the server's own words, never a password."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    words = str(error.args[1]) if len(error.args) > 1 else str(error)
    if isinstance(error, pymysql.InterfaceError) and code == 0:
        # PyMySQL's whole word for a statement after the one in which the connection was lost.
        code, words = _GONE, "the connection was lost before"
    where = f"source {source.name} ({source.host}:{source.port})" if source else "MySQL"
    if source is not None:
        words = without_secret(words, source)
    certificate = "CERTIFICATE_VERIFY_FAILED" in words
    foreign = source is not None and words.startswith(_NO_GREETING)
    plugin = next((name for name in _GIVING_AWAY if name in words), None)
    if code == _NO_PLUGIN and plugin:
        words = f"it asks for the password in clear text, or as good as that ({plugin})"
        step = (
            "Let the account log in by caching_sha2_password or mysql_native_password, or have the "
            "server prove itself first: `tls: {ca: …}`"
        )
    elif foreign:
        words = f"it does not speak MySQL's protocol ({words})"
        step = "Check host and port: another service listens there"
    elif certificate:
        step = "Check tls.ca, and that the server's certificate is for the contract's host"
    else:
        step = step_of(code)
    kind = TableLocked if code == LOCKED else SourceError
    return kind(
        f"{where} answered: {words} [{code}]",
        source=source.name if source else None,
        retryable=code in _RETRYABLE and not certificate,
        next_step=step,
    )


def step_of(code: int) -> str:
    """What to do about a server's error, by its number; '' where its words say it best."""
    if code in _REFUSED:
        return "Check the user, its password (from the environment) and its grants"
    if code in (2002, 2003):
        return "Check host and port, and that the server accepts connections from here"
    if code == 2026:
        return "Switch TLS on in the server, or write `tls: off` if the path is trusted"
    if code == LOCKED:
        return LOCKED_STEP
    if code in _ALL_TAKEN:
        return "Write fewer `connections` for the source, or raise the server's max_connections"
    if code in STOPPED:
        return "Raise `statement_seconds` of the source, or ask the server for less at once"
    return "Check the database's name in the contract" if code == 1049 else ""


def without_secret(text: str, source: SourceConfig) -> str:
    """The text without the source's password, in any of the forms that a driver may print."""
    secret = source.password.get_secret_value()
    for form in (secret, percent(secret, safe=""), repr(secret)[1:-1]):
        if form:
            text = text.replace(form, "***")
    return text


def refused_plugins(source: SourceConfig) -> tuple[str, ...]:
    """The plugins by which nobody logs in: PyMySQL would do what any server asks for, and an
    impostor in the server's place would get the password. A server that proved itself may ask.

    Given to PyMySQL as handlers that can't be made, they end a login before anything is sent.
    """
    return _GIVING_AWAY if isinstance(source.tls, str) else ()


def open_session(source: SourceConfig, database: str | None = None) -> Connection[Any]:
    """One connection with Mirrorlake's settings, read back.

    Raises:
        SourceError: unreachable, refused, or a setting did not hold.
    """
    connection = _connect(source, database)
    try:
        # First: the server's own limits may keep the answer about TLS away.
        _set(connection, source)
        _check_tls(connection, source)
    except BaseException:
        connection.close()
        raise
    return connection


def read_first_zone(source: SourceConfig) -> str:
    """The ``time_zone`` of a session that sets nothing, after the server's ``init_connect``.

    Raises:
        SourceError: unreachable, or refused.
    """
    connection = _connect(source, None)
    try:
        return str(rows_of(connection, "SELECT @@session.time_zone")[0][0])
    finally:
        connection.close()


def _connect(source: SourceConfig, database: str | None) -> Connection[Any]:
    login: dict[str, Any] = {
        "host": source.host,
        "port": source.port,
        "user": source.user,
        # PyMySQL sends a str password as latin1: other letters need the bytes.
        "password": source.password.get_secret_value().encode(),
        "database": database,
        "ssl": _tls(source),
        # Without it PyMySQL would try TLS all the same, and read every certificate first.
        "ssl_disabled": source.tls == "off",
        "auth_plugin_map": dict.fromkeys(refused_plugins(source), object),
    }

    def note(words: str) -> None:
        logger.warning("source %s: %s", source.name, words)

    seconds = source.silence.total_seconds()
    try:
        return silence.connect(login, seconds, note, source.statement_seconds)
    except (pymysql.Error, OSError) as error:
        raise source_error(error, source) from error


@contextmanager
def session(source: SourceConfig, database: str | None = None) -> Iterator[Connection[Any]]:
    """``open_session``, closed at the end."""
    connection = open_session(source, database)
    try:
        yield connection
    finally:
        connection.close()


def read_position(connection: Connection[Any]) -> SourcePosition:
    """The server's identity, GTID position and UTC clock, read in one statement where it has
    them."""
    (version,) = rows_of(connection, "SELECT @@version")[0]
    if "mariadb" in str(version).lower():
        identity, known = "@@server_uid", "@@gtid_binlog_pos"
    else:
        identity, known = "@@server_uuid", "@@global.gtid_executed"
    sql = f"SELECT {identity}, {known}, UTC_TIMESTAMP(6)"
    server, position, clock = rows_of(connection, sql)[0]
    return SourcePosition(str(server), str(position or "").replace("\n", ""), clock, identity)


def read_machine(connection: Connection[Any]) -> str:
    """Where a server runs, whatever address it was reached by. With its identity that makes it one:
    two whose folder was copied, or that are in two containers, may have the same identity."""
    host, port, folder = rows_of(connection, "SELECT @@hostname, @@port, @@datadir")[0]
    return f"{host}:{port} {folder}"


def _set(connection: Connection[Any], source: SourceConfig) -> None:
    for statement in session_statements(source):
        rows_of(connection, statement)
    if lost := settings_lost(connection):
        seen = ", ".join(f"{name} = {value!r}" for name, value in lost.items())
        raise SourceError(
            f"source {source.name} did not keep the session's settings: {seen}",
            source=source.name,
            next_step="A proxy between us and MySQL drops them, or the server's init_connect "
            "freezes its clock: connect to the server itself",
        )


def settings_lost(connection: Connection[Any]) -> dict[str, str]:
    """The settings that a session does not have as ours do, with the values that it has."""
    held = _named(connection, session_variables.read_back("{condition}", _CLOCK_RUNS))
    lost = [name for name, holds in held.items() if not holds]
    if not lost:
        return {}
    values = _named(connection, session_variables.read_back("{value}", "@@session.timestamp"))
    return {name: str(values[name]) for name in lost}


# NOW() is what `timestamp` was set to, SYSDATE() is not. A statement may take a moment to begin.
_CLOCK_RUNS = "ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())) < 60"


def _named(connection: Connection[Any], statement: str) -> dict[str, Any]:
    with connection.cursor() as cursor:
        [row] = rows_of(connection, statement, cursor=cursor)
        return {str(c[0]): cell for c, cell in zip(cursor.description or (), row, strict=True)}


def _check_tls(connection: Connection[Any], source: SourceConfig) -> None:
    """PyMySQL continues without TLS where the server has none: ask the session itself."""
    if source.tls == "off":
        return
    cipher = rows_of(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    if not (cipher and cipher[0][1]):
        raise SourceError(
            f"source {source.name} ({source.host}:{source.port}) does not speak TLS, "
            "and the contract requires it",
            source=source.name,
            next_step="Switch TLS on in the server, or write `tls: off` if the path is trusted",
        )


def _tls(source: SourceConfig) -> ssl.SSLContext | None:
    if source.tls == "off":
        return None
    if source.tls == "required":
        return _context(None)
    try:
        return _context(source.tls.ca)
    except OSError as error:  # an SSLError is one
        raise SourceError(
            f"source {source.name}: tls.ca {source.tls.ca} can't be used: "
            f"{error.strerror or error}",
            source=source.name,
            next_step="Name a readable file of certificates (PEM) of the authority that signed the "
            "server's",
        ) from error


@lru_cache(maxsize=16)
def _context(ca: str | None) -> ssl.SSLContext:
    """Made once: reading the machine's certificates takes 30 ms, and a load opens sessions by the
    dozen. Without ``ca`` the connection is encrypted, and whose it is is unchecked."""
    context = ssl.create_default_context(cafile=ca)
    if ca is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
