"""What of a table's columns in MySQL its mirror takes up, by the contract's ``schema_changes``.

What belongs here: the policy, and what is wrong with ``renamed_from``. What doesn't: what the lake
can hold (`mirrorlake.operations.loading.resolve`), and which columns clean shows
(`mirrorlake.table.columns.new_columns`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mirrorlake.config.contract import TableContract
from mirrorlake.config.fields import nearest
from mirrorlake.errors import ConfigError, SchemaError
from mirrorlake.ledger.records import Load
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
    """The columns that `taken_up` leaves out; never one that the contract names."""
    if contract.schema_changes != "freeze" or not versions:
        return ()
    names = [name for name, _ in versions[-1].columns]
    return tuple(
        column.name
        for column in table.columns
        if name_in(names, column.name, contract.earlier_names) is None
        and column.name.lower() not in contract.named
    )


def refuse_unread_moved(
    contract: TableContract,
    table: SourceTable,
    versions: Sequence[SchemaVersion],
    once: Collection[str],
) -> None:
    """See that no column that is never read may have come back by another name: it would be read.

    Args:
        once: columns that the table is known to have had, in lower case.

    Raises:
        SchemaError: one is gone, and one came that the contract does not name.
    """
    there = {column.name.lower() for column in table.columns}
    gone = [name for name in contract.columns if name in contract.excluded]
    gone = [name for name in gone if name.lower() in once and name.lower() not in there]
    if not gone or not versions:
        return
    names = [name for name, _ in versions[-1].columns]
    for column in table.columns:
        known = name_in(names, column.name, contract.earlier_names) is not None
        if not known and column.name.lower() not in contract.named:
            raise SchemaError(
                f"table {contract.name}: {gone[0]}, which is marked `pci: never`, is gone from "
                f"MySQL, and {column.name} is new: it may be the same column, renamed, and would "
                "be read",
                table=contract.name,
                column=gone[0],
                next_step=f"If it was renamed, write {column.name} in its place under `columns`; "
                f"if not, remove {gone[0]} there",
            )


def read_already(contract: TableContract, names: Sequence[str]) -> SchemaError:
    """The refusal of columns that are never to be read, and that the mirror holds.

    Args:
        names: of these columns, as the lake calls them.
    """
    return SchemaError(
        f"table {contract.name}: {', '.join(names)} is marked `pci: never`, and its mirror holds "
        "it already",
        table=contract.name,
        column=names[0],
        next_step="Mirror the table again under other namespaces and drop the old ones: what was "
        "read can't be unread",
    )


def refuse_renames(
    contract: TableContract,
    table: SourceTable,
    versions: Sequence[SchemaVersion],
    gone: Collection[str] = (),
) -> None:
    """See that every name under ``renamed_from`` was a column's, and is none's now.

    Args:
        gone: columns that MySQL has no longer; theirs are passed over.

    Raises:
        ConfigError: MySQL still has a column of that name, or no version ever had.
        SchemaError: MySQL has no column of the new name.
    """
    now = {column.name.lower() for column in table.columns}
    ever = {name for version in versions for name, _ in version.columns}
    never = {name.lower() for name in contract.excluded}
    dropped = {name.lower() for name in gone}
    for column, earlier in contract.earlier_names.items():
        if column in dropped:
            continue
        table.column(column)
        if column in never:
            continue  # its values are in no version, by whatever name
        for name in earlier:
            if name in now:
                raise _came_back(contract, column, name, versions)
        # It may have been renamed twice between two loads: one of the names must have been there.
        if versions and not {one.lower() for one in ever} & set(earlier):
            raise ConfigError(
                f"table {contract.name}: {column} was renamed from {earlier[0]!r}, and the mirror "
                f"never had a column of that name{nearest(earlier[0], ever)}",
                table=contract.name,
                column=column,
                next_step="Correct the name, or take it out of renamed_from",
            )


def _came_back(
    contract: TableContract, column: str, name: str, versions: Sequence[SchemaVersion]
) -> ConfigError:
    """A column's earlier name is the name of a column that there is: it was not renamed yet, or
    another one has its name since."""
    newest = {one.lower() for one, _ in versions[-1].columns} if versions else set[str]()
    again = bool(newest) and name not in newest and not contract.copies
    what = "has a column of that name again" if again else "still has a column of that name"
    return ConfigError(
        f"table {contract.name}: {column} was renamed from {name!r}, and MySQL {what}",
        table=contract.name,
        column=column,
        next_step=_ANOTHER if again else "Take the name out of renamed_from",
    )


_ANOTHER = (
    "What the mirror holds under that name is the renamed column's, and would be taken for the new "
    "one's: give the new column another name in MySQL, or mirror the table again under other "
    "namespaces"
)


def recorded_renames(text: str | None, contract: TableContract) -> dict[str, str]:
    """Earlier name → the column that had it, both in lower case: those that loads of a table were
    ever made by, and those that its contract says now.

    Args:
        text: what the ledger keeps of the former, as `renames_text` gives it.
    """
    found: dict[str, str] = json.loads(text) if text else {}
    for column, earlier in contract.earlier_names.items():
        found |= dict.fromkeys(earlier, column)
    return found


def taken_names(
    contract: TableContract, versions: Sequence[SchemaVersion], loads: Sequence[Load]
) -> dict[tuple[str, str], int]:
    """(Column, a name of it that was another column's before) → the number of the last load that
    may have read the other one, which is gone: ``DROP price, RENAME price_new TO price``.

    A version with an older name of the column's is of before the rename: until then the name was
    the other's. What that held is not shown: it may have been personal, by a rule that the column
    does not have.

    Args:
        versions: those seen of the table, oldest first.
        loads: its successful loads.
    """
    found: dict[tuple[str, str], int] = {}
    for column, earlier in contract.earlier_names.items():
        chain = (column, *earlier)
        for number, name in enumerate(chain):
            older = set(chain[number + 1 :])
            both = {
                version.raw_table
                for version in versions
                if older & {one.lower() for one, _ in version.columns}
            }
            last = max((load.seq for load in loads if load.raw_table in both), default=0)
            if last:
                found[column, name] = last
    return found


def renames_text(renames: Mapping[str, str]) -> str:
    """As the ledger keeps it."""
    return json.dumps(dict(sorted(renames.items())), ensure_ascii=False)


def refuse_forgotten(
    contract: TableContract, table: SourceTable, renames: Mapping[str, str]
) -> None:
    """See that no column has a name that another one had before and that the contract no longer
    says: rows that only the mirror holds would show the values of that one, past its rule.

    Raises:
        ConfigError: one has.
    """
    if contract.copies:
        return  # the newest copy has all rows there are
    for column in table.columns:
        renamed = renames.get(column.name.lower())
        said = contract.earlier_names.get(renamed or "", ())
        if renamed is not None and column.name.lower() not in said:
            raise ConfigError(
                f"table {contract.name}: {column.name} was renamed {renamed}, as the contract said "
                "before, and MySQL has a column of that name again",
                table=contract.name,
                column=column.name,
                next_step=_ANOTHER,
            )


def change_words(
    contract: TableContract, version: SchemaVersion, versions: Sequence[SchemaVersion]
) -> str:
    """What the first load of a version does about what changed since the one before it; '' where it
    is the table's first.

    Args:
        versions: those seen before this load, oldest first.
    """
    if not versions or versions[-1] == version:
        return ""
    changes = version.changes_from(versions[-1], contract.earlier_names)
    found = [
        f"its schema changed in MySQL: {changes.said}. Every row is read again, or compared with "
        "what deduped holds"
    ]
    if changes.dropped:
        gone = ", ".join(changes.dropped)
        hint = "; if one was renamed, say so with `renamed_from`" if changes.added else ""
        found.append(f"{gone}: gone from deduped and clean; raw keeps what was loaded of it{hint}")
    return ". ".join(found)
