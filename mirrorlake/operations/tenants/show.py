"""What was loaded of tenants, folded and shown.

What belongs here: deduped, the views and clean, in their order. What doesn't: what is read of
tenants (`mirrorlake.operations.tenants.sync`, `mirrorlake.operations.tenants.follow`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from mirrorlake.config.contract import TenantTable
from mirrorlake.ledger import TenantPlace
from mirrorlake.merge.tenant_shapes import TenantShapes, read_shapes
from mirrorlake.merge.tenants import TenantFold, TenantsFolded
from mirrorlake.operations.tenants.reports import record_shown
from mirrorlake.operations.tenants.rules import refuse_idle_rules
from mirrorlake.serving.tenant_clean import CleanMade
from mirrorlake.serving.tenant_clean_columns import clean_columns_of
from mirrorlake.serving.tenants import (
    hold_clean_tenants,
    remember_tenant_columns,
    show_clean_tenants,
    show_raw_tenants,
)
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class TenantsOnShow:
    """What readers get to see of a table of tenants.

    Attributes:
        shapes: the schema versions that the lake has of it.
        folded: what became of deduped.
        clean: what became of clean.
        removed: tenants whose rows left both → how many rows those were.
    """

    shapes: TenantShapes
    folded: TenantsFolded = field(default_factory=TenantsFolded)
    clean: CleanMade = field(default_factory=CleanMade)
    removed: dict[TenantPlace, int] = field(default_factory=dict[TenantPlace, int])


def show_tenants(
    workspace: Workspace, table: TenantTable, kept: Collection[TenantPlace]
) -> TenantsOnShow:
    """Fold what was loaded, and make the views.

    Args:
        workspace: with the lease of the table of tenants.
        kept: tenants whose rows stay though the contract says that they leave.

    Raises:
        MirrorlakeError: something can't be folded or shown; what was committed is folded by the
            next sync.
    """
    return StagedTenants.begin(workspace, table, kept, apart=False).finish()


@dataclass(frozen=True)
class StagedTenants:
    """A table of tenants that is folded, and whose views are not made yet.

    Attributes:
        workspace: with the lease of the table of tenants.
        fold: what became of deduped; None where nothing was ever loaded.
    """

    workspace: Workspace
    table: TenantTable
    shapes: TenantShapes
    fold: TenantFold | None

    @classmethod
    def begin(
        cls,
        workspace: Workspace,
        table: TenantTable,
        kept: Collection[TenantPlace],
        *,
        apart: bool,
    ) -> StagedTenants:
        """Fold what was loaded; see `show_tenants`.

        Args:
            apart: whether it stays on a branch until it is shown with others, where that can be.
        """
        ledger, shapes = workspace.ledger, read_shapes(workspace, table)
        if not shapes.tables:
            return cls(workspace, table, shapes, None)
        show_raw_tenants(workspace, table, shapes)
        refuse_idle_rules(table, shapes)
        remember_tenant_columns(workspace, table, list(shapes.columns))
        known = ledger.tenants(table.name)
        hold_clean_tenants(workspace, table, shapes)
        fold = TenantFold.begin(workspace, table, known, shapes, kept)
        fold.write(apart=apart)
        return cls(workspace, table, shapes, fold)

    def finish(self) -> TenantsOnShow:
        """Make the views, once main shows what was folded."""
        workspace, table, ledger = self.workspace, self.table, self.workspace.ledger
        if self.fold is None:
            return TenantsOnShow(self.shapes)
        folded = self.fold.finish()
        removed = {
            place: folded.removed.get(place, 0)
            for place, tenant in ledger.tenants(table.name).items()
            if tenant.gone_at is not None
            and table.dropped == "remove"
            and tenant.folded is None
            and tenant.load_id is not None
        }
        ledger.forget_tenants(table.name, removed)
        # One that went before it was ever read is nowhere.
        never = [p for p, t in ledger.tenants(table.name).items() if t.gone_at and not t.load_id]
        ledger.forget_tenants(table.name, never)
        clean = CleanMade()
        if workspace.lake.load(deduped_of(table)) is not None:
            clean = show_clean_tenants(workspace, table, self.shapes)
        return TenantsOnShow(self.shapes, folded, clean, removed)


def record_on_show(workspace: Workspace, table: TenantTable, shapes: TenantShapes) -> None:
    """Keep what readers see now, so that it is reported elsewhere."""
    ledger = workspace.ledger
    rules = clean_columns_of(ledger, table, shapes).definition if shapes.tables else ""
    made, tenants = f"{table.clean} {rules}", ledger.tenants(table.name)
    record_shown(ledger, table.name, tenants.values(), made, workspace.run_id)
