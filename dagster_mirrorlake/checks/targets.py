"""Which materialisation a verdict on a partition is about.

Dagster shows such a verdict only while it names the partition's newest materialisation: any other
is "missing". It fills that in for results of a step's own checks, and not for events.
"""

from collections.abc import Iterator
from datetime import date

import dagster as dg

# A parameter of the public `AssetCheckEvaluation`; its type has no public name.
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)

_PAGE = 1000


def target_of(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """The newest materialisation of a partition; None where there is none."""
    chosen = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
    for record in instance.fetch_materializations(chosen, limit=1).records:
        return AssetCheckEvaluationTargetMaterializationData(
            run_id=record.run_id, storage_id=record.storage_id, timestamp=record.timestamp
        )
    return None


def materialized_since(
    instance: dg.DagsterInstance, key: dg.AssetKey, event: int
) -> tuple[set[date] | None, int]:
    """The days that were materialised after an event (its number in Dagster's log), and the number
    of the newest one. None for all days: the log is another one.
    """
    found = instance.fetch_materializations(key, limit=1).records
    newest = found[0].storage_id if found else 0
    if newest < event:
        return None, newest
    return set(_days_after(instance, key, event)), newest


def _days_after(instance: dg.DagsterInstance, key: dg.AssetKey, event: int) -> Iterator[date]:
    cursor: str | None = None
    while True:
        chosen = dg.AssetRecordsFilter(asset_key=key, after_storage_id=event)
        page = instance.fetch_materializations(chosen, limit=_PAGE, cursor=cursor)
        for record in page.records:
            if record.partition_key is not None:
                yield date.fromisoformat(record.partition_key)
        if not page.has_more:
            return
        cursor = page.cursor
