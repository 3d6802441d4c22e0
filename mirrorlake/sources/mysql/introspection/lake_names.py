"""Columns that the lake calls otherwise than MySQL does (``name_in_lake``).

A table is translated here once, as soon as it is read: from there on a column's name is the lake's,
and MySQL's stands in statements to MySQL alone (`mirrorlake.sources.mysql.tables.Column.sql`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mirrorlake.config.contract import TableContract
from mirrorlake.errors import SchemaError
from mirrorlake.sources.mysql.tables import SourceTable


def in_lake(table: SourceTable, contract: TableContract) -> SourceTable:
    """A table whose columns are called as the contract calls them in the lake; one that was
    translated already, or has no such column, as it is.

    Raises:
        SchemaError: another column has that name.
    """
    there = {column.name.lower() for column in table.columns if not column.source}
    for before, now in contract.lake_names.items():
        if before.lower() in there and now.lower() in there:
            raise SchemaError(
                f"table {contract.name}: {before} is to be called {now} in the lake, and MySQL has "
                "another column of that name",
                table=contract.name,
                column=now,
                next_step="Choose another name_in_lake",
            )
    return called(table, contract)


def called(table: SourceTable, contract: TableContract) -> SourceTable:
    """The same, whatever other columns are called."""
    names = {before.lower(): now for before, now in contract.lake_names.items()}
    if not names or any(column.source for column in table.columns):
        return table

    def renamed(columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(name.lower(), name) for name in columns)

    return replace(
        table,
        columns=tuple(
            replace(column, name=names[column.name.lower()], source=column.name)
            if column.name.lower() in names
            else column
            for column in table.columns
        ),
        indexes=tuple(replace(one, columns=renamed(one.columns)) for one in table.indexes),
        foreign_keys=tuple(
            replace(one, columns=renamed(one.columns)) for one in table.foreign_keys
        ),
    )
