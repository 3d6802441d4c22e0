"""The proof schedule: the mirror is held against MySQL, a chunk of every table at a time."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dagster_mirrorlake.checks import proof_check_keys
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import SCHEDULE_STATUS, why_held
from dagster_mirrorlake.table import MirroredTable

CRON = "15 */2 * * *"


def build_proof_schedule(
    tables: Sequence[MirroredTable], *, running: bool = False
) -> dg.ScheduleDefinition:
    """Every two hours per source: rows are counted, and the next chunk of each table is compared.

    A source that is held is not queried; its chunks wait for the next time.
    """
    names = tables[0].names

    @dg.schedule(
        name=names.of("proofs"),
        cron_schedule=CRON,
        execution_timezone="UTC",
        default_status=SCHEDULE_STATUS[running],
        required_resource_keys=names.all_of({"ledger"}),
        job_name="__ASSET_JOB",
        description="Counts the rows of every table, and compares its next chunk with MySQL.",
    )
    def proofs(context: dg.ScheduleEvaluationContext) -> Any:
        at: datetime = context.scheduled_execution_time.astimezone(UTC)
        sources = dict.fromkeys(t.contract.source for t in tables)
        with dagster_errors():
            ledger = names.resources(context).ledger.ledger
            held = {s: why for s in sources if (why := why_held(ledger, s))}
        if len(held) == len(sources):
            yield dg.SkipReason("; ".join(held.values()))
        for source in (s for s in sources if s not in held):
            yield dg.RunRequest(
                run_key=f"proofs-{source}-{at:%Y-%m-%dT%H:%M}",
                asset_selection=[],
                asset_check_keys=[
                    key
                    for table in tables
                    if table.contract.source == source
                    for key in proof_check_keys(table)
                ],
                # Without the tag of its source: no load waits for a proof.
                tags={"mirrorlake/reason": "proofs"},
            )

    return proofs
