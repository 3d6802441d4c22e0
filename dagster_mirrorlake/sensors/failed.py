"""One clear line for every run that failed."""

import logging

import dagster as dg

logger = logging.getLogger("mirrorlake.runs")


@dg.run_failure_sensor(
    name="failed_runs",
    description="Logs one line per failed run: which tables, and the first reason.",
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def failed_runs(context: dg.RunFailureSensorContext) -> None:
    """Name the run, the steps that failed and the first one's reason."""
    line = failure_line(context)
    context.log.error(line)
    logger.error(line)


def failure_line(context: dg.RunFailureSensorContext) -> str:
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
