"""Tables that many databases have, and that are mirrored as one each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from mirrorlake.config import TenantTable
from mirrorlake.operations.mirrored.kind import MirroredKind, WatchAny
from mirrorlake.operations.tenants.results import SyncTerms, TenantsSynced
from mirrorlake.runtime.outcomes import Outcome

if TYPE_CHECKING:
    from mirrorlake.operations.mirrored.sync_run import SyncRun
    from mirrorlake.operations.planning.sync_plans import PlannedSync
    from mirrorlake.workspace import Workspace


class _Tenants(MirroredKind[TenantTable, TenantsSynced]):
    name = "tenants"

    @override
    def plan(self, workspace: Workspace, tables: Sequence[TenantTable]) -> list[PlannedSync]:
        from mirrorlake.operations.tenants.plan import plan_tenants

        return [plan_tenants(workspace, table) for table in tables]

    @override
    def sync(
        self, run: SyncRun, tables: Sequence[TenantTable], watch: WatchAny
    ) -> Iterator[Outcome[TenantsSynced]]:
        """One after the other: each reads many tenants at once."""
        if run.along is not None and sum(table.by_log for table in tables) > 1:
            run.along.read_rest(run.workspace)
        for table in tables:
            yield Outcome.of(table.name, partial(self._sync, run, table, watch))

    def _sync(self, run: SyncRun, table: TenantTable, watch: WatchAny) -> TenantsSynced:
        workspace, options = run.workspace, run.options
        from mirrorlake.operations.tenants.sync import sync_tenants

        with watch(table) as report:
            terms = SyncTerms(
                databases=options.databases,
                accept_smaller=options.accept_smaller,
                again=options.again,
                progress=report,
            )
            followed = run.along.followed.get(table.name) if run.along is not None else None
            return sync_tenants(workspace, table, terms, followed)


TENANTS = _Tenants()
