"""The cleanup schedule: what dead runs left is put right, and gaps are looked for."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.keys import asset_key, cleanup_key
from mirrorlake.config import TableContract

CRON = "30 3 * * *"
_STATUS = {
    True: dg.DefaultScheduleStatus.RUNNING,
    False: dg.DefaultScheduleStatus.STOPPED,
}


def build_cleanup_schedule(
    contracts: Sequence[TableContract], *, running: bool = False
) -> dg.ScheduleDefinition:
    """At 03:30 UTC per source: its cleanup, and the gaps of its tables, loaded lately or not.

    Neither asks the source, so a hold changes nothing.
    """

    @dg.schedule(
        name="cleanup",
        cron_schedule=CRON,
        execution_timezone="UTC",
        default_status=_STATUS[running],
        job_name="__ASSET_JOB",
        description="Puts right what dead runs left, and looks for gaps, once a day.",
    )
    def cleanup(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        for source in dict.fromkeys(c.source for c in contracts):
            tables = [c for c in contracts if c.source == source]
            yield dg.RunRequest(
                run_key=f"cleanup-{source}-{at.date()}",
                asset_selection=[cleanup_key(source)],
                asset_check_keys=[dg.AssetCheckKey(asset_key("raw", c), "gaps") for c in tables],
                tags={"mirrorlake/reason": "daily cleanup"},
            )

    return cleanup
