"""The executor of a location with mirrored tables: steps of one run side by side, in one process
and so one JVM.

What belongs here: what a person can set. What doesn't: Dagster's internals, which
`dagster_mirrorlake.threads` alone imports, when a run begins.
"""

import os
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from dagster._core.executor.base import Executor


def _by_default() -> int:
    return min(max(2, os.cpu_count() or 1), 4)


@dg.executor(
    name="threads",
    config_schema={
        "max_concurrent": dg.Field(
            dg.Noneable(dg.IntSource),
            default_value=None,
            is_required=False,
            description="How many steps of a run work at once; by default as many as there are "
            "cores, but two to four: each may fold in the memory of Spark's driver. How many of "
            "them read from one source is its pool's limit.",
        )
    },
)
def threads_executor(init_context: dg.InitExecutorContext) -> "Executor":
    """Mirrorlake's steps of a run work in threads of one process; all others one after the other.

    Under a Dagster whose internals have moved, all steps go one after the other, and the run's log
    says so (ADR 38).

    Raises:
        DagsterInvariantViolationError: ``max_concurrent`` is less than one.
    """
    limit = init_context.executor_config.get("max_concurrent")
    chosen = _by_default() if limit is None else int(str(limit))
    if chosen < 1:
        raise dg.DagsterInvariantViolationError(
            f"max_concurrent: {chosen} steps at once would run nothing: give at least 1"
        )
    try:
        from dagster_mirrorlake.threads import ThreadsExecutor
    except ImportError as error:
        from dagster._core.execution.retries import RetryMode
        from dagster._core.executor.in_process import InProcessExecutor

        dg.get_dagster_logger().warning(
            "Steps run one after the other: this Dagster lacks what they need to run side by side "
            "(%s)",
            error,
        )
        return InProcessExecutor(RetryMode.ENABLED)
    return ThreadsExecutor(chosen)
