"""The tags of a cut in the lake: what a table shows is tagged, and tags are taken away.

What belongs here: single tables. What doesn't: which of them are in a cut
(`mirrorlake.cuts.make`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mirrorlake.config import TableContract
from mirrorlake.cuts.ledger import Cuts, CutTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.metadata.row_counts import count_shown
from mirrorlake.errors import LakeError
from mirrorlake.operations.loading.unchanged import stamp_kept
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


def shown_of(leased: Workspace, plan: ResolvedTable) -> list[CutTable]:
    """What a table's layers show now, of which a cut has versions."""
    layers = [("deduped", plan.deduped)]
    layers += [("clean", plan.clean)] if plan.contract.clean == "table" else []
    return [as_shown(leased, plan.contract, layer, at) for layer, at in layers]


def tag_shown(leased: Workspace, contract: TableContract, cut: str, found: list[CutTable]) -> None:
    """Tag versions of a table, whose lease the caller holds, as a cut's.

    Args:
        cut: its name.
    """
    Cuts(leased.ledger).add(cut, found)  # before: who dies in between leaves nothing unknown
    with stamp_kept(leased.config, leased.ledger, contract):
        for one in found:
            if one.snapshot_id is not None:
                create_tag(leased, one, f"cut_{cut}")


def tag_versions(
    workspace: Workspace, contract: TableContract | None, found: Sequence[CutTable], tag: str
) -> None:
    """Tag versions of one table that a cut has; of one that the file has no more, without its
    lease. One that has the tag already keeps it.

    Raises:
        LeaseHeld: a run holds the table.
        LakeError: a version is there no more.
    """
    with _leased(workspace, contract) as leased:
        for one in found:
            table = leased.lake.load(Identifier(one.namespace, one.lake_table))
            if one.snapshot_id is not None and (table is None or tag not in table.metadata.refs):
                create_tag(leased, one, tag)


def as_shown(
    workspace: Workspace, contract: TableContract, layer: str, identifier: Identifier
) -> CutTable:
    table = workspace.lake.load(identifier)
    shown = table.current_snapshot() if table is not None else None
    rows = None
    if table is not None and shown is not None:
        with workspace.lake.translated(identifier):
            rows = count_shown(table)
    return CutTable(
        table=contract.name,
        layer=layer,
        namespace=identifier.namespace,
        lake_table=identifier.name,
        snapshot_id=shown.snapshot_id if shown is not None else None,
        rows=rows,
    )


def create_tag(workspace: Workspace, one: CutTable, tag: str) -> None:
    identifier = Identifier(one.namespace, one.lake_table)
    table = workspace.lake.load(identifier)
    if table is None or one.snapshot_id is None or table.snapshot_by_id(one.snapshot_id) is None:
        raise LakeError(
            f"lake table {identifier} has no version {one.snapshot_id} any more",
            table=one.table,
            next_step="Make another cut",
        )
    with workspace.lake.translated(identifier):
        table.manage_snapshots().create_tag(one.snapshot_id, tag).commit()


def remove_tags(
    workspace: Workspace, contract: TableContract | None, found: Sequence[CutTable], tag: str
) -> None:
    """Take a cut's tags from the lake tables of one table; of one that the file has no more,
    without its lease."""
    with _leased(workspace, contract) as leased:
        for one in found:
            identifier = Identifier(one.namespace, one.lake_table)
            table = leased.lake.load(identifier)
            if table is not None and tag in table.metadata.refs:
                with leased.lake.translated(identifier):
                    table.manage_snapshots().remove_tag(tag).commit()


@contextmanager
def _leased(workspace: Workspace, contract: TableContract | None) -> Iterator[Workspace]:
    """A table's lease; what tags change of its heads is ours."""
    if contract is None:
        yield workspace
        return
    with workspace.leased(contract) as leased:
        leased.check_lease()
        with stamp_kept(leased.config, leased.ledger, contract):
            yield leased
