"""The schedule of a source's cuts: ticks as often as the section `cuts` wants one."""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg

from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.cuts.asset import followed_by_source
from dagster_mirrorlake.sensors.requests import SCHEDULE_STATUS
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.cuts.config import CutsConfig


def build_schedules(mirror: Mirror) -> list[dg.ScheduleDefinition]:
    """One for each source of which the contract file wants cuts."""
    section = mirror.config.section(CutsConfig)
    return [
        _schedule(source, tables, every, running=mirror.running)
        for source, tables in followed_by_source(mirror).items()
        if (every := section.of(source).every) is not None
    ]


def _schedule(
    source: str, tables: Sequence[MirroredTable], every: timedelta, *, running: bool
) -> dg.ScheduleDefinition:
    name = f"cut_{source}"
    return dg.ScheduleDefinition(
        name=tables[0].names.of(f"{name}_schedule"),
        job_name=tables[0].names.of(name),
        cron_schedule=cron_of(every),
        execution_timezone="UTC",
        run_config={"ops": {name: {"config": {"due": True}}}},
        description=f"Makes a cut of source {source} where one is due by the contract file; a "
        "process that follows the source may have made it.",
        default_status=SCHEDULE_STATUS[running],
    )


def cron_of(every: timedelta) -> str:
    """A cron expression that ticks at least so often: by the divisors of an hour and of a day.

    >>> [cron_of(timedelta(minutes=m)) for m in (1, 25, 60, 300, 3000)]
    ['* * * * *', '*/20 * * * *', '0 * * * *', '0 */4 * * *', '0 0 * * *']
    """
    minutes = int(every.total_seconds()) // 60
    if minutes < 60:
        step = max(n for n in range(1, 61) if 60 % n == 0 and n <= minutes)
        return "* * * * *" if step == 1 else f"*/{step} * * * *"
    step = max(n for n in range(1, 25) if 24 % n == 0 and n <= minutes // 60)
    return {1: "0 * * * *", 24: "0 0 * * *"}.get(step, f"0 */{step} * * *")
