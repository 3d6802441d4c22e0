"""Tables of one database each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from typing_extensions import override

from mirrorlake.config import TableContract
from mirrorlake.operations.loading.results import SyncResult, unchanged_result
from mirrorlake.operations.loading.unchanged import Look, look_at
from mirrorlake.operations.mirrored.kind import MirroredKind, WatchAny
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.runtime.quick_imports import importing

if TYPE_CHECKING:
    from mirrorlake.operations.mirrored.sync_run import SyncRun
    from mirrorlake.operations.planning.sync_plans import PlannedSync
    from mirrorlake.workspace import Workspace


class _Tables(MirroredKind[TableContract, SyncResult]):
    name = "tables"

    @override
    def plan(self, workspace: Workspace, tables: Sequence[TableContract]) -> list[PlannedSync]:
        from mirrorlake.operations.planning.sync_plans import plan_syncs

        return plan_syncs(workspace, tables)

    @override
    def sync(
        self, run: SyncRun, tables: Sequence[TableContract], watch: WatchAny
    ) -> Iterator[Outcome[SyncResult]]:
        """Those that their sources show to be unchanged come first."""
        look, config, options = Look(), run.config, run.options
        if not options.accept_smaller:
            look = look_at(config, run.ledger, tables)
        for found in look.unchanged.values():
            yield Outcome(found.contract.name, unchanged_result(found, 0, 0, 0.0))
        left = [table for table in tables if table.name not in look.unchanged]
        if not left:
            return
        from mirrorlake.operations.loading.workers import default_jobs, start_workers

        jobs = options.jobs or default_jobs(config, left)
        # They import what a sync needs while this process does.
        with closing(start_workers(config, left, look, jobs)) as workers:
            workspace = run.workspace
            with importing():
                from mirrorlake.operations.loading.sync_tables import sync_tables

            yield from sync_tables(
                workspace,
                left,
                jobs=jobs,
                accept_smaller=options.accept_smaller,
                look=look,
                watch=watch,
                along=run.along.of(workspace) if run.along is not None else None,
                workers=workers,
            )


TABLES = _Tables()
