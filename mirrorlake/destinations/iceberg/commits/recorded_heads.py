"""What the ledger records of lake tables after commits of ours.

What belongs here: reading it off a table, and the end of a lease. What doesn't: how a table is
compared with it (`mirrorlake.destinations.iceberg.commits.heads`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyiceberg.table import Table

from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.destinations.iceberg.commits.heads import (
    ModelTable,
    MovedTable,
    Recorded,
    how_moved,
    layers_of_table,
)
from mirrorlake.errors import LakeDamaged
from mirrorlake.ledger.lake.lake_heads import LakeHead
from mirrorlake.ledger.records import Lease
from mirrorlake.ledger.store import Ledger


def read_head(table: Table, contract_name: str, identifier: Identifier) -> LakeHead:
    """A lake table as it is now, to be recorded."""
    shown = table.current_snapshot()
    return LakeHead(
        namespace=identifier.namespace,
        lake_table=identifier.name,
        table=contract_name,
        uuid=str(table.metadata.table_uuid),
        snapshot_id=shown.snapshot_id if shown else None,
        sequence=(shown.sequence_number or 0) if shown else 0,
        metadata_location=table.metadata_location,
    )


def read_left(
    lake: Connection, identifier: Identifier, layer: str, name: str, head: LakeHead | None
) -> LakeHead | None:
    """What a commit of ours, under a table's lease, left of a lake table; ``head`` is what is
    recorded of it. None where others wrote to it since, or it is not there.

    Raises:
        LakeError: the lake can't be read.
    """
    table = lake.load(identifier)
    if table is None:
        return None
    with lake.translated(identifier):
        return read_head(table, name, identifier) if _is_known(table, head, layer) else None


def record_heads(
    config: LakeConfig,
    lake: Connection,
    ledger: Ledger,
    contract: Recorded,
    lease: Lease,
    moved: Sequence[MovedTable],
    accepted: Collection[Identifier] = (),
    last: Sequence[Callable[[], object]] = (),
) -> None:
    """Record what the commits of ours under one lease left, and give it back where there was
    anything to record. What other hands moved, and nobody put right, stays as it is recorded.

    Args:
        moved: what other hands had moved when the lease was taken.
        accepted: what of it was put right since.
        last: what else is to be recorded with it.
    """
    heads = {head.name: head for head in ledger.lake_heads(contract.name)}
    layers = layers_of_table(ledger, contract)
    named = metadata_locations(config, {identifier.path for _, identifier in layers}) or {}
    wrong = {one.identifier for one in moved}.difference(accepted)
    new: list[LakeHead] = []
    gone: list[tuple[str, str]] = []
    if not isinstance(contract, ModelTable) and contract.clean == "view":
        gone += {(contract.namespaces.clean, contract.table)}.intersection(heads)
    for layer, identifier in layers:
        head = heads.get(identifier.path)
        if identifier in wrong:
            continue
        if head is not None and named.get(identifier.path) == head.metadata_location:
            continue
        try:
            table = lake.load(identifier)
        except LakeDamaged:
            continue
        if table is None:
            # Its rules changed: it is dropped, then made again. Or it had no row, or no model.
            # Or a landing's snapshots are folded again, into another table.
            dropped = layer in ("clean", "model", "side") or identifier in accepted
            if head is not None and layer != "raw" and (dropped or head.snapshot_id is None):
                gone.append(identifier.path)
            continue
        with lake.translated(identifier):
            if identifier in accepted or _is_known(table, head, layer):
                new.append(read_head(table, contract.name, identifier))
    if gone or new or last:
        ledger.give_back(
            lease,
            *last,
            lambda: ledger.forget_lake_heads(gone),
            lambda: ledger.record_lake_heads(new),
        )


def _is_known(table: Table, head: LakeHead | None, layer: str) -> bool:
    """Whether what a table shows after a lease of ours is what we left there. A layer that was made
    again in the place of one that can't be read is another table; tables beside the rows are set
    back by a fold to what the rows name."""
    if head is None or layer == "side":
        return True
    how = how_moved(table, head, leased=True)
    return how is None or (how == "another" and layer != "raw")
