"""The state of one partition of a model, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mirrorlake.models.ledger import ModelPartition

StateWord = Literal["computed", "stale", "missing", "missed"]
"""Missed is a partition that was never computed, and can't be any more."""


@dataclass(frozen=True)
class PartitionState:
    """The state of one partition.

    Attributes:
        why: what makes it stale or missing, in a few words; empty of a computed one.
        record: what was computed last; None where nothing was.
        waits: partitions of models above that are not computed, ``model key``, and days of mirrored
            tables that were declared invalid with it; it can't be computed before them.
        held: whether nothing but somebody's word makes it stale: what reads it, and was not
            declared invalid with it, stays as it is.
    """

    key: str
    word: StateWord
    why: str = ""
    record: ModelPartition | None = None
    waits: tuple[str, ...] = ()
    held: bool = False

    @property
    def is_due(self) -> bool:
        """Whether it can be computed, and should be."""
        return self.word in ("stale", "missing")


@dataclass(frozen=True)
class PartitionWait:
    """A partition that another reads, and that is not computed.

    Attributes:
        held: as `PartitionState.held`.
    """

    model: str
    key: str
    held: bool

    @property
    def words(self) -> str:
        return f"{self.model} {self.key}".strip()
