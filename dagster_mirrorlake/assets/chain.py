"""The factory: one table → its source asset and the three assets of its chain."""

import dagster as dg

from dagster_mirrorlake.assets.layer import layer_asset
from dagster_mirrorlake.table import LAYERS, MirroredTable

_STEPS = "dagster_mirrorlake.assets.steps"
_SNAPSHOT_STEPS = "dagster_mirrorlake.assets.snapshot_steps"


def build_chain(table: MirroredTable) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """A table's source asset and its chain, one op per asset."""
    pool = {"raw": table.pool}
    # A copy that a run finds unchanged is not made again: there is nothing to fold either.
    required = not table.contract.copies
    chain = [
        layer_asset(table, layer, _STEPS, pool=pool.get(layer), required=required or layer != "raw")
        for layer in LAYERS
    ]
    return [table.specs["source"], *chain]


def build_snapshot_chain(
    table: MirroredTable, needs: frozenset[str] = frozenset()
) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """The same of a table whose snapshots land: its landing is the source.

    Args:
        needs: resources that reading the landing takes.
    """
    chain = [layer_asset(table, layer, _SNAPSHOT_STEPS, needs=needs) for layer in LAYERS]
    return [table.specs["source"], *chain]
