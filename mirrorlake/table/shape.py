"""What of a table's columns in MySQL its mirror takes up, by the contract's ``schema_changes``.

What belongs here: the policy, and what is wrong with ``renamed_from``. What doesn't: what the lake
can hold (`mirrorlake.operations.resolve`), and which columns clean shows
(`mirrorlake.table.new_columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirrorlake.config.contract import TableContract
from mirrorlake.config.fields import nearest
from mirrorlake.errors import ConfigError
from mirrorlake.schema.versions import SchemaVersion, name_in
from mirrorlake.sources.mysql.tables import SourceTable


def taken_up(
    contract: TableContract, table: SourceTable, versions: Sequence[SchemaVersion]
) -> SourceTable:
    """The table without the columns that were added after its first load, where the contract
    freezes its shape (``schema_changes: freeze``); else the table as it is.

    Args:
        versions: those seen of it, oldest first.
    """
    if contract.schema_changes != "freeze" or not versions:
        return table
    left = left_out(contract, table, versions)
    return replace(table, columns=tuple(c for c in table.columns if c.name not in left))


def left_out(
    contract: TableContract, table: SourceTable, versions: Sequence[SchemaVersion]
) -> tuple[str, ...]:
    """The columns that `taken_up` leaves out. One that the contract names is none: it speaks."""
    if contract.schema_changes != "freeze" or not versions:
        return ()
    names = [name for name, _ in versions[-1].columns]
    return tuple(
        column.name
        for column in table.columns
        if name_in(names, column.name, contract.earlier_names) is None
        and column.name.casefold() not in contract.named
    )


def refuse_renames(
    contract: TableContract, table: SourceTable, versions: Sequence[SchemaVersion]
) -> None:
    """See that every name under ``renamed_from`` was a column's, and is none's now.

    Raises:
        ConfigError: MySQL still has a column of that name, or no version ever had.
        SchemaError: MySQL has no column of the new name.
    """
    now = {column.name.casefold() for column in table.columns}
    ever = {name for version in versions for name, _ in version.columns}
    never = {name.casefold() for name in contract.excluded}
    for column, earlier in contract.earlier_names.items():
        table.column(column)
        if column in never:
            continue  # its values are in no version, by whatever name
        for name in earlier:
            if name in now:
                raise ConfigError(
                    f"table {contract.name}: {column} was renamed from {name!r}, and MySQL still "
                    "has a column of that name",
                    table=contract.name,
                    column=column,
                    next_step="Take the name out of renamed_from",
                )
            if versions and name not in {one.casefold() for one in ever}:
                raise ConfigError(
                    f"table {contract.name}: {column} was renamed from {name!r}, and the mirror "
                    f"never had a column of that name{nearest(name, ever)}",
                    table=contract.name,
                    column=column,
                    next_step="Correct the name, or take it out of renamed_from",
                )


def change_words(
    contract: TableContract, version: SchemaVersion, versions: Sequence[SchemaVersion]
) -> tuple[str, ...]:
    """What the first load of a version does about what changed since the one before it, a line
    each; nothing where it is the table's first.

    Args:
        versions: those seen before this load, oldest first.
    """
    if not versions or versions[-1] == version:
        return ()
    changes = version.changes_from(versions[-1], contract.earlier_names)
    found = [f"its schema changed in MySQL: {changes.said}. All rows are read again"]
    if changes.dropped:
        gone = ", ".join(changes.dropped)
        hint = "; if one was renamed, say so with `renamed_from`" if changes.added else ""
        found.append(f"{gone}: gone from deduped and clean; raw keeps what was loaded of it{hint}")
    return tuple(found)
