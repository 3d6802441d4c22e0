"""What is asked of mirrored tables of any kind: what a sync would read, the sync, the status.

What belongs here: the questions, and whose they are. What doesn't: what is asked of one kind alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from mirrorlake.config import Mirrored, TenantTable
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.table.progress import OnProgress

if TYPE_CHECKING:
    from mirrorlake.operations.mirrored.sync_run import SyncRun
    from mirrorlake.operations.planning.sync_plans import PlannedSync
    from mirrorlake.operations.status.status import KnownOfAll
    from mirrorlake.operations.status.table_status import TableStatus
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

    @abstractmethod
    def status(self, known: KnownOfAll, table: C) -> TableStatus:
        """The state of one of them, from what is known of all."""


def kind_of(table: Mirrored) -> MirroredKind[Any, Any]:
    """The kind of a mirrored table."""
    if isinstance(table, TenantTable):
        from mirrorlake.operations.mirrored.tenants import TENANTS

        return TENANTS
    from mirrorlake.operations.mirrored.tables import TABLES

    return TABLES


def by_kind(
    tables: Sequence[Mirrored],
) -> Iterator[tuple[MirroredKind[Any, Any], Sequence[Mirrored]]]:
    """These tables by their kinds, in their order: tables of tenants after the others, with which
    they read logs along."""
    some: dict[MirroredKind[Any, Any], list[Mirrored]] = {}
    for table in sorted(tables, key=lambda one: isinstance(one, TenantTable)):
        some.setdefault(kind_of(table), []).append(table)
    yield from some.items()
