"""InnoDB's own numbers of tables and partitions: another number, another place for the rows.

They are kept over restarts and renames; whatever writes a table's rows to another place gives a new
one. They are seen with the PROCESS privilege alone.

Source: MySQL 8.0 manual, 28.4.23 "The INFORMATION_SCHEMA INNODB_TABLES Table", 11.2.4 "Mapping of
Identifiers to File Names".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.connect import is_mariadb, rows_of

InnodbNumbers: TypeAlias = dict[str, int]
"""InnoDB's numbers of a table by partition, in lower case (``p#p0``); '' for a table without."""
_PLAIN = re.compile(r"[0-9A-Za-z_]")
_AT_ONCE = 500


def read_numbers(
    connection: Connection[Any], database: str, names: Sequence[str]
) -> dict[str, InnodbNumbers]:
    """The numbers of some tables of one database, with those of their partitions; none of a name
    beyond ASCII, and none at all without PROCESS."""
    folder = _path(database)
    paths = {path: name for name in names if (path := _path(name)) is not None}
    if folder is None or not paths:
        return {}
    one = [f"{folder}/{path}" for path in paths] if len(paths) == 1 else []
    # Of several tables all of the database are read: its views are scanned as a whole anyway.
    like = [f"{_escaped(path)}#%" for path in one] or [f"{_escaped(folder)}/%"]
    where = " OR ".join(["NAME = %s"] * len(one) + ["NAME LIKE %s ESCAPE '|'"])
    there: dict[str, InnodbNumbers] = {}
    for whole, number in _rows(connection, where, (*one, *like)):
        table, _, part = whole.partition("/")[2].partition("#")
        there.setdefault(table, {})[part.lower()] = number
    # The server may keep names in lower case; two that differ in case alone are distinguished.
    lower = [table.lower() for table in there]
    by_lower = {table.lower(): there[table] for table in there if lower.count(table.lower()) == 1}
    found = {name: there.get(path, by_lower.get(path.lower())) for path, name in paths.items()}
    return {name: numbers for name, numbers in found.items() if numbers}


def read_innodb_ids(
    connection: Connection[Any], database: str, names: Sequence[str]
) -> dict[str, int]:
    """InnoDB's own number of each of these tables; none of a table with partitions, or with a name
    beyond ASCII, and none at all without PROCESS."""
    found = _read_ids(connection, [(database, name) for name in names])
    return {name: number for (_, name), number in found.items()}


def read_innodb_ids_in(
    connection: Connection[Any], databases: Sequence[str], table: str
) -> dict[str, int]:
    """The same of one table in many databases, by database."""
    found: dict[str, int] = {}
    for some in (databases[n : n + _AT_ONCE] for n in range(0, len(databases), _AT_ONCE)):
        ids = _read_ids(connection, [(database, table) for database in some])
        found |= {database: number for (database, _), number in ids.items()}
    return found


def can_see_numbers(connection: Connection[Any]) -> bool:
    """Whether this account may see InnoDB's numbers.

    Raises:
        SourceError: the server was lost.
    """
    try:
        rows_of(connection, f"SELECT NAME FROM information_schema.{_view(connection)} LIMIT 1")  # noqa: S608
    except SourceError as error:
        if error.retryable:
            raise
        return False
    return True


def _view(connection: Connection[Any]) -> str:
    return "INNODB_SYS_TABLES" if is_mariadb(connection) else "INNODB_TABLES"


def _rows(connection: Connection[Any], where: str, values: Sequence[str]) -> list[tuple[str, int]]:
    sql = f"SELECT NAME, TABLE_ID FROM information_schema.{_view(connection)} WHERE {where}"  # noqa: S608
    try:
        found = rows_of(connection, sql, tuple(values))
    except SourceError:
        return []  # without PROCESS, or in a server that does not have this view
    return [(str(name), int(number)) for name, number in found]


def _path(name: str) -> str | None:
    """How InnoDB spells a name; None of one beyond ASCII.

    >>> _path("orders_2"), _path("my-orders"), _path("größe")
    ('orders_2', 'my@002dorders', None)
    """
    if not name.isascii():
        return None
    return "".join(c if _PLAIN.match(c) else f"@{ord(c):04x}" for c in name)


def _escaped(path: str) -> str:
    """A path in a LIKE whose escape is ``|``: no name is spelled with that."""
    return path.replace("_", "|_")


def _read_ids(
    connection: Connection[Any], tables: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    paths: dict[str, tuple[str, str]] = {}
    for database, name in tables:
        folder, file = _path(database), _path(name)
        if folder is not None and file is not None:
            paths[f"{folder}/{file}"] = (database, name)
    marks = ", ".join(["%s"] * len(paths))
    rows = _rows(connection, f"NAME IN ({marks})", tuple(paths)) if paths else []
    # The server may compare without regard to case: there may be two.
    there: dict[str, dict[str, int]] = {}
    for name, number in rows:
        there.setdefault(name.lower(), {})[name] = number
    found: dict[tuple[str, str], int] = {}
    for path, place in paths.items():
        ids = there.get(path.lower(), {})
        exact = ids.get(path)
        if exact is not None or len(ids) == 1:
            found[place] = exact if exact is not None else next(iter(ids.values()))
    return found
