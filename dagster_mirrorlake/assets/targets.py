"""Which materialisation a verdict on a partition is about.

Dagster shows such a verdict only while it names the partition's newest materialisation: any other
is "missing". It fills that in for results of a step's own checks, and not for events.
"""

import dagster as dg

# A parameter of the public `AssetCheckEvaluation`; its type has no public name.
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)


def target_of(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """The newest materialisation of a partition, or of an asset without; None where there is
    none."""
    partitions = None if partition is None else [partition]
    chosen = dg.AssetRecordsFilter(asset_key=key, asset_partitions=partitions)
    for record in instance.fetch_materializations(chosen, limit=1).records:
        return AssetCheckEvaluationTargetMaterializationData(
            run_id=record.run_id, storage_id=record.storage_id, timestamp=record.timestamp
        )
    return None
