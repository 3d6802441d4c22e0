"""A step of a plan, as people and programs read it.

What belongs here: types. What doesn't: which steps there are
(`mirrorlake.operations.planning.work_plans`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from mirrorlake.operations.days.invalid import period_words
from mirrorlake.operations.planning.forecasts import Forecast
from mirrorlake.runtime.plural import plural

StepKind = Literal["load", "fold", "compute"]


@dataclass(frozen=True)
class UnprovedInput:
    """What some partitions read of a mirrored table that is not proved to be equal.

    Attributes:
        table: ``source.database.table``, or of tenants ``group.table``.
        why: in a few words.
        days: how many days it is about, the ``first`` and the ``last`` of them; None where it is
            about the whole table.
        partitions: how many of the partitions read some of it.
    """

    table: str
    why: str
    days: int | None
    first: date | None
    last: date | None
    partitions: int

    @property
    def words(self) -> str:
        """What is read, and why it is not proved."""
        what = self.table
        if self.days is not None:
            many = plural(self.days, "day")
            what = f"{many} of {self.table} ({period_words((self.first, self.last))})"
        return f"{what}: {self.why}"


@dataclass(frozen=True)
class PlannedStep:
    """One step of a plan.

    Attributes:
        step: ``load`` (days of a table, from MySQL into raw), ``fold`` (of a table, into deduped
            and clean) or ``compute`` (partitions of a model).
        target: the table or model.
        partitions: how many: of a load days, or 1 for a full copy and for a window that reads on to
            now; of a fold 0.
        names: the windows of a load; partitions by name.
        why: reason → how many partitions have it.
        forecast: what all of it is expected to take.
        unproved: what it reads that is not proved.
    """

    step: StepKind
    target: str
    partitions: int
    names: tuple[str, ...]
    why: Mapping[str, int]
    forecast: Forecast
    unproved: tuple[UnprovedInput, ...] = ()
