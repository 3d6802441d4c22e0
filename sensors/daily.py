"""The daily schedule: every table's chain, moved or not."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from mirrorlake.config import TableContract
from sensors.requests import request_chains

CRON = "0 4 * * *"
_STATUS = {
    True: dg.DefaultScheduleStatus.RUNNING,
    False: dg.DefaultScheduleStatus.STOPPED,
}


def build_schedule(
    contracts: Sequence[TableContract], *, running: bool = False
) -> dg.ScheduleDefinition:
    """At 04:00 UTC one run per source, for the chains of all its tables."""

    @dg.schedule(
        name="daily",
        cron_schedule=CRON,
        execution_timezone="UTC",
        default_status=_STATUS[running],
        # Of its own it would be a second job over all assets, which loads as long as the first.
        job_name="__ASSET_JOB",
        description="Loads and folds every table once a day, whether or not it was seen to move.",
    )
    def daily(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        for source in dict.fromkeys(c.source for c in contracts):
            tables = [c for c in contracts if c.source == source]
            yield request_chains(tables, at.date(), f"daily-{source}-{at.date()}", "daily")

    return daily
