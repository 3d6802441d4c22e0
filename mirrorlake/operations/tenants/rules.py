"""Rules of columns that the mirror of tenants can't follow: those of what was read already, and of
what no tenant has.
"""

from __future__ import annotations

import logging

from mirrorlake.config.contract import TenantTable
from mirrorlake.config.fields import nearest
from mirrorlake.errors import SchemaError
from mirrorlake.merge.tenant_shapes import TenantShapes
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


def refuse_read_already(workspace: Workspace, table: TenantTable) -> None:
    """See that nothing is in the lake that the contract says is never to be read.

    Raises:
        SchemaError: something is, by its name or an earlier one.
    """
    never = {
        one.lower()
        for name, rule in table.columns.items()
        if rule.pci == "never"
        for one in (name, *rule.renamed_from)
    }
    for version in workspace.ledger.schema_versions(table.name) if never else ():
        found = [name for name, _ in version.columns if name.lower() in never]
        if found:
            raise SchemaError(
                f"table {table.name}: {', '.join(found)} is marked `pci: never`, and its mirror "
                "holds it already",
                table=table.name,
                column=found[0],
                next_step="Mirror the tenants again under another name and other namespaces, and "
                "drop the old tables: what was read can't be unread",
            )


def refuse_idle_rules(table: TenantTable, shapes: TenantShapes) -> None:
    """See that every rule that hides something is for a column that some tenant has: by a name that
    was mistyped, the column that was meant would be shown.

    Raises:
        SchemaError: one is for a column that no tenant ever had; nothing is shown by the contract.
    """
    there = {name.lower() for name in shapes.columns}
    for name, rule in table.columns.items():
        if name.lower() not in there and rule.pci is None and rule.pii not in (None, "show"):
            raise SchemaError(
                f"table {table.name}: the contract has a rule for {name!r}, and no tenant has such "
                f"a column{nearest(name, list(shapes.columns))}",
                table=table.name,
                column=name,
                next_step="Correct the name, or take the rule out; the layers are as they were",
            )
