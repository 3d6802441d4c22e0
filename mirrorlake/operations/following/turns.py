"""The lease of a table of tenants, which processes that follow several sources take in turn.

Each of them has it for a round at a time, and the next round may begin at once. So who had it last
lets those go first that wait; a process waits under a lease of its own, by which others see it.

What belongs here: whose turn it is. What doesn't: the lease (`mirrorlake.workspace`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from mirrorlake.config.contract import TenantTable
from mirrorlake.errors import LeaseHeld
from mirrorlake.workspace import Workspace

PATIENCE: Final = 10.0
"""Seconds for which a round waits for its turn; who had the last one waits so long for others."""
_PAUSE: Final = 0.05


@dataclass
class Turns:
    """One process's turns at a table of tenants.

    Attributes:
        source: whose log it follows.
    """

    workspace: Workspace
    table: TenantTable
    source: str
    _mine: int = 0

    @property
    def name(self) -> str:
        return self.table.name

    @contextmanager
    def take(self, seconds: float = PATIENCE) -> Iterator[Workspace]:
        """The workspace with the table's lease.

        Args:
            seconds: for how long it is waited for, where others follow the table in another source;
                where nobody else does, it is not waited for.

        Raises:
            LeaseHeld: another run has it.
            LakeError, LedgerError: see `Workspace.leased`.
        """
        ledger, run = self.workspace.ledger, self.workspace.run_id
        others = [self._waits(name) for name in self.table.sources if name != self.source]
        with ExitStack() as held:
            with ExitStack() as waiting:
                if others:
                    waiting.enter_context(ledger.lease(self._waits(self.source), run))
                    self._let_others_go_first(others)
                leased = self._taken(held, seconds if others else 0.0)
            self._mine = leased.held_lease().token
            yield leased

    def _taken(self, held: ExitStack, seconds: float) -> Workspace:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return held.enter_context(self.workspace.leased(self.table, wait=False))
            except LeaseHeld:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE)

    def _let_others_go_first(self, others: list[str]) -> None:
        ledger, deadline = self.workspace.ledger, time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if ledger.times_taken(self.table.name) != self._mine:
                return
            if not any(ledger.is_held(name) for name in others):
                return
            time.sleep(_PAUSE)

    def _waits(self, source: str) -> str:
        return f"a turn of {source} at {self.table.name}"
