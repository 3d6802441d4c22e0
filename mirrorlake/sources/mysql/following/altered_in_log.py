"""Statements in the log → what a table is after them, where what they did to its rows is known.

A statement is followed if every value that a row had is the same value afterwards, and every row
has the same value in a column that was added. Of any other the reason is said, and nothing is
guessed: whoever follows the table reads it again as a whole.

What belongs here: one table, one statement. What doesn't: reading it
(`mirrorlake.sources.mysql.ddl`), and what becomes of a mirror by it.

Source: MySQL 8.0 manual, 13.1.9 "ALTER TABLE Statement", 11.6 "Data Type Default Values".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mirrorlake.errors import DdlRefused
from mirrorlake.sources.mysql.binlog.statements import PLAIN_SESSION, StatementSession, may_define
from mirrorlake.sources.mysql.ddl.actions import (
    Action,
    AddColumn,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    ConvertCharset,
    DeclaredColumn,
    DefaultCharset,
    DropIndex,
    MoveRows,
    RenameColumn,
    RenameIndex,
    RenameTable,
    SetColumn,
    SetEngine,
    Statement,
    UseIndex,
)
from mirrorlake.sources.mysql.ddl.altered import Surroundings, alter
from mirrorlake.sources.mysql.ddl.parser import dropped_database, is_of_no_table, parse_ddl
from mirrorlake.sources.mysql.following.constants import AddedValue, constant_of
from mirrorlake.sources.mysql.following.generated_values import recomputed
from mirrorlake.sources.mysql.following.same_values import keeps_values
from mirrorlake.sources.mysql.tables import Column, SourceTable

_MODES_OF_NO_VALUE: Final = (
    0x8  # IGNORE_SPACE
    | 0x20  # ONLY_FULL_GROUP_BY
    | 0x40  # NO_UNSIGNED_SUBTRACTION
    | 0x80  # NO_DIR_IN_CREATE
    | 0xE000  # NO_KEY_OPTIONS, NO_TABLE_OPTIONS, NO_FIELD_OPTIONS
    | 0x8_0000  # NO_AUTO_VALUE_ON_ZERO
    | 0x60_0000  # STRICT_TRANS_TABLES, STRICT_ALL_TABLES
    | 0x180_0000  # NO_ZERO_IN_DATE, NO_ZERO_DATE
    | 0xC00_0000  # ERROR_FOR_DIVISION_BY_ZERO, TRADITIONAL
    | 0x1000_0000  # NO_AUTO_CREATE_USER
    | 0x4000_0000  # NO_ENGINE_SUBSTITUTION
)
"""The parts of ``sql_mode`` under which a declaration means the same. All others, such as
PAD_CHAR_TO_FULL_LENGTH, EMPTY_STRING_IS_NULL, REAL_AS_FLOAT or ANSI_QUOTES, may make another type
or another value of it."""
_CASCADES: Final = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})


@dataclass(frozen=True)
class AlteredInLog:
    """A table after a statement of the log.

    Attributes:
        table: as it is then, as far as the statement tells.
        emptied: whether all of its rows went.
        origins: of each column its name before; None of one that was added.
        filled: column that was added → the text of the value that all rows have in it; columns that
            are NULL in all are left out.
        why: why it is not known what the statement did to rows; '' where it is known.
    """

    table: SourceTable
    emptied: bool = False
    origins: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    filled: Mapping[str, str] = field(default_factory=dict[str, str])
    why: str = ""


def alter_by_log(
    table: SourceTable,
    text: str,
    database: str,
    around: Surroundings,
    session: StatementSession = PLAIN_SESSION,
) -> AlteredInLog | None:
    """The table after a statement; None where it is about none of its name.

    Args:
        database: the default one of the statement's session.
    """
    if not may_define(text, [(table.database, table.name)]):
        return None
    if (dropped := dropped_database(text)) is not None:
        here = _is_of(dropped, table.name, table, around)
        return AlteredInLog(table, why="its database was dropped") if here else None
    if is_of_no_table(text):
        return None
    try:
        statements = parse_ddl(text)
    except DdlRefused as error:
        return AlteredInLog(table, why=f"it can't be read ({error.message})")
    return _after_all(table, statements, database, around, session)


def _after_all(
    table: SourceTable,
    statements: Sequence[Statement],
    database: str,
    around: Surroundings,
    session: StatementSession,
) -> AlteredInLog | None:
    found: AlteredInLog | None = None
    for statement in statements:
        if _renamed_to(statement, table, database, around):
            return AlteredInLog(table, why="another table got its name")
        if not _is_of(statement.database or database, statement.table, table, around):
            continue
        if statement.kind == "other" or (statement.kind == "create" and statement.if_missing):
            continue
        if session.temporary:
            return AlteredInLog(table, why="it, or a temporary table of its name, was altered")
        # One statement is about a table once, but for those that are refused anyway.
        found = _after(table, statement, around, session.sql_mode)
        if found.why:
            return found
    return found


def _is_of(database: str | None, name: str, table: SourceTable, around: Surroundings) -> bool:
    named, known = (database or "", name), (table.database, table.name)
    if around.one_case:
        return [part.lower() for part in named] == [part.lower() for part in known]
    return named == known


def _renamed_to(
    statement: Statement, table: SourceTable, database: str, around: Surroundings
) -> bool:
    here = statement.database or database
    return any(
        isinstance(a, RenameTable) and _is_of(a.database or here, a.name, table, around)
        for a in statement.actions
    )


def _after(
    table: SourceTable, statement: Statement, around: Surroundings, sql_mode: int
) -> AlteredInLog:
    if statement.kind == "truncate":
        return AlteredInLog(table, emptied=True)
    if statement.kind != "alter":
        why = "it was dropped" if statement.kind == "drop" else "it was made again"
        return AlteredInLog(table, why=why)
    whys = [_why_unknown(action, sql_mode) for action in statement.actions]
    whys += [
        f"column {n} may have been recomputed with other session settings"
        for n in recomputed(table.columns)
    ]
    if why := next(filter(None, whys), ""):
        return AlteredInLog(table, why=why)
    try:
        after = alter(table, [_lenient(action) for action in statement.actions], around)
    except DdlRefused as error:
        return AlteredInLog(table, why=error.message)
    origins = _origins(table, after, statement.actions)
    filled: dict[str, str] = {}
    computed = next((column.name for column in after.columns if column.generated), None)
    for column in after.columns:
        before = origins[column.name]
        if before is not None:
            if why := _why_changed(table.column(before), column, computed):
                return AlteredInLog(after, why=why)
            continue
        constant = _added_value(column, statement.actions)
        if constant is None:
            why = f"what rows have in column {column.name}, which was added, is not known"
            return AlteredInLog(after, why=why)
        if constant.text is not None:
            filled[column.name] = constant.text
    return AlteredInLog(after, origins=origins, filled=filled)


def _why_changed(was: Column, now: Column, computed: str | None) -> str:
    """Why a column may have other values now, or one that is computed from it; '' where none has.

    Args:
        computed: the name of a generated column, if there is one.
    """
    changes = f"column {now.name} was {was.column_type} and is {now.column_type}"
    if not keeps_values(was, now):
        return changes
    # To an expression the same value may have another length, or another text.
    if computed is not None and _declared(was) != _declared(now):
        return f"{changes}, and {computed} may be computed from it"
    return ""


def _declared(column: Column) -> tuple[str, str | None, str | None]:
    return column.column_type, column.charset, column.collation


def _lenient(action: Action) -> Action:
    """An action that the server took: what is known here of indexes may be of before, or of later,
    and decides about no value."""
    if isinstance(action, AddIndex):
        return replace(action, if_missing=True)
    if isinstance(action, DropIndex | RenameIndex | UseIndex):
        return replace(action, if_there=True)
    return action


def _why_unknown(action: Action, sql_mode: int) -> str:
    """Why it is not known what an action did to rows, whatever the table; '' where it may be."""
    if isinstance(action, AddColumn | ChangeColumn):
        return _why_unknown_column(action, action.column, sql_mode)
    match action:
        case MoveRows(words):
            return words
        case RenameTable(_, name):
            return f"it was renamed {name}"
        case ConvertCharset() | DefaultCharset():
            return "its charset was changed"
        case SetEngine(name) if name.lower() != "innodb":
            return f"its engine became {name}"
        case AddForeignKey(_, on_update, on_delete) if _CASCADES & {on_update, on_delete}:
            return "a foreign key that cascades was added: what it does may not be in the log"
        case _:
            return ""


def _why_unknown_column(
    action: AddColumn | ChangeColumn, column: DeclaredColumn, sql_mode: int
) -> str:
    if sql_mode & ~_MODES_OF_NO_VALUE:
        return f"its session's sql_mode (number {sql_mode}) may give a column other values"
    if _may_fill(action, column):
        return (
            f"column {column.name} is a TIMESTAMP without NULL: whether the server fills it "
            "depends on its session's explicit_defaults_for_timestamp"
        )
    if isinstance(action, AddColumn):
        return "" if column.references is None else _why_unknown(column.references, sql_mode)
    if column.generated:
        return f"column {column.name} is computed, by an expression that is not looked at"
    if column.counts:
        return f"column {column.name} counts by itself: its zeros may have been numbered"
    return ""


def _may_fill(action: Action, column: DeclaredColumn) -> bool:
    """Whether the time of a statement may be what rows have in a column, which no log says."""
    if column.type.word.lower() != "timestamp":
        return False
    if isinstance(action, AddColumn):
        return column.default is None and column.nullable is not True
    return column.nullable is None


def _origins(
    before: SourceTable, after: SourceTable, actions: Sequence[Action]
) -> dict[str, str | None]:
    """Of each column its name before; None of one that was added."""
    renamed: dict[str, str] = {}
    added: set[str] = set()
    there = {column.name.lower(): column.name for column in before.columns}
    for action in actions:
        if isinstance(action, RenameColumn):
            renamed[action.now.lower()] = action.name
        elif isinstance(action, ChangeColumn):
            renamed[action.column.name.lower()] = action.name
        elif isinstance(action, AddColumn):
            skipped = action.if_missing and action.column.name.lower() in there
            added |= set() if skipped else {action.column.name.lower()}
    found: dict[str, str | None] = {}
    for column in after.columns:
        name = column.name.lower()
        origin = renamed.get(name, column.name)
        found[column.name] = None if name in added else there.get(origin.lower(), origin)
    return found


def _added_value(column: Column, actions: Sequence[Action]) -> AddedValue | None:
    """What all rows have in a column that was added; None where that can't be told for sure."""
    name = column.name.lower()
    if any(isinstance(a, SetColumn) and a.name.lower() == name for a in actions):
        return None  # MariaDB fills it by the default that it has in the end
    added = (a for a in actions if isinstance(a, AddColumn) and a.column.name.lower() == name)
    return constant_of(column, next(added))
