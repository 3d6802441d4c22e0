"""The maintenance schedule: the lake tables are looked after once a day."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.keys import maintenance_key
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.sensors.requests import SCHEDULE_STATUS

CRON = "30 2 * * *"


def build_maintenance_schedule(
    names: Names | None = None, *, running: bool = False
) -> dg.ScheduleDefinition:
    """At 02:30 UTC: before the daily loads, and before the cleanup."""
    named = names or Names()

    @dg.schedule(
        name=named.of("maintenance"),
        cron_schedule=CRON,
        execution_timezone="UTC",
        default_status=SCHEDULE_STATUS[running],
        job_name="__ASSET_JOB",
        description="Compacts, expires and cleans up the lake tables, once a day.",
    )
    def maintenance(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        return dg.RunRequest(
            run_key=f"maintenance-{at.date()}",
            asset_selection=[maintenance_key(named)],
            tags={"mirrorlake/reason": "daily maintenance"},
        )

    return maintenance
