"""Runs checks: of one asset all that a step was requested for, or one alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

import dagster as dg

from dagster_mirrorlake.checks.as_of import AsOf, Watch
from dagster_mirrorlake.checks.series import BY_DAY, EXACT, exact_step
from dagster_mirrorlake.checks.structure_verdicts import (
    contract_verdict,
    gaps_verdict,
    privacy_verdict,
)
from dagster_mirrorlake.checks.value_verdicts import (
    keys_verdict,
    originals_verdict,
    rows_verdict,
    suspects_verdict,
)
from dagster_mirrorlake.checks.verdicts import CheckVerdict, Look, day_events, evaluations, shown_of
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import Layer, MirroredTable
from mirrorlake.destinations.iceberg.tables.integrity import damage_errors
from mirrorlake.workspace import Workspace


def check_results(
    context: dg.AssetCheckExecutionContext,
    table: MirroredTable,
    layer: Layer,
    names: Sequence[str],
) -> Iterator[dg.AssetCheckResult]:
    """The results of these checks of one asset.

    A check that can't look doesn't keep the others from being reported: its exception, of whatever
    kind, ends the step after them and is no verdict.

    Raises:
        Failure: a look failed; the first reason.
        RetryRequested: another run holds the table that a look was to write to.
        Exception: a look met a bug; as it came.
    """
    failed: Exception | None = None
    key, run = table.key(layer), context.op_execution_context.run
    alone, days = not run.asset_selection, _days_of(table, run.tags)
    for name in sorted({name.removesuffix(BY_DAY) for name in names}):
        try:
            # The sweep of the exact check writes to the table.
            with dagster_errors(context.op_execution_context, only_held=True):
                workspace: Workspace = table.names.resources(context).mirrorlake.workspace
                by_day, instance = f"{name}{BY_DAY}" in names, context.instance
                look = Look(workspace, table, layer, alone, days, by_day, instance)
                verdict = _verdict(look, name)
        except Exception as error:  # noqa: BLE001 (raised below, after the others)
            failed = failed or error
            continue
        step = context.op_execution_context
        for day in day_events(step, table, key, name, verdict):
            # Dagster takes it, and its own annotation does not say so.
            step.log_event(day)  # pyright: ignore[reportArgumentType]
        if name not in names:
            continue
        words, shown = shown_of(run, table, name, verdict)
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=name,
            passed=verdict.passed,
            severity=verdict.severity,
            metadata={**shown, **verdict.state},
            description=words,
        )
    if layer == "deduped" and EXACT not in names and run.asset_selection:
        _restate(context.op_execution_context, table, key)
    if failed is not None:
        raise failed


def _restate(context: dg.OpExecutionContext, table: MirroredTable, key: dg.AssetKey) -> None:
    """Report again that rows differed, where nothing has compared them since, nor does this run.
    Dagster drops verdicts from before a materialisation, so red would end with the next load."""
    from dagster_mirrorlake.checks.known_differences import restated

    if exact_step(key) in context.job_def.graph.node_dict:
        return
    with dagster_errors():
        workspace: Workspace = table.names.resources(context).mirrorlake.workspace
        as_of = AsOf.now(workspace.ledger, table, "deduped", EXACT)
        words = restated(workspace, table.contract)
    if words is not None:
        verdict = CheckVerdict(False, words=words, as_of=as_of)
        for event in evaluations(context, table, "deduped", EXACT, verdict):
            context.log_event(event)  # pyright: ignore[reportArgumentType]


def verdict_of(
    context: dg.OpExecutionContext, table: MirroredTable, layer: Layer, name: str
) -> CheckVerdict:
    """The verdict of one check, for a step that is no check's.

    Raises:
        MirrorlakeError: it could not look.
    """
    workspace: Workspace = table.names.resources(context).mirrorlake.workspace
    return _verdict(Look(workspace, table, layer, whole=False), name)


def _verdict(look: Look, name: str) -> CheckVerdict:
    watch = Watch(look.workspace, look.table, look.layer, name)
    with damage_errors(look.workspace.lake, look.workspace.ledger, look.contract):
        verdict = _VERDICTS[name](look)
    return replace(verdict, as_of=watch.ended())


def _days_of(table: MirroredTable, tags: Mapping[str, str]) -> tuple[date, date] | None:
    """The first and the last day of a run, by its partition or its range of partitions."""
    one = tags.get("dagster/partition")
    first = tags.get("dagster/asset_partition_range_start", one)
    last = tags.get("dagster/asset_partition_range_end", one)
    if not first or not last:
        return None
    open_day = datetime.now(UTC).date()
    return table.days_of(first, open_day)[0], table.days_of(last, open_day)[-1]


def _exact_verdict(look: Look) -> CheckVerdict:
    from dagster_mirrorlake.checks.exact import exact_verdict

    found = exact_verdict(
        look.workspace,
        look.table,
        look.days,
        compare_days=look.requested_days,
        instance=look.instance,
    )
    return CheckVerdict(*found)


def _intact_verdict(look: Look) -> CheckVerdict:
    from dagster_mirrorlake.checks.layers import raw_verdict

    return CheckVerdict(*raw_verdict(look.workspace, look.contract, whole=False))


def _matches_verdict(look: Look) -> CheckVerdict:
    from dagster_mirrorlake.checks.layers import clean_verdict

    return CheckVerdict(*clean_verdict(look.workspace, look.contract, whole=False))


_VERDICTS = {
    "contract": contract_verdict,
    "exact_match": _exact_verdict,
    "gaps": gaps_verdict,
    "intact": _intact_verdict,
    "matches_deduped": _matches_verdict,
    "no_pii": privacy_verdict,
    "originals": originals_verdict,
    "row_count": rows_verdict,
    "suspected_pii": suspects_verdict,
    "unique_key": keys_verdict,
}
