"""A verdict stays shown while nothing it is about has changed.

To Dagster a verdict is about one materialisation: the newest there was. Each later one, as the
report of a partition that was loaded long ago, makes it "not evaluated". So a verdict that a report
hid is put on the newest materialisation again, where the ledger shows that its layer holds the very
loads that it held. It stays the same verdict: of its run, of its time. No row is looked at.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import dagster as dg
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from dagster_mirrorlake.assets.targets import target_of
from dagster_mirrorlake.checks.as_of import AsOf
from dagster_mirrorlake.checks.checked_assets import CheckedAsset
from dagster_mirrorlake.checks.series import BY_DAY
from mirrorlake.ledger import Ledger

_SHOWN_AGAIN = "shown again"
_WORDS = "The ledger has recorded no load of these rows since this was looked at, {looked}"
Materialized = Mapping[dg.AssetKey, Collection[str | None]]
"""By asset: the partitions that were materialised."""


def show_again(
    instance: dg.DagsterInstance,
    ledger: Ledger,
    assets: Iterable[CheckedAsset],
    materialized: Materialized,
) -> int:
    """Put verdicts on the newest materialisations that hide them, where nothing changed: those of
    whole assets, and by day those of these partitions. How many there were."""
    count = 0
    for asset in assets:
        partitions = materialized.get(asset.key)
        if not partitions:
            continue
        states: dict[str, AsOf | None] = {}
        for record in _hidden(instance, asset, partitions):
            name = record.key.name
            if name not in states:
                states[name] = asset.as_of(ledger, name)
            count += _show(instance, record, states[name])
    return count


def _hidden(
    instance: dg.DagsterInstance, asset: CheckedAsset, partitions: Collection[str | None]
) -> Iterator[AssetCheckExecutionRecord]:
    """The newest verdicts, on the asset and on these partitions of it, that are not of the newest
    materialisation."""
    storage = instance.event_log_storage
    by_day = [check for check in asset.checks if check.name.endswith(BY_DAY)]
    whole = [check for check in asset.checks if check not in by_day]
    newest = target_of(instance, asset.key, None)
    for record in storage.get_latest_asset_check_execution_by_key(whole).values():
        if newest is not None and not _is_of(record, newest):
            yield record
    days = [partition for partition in partitions if partition is not None]
    for info in storage.get_asset_check_partition_info(by_day, None, days) if days else ():
        if not info.is_current:
            chosen = PartitionKeyFilter(key=info.partition_key)
            check = info.check_key
            yield storage.get_latest_asset_check_execution_by_key([check], chosen)[check]


def _is_of(record: AssetCheckExecutionRecord, newest: Any) -> bool:
    """Whether Dagster takes a verdict on a layer for one on this materialisation."""
    evaluation = record.evaluation
    if not isinstance(evaluation, dg.AssetCheckEvaluation) or record.run_id == newest.run_id:
        return True  # it was requested, and not made; or is of the run that made this
    seen = evaluation.target_materialization_data
    return newest.timestamp < record.create_timestamp if seen is None else seen == newest


def _show(
    instance: dg.DagsterInstance, record: AssetCheckExecutionRecord, now: AsOf | None
) -> bool:
    """Put one verdict on its newest materialisation; whether that was due, and is true."""
    evaluation, event = record.evaluation, record.event
    if not isinstance(evaluation, dg.AssetCheckEvaluation) or event is None or not record.run_id:
        return False  # it was requested, and not made
    seen = AsOf.read(evaluation.metadata)
    target = target_of(instance, record.key.asset_key, evaluation.partition)
    if seen is None or now is None or target is None or not seen.is_state_of(now):
        return False
    said = {_SHOWN_AGAIN: dg.MetadataValue.text(_WORDS.format(looked=seen.looked))}
    shown = dg.AssetCheckEvaluation(
        asset_key=evaluation.asset_key,
        check_name=evaluation.check_name,
        passed=evaluation.passed,
        metadata={**evaluation.metadata, **said},
        target_materialization_data=target,
        severity=evaluation.severity,
        description=evaluation.description,
        blocking=evaluation.blocking,
        partition=evaluation.partition,
    )
    of_run = event.get_dagster_event()._replace(event_specific_data=shown)
    # As the run's own: a verdict without a run would hide no later change from nobody's run.
    instance.event_log_storage.store_event(event._replace(dagster_event=of_run))
    return True


def materialized_since(
    instance: dg.DagsterInstance, event: int | None, most: int = 5000
) -> tuple[dict[dg.AssetKey, set[str | None]], int]:
    """What was materialised after an event (its number in Dagster's log), and the number up to
    which was looked; nothing where no event is given, or one of another log."""
    find = instance.event_log_storage.get_asset_event_summary_records
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    newest = max((record.storage_id for record in find(kind, limit=1)), default=0)
    found: dict[dg.AssetKey, set[str | None]] = defaultdict(set)
    if event is None or newest <= event:
        return found, newest
    records = find(kind, after_storage_id=event, limit=most, ascending=True)
    for record in records:
        found[record.asset_key].add(record.partition)
    return found, max((record.storage_id for record in records), default=newest)
