"""What a run of a model did, and what hears of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

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
        cut: at which it read mirrored tables; None: each at main.
        cut_at: up to when (UTC) all that was committed in their source is in that cut.
        why_main: why at main, where cuts of its source are for models; else empty.
    """

    model: str
    computed: tuple[ModelPartition, ...]
    unchanged: int
    warnings: tuple[str, ...] = ()
    dropped: int = 0
    missed: int = 0
    is_view: bool = False
    cut: str | None = None
    cut_at: datetime | None = None
    why_main: str = ""
