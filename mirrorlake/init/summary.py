"""What `init` says of all tables together: modes, warnings by their kind, indexes that would pay.

Pure: it queries no server. The written contract has the same as comments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mirrorlake.init.suggest_tables import SuggestedTable
from mirrorlake.runtime.plural import plural
from mirrorlake.sources.mysql.tables import quote

FIRST: Final = 4
"""How many names a line shows."""
MANY: Final = 3
"""So many databases that have tables of the same name may be tenants of one application."""
_LONGEST_NAME: Final = 64
_MODES: Final = ("full", "binlog", "incremental", "append")
_AT_ONCE: Final = ("full", "binlog")
"""Modes that see deletes."""


@dataclass(frozen=True)
class WarningKind:
    """One kind of warning, and what has it: tables (``db.table``), or ``of`` it columns
    (``db.table.column``)."""

    words: str
    of: Literal["table", "column"]
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.words} ({plural(len(self.names), self.of)}: {listed(self.names)})"


@dataclass(frozen=True)
class IndexWanted:
    """A full copy that an index alone would make incremental, and the statement that makes it."""

    table: str
    column: str
    rows: int
    statement: str


@dataclass(frozen=True)
class Skipped:
    """What a database lists and no contract is written for: ``db.name``, what it is, and why."""

    name: str
    kind: str
    reason: str


def count_modes(tables: Sequence[SuggestedTable]) -> dict[str, int]:
    """Mode → how many tables; modes without any are left out."""
    found = Counter(table.mode for table in tables)
    return {mode: found[mode] for mode in _MODES if found[mode]}


def tables_of_many(tables: Iterable[SuggestedTable]) -> dict[str, int]:
    """Tables that at least `MANY` databases have under one name → how many of them, the most
    first: they may be tenants of one application."""
    found = Counter(table.table for table in tables)
    return {name: count for name, count in found.most_common() if count >= MANY}


def warning_kinds(tables: Sequence[SuggestedTable]) -> tuple[WarningKind, ...]:
    """The kinds of warnings, that of most tables first."""
    found: dict[tuple[str, Literal["table", "column"]], list[str]] = {}
    for table in tables:
        for warned in table.warnings:
            whole = f"{table.database}.{table.table}"
            of_column = warned.column is not None
            names = found.setdefault((warned.kind, "column" if of_column else "table"), [])
            named = f"{whole}.{warned.column}" if of_column else whole
            if named not in names[-1:]:
                names.append(named)
    kinds = (WarningKind(words, of, tuple(names)) for (words, of), names in found.items())
    return tuple(sorted(kinds, key=lambda kind: (-len(kind.names), kind.words)))


def indexes_wanted(tables: Sequence[SuggestedTable]) -> tuple[IndexWanted, ...]:
    """The full copies that would be incremental with an index and nothing else, largest first."""
    found = [
        IndexWanted(
            f"{table.database}.{table.table}",
            table.almost.column,
            table.estimated_rows,
            _statement(table, table.almost.column, in_memory=table.almost.in_memory),
        )
        for table in tables
        if table.almost is not None
        and not (table.almost.indexed or table.almost.nullable or table.almost.keyless)
    ]
    return tuple(sorted(found, key=lambda one: (-one.rows, one.table)))


def nullable_times(tables: Sequence[SuggestedTable]) -> tuple[str, ...]:
    """The full copies whose time of change can be NULL, as ``db.table (column)``."""
    return tuple(
        f"{table.database}.{table.table} ({table.almost.column})"
        for table in tables
        if table.almost is not None and table.almost.nullable and not table.almost.keyless
    )


def skipped_kinds(skipped: Iterable[Skipped]) -> dict[str, list[str]]:
    """What was skipped and why, with the names: ``2 views (they hold no rows of their own)``."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in skipped:
        found.setdefault((one.kind, one.reason), []).append(one.name)
    return {
        f"{plural(len(names), kind)} ({reason})": names for (kind, reason), names in found.items()
    }


def _statement(table: SuggestedTable, column: str, *, in_memory: bool) -> str:
    # A MEMORY table's own kind is a hash, which serves no range.
    kind = " USING BTREE" if in_memory else ""
    name = quote(f"mirrorlake_{column}"[:_LONGEST_NAME].rstrip())
    where = f"{quote(table.database)}.{quote(table.table)}"
    return f"CREATE INDEX {name}{kind} ON {where} ({quote(column)});"


def modes_in_words(modes: Mapping[str, int]) -> str:
    """``407 tables (397 full, 8 incremental, 2 append)``.

    >>> modes_in_words({"full": 1})
    '1 table (1 full)'
    """
    each = ", ".join(f"{count:,} {mode}" for mode, count in modes.items())
    return f"{plural(sum(modes.values()), 'table')} ({each})"


def late_deletes(modes: Mapping[str, int]) -> str:
    """What is to be known of deletes in tables that are not copied as a whole; '' without any.

    >>> late_deletes({"full": 3})
    ''
    """
    late = sum(count for mode, count in modes.items() if mode not in _AT_ONCE)
    if not late:
        return ""
    which = "the table that is" if late == 1 else f"the {late:,} tables that are"
    others = "neither full nor binlog" if modes.get("binlog") else "not full"
    return (
        f"Rows that are deleted from {which} {others} stay in the mirror until a reload or a check "
        "finds them; `mirrorlake repair TABLE --deletes` finds them at once"
    )


def nullable_words(nullable: Sequence[str], *, after_others: bool) -> str:
    """Which full copies would be incremental, were their time of change NOT NULL.

    Args:
        after_others: whether this follows what an index would make incremental.
    """
    are = "is a full copy and" if len(nullable) == 1 else "are full copies and"
    then = "would be the same" if after_others else f"{are} would be incremental"
    return f"{plural(len(nullable), 'table')} {then}, were this column NOT NULL: {listed(nullable)}"


def full_copies(full: int, tables: int, wanted: int) -> str:
    """How many tables are full copies, and how many of these an index would make incremental."""
    are = "is a full copy" if full == 1 else "are full copies"
    which = "it" if full == 1 else f"{wanted:,} of these"
    time = "its time" if wanted == 1 else "their time"
    return (
        f"{full:,} of {plural(tables, 'table')} {are}; {which} would be incremental with an index "
        f"on {time} of change"
    )


def listed(names: Iterable[str], first: int = FIRST) -> str:
    """The first names, and how many more there are."""
    names = [name if name.isprintable() else repr(name) for name in names]
    more = f" and {len(names) - first:,} more" if len(names) > first else ""
    return ", ".join(names[:first]) + more
