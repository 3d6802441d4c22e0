"""The kinds of mirrored tables, and what is done with tables of several.

What belongs here: whose a table is, and in which order kinds are synced. What doesn't: what is done
with tables of one kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mirrorlake.config import Mirrored, TenantTable
from mirrorlake.operations.mirrored.kind import MirroredKind, WatchAny
from mirrorlake.operations.mirrored.sync_run import SyncRun
from mirrorlake.operations.mirrored.tables import TABLES
from mirrorlake.operations.mirrored.tenants import TENANTS
from mirrorlake.runtime.outcomes import Outcome


def by_kind(
    tables: Sequence[Mirrored],
) -> Iterator[tuple[MirroredKind[Any, Any], Sequence[Mirrored]]]:
    """These tables by their kinds, in their order: tables of tenants after the others, with which
    they read logs along."""
    of_tenants = [table for table in tables if isinstance(table, TenantTable)]
    others = [table for table in tables if not isinstance(table, TenantTable)]
    if others:
        yield TABLES, others
    if of_tenants:
        yield TENANTS, of_tenants


def sync_any(
    run: SyncRun, watch: WatchAny
) -> Iterator[tuple[MirroredKind[Any, Any], Outcome[Any]]]:
    """Sync the tables of a run; what became of each, with its kind, as they end.

    Raises:
        LedgerError: the ledger failed.
    """
    for kind, some in by_kind(run.tables):
        for outcome in kind.sync(run, some, watch):
            yield kind, outcome
