"""The schedule of the checks in BigQuery: rows once a week, if at all."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dagster_mirrorlake.bigquery.checks import EQUALS
from dagster_mirrorlake.bigquery.published import PublishedAsset, published_assets
from dagster_mirrorlake.build import Mirror

_CHECKS_CRON = "45 5 * * 0"


def _build_bigquery_checks_schedule(tables: Sequence[PublishedAsset]) -> dg.ScheduleDefinition:
    """Once a week: every row of every table, which BigQuery bills. Off until somebody turns it on,
    also where other schedules are on from the start."""
    names = tables[0].names

    @dg.schedule(
        name=names.of("bigquery_checks"),
        cron_schedule=_CHECKS_CRON,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        job_name="__ASSET_JOB",
        description="Compares every row of every table in BigQuery with the lake. BigQuery bills "
        "what it reads: all of these tables.",
    )
    def bigquery_checks(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        return dg.RunRequest(
            run_key=f"bigquery-checks-{at:%Y-%m-%dT%H:%M}",
            asset_selection=[],
            asset_check_keys=[dg.AssetCheckKey(t.key("bigquery"), EQUALS) for t in tables],
            tags={"mirrorlake/reason": "BigQuery is compared with the lake"},
        )

    return bigquery_checks


def bigquery_schedules(mirror: Mirror) -> list[dg.ScheduleDefinition]:
    """None where nothing is published in BigQuery."""
    tables = published_assets(mirror)
    return [_build_bigquery_checks_schedule(tables)] if tables else []
