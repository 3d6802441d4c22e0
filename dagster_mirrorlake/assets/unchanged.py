"""What Dagster is told of a full copy that the daily run found unchanged, and did not read."""

from collections.abc import Iterator

import dagster as dg

from dagster_mirrorlake.assets.reported import through_tags
from dagster_mirrorlake.table import LAYERS, MirroredTable
from mirrorlake.ledger import Ledger
from mirrorlake.operations.results import SyncResult

_EVIDENCE = {
    "server": "its server's log stands where it stood",
    "table": "the time of its last change is the same",
    "digest": "MySQL's digest of its rows is the copy's",
}


def unchanged_layers(
    ledger: Ledger, table: MirroredTable, found: SyncResult
) -> Iterator[dg.AssetMaterialization]:
    """One materialisation of each layer, of the day on which the newest copy was made: that is what
    the lake holds, as new as MySQL. The day that was asked for has no copy, and stays as it is.
    """
    load = ledger.newest_attempts([table.contract.name]).get(table.contract.name)
    if load is None or load.load_id != found.load_id:
        return  # loaded by another run since it was found unchanged: that run reports it
    rows = load.receipt.rows if load.receipt else 0
    metadata = {
        "unchanged": _EVIDENCE[str(found.unchanged)],
        "evidence": found.unchanged,
        "as of": f"{found.moment} UTC",
        "load id": found.load_id,
    }
    for layer in LAYERS:
        yield dg.AssetMaterialization(
            table.key(layer),
            partition=table.partition_of(load.window.day),
            metadata={**metadata, **({} if layer == "raw" else {"dagster/row_count": rows})},
            tags=through_tags(load.seq),
        )
