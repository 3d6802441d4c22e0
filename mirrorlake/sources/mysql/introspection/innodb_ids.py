"""InnoDB's own numbers of tables and partitions: another number, another place for the rows.

They are kept over restarts and renames; whatever writes a table's rows to another place gives a new
one. They are seen with the PROCESS privilege alone.

Source: MySQL 8.0 manual, 28.4.23 "The INFORMATION_SCHEMA INNODB_TABLES Table", 11.2.4 "Mapping of
Identifiers to File Names".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of

InnodbNumbers: TypeAlias = dict[str, int]
"""InnoDB's numbers of a table by partition, in lower case (``p#p0``); '' for a table without."""
_PLAIN = re.compile(r"[0-9A-Za-z_]")
# Letters for which the server has spellings of its own; whatever else is no ASCII is a number.
_OWN_LETTERS = re.compile(
    "[\u00c0-\u02af\u0370-\u058f\u1e00-\u1fff\u2160-\u217f\u24b6-\u24e9\uff21-\uff5a]"
)
# What Windows takes for devices; the server marks such names on every system.
_DEVICES = re.compile(r"(?i)(con|aux|prn|nul|(com|lpt)[1-9])")
_LIKE = "NAME LIKE %s ESCAPE '|'"
_NO_VIEW = "[1109]"  # ER_UNKNOWN_TABLE


def read_numbers(
    connection: Connection[Any], database: str, names: Sequence[str]
) -> dict[str, InnodbNumbers]:
    """The numbers of some tables of one database, with those of their partitions; none of a name
    with letters of other alphabets (``ü``, ``я``), and none at all without PROCESS."""
    folder = _path(database)
    paths = {path: name for name in names if (path := _path(name)) is not None}
    if folder is None or not paths:
        return {}
    one = [f"{folder}/{path}" for path in paths] if len(paths) == 1 else []
    # Of several tables all of the database are read: its views are scanned as a whole anyway.
    like = [f"{_escaped(path)}#%" for path in one] or [f"{_escaped(folder)}/%"]
    where = " OR ".join(["NAME = %s"] * len(one) + [_LIKE])
    there: dict[str, InnodbNumbers] = {}
    for whole, number in _rows(connection, where, (*one, *like)):
        table, _, part = whole.partition("/")[2].partition("#")
        there.setdefault(table, {})[part.lower()] = number
    # The server may keep names in lower case; two that differ in case alone are distinguished.
    lower = [table.lower() for table in there]
    by_lower = {table.lower(): there[table] for table in there if lower.count(table.lower()) == 1}
    found = {name: there.get(path, by_lower.get(path.lower())) for path, name in paths.items()}
    return {name: numbers for name, numbers in found.items() if numbers}


def read_numbers_in(
    connection: Connection[Any], databases: Sequence[str], table: str
) -> dict[str, InnodbNumbers]:
    """The numbers of one table in many databases, with those of its partitions, by database; by one
    statement. As `read_numbers` otherwise."""
    file = _path(table)
    folders = {folder: name for name in databases if (folder := _path(name)) is not None}
    if file is None or not folders:
        return {}
    named = [f"%/{_escaped(file)}", f"%/{_escaped(file)}#%"]
    there: dict[tuple[str, str], InnodbNumbers] = {}
    for whole, number in _rows(connection, " OR ".join([_LIKE] * 2), named):
        folder, _, name = whole.partition("/")
        spelled, _, part = name.partition("#")
        there.setdefault((folder, spelled), {})[part.lower()] = number
    spellings = _by_lower_case(there)
    return {
        name: numbers
        for folder, name in folders.items()
        if (numbers := there.get((folder, file)) or spellings.get((folder.lower(), file.lower())))
    }


def _by_lower_case(
    there: Mapping[tuple[str, str], InnodbNumbers],
) -> dict[tuple[str, str], InnodbNumbers]:
    """The numbers by names in lower case, in which a server may keep them; none of two that differ
    in case alone."""
    lower = Counter((folder.lower(), name.lower()) for folder, name in there)
    found = {(folder.lower(), name.lower()): n for (folder, name), n in there.items()}
    return {place: numbers for place, numbers in found.items() if lower[place] == 1}


def can_see_numbers(connection: Connection[Any]) -> bool:
    """Whether this account may see InnoDB's numbers.

    Raises:
        SourceError: the server was lost.
    """
    try:
        _select(connection, "NAME", "LIMIT 1")
    except SourceError as error:
        if error.retryable:
            raise
        return False
    return True


def _rows(connection: Connection[Any], where: str, values: Sequence[str]) -> list[tuple[str, int]]:
    try:
        found = _select(connection, "NAME, TABLE_ID", f"WHERE {where}", values)
    except SourceError:
        return []  # without PROCESS
    return [(str(name), int(number)) for name, number in found]


def _select(
    connection: Connection[Any], columns: str, rest: str, values: Sequence[str] = ()
) -> list[tuple[Any, ...]]:
    """Rows of InnoDB's tables, of the view by the name that this server has for it."""
    sql = f"SELECT {columns} FROM information_schema.{{}} {rest}"  # noqa: S608
    if not is_mariadb(connection):
        try:
            return rows_of(connection, sql.format("INNODB_TABLES"), values)
        except SourceError as error:
            if _NO_VIEW not in str(error):
                raise
    return rows_of(connection, sql.format("INNODB_SYS_TABLES"), values)  # before MySQL 8.0, too


def _path(name: str) -> str | None:
    """How InnoDB spells a name; None of one with letters of other alphabets.

    >>> _path("orders_2"), _path("my-orders"), _path("größe"), _path("日本")
    ('orders_2', 'my@002dorders', None, '@65e5@672c')
    >>> _path("com7"), _path("com70")
    ('com7@@@', 'com70')
    """
    if _OWN_LETTERS.search(name):
        return None
    if _DEVICES.fullmatch(name):
        return f"{name}@@@"
    return "".join(c if _PLAIN.match(c) else f"@{ord(c):04x}" for c in name)


def _escaped(path: str) -> str:
    """A path in a LIKE whose escape is ``|``: no name is spelled with that."""
    return path.replace("_", "|_")
