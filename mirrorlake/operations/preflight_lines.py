"""Which statement of a migration a finding is about: its line.

What a statement says by itself has that statement's line. What follows from a table as it will be
has the line of the last statement that names the column, or of the first that changes the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from mirrorlake.operations.preflight_findings import Finding
from mirrorlake.sources.mysql.ddl import (
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
            line = last_naming(finding.column, statements)
        yield replace(finding, line=changing[0].line if line is None else line)


def last_naming(column: str, statements: Sequence[Statement]) -> int | None:
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
