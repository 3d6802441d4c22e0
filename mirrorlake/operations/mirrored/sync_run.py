"""What one sync of tables of any kind shares: its options, a workspace, and what is read of logs.

What belongs here: that. What doesn't: syncing (`mirrorlake.operations.mirrored.kinds`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from mirrorlake.config import Config, Mirrored, TenantTable
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.quick_imports import importing

if TYPE_CHECKING:
    from mirrorlake.operations.tenants.read_along import TenantsAlong
    from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class SyncOptions:
    """How a person, or a schedule, wants tables to be synced.

    Attributes:
        accept_smaller: copies are taken that are far smaller than the last ones.
        jobs: how many tables at once; None: what their sources and this machine allow.
        databases: of tables of tenants these alone; all where there is none.
        again: tenants are read that their source shows to be unchanged.
    """

    accept_smaller: bool = False
    jobs: int | None = None
    databases: frozenset[str] = frozenset()
    again: bool = False


class SyncRun:
    """A sync of some tables, in a process that does nothing else, while the block runs. The
    workspace is opened once a table is to be read: what is unchanged costs neither PyIceberg's
    import nor a Spark session.

    Attributes:
        tables: of any kind, in their order.

    Args:
        begin: called once, before the first of them is read.
    """

    def __init__(
        self,
        config: Config,
        tables: Sequence[Mirrored],
        options: SyncOptions,
        begin: Callable[[], None],
    ) -> None:
        self.config, self.options = config, options
        self.tables, self._begin = tables, begin
        self._open = ExitStack()

    @classmethod
    def over(cls, workspace: Workspace, tables: Sequence[Mirrored], options: SyncOptions) -> Self:
        """One in a workspace that is open, and stays so."""
        run = cls(workspace.config, tables, options, lambda: None)
        run.workspace, run.ledger = workspace, workspace.ledger
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, for looks at it before a workspace is needed."""
        return Ledger(self.config.ledger.url, self.config.ledger.wait)

    @cached_property
    def workspace(self) -> Workspace:
        """The one that all of them share."""
        from mirrorlake.sources.mysql.reading.helper_processes import start_helpers

        self._begin()
        start_helpers()  # it imports what it needs while this process does
        with importing():
            from mirrorlake.workspace import Workspace

        return self._open.enter_context(Workspace.open(self.config))

    @cached_property
    def along(self) -> TenantsAlong | None:
        """How tables of tenants read logs along with other tables; None where none follows one."""
        tenants = [table for table in self.tables if isinstance(table, TenantTable)]
        if not any(table.by_log for table in tenants):
            return None
        from mirrorlake.operations.tenants.read_along import TenantsAlong

        return TenantsAlong(tenants)
