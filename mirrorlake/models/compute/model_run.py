"""What a run of a model did, and what hears of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mirrorlake.models.ledger import ModelPartition

OnComputed = Callable[[int], None]
"""Called with how many partitions are computed so far."""


@dataclass(frozen=True)
class ModelRun:
    """What a run did of one model.

    Attributes:
        computed: the partitions that it computed, in order.
        unchanged: how many needed nothing.
        missed: how many were never computed, and can't be any more.
        warnings: what was published although it is not as expected, one a line.
        dropped: how many partitions went, which its retention keeps no more.
        is_view: whether it has no rows of its own: ``rows`` is 0.
    """

    model: str
    computed: tuple[ModelPartition, ...]
    unchanged: int
    warnings: tuple[str, ...] = ()
    dropped: int = 0
    missed: int = 0
    is_view: bool = False
