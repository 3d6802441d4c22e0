"""Layers that were made by another rule, or by other columns, than the contract and MySQL have now.

What belongs here: columns that are renamed or taken away in place, and what the ledger keeps of how
a layer was made. What doesn't: columns that a layer lacks, or that become wider
(`mirrorlake.destinations.iceberg.tables`), and the rows themselves (`mirrorlake.merge.fold`).
"""

from __future__ import annotations

from mirrorlake.destinations.iceberg.model import LakeTable, column_names
from mirrorlake.destinations.iceberg.tables import reshape
from mirrorlake.merge.statements import Layer
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


def reshape_layer(workspace: Workspace, plan: ResolvedTable, layer: Layer) -> None:
    """Give a layer's columns the names that they have in MySQL now, and take away what MySQL has no
    more. Where it keeps original texts, its rows must all be written again: they name columns.

    What somebody else added to it stays: only what a version of the table had is ours to take.
    """
    renamed, gone, there = find_outdated(workspace, plan, layer)
    if renamed or gone:
        # Before the change: who dies in between folds all again.
        if ORIGINAL in there:
            workspace.ledger.record_definition(_reshaped(layer), "its originals name columns")
        reshape(workspace.lake, layer.identifier, renamed, gone)


def find_outdated(
    workspace: Workspace, plan: ResolvedTable, layer: Layer
) -> tuple[dict[str, str], list[str], list[str]]:
    """A layer's columns that have another name now, with that; those that MySQL has no more; and
    all that the layer's table has now."""
    table = workspace.lake.load(layer.identifier)
    there = column_names(table.schema()) if table is not None else []
    now = {then: name for name in layer.names if (then := plan.name_in(there, name)) is not None}
    gone = [name for name in there if name not in now]
    if gone:
        versions = workspace.ledger.schema_versions(plan.name)
        ever = {name for version in versions for name, _ in version.columns}
        gone = [name for name in gone if name in ever]
    return {then: name for then, name in now.items() if then != name}, gone, there


def is_made_otherwise(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, table: LakeTable
) -> bool:
    """Whether what a layer's table holds was made by another rule of deletes, or must be written
    again because its columns have other names."""
    ledger, was = workspace.ledger, "remove"
    if table.current_snapshot() is not None:
        was = ledger.definition(_deletes(layer)) or was
    return was != plan.contract.deletes or ledger.definition(_reshaped(layer)) is not None


def record_as_made(workspace: Workspace, plan: ResolvedTable, layer: Layer) -> None:
    """A layer was written as a whole, as the contract and MySQL have it now."""
    workspace.ledger.record_definition(_deletes(layer), plan.contract.deletes)
    workspace.ledger.forget_definition(_reshaped(layer))


def _deletes(layer: Layer) -> str:
    """The name under which the ledger keeps by which rule of deletes a layer was made."""
    return f"deletes {layer.identifier}"


def _reshaped(layer: Layer) -> str:
    """The name under which the ledger keeps that a layer's rows are to be written again."""
    return f"reshaped {layer.identifier}"
