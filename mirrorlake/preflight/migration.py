"""A migration: its statements in order, and by the tables that they name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from mirrorlake.config import TableContract, TenantTable
from mirrorlake.sources.mysql.ddl.actions import RenameTable, Statement
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.resolve import ResolvedTable


@dataclass(frozen=True)
class TableAfter:
    """One table before a migration and after it, as its server has it.

    Attributes:
        now: its contract resolved against it as it will be; None where that is refused.
        renamed: column, in lower case → its new name, as the migration says it.
        ends: whether it goes, or gets another name: its mirror is loaded no more.
    """

    contract: TableContract
    before: SourceTable
    after: SourceTable
    now: ResolvedTable | None = None
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    ends: bool = False


@dataclass(frozen=True)
class TenantsAfter:
    """A table of tenants after a migration, once all of them are folded.

    Attributes:
        types: column → Iceberg's type over all shapes; none where nothing moves.
        held: columns that clean leaves out because nobody decided on them, in lower case.
        lacking: column, in lower case → of which tenants it becomes NULL, in words.
    """

    table: TenantTable
    types: Mapping[str, str]
    held: Collection[str]
    lacking: Mapping[str, str]


@dataclass(frozen=True)
class Migration:
    """The statements of a migration by their tables: (database, or None; name).

    Attributes:
        after: contract → its table as it will be, gathered while the tables are looked at.
    """

    by_table: dict[tuple[str | None, str], list[Statement]] = field(
        default_factory=dict[tuple[str | None, str], list[Statement]]
    )
    ordered: list[Statement] = field(default_factory=list[Statement])
    after: dict[str, TableAfter | TenantsAfter] = field(
        default_factory=dict[str, "TableAfter | TenantsAfter"]
    )

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
