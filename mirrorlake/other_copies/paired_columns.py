"""The columns that are compared, numbered: c0 of MySQL's beside c0 of the copy's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mirrorlake.other_copies.our_rows import OurColumn
from mirrorlake.other_copies.pairings.choose import outcome_of, same_of
from mirrorlake.other_copies.pairings.pairing import Pairing, TheirType
from mirrorlake.other_copies.their_columns import literal, quoted
from mirrorlake.other_copies.verdict import ComparedColumn
from mirrorlake.schema.own_columns import ORIGINAL


@dataclass(frozen=True)
class PairedColumn:
    """A column of both."""

    ours: OurColumn
    theirs: str
    kind: TheirType
    pairing: Pairing

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

    def add(self, ours: OurColumn, theirs: str, kind: TheirType, pairing: Pairing) -> None:
        self.columns.append(PairedColumn(ours, theirs, kind, pairing))

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
                one.kind.name,
                one.pairing.notes,
            )
            for one in self.columns
        )
