"""What each asset of a chain does: one call of the engine, its result in Dagster's words."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.columns import COLUMN_SCHEMA, layer_columns, source_schema
from dagster_mirrorlake.assets.days import refused_days, spans, today
from dagster_mirrorlake.assets.keys import ACCEPT_TAG, LOAD_TAG, cleanup_key
from dagster_mirrorlake.assets.reported import partition_metadata, through_tags
from dagster_mirrorlake.assets.unchanged import unchanged_layers
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.translator import Layer
from mirrorlake.config import TableContract
from mirrorlake.config.partitions import partition_of
from mirrorlake.destinations.iceberg.cost import scanned
from mirrorlake.errors import ConfigError, LeaseHeld, MirrorlakeError
from mirrorlake.ledger import Cost, Load, age_of
from mirrorlake.operations.backlog import find_due
from mirrorlake.operations.fold import fold_table
from mirrorlake.operations.observe import raw_days
from mirrorlake.operations.partitions import (
    RawLooked,
    folded_days,
    folded_partitions,
    held_days,
    held_partitions,
    look_at_raw,
    touched_days,
)
from mirrorlake.operations.recover import GRACE, Recovered, recover_table
from mirrorlake.operations.results import SyncResult, speed
from mirrorlake.operations.sync import fold_looked, load_table, reload_days
from mirrorlake.operations.unchanged import Look
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.source_columns import recorded_columns
from mirrorlake.workspace import Workspace

Events = Iterator[dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetObservation]


MOST_OTHERS = 50
"""Partitions beside the run's own that a step reports; of more, the sensor ``partitions`` does."""
_OF_THE_TABLE = ("dagster/row_count", "dagster/column_schema", "dagster/column_lineage")
"""Metadata that is as true of the table whatever partition it stands at."""


@dataclass
class Loaded:
    """What the loads of one step did, and the days that could not be loaded, with the reason."""

    results: list[SyncResult] = field(default_factory=list[SyncResult])
    refused: dict[date, str] = field(default_factory=dict[date, str])
    owed: dict[date, str] = field(default_factory=dict[date, str])
    """Earlier days whose reload is due, and failed again."""


def load_raw(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Load a table's days into raw: past days again, range by range, the open day by its next
    window. A partition of several days is loaded as its days.

    Days that can't be loaded fail the step with their reason, after the others were loaded. A full
    copy that the daily run finds unchanged is not read: see `dagster_mirrorlake.assets.unchanged`.
    Only partitions that are in the lake turn green, whatever the run was requested for.
    """
    contract = mirrored.contract
    asked = context.run.tags.get(LOAD_TAG)
    accept = context.run.tags.get(ACCEPT_TAG) == "true"
    since = datetime.now(UTC)
    with dagster_errors(context.retry_number):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        open_day = today()
        days = [d for key in context.partition_keys for d in mirrored.days_of(key, open_day)]
        daily_copy = asked == "daily" and contract.copies and not accept
        look = (
            mirrored.names.resources(context).mirrorlake.look(contract.source)
            if daily_copy
            else None
        )
        done = _load_days(workspace, contract, days, asked, accept_smaller=accept, look=look)
        if look is not None and (found := done.results[-1]).unchanged:
            yield from unchanged_layers(workspace.ledger, mirrored, found)
            return
        if len(done.refused) == len(days) and not done.results:
            raise _refusal(contract, done.refused)
        raw = look_at_raw(workspace.lake, workspace.ledger, contract, open_day)
        held = held_partitions(contract, raw.held, open_day)
        metadata = {
            "retries": context.retry_number,
            **_raw_metadata(workspace, mirrored, done.results, since),
            "dagster/row_count": sum(raw.files.rows.values()),
        }
        # Of a copy, the day on which it was begun: midnight may have passed since the request.
        touched = {partition_of(contract, d) for d in _touched(workspace, contract, done, raw)}
    yield from _source_observed(context, mirrored)
    if (done.refused or done.owed) and asked:
        # What nobody requested by hand is no failure: it is recorded, and what is new was loaded.
        metadata["not loaded again"] = _words({**done.owed, **done.refused})
    failed = None if asked or not done.refused else _refusal(contract, done.refused)
    refused = {mirrored.partition_of(day) for day in done.refused} if failed else set[str]()
    green = {mirrored.partition_of(day): rows for day, rows in held.items()}
    wanted = [key for key in context.partition_keys if key in green and key not in refused]
    others = {mirrored.partition_of(day) for day in touched}.intersection(green).difference(wanted)
    if contract.copies:
        context.instance.add_dynamic_partitions(mirrored.dynamic_name, sorted(others))
    through = raw.held.through
    if len(others) <= MOST_OTHERS:
        for key in sorted(others):
            yield dg.AssetMaterialization(
                mirrored.key("raw"),
                partition=key,
                # A copy that midnight overtook is all that the step made.
                metadata={
                    **(metadata if contract.copies and not wanted else {}),
                    **partition_metadata("raw", green[key]),
                },
                tags=through_tags(through),
            )
    yield from _partitions(context, mirrored, "raw", wanted, green, metadata, through)
    if failed is not None:
        raise failed


def _touched(
    workspace: Workspace, contract: TableContract, done: Loaded, raw: RawLooked
) -> set[date]:
    """The held days that the step's loads touched."""
    chosen = {result.load_id for result in done.results}
    after = workspace.ledger.successful_loads(contract.name)[-len(chosen) - 8 :]
    loads = {load.seq: load for load in after if load.load_id in chosen}
    touched = touched_days(workspace.ledger, contract, loads, raw.files)
    return {day for days in touched.values() for day in days.among(raw.held.rows)}


def _partitions(
    context: dg.AssetExecutionContext,
    mirrored: MirroredTable,
    layer: Layer,
    wanted: Sequence[str],
    rows: Mapping[str, int],
    metadata: Mapping[str, Any],
    through: int,
) -> Events:
    """A materialisation of each of the run's partitions, with its own rows.

    What the step did is metadata of a partition only where it is the run's only one; else it is an
    observation of the asset. Dagster continues with the step's result: where a partition of
    the run is not in the lake, there is none, as there is nothing to go on with.
    """
    several = len(context.partition_keys) > 1
    if several:
        yield dg.AssetObservation(mirrored.key(layer), metadata=metadata)
    own = {key: partition_metadata(layer, rows[key]) for key in wanted}
    shown = {k: v for k, v in metadata.items() if k in _OF_THE_TABLE} if several else metadata
    if len(wanted) < len(context.partition_keys):
        for key in wanted:
            yield dg.AssetMaterialization(
                mirrored.key(layer),
                partition=key,
                metadata={**shown, **own[key]},
                tags=through_tags(through),
            )
        return
    for key in wanted:
        context.add_asset_metadata(own[key], partition_key=key)
    yield dg.MaterializeResult(metadata=shown, tags=through_tags(through))


def _raw_metadata(
    workspace: Workspace, mirrored: MirroredTable, done: Sequence[SyncResult], since: datetime
) -> dict[str, Any]:
    """What was loaded since, what that cost, and raw's columns."""
    costs = workspace.ledger.costs(mirrored.contract.name, since)
    return {
        **_load_metadata(done),
        **_lake_cost(costs, sum(r.bytes for r in done)),
        **layer_columns(workspace.lake, workspace.ledger, mirrored, "raw"),
    }


def _load_days(
    workspace: Workspace,
    contract: TableContract,
    days: Sequence[date],
    asked: str | None,
    *,
    accept_smaller: bool,
    look: Look | None,
) -> Loaded:
    """The loads that these days take, as few as there can be."""
    if look is not None and contract.name in look.unchanged:
        return Loaded([load_table(workspace, contract, look=look)])
    held = set(raw_days(workspace.lake, workspace.ledger, contract))
    open_day = today()
    if asked == "live":
        return Loaded([load_table(workspace, contract, accept_smaller=accept_smaller)])
    done = Loaded(refused=refused_days(contract, days, held, open_day))
    wanted = [day for day in days if day not in done.refused]
    if asked == "daily":
        done.results += _load_due(workspace, contract, set(wanted), open_day, done.owed)
    if not contract.copies:
        for first, last in spans(day for day in wanted if day < open_day):
            try:
                done.results.append(reload_days(workspace, contract, first, last))
            except ConfigError as error:
                done.refused.update({d: str(error) for d in wanted if first <= d <= last})
    if open_day in wanted or asked == "daily":
        done.results.append(
            load_table(workspace, contract, accept_smaller=accept_smaller, look=look)
        )
    return done


def _load_due(
    workspace: Workspace,
    contract: TableContract,
    asked: set[date],
    open_day: date,
    owed: dict[date, str],
) -> Iterator[SyncResult]:
    """The days before the asked ones that are owed a reload, oldest first.

    Nobody asked for them by hand: one that fails is reported (``owed``) and keeps nothing else from
    being loaded. One that can't be read again at all is not owed.
    """
    zone = workspace.config.sources[contract.source].zone
    due = [d for d in find_due(contract, workspace.ledger, zone, open_day) if d not in asked]
    for first, last in spans(due):
        try:
            yield reload_days(workspace, contract, first, last)
        except ConfigError:
            continue
        except MirrorlakeError as error:
            owed.update({d: str(error) for d in due if first <= d <= last})


def fold_deduped(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Fold every load that deduped and clean don't hold yet.

    A partition of which raw has nothing fails the step: there is nothing to fold.
    """
    contract = mirrored.contract
    started, since = time.monotonic(), datetime.now(UTC)
    with dagster_errors(context.retry_number):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        _, waiting = workspace.ledger.unfolded_of(contract.name, "deduped")
        folded = _fold(context, workspace, mirrored)
        costs = workspace.ledger.costs(contract.name, since)
        seconds = round(time.monotonic() - started, 2)
        there = _find_folded(workspace, mirrored, "deduped")
        identifier = deduped_of(contract)
        rows = workspace.lake.count_rows(identifier)
        columns = layer_columns(workspace.lake, workspace.ledger, mirrored, "deduped")
    metadata: dict[str, Any] = {
        "loads folded": folded,
        "seconds": seconds,
        "retries": context.retry_number,
        **_lake_cost(costs),
        **_rows(rows),
        **columns,
    }
    with dagster_errors(context.retry_number):
        touched = _touched_by(workspace, mirrored, waiting)
    yield from _other_partitions(context, mirrored, "deduped", there, touched)
    yield from _layer_partitions(context, mirrored, "deduped", there, metadata)


def _fold(context: dg.AssetExecutionContext, workspace: Workspace, mirrored: MirroredTable) -> int:
    """How many loads were folded: all that deduped and clean did not hold."""
    contract = mirrored.contract
    look = mirrored.names.resources(context).mirrorlake.looked(contract.source)
    if look is None:
        return fold_table(workspace, contract)
    return fold_looked(workspace, contract, look)


@dataclass(frozen=True)
class _There:
    """What a layer holds: by partition the row versions that were folded; and what raw has."""

    folded: dict[str, int]
    in_raw: set[str]
    through: int


def _find_folded(workspace: Workspace, mirrored: MirroredTable, layer: Layer) -> _There:
    contract, open_day = mirrored.contract, today()
    lake, ledger = workspace.lake, workspace.ledger
    held = held_days(lake, ledger, contract, open_day)
    rows = held_partitions(contract, held, open_day)
    folded = folded_days(lake, ledger, contract, layer, held)
    days = folded_partitions(contract, held, folded, open_day)
    return _There(
        {mirrored.partition_of(day): rows[day] for day in days},
        {mirrored.partition_of(day) for day in rows},
        held.through,
    )


def _touched_by(workspace: Workspace, mirrored: MirroredTable, loads: Sequence[Load]) -> set[str]:
    """The partitions that these loads touched."""
    if not loads:
        return set()
    raw = look_at_raw(workspace.lake, workspace.ledger, mirrored.contract, today())
    by_seq = {load.seq: load for load in loads}
    touched = touched_days(workspace.ledger, mirrored.contract, by_seq, raw.files)
    days = {day for one in touched.values() for day in one.among(raw.held.rows)}
    return {mirrored.partition_of(day) for day in days}


def _other_partitions(
    context: dg.AssetExecutionContext,
    mirrored: MirroredTable,
    layer: Layer,
    there: _There,
    touched: Iterable[str],
) -> Events:
    """The partitions beside the run's own that the step changed. They are reported before the
    checks look: what is reported after a check makes Dagster call it not evaluated."""
    others = there.folded.keys() & set(touched) - set(context.partition_keys)
    for key in sorted(others) if len(others) <= MOST_OTHERS else ():
        yield dg.AssetMaterialization(
            mirrored.key(layer),
            partition=key,
            metadata=partition_metadata(layer, there.folded[key]),
            tags=through_tags(there.through),
        )


def _layer_partitions(
    context: dg.AssetExecutionContext,
    mirrored: MirroredTable,
    layer: Layer,
    there: _There,
    metadata: Mapping[str, Any],
) -> Events:
    """The run's partitions that a folded layer holds; then a failure that names the others."""
    asked = context.run.tags.get(LOAD_TAG)
    wanted = [key for key in context.partition_keys if key in there.folded]
    yield from _partitions(context, mirrored, layer, wanted, there.folded, metadata, there.through)
    absent = [key for key in context.partition_keys if key not in there.folded]
    if absent and not asked:
        why = (
            "raw has nothing of it: materialise raw first"
            if absent[0] not in there.in_raw
            else f"loads that touched it are not in {layer} yet: materialise deduped first"
        )
        more = f" and {len(absent) - 1} more partitions" if len(absent) > 1 else ""
        raise dg.Failure(
            f"table {mirrored.contract.name}: partition {absent[0]}{more}: {why}",
            allow_retries=False,
        )


def report_clean(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Report what the fold made of clean: a view has the rows of deduped. Materialised alone, it
    folds what is not folded yet."""
    contract = mirrored.contract
    started = time.monotonic()
    with dagster_errors(context.retry_number):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        is_view = contract.clean == "view"
        there = _find_folded(workspace, mirrored, "clean")
        if there.in_raw.difference(there.folded).intersection(context.partition_keys):
            _fold(context, workspace, mirrored)
            there = _find_folded(workspace, mirrored, "clean")
        identifier = deduped_of(contract) if is_view else clean_of(contract)
        rows = workspace.lake.count_rows(identifier)
        schema = layer_columns(workspace.lake, workspace.ledger, mirrored, "clean")
        age = age_of(workspace.ledger.last_load(contract.name, "success", moving=True))
    metadata: dict[str, Any] = {"clean is a": contract.clean, "rules": _rules(contract)}
    if age is not None:
        metadata["freshness (s)"] = round(age.total_seconds(), 1)
    metadata["seconds"] = round(time.monotonic() - started, 2)
    events = context.instance.fetch_materializations(mirrored.key("deduped"), MOST_OTHERS * 2)
    touched = {e.partition_key for e in events.records if e.run_id == context.run_id}
    yield from _other_partitions(
        context, mirrored, "clean", there, [key for key in touched if key is not None]
    )
    yield from _layer_partitions(
        context, mirrored, "clean", there, {**metadata, **_rows(rows), **schema}
    )


def clean_up(
    context: dg.AssetExecutionContext, source: str, tables: Sequence[MirroredTable]
) -> Events:
    """Recover these tables of a source.

    A table that a run holds is left for the next time. One that can't be read is told, and fails
    the step after all others were done.
    """
    names = tables[0].names
    workspace: Workspace = names.resources(context).mirrorlake.workspace
    done: list[Recovered] = []
    held: list[str] = []
    failed: dict[str, MirrorlakeError] = {}
    for contract in (table.contract for table in tables):
        try:
            done.append(recover_table(workspace, contract, GRACE, wait=False))
        except LeaseHeld:
            held.append(contract.name)
        except MirrorlakeError as error:
            context.log.warning("table %s: %s", contract.name, error)
            failed[contract.name] = error
    metadata: dict[str, Any] = {
        "tables": len(done),
        "loads found committed": sum(r.committed for r in done),
        "loads marked errored": sum(r.errored for r in done),
        "orphans removed": sum(r.orphans for r in done),
        "bytes freed": sum(r.bytes for r in done),
        **({"left to runs": ", ".join(held)} if held else {}),
        **({"could not be read": ", ".join(failed)} if failed else {}),
    }
    if failed:
        # Only what is yielded outlives a failure.
        yield dg.AssetMaterialization(cleanup_key(source, names), metadata=metadata)
        name, error = next(iter(failed.items()))
        raise dg.Failure(f"{len(failed)} tables could not be read; {name}: {error}", metadata)
    yield dg.MaterializeResult(metadata=metadata)


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
    return f"{len(days)} days from {min(days)} to {max(days)}"


def _load_metadata(done: Sequence[SyncResult]) -> dict[str, Any]:
    """What the loads of one step come to; numbers are plotted over time."""
    if not done:
        return {"rows": 0, "bytes": 0, "seconds": 0.0}
    return {
        "load id": ", ".join(r.load_id for r in done),
        "window": ", ".join(r.window for r in done),
        "rows": sum(r.rows for r in done),
        "bytes": sum(r.bytes for r in done),
        "MB read": round(sum(r.read_bytes for r in done) / 1e6, 3),
        "MB/s": speed(sum(r.read_bytes for r in done), sum(r.read_seconds for r in done)),
        "files": sum(r.files for r in done),
        "seconds": round(sum(r.seconds for r in done), 2),
        "longest query (s)": max(r.longest_query for r in done),
        "originals kept": sum(r.originals for r in done),
        "originals by column": _by_column(done),
        "moments": "; ".join(_moments(r) for r in done),
        "rows dated in the future": sum(r.future for r in done),
        "rows whose time went back": sum(r.backward for r in done),
        "keys looked up": sum(r.looked_up for r in done),
        "keys gone": sum(r.gone for r in done),
        "loads of dead runs settled": sum(r.settled for r in done),
    }


def _lake_cost(costs: Sequence[Cost], loaded: int = 0) -> dict[str, Any]:
    """What a step read of the lake and wrote to it (``loaded``: by loads); what other processes
    read for Spark is left out."""
    read, written = scanned(costs), loaded + sum(c.written for c in costs)
    told = {} if read is None else {"lake MB scanned": round(read / 1e6, 3)}
    return {"lake MB written": round(written / 1e6, 3), **told}


def _by_column(done: Sequence[SyncResult]) -> str:
    found: Counter[str] = Counter()
    for result in done:
        found.update(result.original_columns)
    return ", ".join(f"{name}: {count}" for name, count in sorted(found.items())) or "none"


def _moments(result: SyncResult) -> str:
    """What of MySQL the load shows: one moment, or as many as it has chunks."""
    if result.chunks == 1:
        return f"{result.moment} UTC"
    return f"{result.chunks} chunks, from {result.moment} to {result.until} UTC"


def _rows(count: int | None) -> dict[str, Any]:
    return {} if count is None else {"dagster/row_count": count}


def _rules(contract: TableContract) -> str:
    rules = [f"{c}: {rule}" for c, rule in sorted(contract.rules.items())]
    rules += [f"{c}: never read" for c in sorted(contract.excluded)]
    return ", ".join(rules) or "none"


def _source_observed(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """The source's columns, where no sensor has told of it yet."""
    key, workspace = mirrored.key("source"), mirrored.names.resources(context).mirrorlake.workspace
    columns = recorded_columns(workspace.ledger, mirrored.contract)
    if columns and not context.instance.fetch_observations(key, limit=1).records:
        schema = source_schema(mirrored.contract, columns)
        yield dg.AssetObservation(key, metadata={COLUMN_SCHEMA: schema})


STEPS = {"raw": load_raw, "deduped": fold_deduped, "clean": report_clean}
"""By layer."""
