"""One sensor per table of mode ``snapshot``: what has landed, and a run for its chain."""

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.keys import SOURCE_TAG, asset_key
from assets.snapshots import FRESH, partitions_name, snapshot_keys
from checks.snapshots import snapshot_check_keys
from mirrorlake.config import TableContract, format_duration
from resources.failures import told
from sensors.requests import UNFINISHED

if TYPE_CHECKING:
    from mirrorlake.landing.look import Looked

INTERVAL_SECONDS = 60
MOST_ATTEMPTS = 5
"""A snapshot that so many runs began and none published is left to a person."""
TABLE_TAG = "mirrorlake/table"
_STATUS = {
    True: dg.DefaultSensorStatus.RUNNING,
    False: dg.DefaultSensorStatus.STOPPED,
}


def build_landed_sensor(
    contract: TableContract, needs: frozenset[str] = frozenset(), *, running: bool = False
) -> dg.SensorDefinition:
    """The sensor on new snapshots of one table.

    A tick lists what may be new, adds the oldest complete snapshot as a partition and requests its
    chain: so they are folded in the order of their ids, and one that fails is not overtaken
    silently. While a run of the table waits or works it looks at nothing. A snapshot that waits for
    longer than ``fresh_within`` fails the check ``fresh``, once.

    Args:
        needs: resources that reading the landing takes.
    """

    @dg.sensor(
        name=f"landed_{re.sub(r'[^A-Za-z0-9_]', '_', contract.name)}",
        asset_selection=snapshot_keys(contract),
        minimum_interval_seconds=INTERVAL_SECONDS,
        required_resource_keys={"ledger", *needs},
        default_status=_STATUS[running],
        description=f"Requests the chain of {contract.name} for each snapshot that landed.",
    )
    def landed(context: dg.SensorEvaluationContext) -> Any:
        from mirrorlake.landing.look import look, place_of

        under_way = dg.RunsFilter(tags={TABLE_TAG: tag_of(contract)}, statuses=UNFINISHED)
        if context.instance.get_run_records(under_way, limit=1):
            return dg.SkipReason(f"A run of table {contract.name} is under way")
        with told(0, again=False):
            ledger = context.resources.ledger
            if needs:
                from resources.gcs import reach

                reach(context.resources, ledger.contracts.landings[contract.source])
            found = look(place_of(ledger.contracts, contract), ledger.ledger)
            now = ledger.ledger.ledger_clock()
        for reason in found.refused.values():
            context.log.warning(reason)
        for name in found.strange:
            context.log.warning("%s is no snapshot's", name)
        return _ask(context, contract, found, now)

    return landed


def tag_of(contract: TableContract) -> str:
    """A table's name as the value of a run's tag."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", contract.name)[:63]


def _ask(
    context: dg.SensorEvaluationContext, contract: TableContract, found: "Looked", now: datetime
) -> dg.SensorResult:
    waiting = [one for one in found.ready if one.attempts < MOST_ATTEMPTS]
    before = json.loads(context.cursor) if context.cursor else {}
    late, verdicts = _late(contract, found, now, before.get("late", []))
    newest = max((one.id for one in found.ready), default=before.get("newest"))
    cursor = json.dumps({"newest": newest, "late": late})
    for one in found.ready:
        if one.attempts >= MOST_ATTEMPTS:
            context.log.warning(
                "snapshot %014d: %d runs began and none published it: materialise it by hand",
                one.id,
                one.attempts,
            )
    if not waiting:
        words = f"Nothing new; {len(found.arriving)} snapshots are not complete yet"
        return dg.SensorResult(skip_reason=words, cursor=cursor, asset_events=verdicts)
    first = waiting[0]
    key = f"{first.id:014d}"
    request = dg.RunRequest(
        run_key=f"{contract.name}-{key}-{first.fingerprint[:16]}-{first.attempts}",
        asset_selection=snapshot_keys(contract),
        asset_check_keys=snapshot_check_keys(contract),
        partition_key=key,
        tags={
            SOURCE_TAG: contract.source,
            TABLE_TAG: tag_of(contract),
            "mirrorlake/reason": f"snapshot {key} landed",
        },
    )
    partitions = dg.DynamicPartitionsDefinition(name=partitions_name(contract))
    return dg.SensorResult(
        run_requests=[request],
        dynamic_partitions_requests=[partitions.build_add_request([key])],
        cursor=cursor,
        asset_events=verdicts,
    )


def _late(
    contract: TableContract, found: "Looked", now: datetime, told: list[int]
) -> tuple[list[int], list[dg.AssetCheckEvaluation]]:
    """The snapshots that have waited for too long, and a verdict where there is a new one."""
    limit = contract.snapshot.fresh_within if contract.snapshot else timedelta(0)
    late = [one for one in found.ready if now - one.seen_at > limit]
    ids = [one.id for one in late]
    if not set(ids) - set(told):
        return ids, []
    minutes = max((now - one.seen_at).total_seconds() / 60 for one in late)
    verdict = dg.AssetCheckEvaluation(
        asset_key=asset_key("deduped", contract),
        check_name=FRESH,
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "limit": format_duration(limit),
            "minutes waited": round(minutes, 1),
            "not published": ", ".join(f"{one:014d}" for one in ids[:20]),
        },
    )
    return ids, [verdict]
