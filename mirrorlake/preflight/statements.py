"""What the statements of a migration say by themselves: of a whole table, or of its rows.

What belongs here: findings that need no table as it will be. What doesn't: those that follow from
its columns (`mirrorlake.preflight.findings`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.preflight.findings import Finding
from mirrorlake.schema.versions import without_width
from mirrorlake.sources.mysql.ddl.actions import (
    Action,
    AddIndex,
    ChangeColumn,
    ConvertCharset,
    DefaultCharset,
    DropConstraint,
    DropIndex,
    MoveRows,
    RenameIndex,
    RenameTable,
    Rewrite,
    SetColumn,
    SetEngine,
    Statement,
    UseIndex,
)
from mirrorlake.sources.mysql.ddl.altered import Surroundings, around_after
from mirrorlake.sources.mysql.introspection.identity import read_identity, why_another
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.continuity import kept_words


def not_looked_at(statement: Statement) -> Finding:
    """Of a statement that declares no column of a table."""
    return Finding("attention", f"not looked at: {statement.words}", line=statement.line)


def statement_findings(
    contract: TableContract,
    statements: Sequence[Statement],
    *,
    taken: bool,
    why_unknown: Callable[[Statement], str],
) -> Iterator[Finding]:
    """What the statements about one table say of it, in their order.

    Args:
        taken: whether another table has its name afterwards.
        why_unknown: why the columns of a table that is made are not known; '' where they are.
    """
    there = True
    makes: list[bool] = []
    for statement in statements:
        makes.append(statement.kind == "create" and not (there and statement.if_missing))
        there = (there or makes[-1]) and not _goes(statement)
    taken = taken or any(makes)
    for statement, made in zip(statements, makes, strict=True):
        if statement.kind == "create" and not made:
            found = [Finding("ok", "the table is there already: nothing is made")]
        elif statement.kind == "create":
            found = [_made_again(why_unknown(statement))]
        else:
            found = list(_of_statement(contract, statement, taken=taken))
        yield from (replace(finding, line=statement.line) for finding in found)


def _made_again(why: str) -> Finding:
    if not why:
        return Finding("attention", "the table is made again")
    words = f"the table is made again, and its columns were not looked at: {why}"
    return Finding("attention", words, "Compare them with the contract by hand")


def _goes(statement: Statement) -> bool:
    """Whether a table has its name no more afterwards."""
    renamed = any(isinstance(action, RenameTable) for action in statement.actions)
    return statement.kind == "drop" or renamed


def _of_statement(
    contract: TableContract, statement: Statement, *, taken: bool
) -> Iterator[Finding]:
    """What a statement says by itself.

    Args:
        taken: whether another table has the name afterwards, or it is made again.
    """
    if statement.kind == "drop" and not taken:
        yield Finding(
            "breaks",
            "the table goes: its next sync fails, the lake keeps what it has",
            "Take its contract out of the file once it is gone",
        )
    elif statement.kind == "other":
        yield replace(not_looked_at(statement), next_step=_of_rows(contract, statement))
    for action in statement.actions:
        if isinstance(action, RenameTable) and not taken:
            yield Finding(
                "breaks",
                f"the table becomes {action.name}: its next sync finds no table of its name",
                f"Write a contract for {action.name}: it is mirrored as a new table",
            )
        elif isinstance(action, MoveRows):
            yield _moved(contract, action)


def _moved(contract: TableContract, moved: MoveRows) -> Finding:
    """Rows that come or go as a whole: a sync has nothing to go by."""
    if contract.copies:
        smaller = (
            ""
            if contract.shrink_limit is None
            else f"One that is far smaller waits for `mirrorlake sync {quote(contract.table)} "
            "--accept-smaller`"
        )
        return Finding("attention", f"{moved.words}: its next copy has what is there then", smaller)
    finds = f"`mirrorlake check {quote(contract.table)}` shows what differs"
    if contract.repair != "off":
        finds = (
            f"Afterwards `mirrorlake repair {quote(contract.table)}` finds what differs and "
            "reads it again"
        )
    return Finding("attention", f"{moved.words}, and no cursor moves: a sync may not see it", finds)


def rebuilt_findings(
    contract: TableContract,
    connection: Connection[Any],
    table: SourceTable,
    after: SourceTable,
    around: Surroundings,
    statements: Sequence[Statement],
) -> Iterator[Finding]:
    """Of statements after which the table's definition is what it was, and the time when it was
    made is another: the server wrote it again, and a sync can't know that its rows are the same.

    Raises:
        SourceError: the server could not be queried.
    """
    altering = (statement for statement in statements if statement.kind != "create")
    actions = [action for statement in altering for action in statement.actions]
    moved = around_after(actions, around).collation != around.collation
    if contract.copies or moved or outline(table) != outline(after):
        return
    if any(isinstance(a, Rewrite) and a.redefines for a in actions):
        return
    sure = any(isinstance(a, _AGAIN) for a in actions if not _may_redefine(a))
    depends = any(_may_redefine(action) for action in actions)
    now = read_identity(connection, table)
    sign = why_another(now, replace(now.renumbered(), made="the time of the migration"))
    if sign is None or not (sure or depends):
        return
    history = "" if kept_words(contract) else ", and a new history begins"
    words = (
        f"to its next sync {sign.words}: its rows are compared with the mirror's, and only if one "
        f"differs the whole table is read again{history}"
    )
    if depends:
        yield Finding("ok", f"if the table's definition stays as it is, {words}")
    else:
        yield Finding("attention", words)


_AGAIN = (Rewrite, SetEngine, DefaultCharset, ConvertCharset)
"""After these a server says that it made the table, though its definition may be the same."""


_DETAILS = (ChangeColumn, SetColumn, AddIndex, DropIndex, DropConstraint, RenameIndex, UseIndex)


def _may_redefine(action: Action) -> bool:
    """Whether an action may change what is not kept here of a definition: a default, a comment."""
    if isinstance(action, Rewrite):
        return action.redefines is None
    return isinstance(action, _DETAILS)


def outline(table: SourceTable) -> tuple[object, ...]:
    """What is kept of a table's definition, in the words of any server."""
    columns = [
        (
            *(c.name, without_width(c.column_type), c.nullable, c.charset, c.collation),
            *(c.comment, bool(c.generated)),
        )
        for c in table.columns
    ]
    indexes = sorted((i.name, i.unique, i.columns, not i.ranges) for i in table.indexes)
    return columns, indexes, table.foreign_keys, table.engine.lower(), table.name


def _of_rows(contract: TableContract, statement: Statement) -> str:
    """When the mirror sees what a statement does to rows."""
    if contract.copies:
        return "What it does to rows is in the next full copy"
    if statement.words.upper().startswith("DELETE"):
        return "Rows that it deletes are found by a check's sweep"
    return "Rows that it changes are seen if the cursor moves with them"
