"""One tick of the sensor `partitions`, and what the daemon does with its answer."""

from __future__ import annotations

import contextlib

import dagster as dg
import pytest
from dagster._core.events.log import EventLogEntry

from dagster_mirrorlake import event_log
from dagster_mirrorlake.checks.shown_again import materialized_since


def tick_partitions(
    instance: dg.DagsterInstance, defs: dg.Definitions, cursor: str, killed_after: int | None
) -> tuple[list[dg.AssetMaterialization], str]:
    """One tick of the sensor: the materialisations that it reported, in their order, and its cursor.

    Args:
        killed_after: after how many events it is killed, before its cursor is kept; None: not.
    """
    context = dg.build_sensor_context(
        instance=instance,
        cursor=cursor or None,
        repository_def=defs.get_repository_def(),
        resources=dict(defs.resources or {}),
    )
    start = newest_event(instance)
    if killed_after is not None:
        with context, pytest.MonkeyPatch.context() as patched:
            patched.setattr(event_log, "_AT_ONCE", 1)
            patched.setattr(event_log, "_entry", _Killing(killed_after))
            with contextlib.suppress(_Killed):
                defs.resolve_sensor_def("partitions").evaluate_tick(context)
        return events_since(instance, start), cursor
    with context:
        data = defs.resolve_sensor_def("partitions").evaluate_tick(context)
    for event in data.asset_events:
        instance.report_runless_asset_event(event)
    for change in data.dynamic_partitions_requests or []:
        name = change.partitions_def_name
        if isinstance(change, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(name, change.partition_keys)
        else:
            for key in change.partition_keys:
                instance.delete_dynamic_partition(name, key)
    return events_since(instance, start), data.cursor or cursor


class _Killed(BaseException):
    """What a process that is killed does not get over."""


class _Killing:
    """Makes entries of the log; killed where one more is to be made."""

    def __init__(self, after: int) -> None:
        self._left, self._make = after, event_log._entry

    def __call__(self, event: dg.AssetMaterialization) -> EventLogEntry:
        if not self._left:
            raise _Killed
        self._left -= 1
        return self._make(event)


def newest_event(instance: dg.DagsterInstance) -> int:
    """The number of the newest materialisation."""
    return materialized_since(instance, None)[1]


def events_since(instance: dg.DagsterInstance, start: int) -> list[dg.AssetMaterialization]:
    """The materialisations after that number, in their order."""
    found = instance.event_log_storage.get_event_records(
        dg.EventRecordsFilter(
            dg.DagsterEventType.ASSET_MATERIALIZATION, after_cursor=start or None
        ),
        ascending=True,
    )
    return [one.asset_materialization for one in found if one.asset_materialization]
