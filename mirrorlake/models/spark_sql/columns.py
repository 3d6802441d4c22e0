"""What is known of a value without running anything: its type, whether it may be NULL, and which
stored columns it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True)
class Origin:
    """A column of an input, whose values reach a column of a model."""

    table: str
    column: str


NOBODY: frozenset[Origin] = frozenset()


@dataclass(frozen=True)
class Typed:
    """A value of a query.

    Attributes:
        type: as Spark writes it.
        nullable: whether Spark says that it may be NULL.
        origins: the stored columns that its value is computed from, without those of conditions
            that decide whether there is a row.
        literal: the number that it is, where it is written as one; else None.
    """

    type: str
    nullable: bool
    origins: frozenset[Origin] = NOBODY
    literal: Decimal | None = None


@dataclass(frozen=True)
class NamedValue:
    """A column of a table or of a query, under its name."""

    name: str
    value: Typed


@dataclass(frozen=True)
class Relation:
    """The columns of a table or a query, in order, and those that `SELECT *` leaves out."""

    fields: tuple[NamedValue, ...]
    hidden: tuple[NamedValue, ...] = field(default=())

    def nullable(self) -> Relation:
        """The same on the side of an outer join that may have no row."""
        return Relation(tuple(_may_lack(f) for f in self.fields), self.hidden)


def relation_of(table: str, columns: Iterable[tuple[str, str, bool]]) -> Relation:
    """A stored table's columns for a query, each its own origin.

    Args:
        columns: name, type, and whether it may be NULL.
    """
    return Relation(
        tuple(
            NamedValue(name, Typed(kind, nullable, frozenset({Origin(table, name.lower())})))
            for name, kind, nullable in columns
        )
    )


def _may_lack(found: NamedValue) -> NamedValue:
    value = found.value
    return NamedValue(found.name, Typed(value.type, True, value.origins))


def joined(values: Iterable[Typed]) -> frozenset[Origin]:
    """The columns that any of these values is computed from."""
    return frozenset[Origin]().union(*(value.origins for value in values))


def broken_columns(was: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The columns that are gone or have another type, each with words that say so."""
    return {
        name: f"{name} is gone" if name not in now else f"{name} was {kind}, and is {now[name]}"
        for name, kind in was.items()
        if now.get(name) != kind
    }
