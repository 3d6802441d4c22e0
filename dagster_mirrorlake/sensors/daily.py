"""The daily schedule: every table's chain, moved or not, and the day before once more."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import SCHEDULE_STATUS, request_chains, why_held
from dagster_mirrorlake.table import MirroredTable

CRON = "0 4-23 * * *"
"""Every hour from 04:00 on: a request that was made has its day's run key, and is made once."""


def build_schedule(
    tables: Sequence[MirroredTable], *, running: bool = False
) -> dg.ScheduleDefinition:
    """At 04:00 UTC per source: the day that ended is loaded again, then what is new.

    A source that is held then is requested in the first hour in which it is not.

    Tables of mode full have no past: they get a run of their own, for the day that is open.
    """
    names = tables[0].names

    @dg.schedule(
        name=names.of("daily"),
        cron_schedule=CRON,
        execution_timezone="UTC",
        default_status=SCHEDULE_STATUS[running],
        required_resource_keys=names.all_of({"ledger"}),
        # Of its own it would be a second job over all assets, which loads as long as the first.
        job_name="__ASSET_JOB",
        description="Loads the day before again, then what is new of every table, and folds it.",
    )
    def daily(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        before = at.date() - timedelta(days=1)
        with dagster_errors():
            ledger = names.resources(context).ledger.ledger
            sources = dict.fromkeys(t.contract.source for t in tables)
            held = {s: why for s in sources if (why := why_held(ledger, s))}
        if len(held) == len(sources):
            yield dg.SkipReason("; ".join(held.values()))
        for source in (s for s in sources if s not in held):
            of_source = [t for t in tables if t.contract.source == source]
            for day, name, chosen in (
                (before, "daily", [t for t in of_source if not t.contract.copies]),
                (at.date(), "daily-full", [t for t in of_source if t.contract.copies]),
            ):
                if chosen:
                    key = f"{name}-{source}-{at.date()}"
                    yield from request_chains(context.instance, chosen, day, key, "daily", "daily")

    return daily
