"""The sensor of tables that are made elsewhere: it observes those whose rows changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.externals import ExternalAsset
from dagster_mirrorlake.resources.failures import dagster_errors
from mirrorlake.errors import MirrorlakeError

if TYPE_CHECKING:
    from mirrorlake.operations.models.observed import ExternalSeen

INTERVAL_SECONDS = 300
_DATA_VERSION = "dagster/data_version"


def build_externals_sensor(
    externals: Sequence[ExternalAsset], *, running: bool
) -> dg.SensorDefinition:
    """The sensor of all tables of a mirror that are made elsewhere.

    A tick lists each; of one whose rows changed it reports version, rows and when it was written.
    One that can't be looked at, or is not as it is declared, is named in the tick's log; where that
    is all of them, the tick fails.
    """
    names = externals[0].names

    @dg.sensor(
        name=names.of("made_elsewhere"),
        asset_selection=[one.key for one in externals],
        minimum_interval_seconds=INTERVAL_SECONDS - 1,
        required_resource_keys=names.all_of({"lake"}),
        default_status=dg.DefaultSensorStatus.RUNNING
        if running
        else dg.DefaultSensorStatus.STOPPED,
        description="Observes tables that are made elsewhere: version, rows, and when they were "
        "written.",
    )
    def observed(context: dg.SensorEvaluationContext) -> Any:
        with dagster_errors(0, again=False):
            return _look(context, externals)

    return observed


def _look(
    context: dg.SensorEvaluationContext, externals: Sequence[ExternalAsset]
) -> dg.SensorResult | dg.SkipReason:
    from mirrorlake.operations.cursors import cursor_text, read_cursor
    from mirrorlake.operations.models.elsewhere import look_at
    from mirrorlake.operations.models.observed import observe

    resource = externals[0].names.resources(context).lake
    lake, bigquery = resource.lake, resource.contracts.bigquery
    before = read_cursor(dict[str, str], context.cursor, {})
    now: dict[str, str] = {}
    events: list[dg.AssetObservation] = []
    errors: list[MirrorlakeError] = []
    for one in externals:
        name = one.declaration.name
        try:
            table = look_at(one.declaration, lake, bigquery)
            version = table.version([{}])
            if before.get(name) != version:
                events.append(_event(one, observe(table, lake)))
            now[name] = version
        except MirrorlakeError as error:
            errors.append(error)
            now |= {name: before[name]} if name in before else {}
            context.log.warning("%s was not looked at: %s", name, error)
    if len(errors) == len(externals):
        raise errors[0]
    if not events:
        words = f"; {len(errors)} could not be looked at" if errors else ""
        return dg.SkipReason(f"None of {len(externals)} tables changed{words}")
    return dg.SensorResult(asset_events=events, cursor=cursor_text(now))


def _event(external: ExternalAsset, seen: "ExternalSeen") -> dg.AssetObservation:
    metadata: dict[str, Any] = {"bytes": seen.bytes, "version": seen.version}
    if seen.files is not None:
        metadata["files"] = seen.files
    if seen.rows is not None:
        metadata["dagster/row_count"] = seen.rows
    if seen.changed_at is not None:
        changed_at = dg.MetadataValue.timestamp(seen.changed_at)
        metadata["dagster/last_updated_timestamp"] = changed_at
    return dg.AssetObservation(external.key, metadata=metadata, tags={_DATA_VERSION: seen.version})
