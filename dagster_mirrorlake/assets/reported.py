"""A partition as it is in the lake, in Dagster's words: the same wherever it is reported from, a
run or the sensor on the ledger.

A materialisation of a partition says what raw has of its days, and nothing of other days. Its tag
``mirrorlake/through`` is the number of the newest load that it reflects: what reflects as much is
not reported a second time.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import dagster as dg

from dagster_mirrorlake.table import Layer, MirroredTable

THROUGH_TAG = "mirrorlake/through"
_SHOWN = 10
"""Loads that an event names."""


def through_tags(through: int) -> dict[str, str]:
    """The tags of an event that reflects the loads up to a number of the ledger."""
    return {THROUGH_TAG: str(through)}


def partition_metadata(layer: Layer, rows: int, loads: Iterable[str] = ()) -> dict[str, Any]:
    """What a partition's event says: row versions that raw has of it, and the loads it is for."""
    ids = list(loads)
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    named = {"loads": ", ".join(ids[:_SHOWN]) + more} if ids else {}
    # Deduped and clean keep no days: what they have of one is what raw has, folded.
    name = "dagster/partition_row_count" if layer == "raw" else "row versions folded"
    return {name: rows, **named}


def partition_event(
    table: MirroredTable,
    layer: Layer,
    partition: str,
    metadata: Mapping[str, Any],
    through: int,
) -> dg.AssetMaterialization:
    """One partition of one layer as a materialisation."""
    return dg.AssetMaterialization(
        table.key(layer),
        partition=partition,
        metadata=metadata,
        tags=through_tags(through),
    )


def is_reported(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partition: str,
    through: int,
    is_there: Callable[[int], bool],
) -> bool:
    """Whether the newest materialisation of a partition reflects this much, and no load that the
    ledger does not have any more.

    Args:
        is_there: whether the ledger has a load of the table with this number: one that was put back
            from a backup lacks what Dagster heard of since.
    """
    chosen = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
    found = instance.fetch_materializations(chosen, limit=1).records
    event = found[0].asset_materialization if found else None
    known = (event.tags or {}).get(THROUGH_TAG, "") if event else ""
    if not known.isdigit() or int(known) < through:
        return False
    return int(known) == through or is_there(int(known))
