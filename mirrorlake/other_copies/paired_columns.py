"""The columns that are compared, numbered: c0 of MySQL's beside c0 of the copy's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mirrorlake.other_copies.our_rows import OurColumn
from mirrorlake.other_copies.pairings.choose import outcome_of, same_of
from mirrorlake.other_copies.pairings.pairing import Pairing, TheirType
from mirrorlake.other_copies.their_columns import literal, quoted
from mirrorlake.other_copies.verdict import ComparedColumn
from mirrorlake.schema.own_columns import ORIGINAL


@dataclass(frozen=True)
class PairedColumn:
    """A column of both.

    Attributes:
        kind: of the copy's values, as DuckDB reads them.
        written: the copy's type in its own words.
    """

    ours: OurColumn
    theirs: str
    kind: TheirType
    pairing: Pairing
    written: str

    @property
    def name(self) -> str:
        """MySQL's name of it."""
        return self.ours.column.name


@dataclass
class PairedColumns:
    """All of them, in MySQL's order.

    Attributes:
        copy_has_originals: whether the copy has the texts of values that have no place in it.
    """

    copy_has_originals: bool = False
    columns: list[PairedColumn] = field(default_factory=list["PairedColumn"])

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.columns]

    def choose_ways(self, database: Any) -> None:
        """Take one way for each column whose values may be written in several: the one by which
        most values of MySQL's are in the copy (views `ours` and `theirs`)."""
        for number, one in enumerate(self.columns):
            ways = one.pairing.ways
            counts = [_values_in_both(database, way) for way in ways]
            if any(counts):
                chosen = ways[counts.index(max(counts))]
                self.columns[number] = replace(one, pairing=chosen)

    def number(self, name: str) -> int:
        """Which column is called so."""
        return self.names.index(name)

    def cells(self, names: Sequence[str], originals: bool) -> str:
        """What a view selects: values in c0, c1 …, originals in x0, x1 …."""
        parts: list[str] = []
        for number, (name, one) in enumerate(zip(names, self.columns, strict=True)):
            parts.append(f"{quoted(name)} AS c{number}")
            held = "NULL"
            if originals and one.ours.exact.has_original:
                of_it = f'lambda mirror_entry : mirror_entry."column" = {literal(one.name)}'
                held = f'list_filter({quoted(ORIGINAL)}, {of_it})[1]."text"'
            parts.append(f"CAST({held} AS VARCHAR) AS x{number}")
        return ", ".join(parts)

    def same(self, number: int) -> str:
        """SQL of whether a column's two values are equal, see `same_of`."""
        one = self.columns[number]
        held = self.copy_has_originals
        return same_of(one.ours.column, one.kind, one.pairing, number, copy_has_originals=held)

    def outcome(self, number: int) -> str:
        """SQL of what became of a column's value that differs, see `outcome_of`."""
        one = self.columns[number]
        return outcome_of(one.ours.column, one.kind, one.pairing, number)

    def described(self) -> tuple[ComparedColumn, ...]:
        """What is said of each."""
        return tuple(
            ComparedColumn(
                one.name,
                one.theirs,
                one.ours.column.column_type,
                one.written,
                one.pairing.notes,
            )
            for one in self.columns
        )


def _values_in_both(database: Any, way: Pairing) -> int:
    mine = f"SELECT TRY({way.ours}) AS v FROM ours o"  # noqa: S608
    theirs = f"SELECT TRY({way.theirs}) AS v FROM theirs t"  # noqa: S608
    both = f"SELECT count(*) FROM ({mine} INTERSECT {theirs}) WHERE v IS NOT NULL"  # noqa: S608
    [(count,)] = database.execute(both).fetchall()
    return int(count)
