"""What capabilities do between two rounds of a follower, while the log is theirs to take.

What belongs here: the seam. What doesn't: rounds (`mirrorlake.operations.following.rounds`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from mirrorlake.capabilities import Seam
from mirrorlake.workspace import Workspace

OnTaken: TypeAlias = Callable[[str], None]
"""Told what was done, in words."""


class BetweenRounds(Protocol):
    """What a follower leaves the log for."""

    def is_due(self, workspace: Workspace, source: str) -> bool:
        """Whether there is something to do now; asked several times a second.

        Raises:
            LedgerError: the ledger failed.
        """
        ...

    def take(self, workspace: Workspace, source: str, say: OnTaken) -> None:
        """Do it; nobody follows the log meanwhile. What fails is said.

        Raises:
            LedgerError: the ledger failed.
        """
        ...


BETWEEN_ROUNDS: Final[Seam[BetweenRounds]] = Seam("between rounds")
