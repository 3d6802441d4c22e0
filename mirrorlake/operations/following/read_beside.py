"""What is read beside a follower's rounds, which go on meanwhile: copies of whole tables that were
added, or are to be read again, and syncs of tables of tenants.

Each is under its table's lease, and reads on in the log to where that ends, over sessions of its
own. Rounds come and go with a connection and a contract file; what is read beside them stays.

What belongs here: their threads. What doesn't: what becomes of a table that was read
(`mirrorlake.operations.following.rounds`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Final, Generic, Self, TypeVar

from mirrorlake.config import TableContract
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync_tables import load_tables
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.workspace import Leasable, Workspace

AT_ONCE: Final = 2
"""So that a small table need not wait for a large one."""
_Table = TypeVar("_Table", bound=Leasable)
_Done = TypeVar("_Done")


@dataclass
class ReadBeside(Generic[_Table, _Done]):
    """What one follower has begun to read.

    Attributes:
        read: reads one table; what became of it.
        waits: whether rounds wait for all of them.
    """

    read: Callable[[Workspace, _Table], _Done]
    waits: bool = False
    _running: dict[str, Future[_Done]] = field(default_factory=dict[str, "Future[_Done]"])
    _free: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for those that run, but not where the process is to end at once."""
        if kind is None or issubclass(kind, Exception):
            wait(self._running.values())

    @property
    def names(self) -> frozenset[str]:
        """The tables that are being read, or were not taken yet."""
        return frozenset(self._running)

    def begin(self, workspace: Workspace, tables: Sequence[_Table]) -> None:
        """Read these tables."""
        for table in tables:
            if table.name not in self._running:
                future = self._running[table.name] = Future[_Done]()
                parts = (workspace, table, future)
                # A second signal ends the process at once: then no thread is waited for.
                threading.Thread(target=self._read, args=parts, daemon=True).start()

    def _read(self, workspace: Workspace, table: _Table, future: Future[_Done]) -> None:
        try:
            with self._free:
                done = self.read(workspace, table)
        except BaseException as error:  # noqa: BLE001 - raised where it is taken
            future.set_exception(error)
        else:
            future.set_result(done)

    def take(self, *, await_one: bool = False) -> dict[str, _Done]:
        """What became of those that ended since, by table.

        Args:
            await_one: whether to wait for one of them: nobody has anything else to do.
        """
        if self.waits or await_one:
            until = ALL_COMPLETED if self.waits else FIRST_COMPLETED
            wait(self._running.values(), return_when=until)
        ended = [name for name, future in self._running.items() if future.done()]
        return {name: self._running.pop(name).result() for name in ended}


def copy_table(workspace: Workspace, contract: TableContract) -> Outcome[SyncResult]:
    """Copy a table, which the follower folds later."""
    [synced] = load_tables(workspace, [contract], jobs=1, look=Look())
    return synced
