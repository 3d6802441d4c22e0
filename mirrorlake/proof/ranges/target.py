"""What a check compares: one table of MySQL and one snapshot of its mirror."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.config.contract import TableContract
from mirrorlake.config.server import SourceConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger.records import Load
from mirrorlake.proof.forms.rows import Key, RowForm
from mirrorlake.proof.ranges.scope import Scope
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.sources.mysql.tables import Column, SourceTable

MOST_BESIDE = 100_000
"""Rows beside the bounds that are looked up; more are left, and counted."""
MOST_NEWER = 1_000
"""Up to this many rows that MySQL has moved past the bound are compared as they are: those that the
lake has already are equal, and wait no longer."""


@dataclass(frozen=True)
class Mirror:
    """A version of the mirror: deduped's snapshot (None: empty), and the newest load in it that
    brought the mirror forward; ``through``: the number of the newest of all, repairs and reloads
    too."""

    identifier: Identifier
    snapshot: int | None
    load: Load
    through: int


@dataclass(frozen=True)
class Target:
    """One table, ready to be compared.

    Attributes:
        position: the source's before anything is read.
        not_mirrored: columns of MySQL's that the contract keeps out of the mirror.
    """

    contract: TableContract
    source: SourceConfig
    table: SourceTable
    key: tuple[Column, ...]
    rows: RowForm
    mirror: Mirror
    scope: Scope
    position: SourcePosition
    not_mirrored: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.contract.name

    @property
    def flags(self) -> bool:
        """Whether the mirror keeps rows that MySQL deleted, with a flag."""
        return self.contract.deletes == "flag"

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.key)


def named(target: Target, newer: Sequence[Key]) -> Sequence[Key]:
    """The keys past the bound whose rows are compared as they are."""
    return newer if target.key and len(newer) <= MOST_NEWER else ()
