"""The job that has tables synced, backfilled or folded in a batch."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_mirrorlake.batches.service import TASKS, Batches, BatchState, BatchWork, batch_of
from dagster_mirrorlake.jobs.each import PATTERNS, Done, choose, log_line, report
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import mirrored_tables
from mirrorlake.config import Config
from mirrorlake.errors import MachineError, MirrorlakeError

LOOKS = 30
"""So many looks that fail one after the other end a step; the batch runs on, for its retry."""


class BatchConfig(dg.Config):
    """What a batch does."""

    task: str = Field(default="sync", description="`sync`, `backfill` or `fold`.")
    tables: list[str] = Field(default=[], description=f"{PATTERNS}. Empty: every table.")
    first: str = Field(default="", description="Of a backfill: the first day, YYYY-MM-DD.")
    last: str = Field(default="", description="Of a backfill: the last day, included.")
    missing_too: bool = Field(
        default=False, description="Of a backfill: days that were never requested as well."
    )


def build_batch_job(
    contracts: Config, batches: Batches, name: str = "in_a_batch"
) -> dg.JobDefinition:
    """A job that works on tables in a batch, waits for it, and reports what became of each.

    When the step is retried, it reattaches to the batch that it started. Cancelling the run cancels
    the batch.
    """
    tables = mirrored_tables(contracts.tables)

    @dg.op(name=f"{name}_step", out=dg.Out(dg.Nothing))
    def step(context: dg.OpExecutionContext, config: BatchConfig) -> Iterator[Any]:
        with dagster_errors(context):
            chosen = choose(tables, contracts, config.tables)
            done = _run_batch(context, batches, _work(config, [t.contract.name for t in chosen]))
        yield report(done, "There is no table.")

    return dg.GraphDefinition(name=name, node_defs=[step]).to_job(
        description="Sync, backfill or fold tables in a batch of its own, and wait for it.",
        executor_def=dg.in_process_executor,
    )


def _work(config: BatchConfig, names: Sequence[str]) -> BatchWork:
    task = TASKS.get(config.task)
    if task is None:
        words = f"task: {config.task!r} is not one of {', '.join(TASKS)}"
        raise dg.Failure(words, allow_retries=False)
    return BatchWork(task, tuple(names), config.first, config.last, config.missing_too)


def _run_batch(context: dg.OpExecutionContext, batches: Batches, work: BatchWork) -> Sequence[Done]:
    """Run a batch to its end, or wait for the run's own that is there; what became of each table.

    Raises:
        MachineError: the service refused it, or can't be reached; the batch may run on.
        Failure: it failed, or does not say what became of a table.
    """
    name, state = batch_of(batches, context.run.run_id)
    said = "started" if state is None else f"found: {state}"
    with dg.open_pipes_session(
        context,
        context_injector=dg.PipesEnvContextInjector(),
        message_reader=batches.messages(name),
        extras=work.extras(batches.config, batches.secrets),
    ) as session:
        if state is None:
            arguments = session.get_bootstrap_cli_arguments()
            batches.start(name, [part for pair in arguments.items() for part in pair])
        context.log.info("batch %s: %s", name, said)
        try:
            state = _wait(context, batches, name)
        except Exception:
            raise  # a look that failed: the batch runs on, and a retry finds it
        except BaseException:
            _cancel(context, batches, name)
            raise
    if state == "failed":
        raise dg.Failure(f"batch {name} failed: {batches.why(name)}", allow_retries=False)
    return _outcomes(context, name, work, session.get_custom_messages())


def _wait(context: dg.OpExecutionContext, batches: Batches, name: str) -> BatchState:
    failed = 0
    while True:
        try:
            state = batches.look(name)
            failed = 0
        except MirrorlakeError as error:
            failed += 1
            if failed == LOOKS or not error.retryable:
                raise
            context.log.warning("batch %s: %s", name, error)
            state = "open"
        if state is None:
            raise MachineError(f"batch {name} is gone", next_step="See who deleted it")
        if state != "open":
            return state
        time.sleep(batches.poll_seconds)


def _cancel(context: dg.OpExecutionContext, batches: Batches, name: str) -> None:
    try:
        batches.cancel(name)
        context.log.info("batch %s: cancelled with its run", name)
    except MirrorlakeError as error:
        # The run's end goes on: it says here what is left.
        context.log.warning("batch %s could not be cancelled, and runs on: %s", name, error)


def _outcomes(
    context: dg.OpExecutionContext, name: str, work: BatchWork, messages: Sequence[Any]
) -> Sequence[Done]:
    """What became of each table, as the batch says.

    Raises:
        Failure: it does not say it of one.
    """
    found = {one["table"]: Done(**one) for one in messages}
    silent = [table for table in work.tables if table not in found]
    if silent:
        raise dg.Failure(
            f"batch {name} succeeded, and nothing says what became of {', '.join(silent)}. "
            "`mirrorlake status` shows it",
            allow_retries=False,
        )
    done = [found[table] for table in work.tables]
    for one in done:
        log_line(context, one)
    return done
