"""What each asset of a chain does: one call of the engine, its result in Dagster's words."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.columns import COLUMN_SCHEMA, layer_columns, source_schema
from dagster_mirrorlake.assets.days import refused_days, spans, today
from dagster_mirrorlake.assets.figures import lake_cost, raw_metadata, row_count, rules_of
from dagster_mirrorlake.assets.keys import ACCEPT_TAG, LOAD_TAG
from dagster_mirrorlake.assets.partition_events import (
    MOST_OTHERS,
    Events,
    KeyedRows,
    find_folded,
    folded_layer,
    other_partitions,
    partitions_of,
    run_partitions,
    touched_partitions,
)
from dagster_mirrorlake.assets.reported import partition_event, partition_metadata
from dagster_mirrorlake.assets.unchanged import unchanged_layers
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError, MirrorlakeError, SchemaMoved
from mirrorlake.ledger import age_of
from mirrorlake.operations.checking.observe import raw_days
from mirrorlake.operations.days.backlog import find_due
from mirrorlake.operations.days.partitions import held_partitions, look_at_raw
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync import fold_looked, load_table, reload_days
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.runtime.plural import plural
from mirrorlake.table.columns.source_columns import recorded_columns
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace


@dataclass
class Loaded:
    """What the loads of one step did, and the days that could not be loaded, with the reason."""

    results: list[SyncResult] = field(default_factory=list[SyncResult])
    refused: dict[date, str] = field(default_factory=dict[date, str])
    owed: dict[date, str] = field(default_factory=dict[date, str])
    """Earlier days whose reload is due, and failed again."""


def _load_raw(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Load a table's days into raw: past days again, range by range, the open day by its next
    window. A partition of several days is loaded as its days.

    Days that can't be loaded fail the step with their reason, after the others were loaded. A full
    copy that the daily run finds unchanged is not read: see `dagster_mirrorlake.assets.unchanged`.
    Only partitions that are in the lake turn green, whatever the run was requested for.
    """
    contract = mirrored.contract
    load = context.run.tags.get(LOAD_TAG)
    accept = context.run.tags.get(ACCEPT_TAG) == "true"
    since = datetime.now(UTC)
    with dagster_errors(context):
        resources = mirrored.names.resources(context).mirrorlake
        workspace: Workspace = resources.workspace
        open_day = today()
        of_run = (mirrored.days_of(key, open_day) for key in context.partition_keys)
        days = list(dict.fromkeys(day for found in of_run for day in found))
        daily_copy = load == "daily" and contract.copies and not accept
        look = resources.look(contract.source) if daily_copy else None
        done = _load_days(workspace, contract, days, load, accept_smaller=accept, look=look)
        if look is not None and (found := done.results[-1]).unchanged:
            yield from unchanged_layers(workspace.ledger, mirrored, found)
            return
        if len(done.refused) == len(days) and not done.results:
            raise _refusal(contract, done.refused)
        there = _find_loaded(workspace, mirrored, done, open_day)
        metadata = {
            "retries": context.retry_number,
            **raw_metadata(workspace, mirrored, done.results, since),
            "dagster/row_count": there.rows,
        }
    yield from _source_observed(context, mirrored)
    if (done.refused or done.owed) and load:
        # What nobody requested by hand is no failure: it is recorded, and what is new was loaded.
        metadata["not loaded again"] = _words({**done.owed, **done.refused})
    refused = {} if load else done.refused
    wanted = [
        key
        for key in context.partition_keys
        if key in there.green and not any(d in refused for d in mirrored.days_of(key, open_day))
    ]
    yield from _raw_beside(context, mirrored, there, wanted, metadata)
    yield from run_partitions(
        context, mirrored, "raw", wanted, there.green, metadata, there.through
    )
    if refused:
        raise _refusal(contract, refused)


@dataclass(frozen=True)
class _RawThere:
    """What raw has after the loads of a step.

    Attributes:
        green: row versions by the key of each partition that is in the lake.
        touched: keys of the partitions that the loads touched.
        rows: row versions in all.
        through: the number of the newest settled load that this reflects.
    """

    green: KeyedRows
    touched: frozenset[str]
    rows: int
    through: int


def _find_loaded(
    workspace: Workspace, mirrored: MirroredTable, done: Loaded, open_day: date
) -> _RawThere:
    contract = mirrored.contract
    raw = look_at_raw(workspace.lake, workspace.ledger, contract, open_day)
    held = held_partitions(contract, raw, open_day)
    # Of a copy, the day on which it was begun: midnight may have passed since the request.
    loads = {result.load_id for result in done.results}
    touched = mirrored.by_key(touched_partitions(workspace, contract, loads, raw))
    green = KeyedRows(mirrored.by_key(held), held)
    rows = sum(raw.files.rows.values())
    return _RawThere(green, frozenset(touched), rows, raw.held.through)


def _raw_beside(
    context: dg.AssetExecutionContext,
    mirrored: MirroredTable,
    there: _RawThere,
    wanted: Sequence[str],
    metadata: Mapping[str, Any],
) -> Events:
    """The partitions that the loads touched beside those that the step reports as its own."""
    others = sorted((there.touched & there.green.keys()).difference(wanted))
    if mirrored.contract.copies:
        context.instance.add_dynamic_partitions(mirrored.dynamic_name, others)
    for key in others if len(others) <= MOST_OTHERS else ():
        # A copy that midnight overtook is all that the step made.
        done_by_step = metadata if mirrored.contract.copies and not wanted else {}
        shown = {**done_by_step, **partition_metadata("raw", there.green[key])}
        yield partition_event(mirrored, "raw", key, shown, there.through)


def _load_days(
    workspace: Workspace,
    contract: TableContract,
    days: Sequence[date],
    load: str | None,
    *,
    accept_smaller: bool,
    look: Look | None,
) -> Loaded:
    """The loads that these days take, as few as there can be."""
    if look is not None and contract.name in look.unchanged:
        return Loaded([load_table(workspace, contract, look=look)])
    held = set(raw_days(workspace.lake, workspace.ledger, contract))
    open_day = today()
    if load == "live":
        return Loaded([load_table(workspace, contract, accept_smaller=accept_smaller)])
    done = Loaded(refused=refused_days(contract, days, held, open_day))
    wanted = [day for day in days if day not in done.refused]
    if load == "daily":
        done.results += _load_due(workspace, contract, set(wanted), open_day, done.owed)
    if not contract.copies:
        for first, last in spans(day for day in wanted if day < open_day):
            try:
                done.results.append(reload_days(workspace, contract, first, last))
            except ConfigError as error:
                done.refused.update({d: str(error) for d in wanted if first <= d <= last})
    if open_day in wanted or load == "daily":
        done.results.append(
            load_table(workspace, contract, accept_smaller=accept_smaller, look=look)
        )
    return done


def _load_due(
    workspace: Workspace,
    contract: TableContract,
    requested: set[date],
    open_day: date,
    owed: dict[date, str],
) -> Iterator[SyncResult]:
    """The days before the requested ones that are owed a reload, oldest first.

    Nobody requested them by hand: one that fails is reported (``owed``) and keeps nothing else from
    being loaded. One that can't be read again at all is not owed.
    """
    zone = workspace.config.sources[contract.source].zone
    due = [d for d in find_due(contract, workspace.ledger, zone, open_day) if d not in requested]
    for first, last in spans(due):
        try:
            yield reload_days(workspace, contract, first, last)
        except ConfigError:
            continue
        except MirrorlakeError as error:
            owed.update({d: str(error) for d in due if first <= d <= last})


def _fold_deduped(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Fold every load that deduped and clean don't hold yet.

    A partition of which raw has nothing fails the step: there is nothing to fold.
    """
    contract = mirrored.contract
    started, since = time.monotonic(), datetime.now(UTC)
    with dagster_errors(context):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        _, waiting = workspace.ledger.unfolded_of(contract.name, "deduped")
        folded = _fold(context, workspace, mirrored)
        costs = workspace.ledger.costs(contract.name, since)
        seconds = round(time.monotonic() - started, 2)
        there = find_folded(workspace, mirrored, "deduped")
        identifier = deduped_of(contract)
        rows = workspace.lake.count_rows(identifier)
        columns = layer_columns(workspace.lake, workspace.ledger, mirrored, "deduped")
    metadata: dict[str, Any] = {
        "loads folded": folded,
        "seconds": seconds,
        "retries": context.retry_number,
        **lake_cost(costs),
        **row_count(rows),
        **columns,
    }
    with dagster_errors(context):
        touched = partitions_of(workspace, mirrored, waiting)
    yield from other_partitions(context, mirrored, "deduped", there, touched)
    yield from folded_layer(context, mirrored, "deduped", there, metadata)


def _fold(context: dg.AssetExecutionContext, workspace: Workspace, mirrored: MirroredTable) -> int:
    """How many loads were folded: all that deduped and clean did not hold. A table that got a
    column since it was loaded is loaded again first: in this run nobody else would do it."""
    contract = mirrored.contract
    look = mirrored.names.resources(context).mirrorlake.looked(contract.source)
    try:
        if look is None:
            return fold_table(workspace, contract)
        return fold_looked(workspace, contract, look)
    except SchemaMoved as moved:
        context.log.info("%s: it is loaded again, then folded", moved)
        load_table(workspace, contract)
        return fold_table(workspace, contract)


def _report_clean(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Report what the fold made of clean: a view has the rows of deduped. Materialised alone, it
    folds what is not folded yet."""
    contract = mirrored.contract
    started = time.monotonic()
    with dagster_errors(context):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        is_view = contract.clean == "view"
        there = find_folded(workspace, mirrored, "clean")
        if there.in_raw.difference(there.folded).intersection(context.partition_keys):
            _fold(context, workspace, mirrored)
            there = find_folded(workspace, mirrored, "clean")
        identifier = deduped_of(contract) if is_view else clean_of(contract)
        rows = workspace.lake.count_rows(identifier)
        schema = layer_columns(workspace.lake, workspace.ledger, mirrored, "clean")
        age = age_of(workspace.ledger.last_load(contract.name, "success", moving=True))
    metadata: dict[str, Any] = {"clean is a": contract.clean, "rules": rules_of(contract)}
    if age is not None:
        metadata["freshness (s)"] = round(age.total_seconds(), 1)
    metadata["seconds"] = round(time.monotonic() - started, 2)
    events = context.instance.fetch_materializations(mirrored.key("deduped"), MOST_OTHERS * 2)
    touched = {e.partition_key for e in events.records if e.run_id == context.run.run_id}
    yield from other_partitions(
        context, mirrored, "clean", there, [key for key in touched if key is not None]
    )
    yield from folded_layer(
        context, mirrored, "clean", there, {**metadata, **row_count(rows), **schema}
    )


def _refusal(contract: TableContract, refused: Mapping[date, str]) -> dg.Failure:
    """One failure that names the days, shortly, by reason."""
    return dg.Failure(
        f"table {contract.name}: {_words(refused)}. Ask for the other days alone",
        allow_retries=False,
    )


def _words(refused: Mapping[date, str]) -> str:
    """The days by reason."""
    reasons: dict[str, list[date]] = {}
    for day, reason in refused.items():
        reasons.setdefault(reason, []).append(day)
    return "; ".join(f"{_span(days)}: {reason}" for reason, days in reasons.items())


def _span(days: Sequence[date]) -> str:
    if len(days) == 1:
        return f"day {days[0]}"
    return f"{plural(len(days), 'day')} from {min(days)} to {max(days)}"


def _source_observed(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """The source's columns, where no sensor has reported them yet."""
    key, workspace = mirrored.key("source"), mirrored.names.resources(context).mirrorlake.workspace
    columns = recorded_columns(workspace.ledger, mirrored.contract)
    if columns and not context.instance.fetch_observations(key, limit=1).records:
        schema = source_schema(mirrored.contract, columns)
        yield dg.AssetObservation(key, metadata={COLUMN_SCHEMA: schema})


STEPS = {"raw": _load_raw, "deduped": _fold_deduped, "clean": _report_clean}
"""By layer."""
