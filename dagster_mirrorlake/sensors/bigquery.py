"""The schedules of the checks in BigQuery: permissions every hour, rows once a week if at all."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.keys import permissions_key
from dagster_mirrorlake.checks.bigquery import DECLARED, EQUALS
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.published import PublishedAsset
from dagster_mirrorlake.sensors.requests import SCHEDULE_STATUS

PERMISSIONS_CRON = "40 * * * *"
CHECKS_CRON = "45 5 * * 0"


def build_permissions_schedule(names: Names, *, running: bool = False) -> dg.ScheduleDefinition:
    """Every hour: who has access is compared with who is declared."""

    @dg.schedule(
        name=names.of("permissions"),
        cron_schedule=PERMISSIONS_CRON,
        execution_timezone="UTC",
        default_status=SCHEDULE_STATUS[running],
        job_name="__ASSET_JOB",
        description="Compares who has access to datasets of BigQuery with permissions.yaml.",
    )
    def permissions(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        return dg.RunRequest(
            run_key=f"permissions-{at:%Y-%m-%dT%H:%M}",
            asset_selection=[],
            asset_check_keys=[dg.AssetCheckKey(permissions_key(names), DECLARED)],
            tags={"mirrorlake/reason": "permissions"},
        )

    return permissions


def build_bigquery_checks_schedule(tables: Sequence[PublishedAsset]) -> dg.ScheduleDefinition:
    """Once a week: every row of every table, which BigQuery bills. Off until somebody turns it on,
    also where other schedules are on from the start."""
    names = tables[0].names

    @dg.schedule(
        name=names.of("bigquery_checks"),
        cron_schedule=CHECKS_CRON,
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
