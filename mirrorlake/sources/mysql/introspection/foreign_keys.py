"""Foreign keys, of accounts that may not see them too.

The server itself changes rows of a foreign key that cascades, and moves no cursor, so their rules
must be known. MariaDB shows which columns a key has to whoever may read the table, and its rules
(``REFERENTIAL_CONSTRAINTS``) only to an account with another privilege on it; there they are read
from ``SHOW CREATE TABLE``, one statement for each table that has such a key.

Source: MySQL 8.0 manual, 13.1.20.5 "FOREIGN KEY Constraints", 13.7.7.10 "SHOW CREATE TABLE";
MariaDB knowledge base, "Information Schema REFERENTIAL_CONSTRAINTS Table".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import UNKNOWN, ForeignKey, quote

_COLUMNS: Final = """
SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = %s AND TABLE_NAME {match}
AND REFERENCED_TABLE_NAME IS NOT NULL
ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION"""
_REFERENCES: Final = """
SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME,
       REFERENCED_COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
AND REFERENCED_TABLE_NAME IS NOT NULL
ORDER BY CONSTRAINT_NAME, ORDINAL_POSITION"""
_RULES: Final = """
SELECT TABLE_NAME, CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME {match}"""
_ACTION: Final = "(CASCADE|SET NULL|SET DEFAULT|NO ACTION|RESTRICT)"
_ACTIONS: Final = re.compile(rf"\)(?: ON DELETE {_ACTION})?(?: ON UPDATE {_ACTION})?,?$")
_DEFINED: Final = re.compile(r"^ *CONSTRAINT `.*` FOREIGN KEY \(", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """A foreign key by what it refers to: ``columns`` of its table have the values of
    ``parent_columns`` of another one, in this order."""

    name: str
    columns: tuple[str, ...]
    parent_database: str
    parent_table: str
    parent_columns: tuple[str, ...]


def read_foreign_keys(
    connection: Connection[Any],
    database: str,
    ask: Callable[[str], list[tuple[Any, ...]]],
) -> Mapping[str, tuple[ForeignKey, ...]]:
    """The foreign keys of a database's tables, by table; those without any are left out.

    Args:
        ask: runs a statement over ``information_schema`` for the tables that are meant.

    Raises:
        SourceError: the server was lost.
    """
    columns: dict[str, dict[str, list[str]]] = {}
    for table, name, column in ask(_COLUMNS):
        columns.setdefault(str(table), {}).setdefault(str(name), []).append(str(column))
    rules = {(str(t), str(n)): (str(u), str(d)) for t, n, u, d in (ask(_RULES) if columns else ())}
    by_table: dict[str, tuple[ForeignKey, ...]] = {}
    for table, keys in columns.items():
        text = None
        if any((table, name) not in rules for name in keys):
            text = _definition(connection, database, table)
        by_table[table] = tuple(
            ForeignKey(tuple(names), *(rules.get((table, name)) or rules_of(name, text)))
            for name, names in keys.items()
        )
    return by_table


def may_see(connection: Connection[Any], database: str, table: str) -> bool:
    """Whether this account may see a table's foreign keys, had it any: not where its SELECT is of
    single columns."""
    return _definition(connection, database, table) is not None


def read_references(
    connection: Connection[Any], database: str, table: str
) -> tuple[Reference, ...] | None:
    """What the foreign keys of one table refer to; None where this account may not see all of them.

    Raises:
        SourceError: the server was lost.
    """
    definition = _definition(connection, database, table)
    if definition is None:
        return None
    found: dict[str, list[tuple[str, ...]]] = {}
    for of, name, *rest in rows_of(connection, _REFERENCES, (database, table)):
        if str(of) == table:  # the server compares names without regard to case
            found.setdefault(str(name), []).append(tuple(map(str, rest)))
    # An account that sees single columns of a table sees parts of its keys, or none of them.
    if len(found) != len(_DEFINED.findall(definition)):
        return None
    return tuple(_reference(name, parts) for name, parts in found.items())


def _reference(name: str, parts: Sequence[tuple[str, ...]]) -> Reference:
    columns, databases, tables, theirs = zip(*parts, strict=True)
    return Reference(name, columns, databases[0], tables[0], theirs)


def _definition(connection: Connection[Any], database: str, table: str) -> str | None:
    try:
        found = rows_of(connection, f"SHOW CREATE TABLE {quote(database)}.{quote(table)}")
    except SourceError as error:
        if error.retryable:
            raise
        return None
    return str(found[0][1])


def rules_of(name: str, definition: str | None) -> tuple[str, str]:
    """What a table's definition says of a foreign key ON UPDATE and ON DELETE, by its name.

    >>> rules_of("f", "  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE SET NULL")
    ('RESTRICT', 'SET NULL')
    >>> rules_of("g", None)
    ('UNKNOWN', 'UNKNOWN')
    """
    # MariaDB does not double the backticks of these names.
    heads = tuple(f"CONSTRAINT {n} FOREIGN KEY (" for n in (f"`{name}`", quote(name)))
    for line in (definition or "").split("\n"):
        actions = _ACTIONS.search(line)
        if actions is not None and line.strip().startswith(heads):
            return actions[2] or "RESTRICT", actions[1] or "RESTRICT"
    return UNKNOWN, UNKNOWN
