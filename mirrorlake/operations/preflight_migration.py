"""A migration: its statements in order, and by the tables that they name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mirrorlake.config import TableContract
from mirrorlake.sources.mysql.ddl import RenameTable, Statement


@dataclass(frozen=True)
class Migration:
    """The statements of a migration by their tables: (database, or None; name)."""

    by_table: dict[tuple[str | None, str], list[Statement]] = field(
        default_factory=dict[tuple[str | None, str], list[Statement]]
    )
    ordered: list[Statement] = field(default_factory=list[Statement])

    def add(self, statement: Statement, database: str | None) -> None:
        """Take a statement up.

        Args:
            database: of a table that is named without one.
        """
        statement = replace(statement, database=statement.database or database)
        place = (statement.database, statement.table)
        self.by_table.setdefault(place, []).append(statement)
        self.ordered.append(statement)

    def successor(self, contract: TableContract) -> tuple[str, list[Statement]] | None:
        """The table of the same database that gets a table's name, and what is done to it; None
        where none does."""
        for (database, name), statements in self.by_table.items():
            for action in (action for s in statements for action in s.actions):
                if not isinstance(action, RenameTable) or action.name != contract.table:
                    continue
                here = {action.database, database} <= {None, contract.database}
                if here and name != contract.table:
                    return name, statements
        return None

    def line_of_name(self, contract: TableContract) -> int | None:
        """The line of the statement that gives another table a table's name."""
        renames = (
            s.line for s in self.ordered for a in s.actions
            if isinstance(a, RenameTable) and a.name == contract.table
        )  # fmt: skip
        return next(renames, None)
