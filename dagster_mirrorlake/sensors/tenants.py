"""One sensor per table of tenants: whether some tenant moved, and a run of the chain."""

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.checks import tenant_check_keys
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.moved import interval_of
from dagster_mirrorlake.sensors.requests import STATUS, is_under_way
from dagster_mirrorlake.tenants import MirroredTenants
from dagster_mirrorlake.translator import SOURCE_TAG

if TYPE_CHECKING:
    from mirrorlake.operations.tenants.detect import TenantsSeen
    from mirrorlake.workspace import Workspace


LISTED = 3
"""A tick that requests nothing names at most this many things that were left out."""


def build_tenants_sensor(tenants: MirroredTenants, *, running: bool = False) -> dg.SensorDefinition:
    """The sensor of one table of tenants, which requests its chain once in its ``every`` at most.

    A tick looks at each source by one connection, whatever number of tenants it has. While a run of
    the table waits or works it looks at nothing. A source that is held, or can't be queried, is
    left out; where that is all of them, the tick says so or fails. Nor does it look at a source
    whose log a process follows, which takes these tenants along.
    """
    table, names = tenants.contract, tenants.names

    @dg.sensor(
        name=names.of(f"tenants_moved_{tenants.plain_name}"),
        asset_selection=tenants.chain_keys,
        minimum_interval_seconds=interval_of(table.every),
        required_resource_keys=names.all_of({"ledger", "lake"}),
        default_status=STATUS[running],
        description=f"Requests the chain of {table.name} when a tenant moved, came or went.",
    )
    def tenants_moved(context: dg.SensorEvaluationContext) -> Any:
        if is_under_way(context.instance, tenants.chain_keys, names.of("prove_tenants")):
            return dg.SkipReason(f"A run of table {table.name} is under way")
        return _look(context, tenants)

    return tenants_moved


def _look(
    context: dg.SensorEvaluationContext, tenants: MirroredTenants
) -> dg.SensorResult | dg.SkipReason:
    from mirrorlake.errors import SourceHeld
    from mirrorlake.operations.cursors import cursor_text, read_cursor
    from mirrorlake.operations.following.log_owner import is_followed
    from mirrorlake.operations.tenants.detect import TenantMark, detect_tenants

    table = tenants.contract
    mark = read_cursor(dict[str, TenantMark], context.cursor, {}).get(table.name)
    with dagster_errors():
        workspace = sensor_workspace(tenants, context)
        left = [s for s in table.sources if not (table.by_log and is_followed(workspace.ledger, s))]
        if not left:
            return dg.SkipReason("Processes follow the logs of all sources, and these tenants")
        seen = detect_tenants(workspace, table, mark, sources=left)
        for error in seen.lost.values():
            context.log.warning(str(error))
        if seen.lost.keys() >= {*left}:
            errors = [e for e in seen.lost.values() if not isinstance(e, SourceHeld)]
            if errors:
                raise errors[0]
            return dg.SkipReason("; ".join(map(str, seen.lost.values())))
    if seen.mark is None:
        everyone = len(left) == len(table.sources)
        events = _confirmed(context, tenants, seen) if everyone else []
        return dg.SensorResult(skip_reason=_nothing(seen), asset_events=events)
    reason = _counted(seen)
    request = dg.RunRequest(
        run_key=seen.run_key,
        asset_selection=tenants.chain_keys,
        asset_check_keys=tenant_check_keys(tenants),
        tags={SOURCE_TAG: tenants.source_tag, "mirrorlake/reason": reason},
    )
    observed = dg.AssetObservation(
        tenants.key("source"),
        description=reason,
        metadata={"tenants": seen.tenants, **Counter(seen.due.values())},
    )
    return dg.SensorResult(
        run_requests=[request], cursor=cursor_text({table.name: seen.mark}), asset_events=[observed]
    )


def sensor_workspace(tenants: MirroredTenants, context: dg.SensorEvaluationContext) -> "Workspace":
    """The engine over the sensor's own resources. Spark would start when first used: a look uses
    none."""
    from mirrorlake.destinations.iceberg.spark.session import LazySpark
    from mirrorlake.workspace import Workspace

    resources = tenants.names.resources(context)
    config, lake = resources.ledger.contracts, resources.lake.lake
    return Workspace(config, resources.ledger.ledger, lake, LazySpark(config.spark, lake), "sensor")


def _counted(seen: "TenantsSeen") -> str:
    counts = Counter(seen.due.values())
    return ", ".join(f"{count:,} {why}" for why, count in sorted(counts.items()))


def _nothing(seen: "TenantsSeen") -> str:
    """Why nothing is requested."""
    if seen.until is not None:
        return f"Requested a moment ago: looked at again at {seen.until:%H:%M:%S} UTC"
    words = f"None of {seen.tenants:,} tenants moved"
    if not seen.tenants and not seen.lost:
        words = "There is no tenant"
    elif seen.refused:
        words += f"; not mirrored as they are now: {seen.refused:,} of them"
    if seen.left_out:
        listed = [f"{name}: {why}" for name, why in seen.left_out.items()]
        more = f"; and {len(listed) - LISTED:,} more" if len(listed) > LISTED else ""
        words += f"; left out: {'; '.join(listed[:LISTED])}{more}"
    if seen.failing:
        words += (
            f"; {len(seen.failing):,} that the last run left as they were stand as they stood: "
            "they are requested again within the hour"
        )
    if seen.lost:
        words += f"; not looked at: {'; '.join(str(error) for error in seen.lost.values())}"
    return words


def _confirmed(
    context: dg.SensorEvaluationContext, tenants: MirroredTenants, seen: "TenantsSeen"
) -> list[dg.AssetMaterialization]:
    """Clean, once in a quarter of the time after which it counts as late, where every tenant is
    known to be as it was: Dagster then sees it fresh without a run."""
    fresh = tenants.contract.freshness
    if fresh is None or seen.until or seen.due or seen.lost or seen.refused or not seen.tenants:
        return []
    key, now = tenants.key("clean"), datetime.now(UTC)
    last = context.instance.get_latest_materialization_event(key)
    quarter = (fresh.warn_after or fresh.fail_after) / 4
    # Nothing was ever made: there is nothing to confirm.
    if last is None or now.timestamp() - last.timestamp < quarter.total_seconds():
        return []
    shown = {"unchanged": "every tenant's server shows no change", "tenants": seen.tenants}
    return [dg.AssetMaterialization(key, metadata=shown)]
