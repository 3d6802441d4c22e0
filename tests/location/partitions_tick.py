"""One tick of the sensor `partitions`, and what the daemon does with its answer."""

from __future__ import annotations

import dagster as dg


def tick_partitions(
    instance: dg.DagsterInstance, defs: dg.Definitions, cursor: str, killed_after: int | None
) -> tuple[list[dg.AssetMaterialization], str]:
    """One tick of the sensor: the materialisations that it reported, and its cursor.

    Args:
        killed_after: after how many events it is killed, before its cursor is kept; None: not.
    """
    context = dg.build_sensor_context(
        instance=instance,
        cursor=cursor or None,
        repository_def=defs.get_repository_def(),
        resources=dict(defs.resources or {}),
    )
    with context:
        data = defs.resolve_sensor_def("partitions").evaluate_tick(context)
    events = [e for e in data.asset_events if isinstance(e, dg.AssetMaterialization)]
    for event in events[:killed_after]:
        instance.report_runless_asset_event(event)
    if killed_after is not None:
        return events[:killed_after], cursor
    for change in data.dynamic_partitions_requests or []:
        name = change.partitions_def_name
        if isinstance(change, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(name, change.partition_keys)
        else:
            for key in change.partition_keys:
                instance.delete_dynamic_partition(name, key)
    return events, data.cursor or cursor
