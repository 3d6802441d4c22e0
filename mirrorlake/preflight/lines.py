"""Which statement of a migration a finding is about: its line.

What a statement says by itself has that statement's line. What follows from a table as it will be
has the line of the last statement that names the column, or of the first that changes the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from mirrorlake.config import TableContract
from mirrorlake.preflight.findings import Finding
from mirrorlake.sources.mysql.ddl.actions import (
    Action,
    AddColumn,
    ChangeColumn,
    DropColumn,
    RenameColumn,
    SetColumn,
    Statement,
)


def with_lines(findings: Iterable[Finding], statements: Sequence[Statement]) -> Iterator[Finding]:
    """The findings, each with the line of its statement.

    Args:
        statements: of their table, in order; one at least.
    """
    changing = [s for s in statements if s.kind != "other"] or statements
    for finding in findings:
        line = finding.line
        if line is None and finding.column is not None:
            line = _last_naming(finding.column, statements)
        yield replace(finding, line=changing[0].line if line is None else line)


def called_in_lake(
    statements: Sequence[Statement], contract: TableContract | None
) -> Sequence[Statement]:
    """The statements, with columns called as the contract calls them in the lake."""
    if contract is None or not contract.lake_names:
        return statements
    names = {before.lower(): now for before, now in contract.lake_names.items()}

    def called(name: str) -> str:
        return names.get(name.lower(), name)

    def renamed(action: Action) -> Action:
        match action:
            case AddColumn(column):
                return replace(action, column=replace(column, name=called(column.name)))
            case ChangeColumn(name, column):
                column = replace(column, name=called(column.name))
                return replace(action, name=called(name), column=column)
            case RenameColumn(name, now):
                return replace(action, name=called(name), now=called(now))
            case DropColumn(name) | SetColumn(name):
                return replace(action, name=called(name))
            case _:
                return action

    return [replace(one, actions=tuple(map(renamed, one.actions))) for one in statements]


def renames_of(statements: Sequence[Statement]) -> dict[str, str]:
    """Column (in lower case) → its name now, as the statements themselves say it."""
    found: dict[str, str] = {}
    for statement in statements:
        for action in statement.actions:
            if isinstance(action, RenameColumn):
                found[action.name.lower()] = action.now
            elif isinstance(action, ChangeColumn) and action.name != action.column.name:
                found[action.name.lower()] = action.column.name
    return found


def _last_naming(column: str, statements: Sequence[Statement]) -> int | None:
    """The line of the last statement that names a column; None where none does."""
    same = column.casefold()
    lines = (s.line for s in reversed(statements) for a in s.actions if same in set(_names(a)))
    return next(lines, None)


def _names(action: Action) -> Iterator[str]:
    """The columns that an action is about, by all their names, to be compared."""
    match action:
        case AddColumn(column):
            yield column.name.casefold()
        case ChangeColumn(name, column):
            yield from (name.casefold(), column.name.casefold())
        case RenameColumn(name, now):
            yield from (name.casefold(), now.casefold())
        case DropColumn(name) | SetColumn(name):
            yield name.casefold()
        case _:
            return
