"""What a server says of all that decides about a column beside its declaration; and how it prints a
table's definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.ddl.altered import Surroundings
from mirrorlake.sources.mysql.ddl.rows import words_of_definition
from mirrorlake.sources.mysql.ddl.types import Charsets
from mirrorlake.sources.mysql.introspection.introspect import read_ddl
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of
from mirrorlake.sources.mysql.tables import SourceTable


def read_surroundings(connection: Connection[Any], database: str, table: str) -> Surroundings:
    """What decides about a column of a table beside its declaration: the table's collation, the
    charsets that the server has, the names of the table's indexes, whether it is strict, and how it
    compares names.

    Raises:
        SourceError: the server could not be queried.
    """
    listed = rows_of(
        connection,
        "SELECT TABLE_COLLATION FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (database, table),
    )
    charsets = rows_of(
        connection,
        "SELECT CHARACTER_SET_NAME, DEFAULT_COLLATE_NAME, MAXLEN"
        " FROM information_schema.CHARACTER_SETS",
    )
    # MariaDB lists a collation of several charsets once for each, by its full name.
    name = "FULL_COLLATION_NAME" if is_mariadb(connection) else "COLLATION_NAME"
    collations = rows_of(
        connection,
        f"SELECT {name}, CHARACTER_SET_NAME"  # noqa: S608
        " FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY",
    )
    found = Charsets(
        defaults={str(c): str(default) for c, default, _ in charsets},
        of_collation={str(name): str(charset) for name, charset in collations},
        width={str(c): int(width) for c, _, width in charsets},
    )
    [(collation,)] = listed or [("",)]
    indexes = rows_of(
        connection,
        "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (database, table),
    )
    names = frozenset(str(name).lower() for (name,) in indexes)
    sql = "SELECT @@GLOBAL.sql_mode, @@GLOBAL.lower_case_table_names"
    [(mode, lowered)] = rows_of(connection, sql)
    strict = bool({"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & set(str(mode).split(",")))
    return Surroundings(
        *(found, str(collation or ""), is_mariadb(connection), names, strict),
        one_case=bool(lowered),
    )


def read_surroundings_of_new(connection: Connection[Any], database: str) -> Surroundings:
    """The same for a table that is made in a database.

    Raises:
        SourceError: the server could not be queried.
    """
    found = rows_of(
        connection,
        "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s",
        (database,),
    )
    around = read_surroundings(connection, database, "")
    [(collation,)] = found or rows_of(connection, "SELECT @@GLOBAL.collation_server")
    return replace(around, collation=str(collation))


def printed_definition(connection: Connection[Any], table: SourceTable) -> tuple[str, ...] | None:
    """What the server prints of a table behind its name; None where this account may not see it.

    Raises:
        SourceError: the server could not be queried.
    """
    try:
        return words_of_definition(read_ddl(connection, table.database, table.name))
    except SourceError as error:
        if "denied" not in error.message:
            raise
        return None
