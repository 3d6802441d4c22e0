"""What a fold of tenants has to do, by what the ledger and the lake have.

What belongs here: whose rows are put in, whose are taken out, and whether deduped is written from
scratch. What doesn't: doing it (`mirrorlake.merge.tenants`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, iceberg_type
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.merge.tenant_due import read_due
from mirrorlake.merge.tenant_layer import LayerSteps, TenantLayer
from mirrorlake.merge.tenant_shapes import TenantShapes
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.tenants_in_log import with_lost_changes
from mirrorlake.workspace import Workspace

STEPS = LayerSteps("tenants.branched", "tenants.staged", "tenants.marked", "tenants.shown")


@dataclass(frozen=True)
class TenantsToFold:
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


def breaks_views(workspace: Workspace, table: TenantTable, shapes: TenantShapes) -> bool:
    """Whether the next fold gives a column that deduped has another type, if only a wider one, or
    the values that another one had: a view that declares what was there must not meet it."""
    there = workspace.lake.load(deduped_of(table))
    if there is None:
        return False
    held = {f.name: f.field_type for f in there.schema().fields}
    if any(held.get(name, iceberg_type(k)) != iceberg_type(k) for name, k in shapes.stored):
        return True
    made = deduped_layer(workspace, table).made()
    return made is not None and not _is_named_as_made(made, shapes)


def is_shown(table: TenantTable, tenant: Tenant) -> bool:
    """Whether deduped is to have a tenant's rows."""
    there = tenant.gone_at is None or table.dropped == "keep"
    return tenant.load_id is not None and there


def plan_fold(
    workspace: Workspace,
    table: TenantTable,
    shapes: TenantShapes,
    tenants: Mapping[TenantPlace, Tenant],
    kept: Collection[TenantPlace],
) -> TenantsToFold:
    layer = deduped_layer(workspace, table)
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
        return TenantsToFold(*parts, whole=True, retyped=retyped, followed=frozenset(due))
    # Of a ledger that did not make it, rows of tenants that it does not know stay.
    moved = {
        p: t for p, t in shown.items() if (t.folded != t.load_id or p in due) and p not in lost
    }
    return TenantsToFold(moved, frozenset({*moved, *gone}), whole=False, followed=frozenset(due))


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


def deduped_layer(workspace: Workspace, table: TenantTable) -> TenantLayer:
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


def marks_of(shapes: TenantShapes) -> dict[str, Any]:
    """By what deduped is known again beside its versions: its columns, and what those of each
    shape were called."""
    return {"names": shapes.fingerprints, "columns": [name for name, _ in shapes.stored]}
