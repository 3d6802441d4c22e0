"""Upkeep of tables that are followed: each round makes a version of them, and with each commit all
versions are written again. So those that are old expire after some hundred rounds.

What belongs here: when that is due. What doesn't: what expires (`mirrorlake.operations.upkeep`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from mirrorlake.config.contract import Mirrored
from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

VERSIONS: Final = 500
"""Rounds of a table after which its old versions expire."""
KEEP: Final = timedelta(hours=1)
"""How old these are then."""


@dataclass
class RoundUpkeep:
    """How many rounds showed something of each table since its last upkeep."""

    _versions: Counter[str] = field(default_factory=Counter[str])

    def after(self, workspace: Workspace, shown: Iterable[Mirrored]) -> None:
        """Look after the tables of which a round showed something, where that is due."""
        for one in shown:
            self._versions[one.name] += 1
            if self._versions[one.name] < VERSIONS:
                continue
            self._versions[one.name] = 0
            try:
                maintain_table(workspace, one, Ages(keep=KEEP), wait=False)
            except MirrorlakeError as error:
                logger.warning("table %s was not maintained: %s", one.name, error)
