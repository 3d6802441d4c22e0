"""The fold of tenants: deduped holds the newest copy of each, in the columns of all versions.

Each tenant's copy is whole, so a fold takes a tenant's rows out and puts those of its newest copy
in: of the tenants that moved, and of no others. It is written on a branch, counted there, and shown
in one step. Which copy is the newest the ledger says by its load's id; rows of a load that it does
not name are passed over. Doing it again changes nothing. If somebody else wrote to deduped since,
or columns of a shape are called otherwise, all tenants are folded again.

A column has the type that holds what any version has of it (`mirrorlake.schema.lattice`). Where
that is another one than deduped has, and no wider one, all tenants are folded again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.tenants import bucket_in, bucket_of
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Load, RawFile, Tenant, TenantPlace
from mirrorlake.load.raw.raw_files import compare_bytes
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.reshape import next_names
from mirrorlake.merge.staging import drop_stale
from mirrorlake.merge.tenant_due import add_due, forget_due
from mirrorlake.merge.tenant_fold_plan import (
    TenantsToFold,
    deduped_layer,
    marks_of,
    plan_fold,
)
from mirrorlake.merge.tenant_layer import LayerChange, count_rows
from mirrorlake.merge.tenant_shapes import TenantShapes, listed, rows_sql
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.tenants_in_log import log_loads_of
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class TenantsFolded:
    """What a fold did.

    Attributes:
        moved: the tenants whose rows deduped did not hold so before.
        removed: those of them whose rows left it → how many rows those were.
    """

    moved: tuple[TenantPlace, ...] = ()
    removed: Mapping[TenantPlace, int] = field(default_factory=dict[TenantPlace, int])


@dataclass
class TenantFold:
    """Brings deduped up to the newest copy of every tenant, in two parts: what is written, and what
    follows once main shows it. Nothing to do costs no Spark.

    Attributes:
        staged: what main is to show; None where it shows it already, or nothing was written.
    """

    workspace: Workspace
    table: TenantTable
    shapes: TenantShapes
    staged: StagedVersion | None = None
    _todo: TenantsToFold = field(
        default_factory=lambda: TenantsToFold({}, frozenset(), whole=False)
    )
    _wanted: dict[TenantPlace, int] = field(default_factory=dict[TenantPlace, int])
    _removed: dict[TenantPlace, int] = field(default_factory=dict[TenantPlace, int])
    _head: int | None = None
    _recorded: bool = False

    @classmethod
    def begin(
        cls,
        workspace: Workspace,
        table: TenantTable,
        tenants: Mapping[TenantPlace, Tenant],
        shapes: TenantShapes,
        kept: Collection[TenantPlace],
    ) -> TenantFold:
        """What there is to fold.

        Args:
            workspace: with the lease of the table of tenants.
            tenants: as the ledger has them.
            shapes: the versions that the lake has.
            kept: tenants whose rows stay though the contract says that they leave.

        Raises:
            LakeError: not all of it can be folded.
        """
        todo = plan_fold(workspace, table, shapes, tenants, kept)
        return cls(workspace, table, shapes, _todo=todo)

    @property
    def _is_idle(self) -> bool:
        return not self._todo.rows and not self._todo.out

    def write(self, *, apart: bool = False) -> None:
        """Write it.

        Args:
            apart: whether it stays on a branch, ``staged``, until it is shown with others. A layer
                that is written from scratch is shown by itself.

        Raises:
            LakeError: Spark, the catalog or the storage failed; deduped is as it was, or folded.
            LeaseHeld: another run took the table over; this one writes nothing more.
        """
        if self._is_idle:
            return
        workspace, table, shapes, todo = self.workspace, self.table, self.shapes, self._todo
        layer = deduped_layer(workspace, table)
        log_loads = log_loads_of(workspace.ledger, table, [*todo.rows.values()])
        _refuse_damaged(workspace, table, shapes, todo.rows.values(), log_loads)
        beside = next_names(todo.retyped)
        layer.ensure(shapes.stored, originals=shapes.originals, beside=beside)
        if table.clean == "table":
            places = {*todo.rows, *todo.out}
            add_due(workspace.ledger, clean_of(table), places, everything=todo.whole)
        failpoint("tenants.before_fold")
        self._head = workspace.lake.head(layer.identifier)
        with spark_errors(table.name):
            self._removed = _count_leaving(workspace, table, todo)
            with listed(workspace.spark.get(), todo.rows.values(), log_loads):
                self._wanted = _count_rows(workspace, table, shapes, todo)
                change = _change(workspace, table, shapes, todo, self._wanted)
                if apart and not todo.whole:
                    self.staged = layer.stage(change)
                else:
                    layer.write(change)

    def records(self) -> list[Callable[[], object]]:
        """What the ledger is to know now that main shows it, in one transaction."""
        self._recorded = True
        ledger, table, todo = self.workspace.ledger, self.table, self._todo
        if self._is_idle:
            return [lambda: forget_due(ledger, deduped_of(table))] if todo.followed else []
        failpoint("tenants.folded")
        layer, lake = deduped_layer(self.workspace, table), self.workspace.lake
        flush_commits(lake.load(layer.identifier), self._head)
        shown, marks = lake.head(layer.identifier), marks_of(self.shapes)
        folded: dict[TenantPlace, str | None] = dict.fromkeys(todo.out - todo.rows.keys())
        folded |= {place: tenant.load_id for place, tenant in todo.rows.items()}
        followed = {p: self._wanted[p] for p, t in todo.rows.items() if t.log_place is not None}
        return [
            lambda: layer.record_made([shown], marks),
            lambda: ledger.record_tenants_folded(table.name, folded),
            lambda: ledger.record_tenant_rows(table.name, followed),
            lambda: forget_due(ledger, deduped_of(table)),
            self.workspace.left(table.name, "deduped", layer.identifier),
        ]

    def finish(self) -> TenantsFolded:
        """Do what follows once main shows it; what was done.

        Raises:
            LakeError, LedgerError: it failed.
        """
        todo, table = self._todo, self.table
        if not self._recorded and (acts := self.records()):
            self.workspace.ledger.together(*acts)
        if self._is_idle:
            return TenantsFolded()
        failpoint("tenants.recorded")
        if not todo.whole:
            compact_if_due(self.workspace.spark.get, self.workspace.lake, deduped_of(table))
        moved = [p for p, t in todo.rows.items() if t.folded != t.load_id or p in todo.followed]
        return TenantsFolded((*moved, *sorted(todo.leaving)), self._removed)

    def abandon(self) -> None:
        """Leave main as it is."""
        if self.staged is not None:
            drop_stale(self.workspace.lake, self.staged.identifier)


def _refuse_damaged(
    workspace: Workspace,
    table: TenantTable,
    shapes: TenantShapes,
    tenants: Collection[Tenant],
    log_loads: Collection[Load],
) -> None:
    """See that the files that are folded have the bytes that their loads wrote.

    Raises:
        LakeDamaged: one has not; nothing was changed.
    """
    seqs = {tenant.seq for tenant in tenants if tenant.seq is not None}
    followed = {load.seq for load in log_loads}
    buckets = {bucket_of(tenant.database) for tenant in tenants}
    tables = {one.name()[-1]: one for one in shapes.tables.values()}
    records = [
        record
        for record in workspace.ledger.raw_files(table.name, seqs | followed)
        if record.raw_table in tables
        and (record.seq not in followed or bucket_in(record.name) in (None, *buckets))
    ]
    for record, found in zip(records, compare_bytes(workspace.lake, tables, records), strict=True):
        if found is None:
            continue
        # Without terms they are read again, as if their contract had changed.
        theirs = [replace(t, terms=None) for t in tenants if _may_be_in(t, record, followed)]
        workspace.ledger.record_tenants(table.name, theirs)
        raise LakeDamaged(
            f"table {table.name}: raw file {found.path} {found.what}",
            table=table.name,
            reason=found.what,
            next_step="Sync again: its tenants are then read again",
        )


def _may_be_in(tenant: Tenant, record: RawFile, followed: Collection[int]) -> bool:
    """Whether a file may have rows that a tenant is folded of."""
    if record.seq not in followed:
        return tenant.seq == record.seq
    later = tenant.log_place is not None and (tenant.seq or 0) < record.seq
    return later and bucket_in(record.name) in (None, bucket_of(tenant.database))


# --- Spark ----------------------------------------------------------------------------------------


def _count_rows(
    workspace: Workspace, table: TenantTable, shapes: TenantShapes, todo: TenantsToFold
) -> dict[TenantPlace, int]:
    """How many rows each tenant must have: as many as its copy, and where a log continued it as
    many as both come to, which is counted apart from what is written."""
    wanted = {place: tenant.rows or 0 for place, tenant in todo.rows.items()}
    followed = {p: t for p, t in todo.rows.items() if t.log_place is not None}
    if followed:
        wanted |= dict.fromkeys(followed, 0)
        wanted |= count_rows(workspace, f"({rows_sql(table, shapes, followed)})")
    return wanted


def _change(
    workspace: Workspace,
    table: TenantTable,
    shapes: TenantShapes,
    todo: TenantsToFold,
    wanted: Mapping[TenantPlace, int],
) -> LayerChange:
    return LayerChange(
        out=todo.out,
        whole=todo.whole,
        rows=rows_sql(table, shapes, todo.rows) if todo.rows else None,
        beside=next_names(todo.retyped),
        verify=partial(_refuse_other_counts, workspace, table, todo, wanted),
        made=marks_of(shapes),
    )


def _count_leaving(
    workspace: Workspace, table: TenantTable, todo: TenantsToFold
) -> dict[TenantPlace, int]:
    """How many rows deduped has of each tenant that leaves it."""
    if not todo.leaving:
        return {}
    found = dict.fromkeys(sorted(todo.leaving), 0)
    return found | count_rows(workspace, deduped_of(table).sql, todo.leaving)


def _refuse_other_counts(
    workspace: Workspace,
    table: TenantTable,
    todo: TenantsToFold,
    counts: Mapping[TenantPlace, int],
    found: Mapping[TenantPlace, int],
) -> None:
    """See that the branch has as many rows of each tenant as its load read, or its log left.

    Args:
        counts: these, by tenant.

    Raises:
        LakeError: it has not; nothing is visible.
    """
    places = {*todo.rows, *todo.out}
    wanted = {place: counts.get(place, 0) for place in places}
    wrong = sorted(place for place in places if found.get(place, 0) != wanted[place])
    # One whose database is gone first: it can't be read again.
    wrong.sort(key=lambda place: place not in todo.rows or todo.rows[place].gone_at is None)
    if not wrong:
        return
    # Without terms they are read again, as if their contract had changed.
    again = [replace(todo.rows[place], terms=None) for place in wrong if place in todo.rows]
    workspace.ledger.record_tenants(table.name, again)
    first = wrong[0]
    more = f" (and {len(wrong) - 1:,} more tenants)" if len(wrong) > 1 else ""
    raise LakeError(
        f"table {table.name}: the fold has {found.get(first, 0):,} rows of tenant "
        f"{first[0]}.{first[1]}, and its load read {wanted[first]:,}{more}",
        table=table.name,
        next_step="Nothing of it is visible, and its database is gone: restore its raw table, or "
        "write `dropped: remove`"
        if first in todo.rows and todo.rows[first].gone_at is not None
        else "Nothing of it is visible. See whether somebody wrote into raw, and sync again: "
        "these tenants are then read again",
    )
