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

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, iceberg_type
from mirrorlake.destinations.iceberg.tables.tenants import bucket_in, bucket_of
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Load, RawFile, Tenant, TenantPlace
from mirrorlake.load.raw.raw_files import compare_bytes
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.reshape import next_names
from mirrorlake.merge.tenant_due import add_due, forget_due, read_due
from mirrorlake.merge.tenant_layer import LayerChange, LayerSteps, TenantLayer, count_rows
from mirrorlake.merge.tenant_shapes import TenantShapes, listed, rows_sql
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.tenants_in_log import log_loads_of, with_lost_changes
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

STEPS = LayerSteps("tenants.branched", "tenants.staged", "tenants.marked", "tenants.shown")


@dataclass(frozen=True)
class _Todo:
    """What a fold does.

    Attributes:
        rows: tenants whose newest copies are put in, with what logs say since.
        out: tenants whose rows are taken out.
        whole: whether deduped is rewritten from scratch.
        retyped: columns whose type can't become the one of now, and those that others took away.
        followed: tenants of whose logs something was loaded since the last fold.
    """

    rows: Mapping[TenantPlace, Tenant]
    out: frozenset[TenantPlace]
    whole: bool
    retyped: tuple[str, ...] = ()
    followed: frozenset[TenantPlace] = frozenset()

    @property
    def leaving(self) -> frozenset[TenantPlace]:
        """Tenants whose rows leave deduped for good."""
        return self.out - self.rows.keys()


@dataclass(frozen=True)
class TenantsFolded:
    """What a fold did.

    Attributes:
        moved: the tenants whose rows deduped did not hold so before.
        removed: those of them whose rows left it → how many rows those were.
    """

    moved: tuple[TenantPlace, ...] = ()
    removed: Mapping[TenantPlace, int] = field(default_factory=dict[TenantPlace, int])


def fold_tenants(
    workspace: Workspace,
    table: TenantTable,
    tenants: Mapping[TenantPlace, Tenant],
    shapes: TenantShapes,
    kept: Collection[TenantPlace] = (),
) -> TenantsFolded:
    """Bring deduped up to the newest copy of every tenant. Nothing to do costs no Spark.

    Args:
        workspace: with the lease of the table of tenants.
        tenants: as the ledger has them.
        shapes: the versions that the lake has.
        kept: tenants whose rows stay though the contract says that they leave.

    Raises:
        LakeError: Spark, the catalog or the storage failed; deduped is as it was, or folded.
        LeaseHeld: another run took the table over; this one writes nothing more.
    """
    todo = _plan(workspace, table, shapes, tenants, kept)
    if not todo.rows and not todo.out:
        if todo.followed:
            forget_due(workspace.ledger, deduped_of(table))
        return TenantsFolded()
    layer = _layer(workspace, table)
    log_loads = log_loads_of(workspace.ledger, table, [*todo.rows.values()])
    identifier, beside = layer.identifier, next_names(todo.retyped)
    _refuse_damaged(workspace, table, shapes, todo.rows.values(), log_loads)
    layer.ensure(shapes.stored, originals=shapes.originals, beside=beside)
    if table.clean == "table":
        places = {*todo.rows, *todo.out}
        add_due(workspace.ledger, clean_of(table), places, everything=todo.whole)
    failpoint("tenants.before_fold")
    head = workspace.lake.head(identifier)
    with spark_errors(table.name):
        removed = _count_leaving(workspace, table, todo)
        with listed(workspace.spark.get(), todo.rows.values(), log_loads):
            wanted = _count_rows(workspace, table, shapes, todo)
            layer.write(_change(workspace, table, shapes, todo, wanted))
    failpoint("tenants.folded")
    flush_commits(workspace.lake.load(identifier), head)
    shown = workspace.lake.head(identifier)
    ledger = workspace.ledger
    folded = {place: tenant.load_id for place, tenant in todo.rows.items()}
    counted = {p: wanted[p] for p, t in todo.rows.items() if t.log_place is not None}
    ledger.together(
        lambda: layer.record_made([shown], _marks(shapes)),
        lambda: ledger.record_tenants_folded(
            table.name, {**dict.fromkeys(todo.out - folded.keys()), **folded}
        ),
        lambda: ledger.record_tenant_rows(table.name, counted),
        lambda: forget_due(ledger, deduped_of(table)),
        workspace.left(table.name, "deduped", identifier),
    )
    failpoint("tenants.recorded")
    if not todo.whole:
        compact_if_due(workspace.spark.get, workspace.lake, identifier)
    moved = [p for p, t in todo.rows.items() if t.folded != t.load_id or p in todo.followed]
    return TenantsFolded((*moved, *sorted(todo.leaving)), removed)


def breaks_views(workspace: Workspace, table: TenantTable, shapes: TenantShapes) -> bool:
    """Whether the next fold gives a column that deduped has another type, if only a wider one, or
    the values that another one had: a view that declares what was there must not meet it."""
    there = workspace.lake.load(deduped_of(table))
    if there is None:
        return False
    held = {f.name: f.field_type for f in there.schema().fields}
    if any(held.get(name, iceberg_type(k)) != iceberg_type(k) for name, k in shapes.stored):
        return True
    made = _layer(workspace, table).made()
    return made is not None and not _is_named_as_made(made, shapes)


def is_shown(table: TenantTable, tenant: Tenant) -> bool:
    """Whether deduped is to have a tenant's rows."""
    there = tenant.gone_at is None or table.dropped == "keep"
    return tenant.load_id is not None and there


def _plan(
    workspace: Workspace,
    table: TenantTable,
    shapes: TenantShapes,
    tenants: Mapping[TenantPlace, Tenant],
    kept: Collection[TenantPlace],
) -> _Todo:
    layer = _layer(workspace, table)
    shown = {
        p: t
        for p, t in tenants.items()
        if is_shown(table, t) or (p in kept and t.load_id is not None)
    }
    lost = {p: t for p, t in shown.items() if t.version not in shapes.tables}
    lost |= with_lost_changes(workspace.ledger, table, shown)
    there = workspace.lake.load(layer.identifier)
    held = {f.name: f.field_type for f in there.schema().fields} if there is not None else {}
    made = layer.made()
    # Columns that it had when it was made, and that others took away, are written beside as well.
    once = set(made.get("columns", ())) if made and held else set[str]()
    retyped = tuple(
        name
        for name, kind in shapes.stored
        if (name in held and not can_hold(held[name], iceberg_type(kind)))
        or (name in once and name not in held)
    )
    gone = {p for p, t in tenants.items() if t.folded is not None and p not in shown}
    due = read_due(workspace.ledger, layer.identifier).places
    if there is None or retyped or (made and not _is_as_made(layer, there, made, shapes)):
        if lost and there is not None:
            raise _lost_raw(table, lost)
        # Who died in the first fold left it empty: nothing can be lost.
        if there is not None and not made and there.current_snapshot() is not None:
            raise _unknown_ledger(table, retyped)
        rows = {p: t for p, t in shown.items() if p not in lost}
        parts = (rows, frozenset(gone))
        return _Todo(*parts, whole=True, retyped=retyped, followed=frozenset(due))
    # Of a ledger that did not make it, rows of tenants that it does not know stay.
    moved = {
        p: t for p, t in shown.items() if (t.folded != t.load_id or p in due) and p not in lost
    }
    return _Todo(moved, frozenset({*moved, *gone}), whole=False, followed=frozenset(due))


def _unknown_ledger(table: TenantTable, retyped: Sequence[str]) -> LakeError:
    return LakeError(
        f"table {table.name}: {', '.join(retyped)} got another type, so all tenants are to be "
        "folded again, and this ledger did not make deduped: rows of tenants that it does not know "
        "would be lost",
        table=table.name,
        next_step=f"Rename {deduped_of(table)} (one that is dropped is registered again), then "
        "sync again",
    )


def _lost_raw(table: TenantTable, lost: Mapping[TenantPlace, Tenant]) -> LakeError:
    names = sorted(f"{source}.{database}" for source, database in lost)
    return LakeError(
        f"table {table.name}: all tenants are to be folded again, and raw has no rows of "
        f"{len(names)} of them any more ({', '.join(names[:3])}{' …' if len(names) > 3 else ''})",
        table=table.name,
        next_step="Deduped is as it was. Sync again once they can be read; of tenants that are "
        "gone, restore their raw table, or write `dropped: remove`",
    )


def _layer(workspace: Workspace, table: TenantTable) -> TenantLayer:
    identifier = deduped_of(table)
    return TenantLayer(workspace, table, identifier, f"tenants {identifier}", STEPS)


def _is_as_made(
    layer: TenantLayer, there: LakeTable, made: Mapping[str, Any], shapes: TenantShapes
) -> bool:
    """Whether deduped is as the last fold left it; and the columns of its tenants' shapes are
    called as they were then."""
    return _is_named_as_made(made, shapes) and layer.is_as_left(there, made)


def _is_named_as_made(made: Mapping[str, Any], shapes: TenantShapes) -> bool:
    """Whether the columns of each shape are called as at the last fold."""
    now = shapes.fingerprints
    return all(now.get(hashed, n) == n for hashed, n in made["names"].items())


def _marks(shapes: TenantShapes) -> dict[str, Any]:
    """By what deduped is known again beside its versions: its columns, and what those of each
    shape were called."""
    return {"names": shapes.fingerprints, "columns": [name for name, _ in shapes.stored]}


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
    workspace: Workspace, table: TenantTable, shapes: TenantShapes, todo: _Todo
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
    todo: _Todo,
    wanted: Mapping[TenantPlace, int],
) -> LayerChange:
    return LayerChange(
        out=todo.out,
        whole=todo.whole,
        rows=rows_sql(table, shapes, todo.rows) if todo.rows else None,
        beside=next_names(todo.retyped),
        verify=partial(_refuse_other_counts, workspace, table, todo, wanted),
        made=_marks(shapes),
    )


def _count_leaving(workspace: Workspace, table: TenantTable, todo: _Todo) -> dict[TenantPlace, int]:
    """How many rows deduped has of each tenant that leaves it."""
    if not todo.leaving:
        return {}
    found = dict.fromkeys(sorted(todo.leaving), 0)
    return found | count_rows(workspace, deduped_of(table).sql, todo.leaving)


def _refuse_other_counts(
    workspace: Workspace,
    table: TenantTable,
    todo: _Todo,
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
