"""What was found of a model's expectations, as evaluations of its asset's checks.

The engine looks at rows before they are published, and keeps what it finds; here that is reported,
partition by partition. A partition that was not looked at since an expectation was written
is not reported.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
from dagster._core.event_api import PartitionKeyFilter

from dagster_mirrorlake.assets.targets import target_of
from dagster_mirrorlake.models.model_asset import ModelAsset
from mirrorlake.models.checks.before_publishing import newest_checks, result_of
from mirrorlake.models.compile.model import Model
from mirrorlake.models.ledger import CheckedExpectation, ModelRecords, PartitionChecks
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.scope_values.comprehension import ScopeValues


def report_checks(
    context: dg.AssetExecutionContext,
    asset: ModelAsset,
    model: Model,
    states: States,
    scopes: Sequence[ScopeValues],
) -> None:
    """Report what was found of the checks of a run, after its materialisations: a verdict is about
    the newest one.

    Raises:
        LakeError: the lake can't be read.
        LedgerError: the ledger can't be read.
    """
    names = {one.name for one in context.selected_asset_check_keys}
    if not names:
        return
    checks = ModelRecords(states.ledger).checks(model.name)
    of_main, refused = newest_checks(checks, states.records(model))
    for scope in scopes:
        key = model.key_of(scope)
        # Newer rows that were refused are what the run was about.
        look = refused.get(key) or of_main.get(key)
        for one in _evaluations(context.instance, asset, model, scope, look) if look else ():
            if one.check_name in names:
                # Dagster takes it, and its own annotation does not say so.
                context.log_event(one)  # pyright: ignore[reportArgumentType]


def missing_verdicts(
    instance: dg.DagsterInstance, asset: ModelAsset, model: Model, states: States
) -> Iterator[dg.AssetCheckEvaluation]:
    """Verdicts on published rows that an instance has no record of: of partitions computed
    elsewhere, once it has a record of these.

    Raises:
        LakeError: the lake can't be read.
        LedgerError: the ledger can't be read.
    """
    checks = ModelRecords(states.ledger).checks(model.name) if model.expectations else ()
    of_main, _ = newest_checks(checks, states.records(model))
    names = {one.name for one in model.expectations}
    keys = [dg.AssetCheckKey(asset.key, name) for name in sorted(names)]
    known = instance.event_log_storage.get_asset_check_partition_info(keys) if of_main else ()
    recorded = {(one.check_key.name, one.partition_key) for one in known}
    judged = {
        (one.check_key.name, one.partition_key)
        for one in known
        if one.latest_target_materialization_storage_id == one.latest_materialization_storage_id
    }
    for key, look in of_main.items():
        scope = model.by_key.get(key)
        partition = asset.key_of(scope) if scope is not None and asset.partitions else None
        if scope is None or all((name, partition) in judged for name in names):
            continue
        for one in _evaluations(instance, asset, model, scope, look):
            pair = (one.check_name, partition)
            if one.target_materialization_data is None or pair in judged:
                continue
            if pair not in recorded or not _has_one(instance, one):
                yield one


def _has_one(instance: dg.DagsterInstance, one: dg.AssetCheckEvaluation) -> bool:
    """Whether an instance has a verdict without a run on this partition: it takes no second one,
    and the sensor that gives it would fail."""
    if one.partition is None:
        return False
    records = instance.event_log_storage.get_asset_check_execution_history(
        one.asset_check_key, limit=1_000, partition_filter=PartitionKeyFilter(key=one.partition)
    )
    return any(not record.run_id for record in records)


def _evaluations(
    instance: dg.DagsterInstance,
    asset: ModelAsset,
    model: Model,
    scope: ScopeValues,
    look: PartitionChecks,
) -> Iterator[dg.AssetCheckEvaluation]:
    partition = asset.key_of(scope) if asset.partitions else None
    target = target_of(instance, asset.key, partition)
    for expectation in model.expectations:
        result = result_of(look, expectation)
        if result is not None:
            yield dg.AssetCheckEvaluation(
                asset_key=asset.key,
                check_name=expectation.name,
                passed=result.passed,
                description=_words(look, result),
                metadata=_metadata(look, result),
                severity=_SEVERITY[expectation.severity],
                blocking=expectation.severity == "error",
                partition=partition,
                target_materialization_data=target,
            )


_SEVERITY = {"error": dg.AssetCheckSeverity.ERROR, "warn": dg.AssetCheckSeverity.WARN}


def _words(look: PartitionChecks, result: CheckedExpectation) -> str:
    if not result.passed and look.refused:
        return f"{result.said}; not published"
    return result.said


def _metadata(look: PartitionChecks, result: CheckedExpectation) -> dict[str, dg.MetadataValue]:
    said: dict[str, dg.MetadataValue] = {
        "expected": dg.MetadataValue.text(result.words),
        "rows looked at": dg.MetadataValue.int(look.rows),
        "published": dg.MetadataValue.bool(not look.refused),
        # Past the integers of a browser.
        "commit": dg.MetadataValue.text(str(look.snapshot_id)),
    }
    if look.checked_at is not None:
        said["as of"] = dg.MetadataValue.text(f"{look.checked_at:%Y-%m-%d %H:%M:%S} UTC")
    if result.failed is not None:
        said["rows not as expected"] = dg.MetadataValue.int(result.failed)
    return said
