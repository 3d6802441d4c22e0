"""The factory: one table → its source asset and the three assets of its chain."""

import dagster as dg

from dagster_mirrorlake.assets.layer import layer_asset
from dagster_mirrorlake.table import LAYERS, MirroredTable

_STEPS = "dagster_mirrorlake.assets.steps"


def build_chain(table: MirroredTable) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """A table's source asset and its chain, one op per asset."""
    pool = {"raw": table.pool}
    # Of a required output that a step does not yield Dagster makes one itself, which turns every
    # partition of the run green. A copy that a run finds unchanged is not made again, and a
    # partition that is not in the lake has nothing to continue with.
    chain = [
        layer_asset(table, layer, _STEPS, pool=pool.get(layer), required=False) for layer in LAYERS
    ]
    return [table.specs["source"], *chain]
