"""The cleanup schedule: what dead runs left is put right, and gaps are looked for."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.keys import cleanup_key
from dagster_mirrorlake.sensors.requests import SCHEDULE_STATUS
from dagster_mirrorlake.table import MirroredTable

CRON = "30 3 * * *"


def build_cleanup_schedule(
    tables: Sequence[MirroredTable], *, running: bool = False
) -> dg.ScheduleDefinition:
    """At 03:30 UTC per source: its cleanup, and the gaps of its tables, loaded lately or not.

    Neither queries the source, so a hold changes nothing.
    """
    names = tables[0].names

    @dg.schedule(
        name=names.of("cleanup"),
        cron_schedule=CRON,
        execution_timezone="UTC",
        default_status=SCHEDULE_STATUS[running],
        job_name="__ASSET_JOB",
        description="Puts right what dead runs left, and looks for gaps, once a day.",
    )
    def cleanup(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        for source in dict.fromkeys(t.contract.source for t in tables):
            of_source = [t for t in tables if t.contract.source == source]
            yield dg.RunRequest(
                run_key=f"cleanup-{source}-{at.date()}",
                asset_selection=[cleanup_key(source, names)],
                asset_check_keys=[dg.AssetCheckKey(t.key("raw"), "gaps") for t in of_source],
                tags={"mirrorlake/reason": "daily cleanup"},
            )

    return cleanup
