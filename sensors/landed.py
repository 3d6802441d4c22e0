"""One sensor per table of mode ``snapshot``: what has landed, and a run for its chain."""

import json
import re
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.keys import SOURCE_TAG
from assets.snapshots import partitions_name, snapshot_keys
from checks.snapshots import snapshot_check_keys
from mirrorlake.config import TableContract
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


def build_landed_sensor(contract: TableContract, *, running: bool = False) -> dg.SensorDefinition:
    """The sensor on new snapshots of one table.

    A tick lists what may be new, adds the oldest complete snapshot as a partition and requests its
    chain: so they are folded in the order of their ids, and one that fails is not overtaken
    silently. While a run of the table waits or works it looks at nothing.
    """

    @dg.sensor(
        name=f"landed_{re.sub(r'[^A-Za-z0-9_]', '_', contract.name)}",
        asset_selection=snapshot_keys(contract),
        minimum_interval_seconds=INTERVAL_SECONDS,
        required_resource_keys={"ledger"},
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
            found = look(place_of(ledger.contracts, contract), ledger.ledger)
        for reason in found.refused.values():
            context.log.warning(reason)
        for name in found.strange:
            context.log.warning("%s is no snapshot's", name)
        return _ask(context, contract, found)

    return landed


def tag_of(contract: TableContract) -> str:
    """A table's name as the value of a run's tag."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", contract.name)[:63]


def _ask(
    context: dg.SensorEvaluationContext, contract: TableContract, found: "Looked"
) -> dg.SensorResult:
    waiting = [one for one in found.ready if one.attempts < MOST_ATTEMPTS]
    cursor = json.dumps({"newest": max((one.id for one in found.ready), default=None)})
    told_cursor = cursor if found.ready else context.cursor
    for one in found.ready:
        if one.attempts >= MOST_ATTEMPTS:
            context.log.warning(
                "snapshot %014d: %d runs began and none published it: materialise it by hand",
                one.id,
                one.attempts,
            )
    if not waiting:
        words = f"Nothing new; {len(found.arriving)} snapshots are not complete yet"
        return dg.SensorResult(skip_reason=words, cursor=told_cursor)
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
        cursor=told_cursor,
    )
