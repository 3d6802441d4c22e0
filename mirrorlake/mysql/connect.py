"""Sessions with a MySQL server, set the same way everywhere, and errors in our words.

Every session of ours runs in UTC, in utf8mb4, with an empty ``sql_mode`` and REPEATABLE READ, and
reads these settings back: a proxy that drops them would change values silently.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote as percent

import pymysql
from pymysql.connections import Connection

from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceError

logger = logging.getLogger(__name__)

_SETTINGS = {
    "time_zone": "+00:00",
    "sql_mode": "",
    "character_set_results": "utf8mb4",
    "character_set_client": "utf8mb4",
}
# Server errors that a later attempt may not meet: too many connections, lost connection, deadlock…
_RETRYABLE = {1040, 1042, 1053, 1203, 1205, 1213, 2002, 2003, 2006, 2013, 2014, 2055, 3024, 1969}
_REFUSED = {1044, 1045, 1698, 1130}


@dataclass(frozen=True)
class SourcePosition:
    """Where a source stands just before a read: what orders two observations of one row.

    ``server`` identifies the server's data directory (MySQL ``server_uuid``, MariaDB
    ``server_uid``); ``position`` is its GTID set, or '' where the server keeps no binary log;
    ``clock`` is the server's UTC time.
    """

    server: str
    position: str
    clock: datetime


def quote(identifier: str) -> str:
    """An identifier between backticks, its own backticks doubled (MySQL manual, 9.2)."""
    if not identifier or "\0" in identifier:
        raise SourceError(f"{identifier!r} can't be the name of a table or a column in MySQL")
    return "`" + identifier.replace("`", "``") + "`"


def rows_of(
    connection: Connection[Any], sql: str, values: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """All rows of one statement, values bound by the driver.

    Raises:
        SourceError: the server refused it or was lost.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, tuple(values) or None)
            return [tuple(row) for row in cursor.fetchall()]
    except pymysql.Error as error:
        raise source_error(error) from error


def source_error(error: Exception, source: SourceConfig | None = None) -> SourceError:
    """A driver's error as a SourceError: the server's own words, never a password."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    words = str(error.args[1]) if len(error.args) > 1 else str(error)
    where = f"source {source.name} ({source.host}:{source.port})" if source else "MySQL"
    if source is not None:
        words = without_secret(words, source)
    if code in _REFUSED:
        step = "Check the user, its password (from the environment) and its grants"
    elif code in (2002, 2003):
        step = "Check host and port, and that the server accepts connections from here"
    elif code == 1049:
        step = "Check the database's name in the contract"
    else:
        step = ""
    return SourceError(
        f"{where} answered: {words} [{code}]",
        source=source.name if source else None,
        retryable=code in _RETRYABLE,
        next_step=step,
    )


def without_secret(text: str, source: SourceConfig) -> str:
    """The text without the source's password, in any of the forms that a driver may print."""
    secret = source.password.get_secret_value()
    for form in (secret, percent(secret, safe=""), repr(secret)[1:-1]):
        if form:
            text = text.replace(form, "***")
    return text


def open_session(source: SourceConfig, database: str | None = None) -> Connection[Any]:
    """One connection with Mirrorlake's settings, read back.

    Raises:
        SourceError: unreachable, refused, or a setting did not hold.
    """
    try:
        connection: Connection[Any] = pymysql.connect(
            host=source.host,
            port=source.port,
            user=source.user,
            # PyMySQL sends a str password as latin1: other letters need the bytes.
            password=source.password.get_secret_value().encode(),  # type: ignore[arg-type]
            database=database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=10,
            ssl=_tls(source),
        )
    except (pymysql.Error, OSError) as error:
        raise source_error(error, source) from error
    try:
        _check_tls(connection, source)
        _set(connection, source)
    except BaseException:
        connection.close()
        raise
    return connection


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
        sql = "SELECT @@server_uid, @@gtid_binlog_pos, UTC_TIMESTAMP(6)"
    else:
        sql = "SELECT @@server_uuid, @@global.gtid_executed, UTC_TIMESTAMP(6)"
    server, position, clock = rows_of(connection, sql)[0]
    return SourcePosition(str(server), str(position or "").replace("\n", ""), clock)


def read_oldest_open(connection: Connection[Any]) -> datetime | None:
    """When (UTC, by the server's clock) the oldest open transaction that writes began here.

    None where none is open, or where the user may not look (it takes the PROCESS privilege). A row
    of such a transaction shows up later, with a cursor from then. A replica does not show what is
    open on its primary.

    Source: MySQL 8.0 manual, 28.4.28 "The INFORMATION_SCHEMA INNODB_TRX Table": the time is in the
    server's own zone.
    """
    sql = (
        "SELECT MAX(TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', "
        "'SYSTEM'))), UTC_TIMESTAMP() FROM information_schema.innodb_trx "
        "WHERE trx_mysql_thread_id <> CONNECTION_ID() AND trx_is_read_only = 0 "
        # One that has written nothing and runs nothing will write with later clocks than now.
        "AND (trx_rows_modified > 0 OR trx_query IS NOT NULL)"
    )
    try:
        age, clock = rows_of(connection, sql)[0]
    except SourceError as error:
        logger.info("open transactions can't be seen, so the overlap alone holds: %s", error)
        return None
    return None if age is None else clock - timedelta(seconds=max(int(age), 0))


def url_of(source: SourceConfig, database: str) -> str:
    """The source as a URL for the Arrow reader; it holds the password: never log or raise it.

    Raises:
        SourceError: the contract asks for a checked certificate, which the reader can't check.
    """
    if source.tls not in ("off", "required"):
        raise SourceError(
            f"source {source.name}: tls.ca can't be used yet: the reader of rows can "
            "encrypt, and can't check certificates",
            source=source.name,
            next_step="Write `tls: required`, or reach the server through a tunnel that "
            "checks them",
        )
    tls = "?require_ssl=true&verify_ca=false&verify_identity=false"
    user = percent(source.user, safe="")
    secret = percent(source.password.get_secret_value(), safe="")
    return f"mysql://{user}:{secret}@{source.host}:{source.port}/{percent(database, safe='')}" + (
        tls if source.tls == "required" else ""
    )


def _set(connection: Connection[Any], source: SourceConfig) -> None:
    assignments = ", ".join(f"{name} = %s" for name in _SETTINGS)
    rows_of(connection, f"SET SESSION {assignments}", tuple(_SETTINGS.values()))
    rows_of(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    names = ", ".join(f"@@session.{name}" for name in _SETTINGS)
    seen = rows_of(connection, f"SELECT {names}")[0]
    if tuple(str(s) for s in seen) != tuple(_SETTINGS.values()):
        raise SourceError(
            f"source {source.name} did not keep the session's settings: "
            f"{dict(zip(_SETTINGS, seen, strict=True))}",
            source=source.name,
            next_step="A proxy between us and MySQL drops them: connect to the server itself",
        )


def _check_tls(connection: Connection[Any], source: SourceConfig) -> None:
    """PyMySQL goes on without TLS where the server has none: ask the session itself."""
    cipher = rows_of(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    if source.tls != "off" and not (cipher and cipher[0][1]):
        raise SourceError(
            f"source {source.name} ({source.host}:{source.port}) does not speak TLS, "
            "and the contract requires it",
            source=source.name,
            next_step="Switch TLS on in the server, or write `tls: off` if the path is trusted",
        )


def _tls(source: SourceConfig) -> ssl.SSLContext | None:
    if source.tls == "off":
        return None
    context = ssl.create_default_context(cafile=None if source.tls == "required" else source.tls.ca)
    if source.tls == "required":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
