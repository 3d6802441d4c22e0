"""One clear line for every run that failed."""

import logging
from collections.abc import Sequence

import dagster as dg

from dagster_mirrorlake.assets.keys import cleanup_key, maintenance_key
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.tenants import MirroredTenants

logger = logging.getLogger("mirrorlake.runs")


def build_failed_sensor(
    tables: Sequence[MirroredTable],
    names: Names | None = None,
    tenants: Sequence[MirroredTenants] = (),
) -> dg.SensorDefinition:
    """The sensor that names a failed run, the steps that failed and the first one's reason.

    Of a mirror with a name, which is one of several things in its location, it reports the runs
    over the mirror's own assets alone.
    """
    named = names or Names()

    @dg.run_failure_sensor(
        name=named.of("failed_runs"),
        description="Logs one line per failed run: which tables, and the first reason.",
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def failed_runs(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        if named.mirror and not _is_over(context.dagster_run, tables, tenants, named):
            return dg.SkipReason("The run is over assets of others")
        line = _failure_line(context)
        context.log.error(line)
        logger.error(line)
        return None

    return failed_runs


def _is_over(
    run: dg.DagsterRun,
    tables: Sequence[MirroredTable],
    tenants: Sequence[MirroredTenants],
    names: Names,
) -> bool:
    """Whether a run was for assets or checks of these tables, or of the mirror's chores."""
    selected = {*(run.asset_selection or ())}
    selected |= {check.asset_key for check in run.asset_check_selection or ()}
    keys = {key for table in (*tables, *tenants) for key in table.chain_keys}
    keys |= {cleanup_key(table.contract.source, names) for table in tables}
    return not selected.isdisjoint({*keys, maintenance_key(names)})


def _failure_line(context: dg.RunFailureSensorContext) -> str:
    """``table …: <the first reason> (run …: <steps>)``, on one line; without a table the steps come
    first."""
    run_id, events = context.dagster_run.run_id, context.get_step_failure_events()
    if not events:
        return f"run {run_id} failed: {_one_line(context.failure_event.message)}"
    steps = ", ".join(str(event.step_key) for event in events)
    data = events[0].step_failure_data
    failure = data.user_failure_data
    reason = _one_line(failure.description if failure else (data.error and data.error.message))
    if reason.startswith("table "):
        return f"{reason} (run {run_id} failed: {steps})"
    return f"{steps}: {reason} (run {run_id} failed)"


def _one_line(text: str | None) -> str:
    return " ".join((text or "no reason was recorded").split())
