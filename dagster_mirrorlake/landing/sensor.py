"""One sensor per table of mode ``snapshot``: what has landed, and a run for its chain."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.landing.checks import show_overdue, snapshot_check_keys
from dagster_mirrorlake.landing.promises import FRESH
from dagster_mirrorlake.landing.resource import reach_landing
from dagster_mirrorlake.names import plain
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import STATUS, UNFINISHED, key_of
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.translator import SOURCE_TAG
from mirrorlake.config import format_duration
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices

if TYPE_CHECKING:
    from mirrorlake.landing.files.listing import Looked

INTERVAL_SECONDS = 60
_MOST_ATTEMPTS = 5
"""A snapshot that this many runs began and none published is left to a person."""
_TABLE_TAG = "mirrorlake/table"


@dataclass(frozen=True)
class LandedCursor:
    """What was seen of a table's landing: the newest complete snapshot, and those that were late,
    by id."""

    newest: int | None = None
    late: tuple[int, ...] = ()


def build_landed_sensor(
    table: MirroredTable, needs: frozenset[str] = frozenset(), *, running: bool = False
) -> dg.SensorDefinition:
    """The sensor on new snapshots of one table.

    A tick lists what may be new, adds the oldest complete snapshot as a partition and requests its
    chain: so they are folded in the order of their ids, and one that fails is not overtaken
    silently. While a run of the table waits or works it looks at nothing. A snapshot that waits for
    longer than ``fresh_within``, complete or not, or is refused, fails the check ``fresh``, once;
    when nothing is overdue any more, it passes. While published snapshots are withdrawn by a
    rollback, nothing newer is requested.

    Args:
        needs: resources that reading the landing takes.
    """

    contract, names = table.contract, table.names
    parts = (contract.source, contract.database, contract.table)

    @dg.sensor(
        name=names.of(f"landed_{plain(*parts, between='_')}"),
        asset_selection=table.chain_keys,
        minimum_interval_seconds=INTERVAL_SECONDS,
        required_resource_keys=names.all_of({"ledger", *needs}),
        default_status=STATUS[running],
        description=f"Requests the chain of {contract.name} for each snapshot that landed.",
    )
    def landed(context: dg.SensorEvaluationContext) -> Any:
        from mirrorlake.landing.files.listing import look, place_of
        from mirrorlake.landing.files.waiting_snapshots import find_overdue

        under_way = dg.RunsFilter(tags={_TABLE_TAG: _tag_of(table)}, statuses=UNFINISHED)
        if context.instance.get_run_records(under_way, limit=1):
            return dg.SkipReason(f"A run of table {contract.name} is under way")
        with dagster_errors():
            resources = names.resources(context)
            ledger = resources.ledger
            reach_landing(resources, ledger.contracts, contract)
            found = look(place_of(ledger.contracts, contract), ledger.ledger)
            limit = contract.snapshot.fresh_within if contract.snapshot else timedelta(0)
            records = LandedSnapshots(ledger.ledger).snapshots(contract.name)
            notices = SnapshotNotices(ledger.ledger).notices(contract.name)
            waits = {one.id: one.reason for one in found.waiting}
            now = ledger.ledger.clock()
            overdue = find_overdue(records, notices, limit, now, waits)
        for reason in found.refused.values():
            context.log.warning(reason)
        for one in found.waiting:
            context.log.info("snapshot %014d waits for %s", one.id, one.reason)
        for name in found.strange:
            context.log.warning("%s is no snapshot's", name)
        return _result(context, table, found, overdue, ledger.ledger)

    return landed


def _tag_of(table: MirroredTable) -> str:
    """A table's name as the value of a run's tag."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", table.names.of(table.contract.name))[:63]


def _result(
    context: dg.SensorEvaluationContext,
    table: MirroredTable,
    found: "Looked",
    overdue: dict[int, str],
    ledger: Any,
) -> dg.SensorResult:
    contract = table.contract
    waiting = [one for one in found.ready if one.attempts < _MOST_ATTEMPTS]
    from mirrorlake.operations.cursors import cursor_text, read_cursor

    before = read_cursor(LandedCursor, context.cursor, LandedCursor())
    verdicts = _verdicts(table, overdue, before.late)
    newest = max((one.id for one in found.ready), default=before.newest)
    cursor = cursor_text(LandedCursor(newest, tuple(overdue)))
    for one in found.ready:
        if one.attempts >= _MOST_ATTEMPTS:
            context.log.warning(
                "snapshot %014d: %d runs began and none published it: materialise it by hand",
                one.id,
                one.attempts,
            )
    if found.withdrawn or not waiting:
        words = _idle(found)
        return dg.SensorResult(skip_reason=words, cursor=cursor, asset_events=verdicts)
    first = waiting[0]
    key = f"{first.id:014d}"
    request = dg.RunRequest(
        run_key=key_of(ledger, f"{contract.name}-{key}-{first.fingerprint[:16]}-{first.attempts}"),
        asset_selection=table.chain_keys,
        asset_check_keys=snapshot_check_keys(table),
        partition_key=key,
        tags={
            SOURCE_TAG: table.source_tag,
            _TABLE_TAG: _tag_of(table),
            "mirrorlake/reason": f"snapshot {key} landed",
        },
    )
    return dg.SensorResult(
        run_requests=[request],
        dynamic_partitions_requests=[dg.AddDynamicPartitionsRequest(table.dynamic_name, [key])],
        cursor=cursor,
        asset_events=verdicts,
    )


def _idle(found: "Looked") -> str:
    """Why nothing is requested."""
    if found.withdrawn:
        listed = ", ".join(f"{one:014d}" for one in found.withdrawn[:5])
        return (
            f"Readers see a version without the published snapshots {listed}: nothing newer is "
            "folded until somebody says what becomes of them (mirrorlake land --retry or --skip)"
        )
    if not found.waiting:
        return "Nothing new"
    first = found.waiting[0]
    more = f" and {len(found.waiting) - 1} more wait" if len(found.waiting) > 1 else ""
    return f"Nothing new is complete; {first.id:014d} waits for {first.reason}{more}"


def _verdicts(
    table: MirroredTable, overdue: dict[int, str], reported: Sequence[int]
) -> list[dg.AssetCheckEvaluation]:
    """A verdict where a snapshot has become overdue, or none is any more."""
    if not set(overdue) - set(reported) and (overdue or not reported):
        return []
    settings = table.contract.snapshot
    limit = settings.fresh_within if settings else timedelta(0)
    metadata: dict[str, Any] = {"limit": format_duration(limit)}
    if overdue:
        metadata["not published"] = show_overdue(overdue)
    return [
        dg.AssetCheckEvaluation(
            asset_key=table.key("deduped"),
            check_name=FRESH,
            passed=not overdue,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=metadata,
        )
    ]
