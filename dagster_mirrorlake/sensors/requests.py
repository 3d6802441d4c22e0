"""One request for the chains of several tables, the same for every trigger."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

import dagster as dg

from dagster_mirrorlake.assets.keys import LOAD_TAG
from dagster_mirrorlake.checks import chain_check_keys
from dagster_mirrorlake.names import step_of
from dagster_mirrorlake.table import LAYERS, MirroredTable
from dagster_mirrorlake.translator import SOURCE_TAG
from mirrorlake.config.partitions import day_of

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
"""Dagster's own tags of a run over a range of partitions."""
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
STATUS = {
    True: dg.DefaultSensorStatus.RUNNING,
    False: dg.DefaultSensorStatus.STOPPED,
}
"""Whether a sensor is on until somebody turns it off."""
SCHEDULE_STATUS = {
    True: dg.DefaultScheduleStatus.RUNNING,
    False: dg.DefaultScheduleStatus.STOPPED,
}
"""The same of a schedule."""

_ENDED = ("SUCCESS", "FAILURE", "SKIPPED")
UnderWay: TypeAlias = tuple[dg.DagsterRun, set[dg.AssetKey]]
"""A run that waits or works, and the assets that it is about."""
_KeysOf = Callable[[MirroredTable], list[dg.AssetKey]]
"""What is requested of a table."""


def key_of(ledger: Any, request: str) -> str:
    """A run's key for a request that follows from the ledger's state alone: of a ledger that was
    put back from a backup the same state is requested again, whatever Dagster remembers."""
    return f"{request}-{ledger.identity()[:8]}"


def chains_of(tables: Sequence[MirroredTable]) -> list[dg.AssetKey]:
    """The whole chain of every table."""
    return [key for table in tables for key in table.chain_keys]


def folds_of(tables: Sequence[MirroredTable]) -> list[dg.AssetKey]:
    """What is folded of every table's chain."""
    return [key for table in tables for key in table.folded_keys]


def request_chains(
    instance: dg.DagsterInstance,
    tables: Sequence[MirroredTable],
    day: date,
    run_key: str,
    reason: str,
    load: str,
) -> list[dg.RunRequest]:
    """Runs for the chains of these tables of one source, loaded as ``LOAD_TAG`` says: one for all
    whose partitions are of one kind.

    Args:
        day: the day; or the moment (UTC, without a zone), of which tables of hours take the hour.

    They share a JVM, and one table's failure stops no other.
    """
    dated = [(table, day) for table in tables]
    return _requests(instance, dated, lambda table: table.chain_keys, run_key, reason, load)


def request_folds(
    instance: dg.DagsterInstance,
    tables: Sequence[tuple[MirroredTable, date]],
    run_key: str,
    reason: str,
) -> list[dg.RunRequest]:
    """Runs that fold what raw of these tables of one source holds, each table with the day or the
    moment (UTC, without a zone) of its newest load."""
    return _requests(instance, tables, lambda table: table.folded_keys, run_key, reason, "none")


def _requests(
    instance: dg.DagsterInstance,
    tables: Sequence[tuple[MirroredTable, date]],
    keys_of: _KeysOf,
    run_key: str,
    reason: str,
    load: str,
) -> list[dg.RunRequest]:
    by_partition: dict[tuple[str, str], list[MirroredTable]] = {}
    for table, when in tables:
        open_copies(instance, [table], day_of(when))
        by_partition.setdefault(table.range_of(when), []).append(table)
    tags = {LOAD_TAG: load, "mirrorlake/reason": reason}
    return [
        _request(
            found,
            keys_of,
            partition,
            run_key if len(by_partition) == 1 else f"{run_key}-{partition[0]}",
            tags,
        )
        for partition, found in by_partition.items()
    ]


def _request(
    tables: Sequence[MirroredTable],
    keys_of: _KeysOf,
    partition: tuple[str, str],
    run_key: str,
    tags: Mapping[str, str],
) -> dg.RunRequest:
    chosen = [key for table in tables for key in keys_of(table)]
    return dg.RunRequest(
        run_key=run_key,
        asset_selection=chosen,
        asset_check_keys=[
            check
            for table in tables
            for check in chain_check_keys(table)
            if check.asset_key in set(chosen)
        ],
        # A range: `partition_key` is refused where tables begin on different days.
        tags={
            RANGE_START: partition[0],
            RANGE_END: partition[1],
            SOURCE_TAG: tables[0].source_tag,
            **tags,
        },
    )


def open_copies(instance: dg.DagsterInstance, tables: Sequence[MirroredTable], day: date) -> None:
    """Add the day's partition to the tables whose copies are partitions, so that it can be
    requested; one on which no copy is taken is removed after it (`sensors.partitions`)."""
    for table in tables:
        if table.contract.copies:
            instance.add_dynamic_partitions(table.dynamic_name, [table.partition_of(day)])


def is_under_way(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey], job: str | None = None
) -> bool:
    """Whether a run waits or works for one of these assets, or for their checks alone.

    Args:
        job: any run of the job of this name is one, too: its run config says for which tables.
    """
    return any(
        run.job_name == job or not chosen.isdisjoint(keys) for run, chosen in under_way(instance)
    )


def under_way(instance: dg.DagsterInstance) -> Iterator[UnderWay]:
    """The runs that wait or work, and the assets for which, or for whose checks, each was
    requested."""
    for record in instance.get_run_records(dg.RunsFilter(statuses=UNFINISHED)):
        run = record.dagster_run
        chosen = {*(run.asset_selection or ())}
        chosen |= {check.asset_key for check in run.asset_check_selection or ()}
        yield run, chosen


def busy_tables(instance: dg.DagsterInstance, tables: Sequence[MirroredTable]) -> set[str]:
    """Those of these tables (``source.database.table``) that a run waits or works for, be it a
    sensor's, a backfill's or a person's.

    A run that is done with a table is no reason to leave it alone while the run goes on for others:
    one slow table would hold up all of its source.
    """
    return busy_of_runs(instance, under_way(instance), tables)


def busy_of_runs(
    instance: dg.DagsterInstance, runs: Iterable[UnderWay], tables: Sequence[MirroredTable]
) -> set[str]:
    """The same by these runs alone."""
    keys = {key: table for table in tables for key in table.chain_keys}
    found: set[str] = set()
    for run, chosen in runs:
        if not chosen:
            # A job over tables that its config names: all of its source, or none that we know of.
            tag = run.tags.get(SOURCE_TAG)
            found |= {t.contract.name for t in tables if tag == t.source_tag}
            continue
        about = {keys[key].contract.name: keys[key] for key in chosen if key in keys}
        if about.keys() <= found:
            continue
        ended = _ended_steps(instance, run) if run.asset_selection else dict[str, str]()
        found |= {name for name, table in about.items() if not _is_through(table, chosen, ended)}
    return found


def _ended_steps(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[str, str]:
    """The steps of a run that will do nothing more, and how they ended."""
    stats = instance.get_run_step_stats(run.run_id)
    found = {one.step_key: one.status.name for one in stats if one.status is not None}
    return {step: status for step, status in found.items() if status in _ENDED}


def _is_through(table: MirroredTable, chosen: set[dg.AssetKey], ended: Mapping[str, str]) -> bool:
    """Whether a run has done what it was requested for a table: a failed step, or one that was
    skipped, ends its chain. BigQuery's step is after the lake's, and ends none of them."""
    keys = [key for key in table.chain_keys if key in chosen]
    states = {key: ended.get(step_of(key)) for key in keys}
    of_lake = [table.key(layer) for layer in LAYERS]
    in_lake = [states[key] for key in of_lake if key in states]
    if {"FAILURE", "SKIPPED"}.intersection(map(str, in_lake)):
        return True
    elsewhere = [state for key, state in states.items() if key not in of_lake]
    return in_lake[-1:] in ([], ["SUCCESS"]) and None not in elsewhere


def why_held(ledger: "Ledger", source: str) -> str | None:
    """Why a source may not be queried now, None where it may."""
    held = ledger.held(source)
    if held is None:
        return None
    why = f" ({held.reason})" if held.reason else ""
    return f"Source {source} is held until {held.until:%Y-%m-%d %H:%M} UTC{why}"
