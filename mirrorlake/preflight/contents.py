"""Whose rows and whose definition a name has after some statements of a migration, by its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mirrorlake.sources.mysql.ddl.actions import RenameTable, Statement

TablePlace = tuple[str, str]
"""A database and a table, in lower case."""


@dataclass(frozen=True)
class Contents:
    """What has a name after some statements.

    Attributes:
        base: the table of now whose rows these are; None: nothing of a table of now is left.
        added: how many rows the migration adds at most; None: its text does not tell.
        like: the table of now whose definition it has; None: it has one of its own, or was altered.
        text: a definition of its own, word by word.
        how: what became of the rows that were there; '' if they are there.
        line: of the statement that brought it under this name, or emptied it.
    """

    base: TablePlace | None
    added: int | None = 0
    like: TablePlace | None = None
    text: tuple[str, ...] = ()
    how: Literal["", "truncated", "deleted", "made"] = ""
    line: int | None = None


def contents_after(statements: Sequence[Statement], of: TablePlace) -> Contents | None:
    """What has a name after the statements, in their order; None: no table has it.

    Args:
        of: its database is that of names without one.
    """
    there: dict[TablePlace, Contents | None] = {}

    def name_of(database: str | None, table: str) -> TablePlace:
        return (database or of[0]).lower(), table.lower()

    def look(name: TablePlace) -> Contents | None:
        return there.get(name, Contents(name, like=name))

    for statement in statements:
        name = name_of(statement.database, statement.table)
        before = look(name)
        if statement.kind == "create":
            known = name in there or name == of
            if not (statement.if_missing and known and before is not None):
                source = look(name_of(*statement.like)) if statement.like else None
                there[name] = _made(statement, source)
        elif statement.kind == "drop" or before is None:
            there[name] = None
        else:
            written = there[name] = _written(before, statement)
            for action in statement.actions:
                if isinstance(action, RenameTable):
                    there[name], name = None, name_of(action.database, action.name)
                    there[name] = replace(written, line=statement.line)
    return look(of)


def _made(statement: Statement, source: Contents | None) -> Contents:
    like, text = (source.like, source.text) if source else (None, statement.definition)
    return Contents(None, statement.adds, like, text, "made", statement.line)


def _written(before: Contents, statement: Statement) -> Contents:
    """The contents after a statement that only writes rows, or changes the definition."""
    if statement.kind == "truncate" or statement.empties:
        how = before.how or ("truncated" if statement.kind == "truncate" else "deleted")
        return replace(before, base=None, added=0, how=how, line=statement.line)
    added = None if None in (before.added, statement.adds) else before.added + statement.adds  # type: ignore[operator]  # neither is None
    found = replace(before, added=added)
    if any(not isinstance(action, RenameTable) for action in statement.actions):
        found = replace(found, like=None, text=())
    return found
