"""One sensor for the location: what the ledger says is in the lake, reported to Dagster.

A load of the command line, a repair, a reload, a run that died after its commit: each becomes a
materialisation of every partition that it touched, with that partition's own rows. The first looks
report the history, the newest partitions first, some at a time. Verdicts that a report hid, while
nothing they are about changed, are shown again in the same look.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.columns import layer_columns
from dagster_mirrorlake.assets.reported import is_reported, partition_event, partition_metadata
from dagster_mirrorlake.assets.unchanged import confirmed_clean
from dagster_mirrorlake.checks.shown_again import materialized_since, show_again
from dagster_mirrorlake.event_log import write_materializations
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.forgotten import COMPARED_EVERY, find_forgotten
from dagster_mirrorlake.sensors.reporters import Mirrored, PublicationReporter, Reporter
from dagster_mirrorlake.sensors.reports import REPORTS, Reports
from dagster_mirrorlake.sensors.requests import UNFINISHED
from dagster_mirrorlake.sensors.tenant_reports import find_shown
from dagster_mirrorlake.sensors.tenants import sensor_workspace
from dagster_mirrorlake.table import MirroredTable, layer_named
from dagster_mirrorlake.tenants import MirroredTenants
from mirrorlake.config.partitions import day_of

if TYPE_CHECKING:
    from mirrorlake.operations.days.day_reports import DayReport, ReportCursor

INTERVAL_SECONDS = 10
PAGE = 150
"""Reports that are found, and written, at once."""
BOUND_SECONDS = 8.0
"""A tick begins no other page after so long: the next tick goes on from there."""
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class _LakeCursor:
    """What is remembered: how far reports have come (a cursor of its own, as text), and the day
    (ISO) for which the partitions of copied tables were set right; by table, until when (ISO) it
    was reported to be unchanged; by table of tenants, what was reported of it; by publisher, what
    was reported of each table; whether partitions of models were reported, of which the next look
    reports verdicts."""

    reports: str = ""
    day: str = ""
    unchanged: dict[str, str] = field(default_factory=dict[str, str])
    tenants: dict[str, str] = field(default_factory=dict[str, str])
    published: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    shown: int | None = None
    looks: int = 0
    forgotten: tuple[str, ...] = ()
    models: bool = False


def build_partitions_sensor(
    tables: Sequence[MirroredTable],
    snapshots: Sequence[MirroredTable] = (),
    tenants: Sequence[MirroredTenants] = (),
    publications: Mapping[str, PublicationReporter] = MappingProxyType({}),
    reporters: Sequence[Reporter] = (),
) -> dg.SensorDefinition:
    """The sensor that makes partitions say what is in the lake. It starts no run, no Spark, and
    queries no source; it is on unless somebody turns it off.

    Args:
        tables: those that are read from a server.
        snapshots: those whose snapshots land.
        tenants: those that many databases have.
        publications: what was published elsewhere than in the lake, by publisher.
        reporters: of what is computed from tables.
    """
    mirrored = Mirrored(tables, snapshots, tenants, publications, reporters)
    names = mirrored.names

    @dg.sensor(
        name=names.of("partitions"),
        minimum_interval_seconds=INTERVAL_SECONDS,
        required_resource_keys=names.all_of({"lake", "ledger"}),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports every load and fold that the ledger knows, whoever made it: green is "
        "what is in the lake.",
    )
    def partitions(context: dg.SensorEvaluationContext) -> Any:
        with dagster_errors():
            return _look(context, mirrored)

    return partitions


def _look(context: dg.SensorEvaluationContext, mirrored: Mirrored) -> dg.SensorResult:
    from mirrorlake.operations.cursors import cursor_text, read_cursor

    instance, now = context.instance, datetime.now(UTC)
    before = read_cursor(_LakeCursor, context.cursor, _LakeCursor())
    resources = mirrored.names.resources(context)
    lake, ledger = resources.lake.lake, resources.ledger.ledger
    _, newest = materialized_since(instance, None)
    done = _report_tables(instance, lake, ledger, mirrored.tables, before, now)
    confirmed = list(confirmed_clean(instance, ledger, mirrored.tables, before.unchanged, now))
    published = Reports()
    for find in REPORTS:
        published.add(find(instance, lake, ledger, mirrored.snapshots))
    loaded, reported = list[dg.AssetMaterialization](), dict[str, dict[str, str]]()
    for name, reporter in mirrored.publications.items():
        known = before.published.get(name, {})
        events, reported[name] = reporter.find(instance, resources.lake.contracts, ledger, known)
        loaded += events
    shown, of_tenants = _find_tenants(context, mirrored, before)
    of_models, verdicts = _find_computed(instance, resources, mirrored, before)
    others = [*(event for _, _, event in confirmed), *published.events, *shown, *loaded, *of_models]
    write_materializations(instance, others)
    start = newest if before.shown is None else before.shown
    materialized, shown_to = materialized_since(instance, start)
    # After all that this look reported: what hides a verdict shows it again at once.
    show_again(instance, ledger, mirrored.checked, materialized)
    for name, words in done.failed.items():
        context.log.warning(f"table {name}: {words}")
    names = {table.contract.name for table in mirrored.tables}
    unchanged = {n: at for n, at in before.unchanged.items() if n in names}
    unchanged |= {name: until for name, until, _ in confirmed}
    after = _LakeCursor(
        *(cursor_text(done.cursor), now.date().isoformat(), unchanged, of_tenants, reported),
        shown=shown_to,
        looks=before.looks + 1,
        forgotten=tuple(done.forgotten),
        models=bool(of_models),
    )
    count = len(others) + done.count
    words = f"Reported: {count}" if count else "Everything in the lake is reported"
    opened, ended = done.opened | published.opened, done.ended | published.ended
    return dg.SensorResult(
        skip_reason=None if verdicts else words,
        cursor=cursor_text(after),
        asset_events=verdicts,
        dynamic_partitions_requests=[
            *(dg.AddDynamicPartitionsRequest(n, sorted(keys)) for n, keys in opened.items()),
            *(dg.DeleteDynamicPartitionsRequest(n, sorted(keys)) for n, keys in ended.items()),
        ],
    )


def _find_tenants(
    context: dg.SensorEvaluationContext, mirrored: Mirrored, before: _LakeCursor
) -> tuple[list[dg.AssetMaterialization], dict[str, str]]:
    if not mirrored.tenants:
        return [], {}
    workspace = sensor_workspace(mirrored.tenants[0], context)
    return find_shown(
        *(context.instance, workspace, mirrored.tenants, before.tenants),
        lambda run: _is_busy(context.instance, run),
    )


def _find_computed(
    instance: dg.DagsterInstance, resources: Any, mirrored: Mirrored, before: _LakeCursor
) -> tuple[list[dg.AssetMaterialization], list[dg.AssetCheckEvaluation]]:
    """Partitions that Dagster has no record of, and the verdicts on those that the last look
    reported: looked for once in a minute, as to compile models takes seconds where there are
    many."""
    events: list[dg.AssetMaterialization] = []
    verdicts: list[dg.AssetCheckEvaluation] = []
    if before.models or before.looks % COMPARED_EVERY == 0:
        for one in mirrored.reporters:
            some, of_some = one.find(instance, resources, verdicts=before.models)
            events += some
            verdicts += of_some
    return events, verdicts


@dataclass
class _Reported:
    """What a tick reported of tables that are read from servers: how many partitions, how far that
    came, and why tables could not be looked at; by name, keys of copies' partitions to be added and
    removed; the tables of which Dagster lacks more than was reported again."""

    cursor: "ReportCursor"
    count: int = 0
    forgotten: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    opened: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    ended: dict[str, set[str]] = field(default_factory=dict[str, set[str]])


def _report_tables(
    instance: dg.DagsterInstance,
    lake: Any,
    ledger: Any,
    tables: Sequence[MirroredTable],
    before: _LakeCursor,
    now: datetime,
) -> _Reported:
    """Find what is due and write it, page by page, until nothing is or the tick's time is over. A
    tick that dies on the way repeats nothing: what was written is known by its ``through``."""
    from mirrorlake.operations.cursors import read_cursor
    from mirrorlake.operations.days.day_reports import ReportCursor, find_reports

    until = time.monotonic() + BOUND_SECONDS
    done = _Reported(read_cursor(ReportCursor, before.reports, ReportCursor()))
    if before.day != now.date().isoformat():
        done.opened, done.ended = _set_right(instance, lake, ledger, tables, now.date())
    by_name = {table.contract.name: table for table in tables}
    while True:
        found = find_reports(
            lake,
            ledger,
            [table.contract for table in tables],
            done.cursor,
            most=PAGE,
            today=now.date(),
            busy=lambda run: _is_busy(instance, run),
        )
        due = [(by_name[one.table], one) for one in found.reports]
        events = _events(lake, ledger, _find_unreported(instance, ledger, due))
        write_materializations(instance, events)
        done.cursor, done.count = found.cursor, done.count + len(events)
        done.failed |= found.failed
        for table, one in due:
            if table.contract.copies:
                key = table.partition_of(one.partition)
                done.opened.setdefault(table.dynamic_name, set()).add(key)
        if not due or time.monotonic() > until:
            break
    if not due:
        _report_forgotten(instance, lake, ledger, tables, before, done, now.date())
    return done


def _report_forgotten(
    instance: dg.DagsterInstance,
    lake: Any,
    ledger: Any,
    tables: Sequence[MirroredTable],
    before: _LakeCursor,
    done: _Reported,
    today: date,
) -> None:
    """Report again what Dagster does not have any more; where nothing new is due."""
    found = find_forgotten(
        *(instance, lake, ledger, tables),
        *(done.cursor, before.looks, before.forgotten, today),
    )
    events = _events(lake, ledger, _find_unreported(instance, ledger, found.due))
    write_materializations(instance, events)
    done.count, done.forgotten = done.count + len(events), found.left
    for name, keys in found.opened.items():
        done.opened.setdefault(name, set()).update(keys)


def _events(
    lake: Any, ledger: Any, reports: "Sequence[tuple[MirroredTable, DayReport]]"
) -> list[dg.AssetMaterialization]:
    """An asset's page shows the columns of its newest event: the last one of each has them."""
    last = {(table.contract.name, one.layer): one for table, one in reports}
    return [
        _event(
            table,
            one,
            layer_columns(lake, ledger, table, layer_named(one.layer))
            if last[table.contract.name, one.layer] is one
            else {},
        )
        for table, one in reports
    ]


def _find_unreported(
    instance: dg.DagsterInstance, ledger: Any, due: "Sequence[tuple[MirroredTable, DayReport]]"
) -> "list[tuple[MirroredTable, DayReport]]":
    """The reports of partitions that Dagster has, and has not heard: from the run that made the
    load, or from a tick that died before its cursor was kept."""
    heard: dict[dg.AssetKey, set[str]] = {}
    there: dict[tuple[str, int], bool] = {}

    def has_load(name: str, seq: int) -> bool:
        if (name, seq) not in there:
            there[name, seq] = bool(ledger.loads_of(name, {seq}))
        return there[name, seq]

    unreported: list[tuple[MirroredTable, DayReport]] = []
    for table, report in due:
        first = table.first_partition
        if first is not None and day_of(report.partition) < first:
            continue
        key, partition = table.key(layer_named(report.layer)), table.partition_of(report.partition)
        if key not in heard:
            heard[key] = instance.get_materialized_partitions(key)
        has = partial(has_load, table.contract.name)
        if partition in heard[key] and is_reported(instance, key, partition, report.through, has):
            continue
        unreported.append((table, report))
    return unreported


def _event(
    table: MirroredTable, report: "DayReport", columns: Mapping[str, Any]
) -> dg.AssetMaterialization:
    layer = layer_named(report.layer)
    metadata = {**partition_metadata(layer, report.rows, report.loads), **columns}
    return partition_event(
        table, layer, table.partition_of(report.partition), metadata, report.through
    )


def _is_busy(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is not None and run.status in UNFINISHED


def _set_right(
    instance: dg.DagsterInstance,
    lake: Any,
    ledger: Any,
    tables: Sequence[MirroredTable],
    today: date,
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """By name: keys to add and to remove. The partitions of a copied table are the days on which
    one was taken, and the open day, so that a person can request it; a day that ended without a
    copy goes."""
    from mirrorlake.operations.days.partitions import held_partitions, look_at_raw

    opened: dict[str, set[str]] = {}
    ended: dict[str, set[str]] = {}
    for table in (t for t in tables if t.contract.copies):
        name, open_key = table.dynamic_name, table.partition_of(today)
        held = held_partitions(
            table.contract, look_at_raw(lake, ledger, table.contract, today), today
        )
        known = set(instance.get_dynamic_partitions(name))
        # Yesterday's may be in a run that waits.
        kept = {*map(table.partition_of, held), open_key, table.partition_of(today - _DAY)}
        if open_key not in known:
            opened[name] = {open_key}
        if gone := known - kept:
            ended[name] = gone
    return opened, ended
