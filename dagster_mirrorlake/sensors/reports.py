"""What the sensor `partitions` reports of tables whose mode a capability adds: a seam."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.table import MirroredTable
from mirrorlake.capabilities import Seam

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger


@dataclass
class Reports:
    """What is to be reported.

    Attributes:
        events: the oldest first.
        opened, ended: by the name of dynamic partitions: keys to add and to remove.
    """

    events: list[dg.AssetMaterialization] = field(default_factory=list[dg.AssetMaterialization])
    opened: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    ended: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def add(self, other: "Reports") -> None:
        """Take in what another look found, of other tables."""
        self.events += other.events
        self.opened |= other.opened
        self.ended |= other.ended


_FindReports = Callable[[dg.DagsterInstance, Any, "Ledger", Sequence[MirroredTable]], Reports]
REPORTS: Seam[_FindReports] = Seam("landed reports", "dagster_mirrorlake")
"""By the name of the mode; called with the lake, the ledger, and the tables of such modes."""
