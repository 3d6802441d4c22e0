"""What is asked of mirrored tables of any kind: what a sync would read, and the sync.

What belongs here: the questions. What doesn't: which kinds there are
(`mirrorlake.operations.mirrored.kinds`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar

from mirrorlake.config import Mirrored
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.table.progress import OnProgress

if TYPE_CHECKING:
    from mirrorlake.operations.mirrored.sync_run import SyncRun
    from mirrorlake.operations.planning.sync_plans import PlannedSync
    from mirrorlake.workspace import Workspace

C = TypeVar("C", bound=Mirrored)
R = TypeVar("R")
WatchAny: TypeAlias = Callable[[Mirrored], AbstractContextManager[OnProgress]]
"""What a table's sync is watched by, while the block runs."""


class MirroredKind(ABC, Generic[C, R]):
    """Tables of one kind. Several are asked for at once: their sources, the ledger and the catalog
    are looked at once for all of them.

    Attributes:
        name: as programs read it: ``tables`` or ``tenants``.
    """

    name: ClassVar[str]

    @abstractmethod
    def plan(self, workspace: Workspace, tables: Sequence[C]) -> Sequence[PlannedSync]:
        """What a sync of them would read now, in their order; nothing is written.

        Raises:
            LakeError: the lake is not the one that the ledger knows, or can't be read.
            LedgerError: the ledger can't be read.
        """

    @abstractmethod
    def sync(self, run: SyncRun, tables: Sequence[C], watch: WatchAny) -> Iterator[Outcome[R]]:
        """Load what is new of them, fold it and show it; what became of each, as they end. One that
        fails does not stop the others."""
