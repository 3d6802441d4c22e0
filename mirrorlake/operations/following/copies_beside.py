"""Copies of whole tables that are read beside a follower's rounds: of tables that were added, and
of those that are to be read again. The others go on meanwhile.

A copy is the table's own load, under its lease, and reads on in the log to where that ends, over
sessions of its own. Rounds come and go with a connection and a contract file; copies stay.

What belongs here: their threads. What doesn't: what becomes of a table that was copied
(`mirrorlake.operations.following.rounds`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Final, Self

from mirrorlake.config import TableContract
from mirrorlake.operations.loading.results import Synced
from mirrorlake.operations.loading.sync_tables import load_tables
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.workspace import Workspace

AT_ONCE: Final = 2
"""So that a small table need not wait for a large one."""


@dataclass
class CopiesBeside:
    """The copies that one follower has begun.

    Attributes:
        waits: whether rounds wait for all of them.
    """

    waits: bool = False
    _running: dict[str, Future[Synced]] = field(default_factory=dict[str, "Future[Synced]"])
    _free: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for those that run, but not where the process is to end at once."""
        if kind is None or issubclass(kind, Exception):
            wait(self._running.values())

    @property
    def names(self) -> frozenset[str]:
        """The tables whose copies are on their way, or were not taken yet."""
        return frozenset(self._running)

    def begin(self, workspace: Workspace, contracts: Sequence[TableContract]) -> None:
        """Copy these tables."""
        for contract in contracts:
            if contract.name not in self._running:
                future = self._running[contract.name] = Future[Synced]()
                parts = (workspace, contract, future)
                # Who is told twice to end does so at once: no thread is waited for then.
                threading.Thread(target=self._copy, args=parts, daemon=True).start()

    def _copy(self, workspace: Workspace, contract: TableContract, future: Future[Synced]) -> None:
        try:
            with self._free:
                [synced] = load_tables(workspace, [contract], jobs=1, look=Look())
        except BaseException as error:  # noqa: BLE001 - raised where it is taken
            future.set_exception(error)
        else:
            future.set_result(synced)

    def take(self, *, await_one: bool = False) -> list[Synced]:
        """What became of those that ended since.

        Args:
            await_one: whether to wait for one of them: nobody has anything else to do.
        """
        if self.waits or await_one:
            until = ALL_COMPLETED if self.waits else FIRST_COMPLETED
            wait(self._running.values(), return_when=until)
        ended = [name for name, future in self._running.items() if future.done()]
        return [self._running.pop(name).result() for name in ended]
