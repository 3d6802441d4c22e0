"""The schedules: the daily loads, the proofs, and what looks after the lake.

What belongs here: what is requested when. What doesn't: which tables moved meanwhile
(`dagster_mirrorlake.sensors.moved`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.keys import cleanup_key, maintenance_key
from dagster_mirrorlake.checks import proof_check_keys
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import SCHEDULE_STATUS, request_chains, why_held
from dagster_mirrorlake.table import MirroredTable, by_source

_Requests = Iterator[dg.RunRequest | dg.SkipReason]
_Evaluate = Callable[[dg.ScheduleEvaluationContext, datetime], _Requests]


def build_maintenance_schedule(
    names: Names | None = None, *, running: bool = False
) -> dg.ScheduleDefinition:
    """At 02:30 UTC the lake tables are looked after: before the daily loads, and before the
    cleanup."""
    named = names or Names()

    def maintenance(_: dg.ScheduleEvaluationContext, at: datetime) -> _Requests:
        yield dg.RunRequest(
            run_key=f"maintenance-{at.date()}",
            asset_selection=[maintenance_key(named)],
            tags={"mirrorlake/reason": "daily maintenance"},
        )

    return _schedule(
        named.of("maintenance"),
        "30 2 * * *",
        "Compacts, expires and cleans up the lake tables, once a day.",
        maintenance,
        running=running,
    )


def build_cleanup_schedule(
    tables: Sequence[MirroredTable], *, running: bool = False
) -> dg.ScheduleDefinition:
    """At 03:30 UTC per source: its cleanup, and the gaps of its tables, loaded lately or not.

    Neither queries the source, so a hold changes nothing.
    """
    names = tables[0].names

    def cleanup(_: dg.ScheduleEvaluationContext, at: datetime) -> _Requests:
        for source, of_source in by_source(tables).items():
            yield dg.RunRequest(
                run_key=f"cleanup-{source}-{at.date()}",
                asset_selection=[cleanup_key(source, names)],
                asset_check_keys=[dg.AssetCheckKey(t.key("raw"), "gaps") for t in of_source],
                tags={"mirrorlake/reason": "daily cleanup"},
            )

    return _schedule(
        names.of("cleanup"),
        "30 3 * * *",
        "Puts right what dead runs left, and looks for gaps, once a day.",
        cleanup,
        running=running,
    )


def build_schedule(
    tables: Sequence[MirroredTable], *, running: bool = False
) -> dg.ScheduleDefinition:
    """At 04:00 UTC per source: the day that ended is loaded again, then what is new, of every
    table, moved or not.

    A source that is held then is requested in the first hour in which it is not: a request that was
    made has its day's run key, and is made once.

    Tables of mode full have no past: they get a run of their own, for the day that is open.
    """
    names = tables[0].names

    def daily(context: dg.ScheduleEvaluationContext, at: datetime) -> _Requests:
        before = at.date() - timedelta(days=1)
        free, held = _free(context, names, tables)
        if not free:
            yield dg.SkipReason("; ".join(held))
        for source, of_source in free.items():
            for day, name, chosen in (
                (before, "daily", [t for t in of_source if not t.contract.copies]),
                (at.date(), "daily-full", [t for t in of_source if t.contract.copies]),
            ):
                if chosen:
                    key = f"{name}-{source}-{at.date()}"
                    yield from request_chains(context.instance, chosen, day, key, "daily", "daily")

    return _schedule(
        names.of("daily"),
        "0 4-23 * * *",
        "Loads the day before again, then what is new of every table, and folds it.",
        daily,
        running=running,
        needs=names.all_of({"ledger"}),
    )


def build_proof_schedule(
    tables: Sequence[MirroredTable], *, running: bool = False
) -> dg.ScheduleDefinition:
    """Every two hours per source: rows are counted, and the next chunk of each table is compared
    with MySQL.

    A source that is held is not queried; its chunks wait for the next time.
    """
    names = tables[0].names

    def proofs(context: dg.ScheduleEvaluationContext, at: datetime) -> _Requests:
        free, held = _free(context, names, tables)
        if not free:
            yield dg.SkipReason("; ".join(held))
        for source, of_source in free.items():
            yield dg.RunRequest(
                run_key=f"proofs-{source}-{at:%Y-%m-%dT%H:%M}",
                asset_selection=[],
                asset_check_keys=[key for table in of_source for key in proof_check_keys(table)],
                # Without the tag of its source: no load waits for a proof.
                tags={"mirrorlake/reason": "proofs"},
            )

    return _schedule(
        names.of("proofs"),
        "15 */2 * * *",
        "Counts the rows of every table, and compares its next chunk with MySQL.",
        proofs,
        running=running,
        needs=names.all_of({"ledger"}),
    )


def _free(
    context: dg.ScheduleEvaluationContext, names: Names, tables: Sequence[MirroredTable]
) -> tuple[dict[str, list[MirroredTable]], list[str]]:
    """The tables of each source that nobody holds, and why the others are held."""
    found = by_source(tables)
    with dagster_errors():
        ledger = names.resources(context).ledger.ledger
        held = {source: why for source in found if (why := why_held(ledger, source))}
    return {s: of_source for s, of_source in found.items() if s not in held}, [*held.values()]


def _schedule(
    name: str,
    cron: str,
    description: str,
    evaluate: _Evaluate,
    *,
    running: bool,
    needs: Iterable[str] = (),
) -> dg.ScheduleDefinition:
    """A schedule in UTC whose requests say themselves which assets and checks they are for."""

    @dg.schedule(
        name=name,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=SCHEDULE_STATUS[running],
        required_resource_keys={*needs},
        # Of its own it would be a second job over all assets, which loads as long as the first.
        job_name="__ASSET_JOB",
        description=description,
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> Any:
        yield from evaluate(context, context.scheduled_execution_time.astimezone(UTC))

    return schedule
