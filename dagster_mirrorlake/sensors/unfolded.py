"""One sensor for the location: which chains' raw is ahead, and a run that folds them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import (
    STATUS,
    busy_tables,
    folds_of,
    key_of,
    request_folds,
    why_held,
)
from dagster_mirrorlake.table import MirroredTable

if TYPE_CHECKING:
    from mirrorlake.operations.days.unfolded import Behind, FoldCursor, Unfolded

INTERVAL_SECONDS = 60


def build_unfolded_sensor(
    tables: Sequence[MirroredTable], *, running: bool = False
) -> dg.SensorDefinition:
    """The sensor on new snapshots of raw: of loads that no fold followed, whatever made them.

    Tables that a run or a backfill under way is not done with are left for the next tick: it folds
    what it loads. So are held sources: a fold reads the columns of its table in MySQL.
    """
    names = tables[0].names

    @dg.sensor(
        name=names.of("unfolded"),
        asset_selection=folds_of(tables),
        minimum_interval_seconds=INTERVAL_SECONDS,
        required_resource_keys=names.all_of({"lake", "ledger"}),
        default_status=STATUS[running],
        description="Requests the fold of chains whose raw holds loads that deduped does not.",
    )
    def unfolded(context: dg.SensorEvaluationContext) -> Any:
        from mirrorlake.operations.cursors import read_cursor
        from mirrorlake.operations.days.unfolded import FoldCursor, find_unfolded

        busy = busy_tables(context.instance, tables)
        free = [table.contract for table in tables if table.contract.name not in busy]
        if not free:
            return dg.SkipReason("Runs of all tables are under way")
        marks = read_cursor(FoldCursor, context.cursor, FoldCursor())
        with dagster_errors():
            resources = names.resources(context)
            lake, ledger = resources.lake.lake, resources.ledger.ledger
            sources = dict.fromkeys(contract.source for contract in free)
            idle = {source for source in sources if why_held(ledger, source) is None}
            if not idle:
                return dg.SkipReason("Every source is held, or has a run under way")
            # Of busy ones too: none of their loads may be taken for folded.
            waiting = find_unfolded(lake, ledger, [table.contract for table in tables], marks)
            due = {contract.name for contract in free if contract.source in idle}
        return _result(context.instance, tables, marks, waiting, due, ledger)

    return unfolded


def _result(
    instance: dg.DagsterInstance,
    tables: Sequence[MirroredTable],
    marks: "FoldCursor",
    waiting: "Unfolded",
    due: set[str],
    ledger: Any,
) -> dg.SensorResult:
    """A request per source, and the marks of exactly the requested tables moved on."""
    from mirrorlake.operations.cursors import cursor_text
    from mirrorlake.operations.days.unfolded import FoldCursor, run_key

    chosen = [b for b in waiting.behind if b.contract.name in due]
    known = {table.contract.name: table for table in tables}
    by_source: dict[str, list[Behind]] = {}
    for one in chosen:
        by_source.setdefault(one.contract.source, []).append(one)
    requests = [
        request
        for source, found in sorted(by_source.items())
        for request in request_folds(
            instance,
            [(known[b.contract.name], b.at) for b in found],
            key_of(ledger, run_key(source, found, marks)),
            "raw is ahead of deduped",
        )
    ]
    requested = {n: a for n, a in marks.asked.items() if a.through > waiting.floor}
    requested.update({b.contract.name: b.request for b in chosen})
    cursor = cursor_text(FoldCursor(waiting.floor, requested))
    if not requests:
        return dg.SensorResult(skip_reason="Every load is folded, or requested", cursor=cursor)
    return dg.SensorResult(run_requests=requests, cursor=cursor)
