"""The sensor of tables that are made elsewhere: it observes those that changed, and checks all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.models.external_asset import ExternalAsset
from dagster_mirrorlake.models.external_checks import look_and_check, verdicts_of
from dagster_mirrorlake.resources.failures import dagster_errors
from mirrorlake.errors import MirrorlakeError

if TYPE_CHECKING:
    from mirrorlake.models.checks.external_tables import CheckedExternal
    from mirrorlake.models.show.external import ExternalSeen

INTERVAL_SECONDS = 300
_DATA_VERSION = "dagster/data_version"
Event = dg.AssetObservation | dg.AssetCheckEvaluation


@dataclass(frozen=True)
class _ExternalReported:
    """What was reported of a table.

    Attributes:
        version: of its rows, those that are streamed in, too.
        verdicts: check → verdict.
        unread_since: since when it can't be looked at; "" while it can.
    """

    version: str = ""
    verdicts: dict[str, str] = field(default_factory=dict[str, str])
    unread_since: str = ""


def build_externals_sensor(
    externals: Sequence[ExternalAsset], *, running: bool
) -> dg.SensorDefinition:
    """The sensor of all tables of a mirror that are made elsewhere.

    A tick looks at each. Of one whose rows changed it reports version, rows and when it was
    written; of its checks those whose verdict changed, or all of new rows. One that can't be looked
    at is named in the tick's log, and its checks are requested once: that run fails, so that no
    older verdict stands. Where that is all of them, the ticks after that fail.
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
        description="Observes and checks tables that are made elsewhere: version, rows, when they "
        "were written, and whether they are as they are declared.",
    )
    def observed(context: dg.SensorEvaluationContext) -> Any:
        with dagster_errors():
            return _look(context, externals)

    return observed


def _look(
    context: dg.SensorEvaluationContext, externals: Sequence[ExternalAsset]
) -> dg.SensorResult | dg.SkipReason:
    from mirrorlake.operations.cursors import cursor_text, read_cursor

    resource = externals[0].names.resources(context).lake
    before = read_cursor(dict[str, _ExternalReported], context.cursor, {})
    now: dict[str, _ExternalReported] = {}
    events: list[Event] = []
    requests: list[dg.RunRequest] = []
    errors: list[MirrorlakeError] = []
    for one in externals:
        name = one.declaration.name
        known = before.get(name, _ExternalReported())
        try:
            found = look_and_check(one, resource)
        except MirrorlakeError as error:
            errors.append(error)
            context.log.warning("%s was not looked at: %s", name, error)
            now[name] = _ExternalReported(unread_since=known.unread_since or _moment())
            requests += [] if known.unread_since else [_request(one, now[name].unread_since)]
        else:
            now[name] = _reported(found)
            events += _events(one, found, known, now[name])
    if events or requests:
        return dg.SensorResult(asset_events=events, run_requests=requests, cursor=cursor_text(now))
    if len(errors) == len(externals):
        raise errors[0]
    words = f"; {len(errors)} could not be looked at" if errors else ""
    return dg.SkipReason(f"None of {len(externals):,} tables changed{words}")


def _moment() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _request(external: ExternalAsset, since: str) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=f"{external.declaration.name} {since}",
        asset_selection=[],
        asset_check_keys=[one.key for one in external.checks],
    )


def _reported(found: "CheckedExternal") -> _ExternalReported:
    seen = found.seen
    streamed = f" + {seen.streamed}" if seen.streamed is not None else ""
    verdicts = {one.check: f"{one.verdict} {one.words}" for one in found.verdicts}
    return _ExternalReported(f"{seen.version}{streamed}", verdicts)


def _events(
    external: ExternalAsset,
    found: "CheckedExternal",
    before: _ExternalReported,
    now: _ExternalReported,
) -> Iterator[Event]:
    moved = before.version != now.version
    if moved:
        yield _observation(external, found.seen)
    for check, verdict in verdicts_of(found).items():
        if moved or before.verdicts.get(check) != now.verdicts[check]:
            yield dg.AssetCheckEvaluation(asset_key=external.key, check_name=check, **verdict)


def _observation(external: ExternalAsset, seen: "ExternalSeen") -> dg.AssetObservation:
    metadata: dict[str, Any] = {"bytes": seen.bytes, "version": seen.version}
    if seen.files is not None:
        metadata["files"] = seen.files
    if seen.rows is not None:
        metadata["dagster/row_count"] = seen.rows
    if seen.streamed is not None:
        metadata["rows streamed in, not counted (about)"] = seen.streamed
    if seen.changed_at is not None:
        changed_at = dg.MetadataValue.timestamp(seen.changed_at)
        metadata["dagster/last_updated_timestamp"] = changed_at
    return dg.AssetObservation(external.key, metadata=metadata, tags={_DATA_VERSION: seen.version})
