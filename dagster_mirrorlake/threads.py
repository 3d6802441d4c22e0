"""Dagster's loop over the steps of a run, with steps in threads.

Dagster has no such executor, and no public interface to write one: this module is the only one that
imports its internals (ADR 38). Its loop is the in-process executor's, and its way to stop the
multiprocess executor's.
"""

import ctypes
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from logging import LogRecord
from typing import Protocol

from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.events import DagsterEvent, EngineEventData
from dagster._core.execution.api import ExecuteRunWithPlanIterable
from dagster._core.execution.compute_logs import create_compute_log_file_key
from dagster._core.execution.context.system import (
    PlanExecutionContext,
    PlanOrchestrationContext,
    StepExecutionContext,
)
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.plan.active import ActiveExecution
from dagster._core.execution.plan.execute_plan import (
    _handle_compute_log_setup_error,  # pyright: ignore[reportPrivateUsage]
    _trigger_hook,  # pyright: ignore[reportPrivateUsage]
    dagster_event_sequence_for_step,
)
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.base import Executor
from dagster._core.instance import DagsterInstance
from dagster._core.storage.tags import PRIORITY_TAG

from dagster_mirrorlake.resources.workspace import end_thread, give_up
from dagster_mirrorlake.step_tags import THREAD_TAG

_POLL = 0.2
"""Seconds between two looks for a step whose turn comes by time: a retry, a slot of a pool."""
_GIVEN_UP = 20.0
"""Seconds that steps have to end after their run was terminated."""


class ThreadsExecutor(Executor):
    """Up to ``limit`` steps at once; see `dagster_mirrorlake.executor.threads_executor`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    @property
    def retries(self) -> RetryMode:
        return RetryMode.ENABLED

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[DagsterEvent]:
        started = time.monotonic()
        about = EngineEventData.in_process(os.getpid(), execution_plan.step_keys_to_execute)
        words = f"Executing steps in up to {self._limit} threads (pid: {os.getpid()})"
        yield DagsterEvent.engine_event(plan_context, words, event_specific_data=about)
        yield from iter(
            ExecuteRunWithPlanIterable(
                execution_plan=plan_context.execution_plan,
                iterator=self._events,
                execution_context_manager=PlanExecutionContextManager(
                    job=plan_context.job,
                    retry_mode=plan_context.retry_mode,
                    execution_plan=plan_context.execution_plan,
                    run_config=plan_context.run_config,
                    dagster_run=plan_context.dagster_run,
                    instance=plan_context.instance,
                    raise_on_error=plan_context.raise_on_error,
                    output_capture=plan_context.output_capture,
                    step_dependency_config=self.step_dependency_config,
                ),
            )
        )
        words = f"Finished steps (pid: {os.getpid()}) in {time.monotonic() - started:.1f} s"
        yield DagsterEvent.engine_event(plan_context, words, event_specific_data=about)

    def _events(
        self, job_context: PlanExecutionContext, execution_plan: ExecutionPlan
    ) -> Iterator[DagsterEvent]:
        job = job_context  # Dagster calls it by that name
        with ExitStack() as stack:
            slots = InstanceConcurrencyContext(job.instance, job.dagster_run)
            active = stack.enter_context(
                execution_plan.start(
                    retry_mode=job.retry_mode,
                    max_concurrent=self._limit,
                    instance_concurrency_context=stack.enter_context(slots),
                    step_dependency_config=self.step_dependency_config,
                )
            )
            stack.enter_context(_slots_freed(job.instance, job.run_id))
            steps = stack.enter_context(_Steps(job.run_id))
            manager = job.instance.compute_log_manager
            key = manager.build_log_key_for_run(job.run_id, create_compute_log_file_key())
            every = [step.key for step in execution_plan.get_steps_to_execute_in_topo_order()]
            try:
                logs = stack.enter_context(manager.capture_logs(key))
                yield DagsterEvent.capture_logs(job, every, key, logs)
            except Exception:  # noqa: BLE001 - as of every executor: a run goes on without its output
                yield from _handle_compute_log_setup_error(job, sys.exc_info())
            yield from self._loop(job, active, steps)

    def _loop(
        self, job: PlanExecutionContext, active: ActiveExecution, steps: "_Steps"
    ) -> Iterator[DagsterEvent]:
        while not active.is_complete:
            if active.check_for_interrupts():
                active.mark_interrupted()
                yield DagsterEvent.engine_event(
                    job,
                    "Termination was requested: steps under way are given up",
                    EngineEventData.interrupted(steps.running),
                )
                raise DagsterExecutionInterruptedError
            ready = [
                job.for_step(step, active.get_known_state())
                for step in active.get_steps_to_execute()
            ]
            yield from active.concurrency_event_iterator(job)
            for step in sorted(ready, key=_turn):
                if _in_main(step):
                    steps.run(step)
                else:
                    steps.start(step)
            for step, event in steps.events():
                if event is not None:
                    yield event
                    active.handle_event(event)
                    continue
                active.verify_complete(job, step.step.key)
                skipped = list(active.plan_events_iterator(job))
                yield from skipped
                yield from _trigger_hook(step, [*steps.reported.pop(step.step.key, ()), *skipped])


@contextmanager
def _slots_freed(instance: DagsterInstance, run_id: str) -> Iterator[None]:
    """Free the pool slots of a run that ends before its steps do. Dagster alone keeps them, unless
    its settings have its daemon free them some time after the run has ended."""
    try:
        yield
    except BaseException:
        storage = instance.event_log_storage
        if storage.supports_global_concurrency_limits:
            storage.free_concurrency_slots_for_run(run_id)
        raise


def _in_main(step: StepExecutionContext) -> bool:
    return step.step.tags.get(THREAD_TAG) != "true"


def _turn(step: StepExecutionContext) -> tuple[int, bool]:
    """What is more urgent first, whatever waits for it; else threads before what fills this one."""
    return -int(step.step.tags.get(PRIORITY_TAG, "0")), _in_main(step)


_Report = tuple[StepExecutionContext, DagsterEvent | BaseException | None]
"""What a step reports: an event, what it let through, or None at its end."""


@dataclass
class _Steps:
    """The steps under way: what they report, in the order of its coming. Left with an error, or
    early, it gives them up, and waits for their end."""

    run_id: str
    threads: dict[str, threading.Thread] = field(default_factory=dict)
    reported: dict[str, list[DagsterEvent]] = field(default_factory=dict)
    _coming: "queue.SimpleQueue[_Report]" = field(default_factory=queue.SimpleQueue)

    def __enter__(self) -> "_Steps":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.threads:
            return
        give_up(self.run_id)
        deadline = time.monotonic() + _GIVEN_UP
        while (alive := self._alive()) and time.monotonic() < deadline:
            for thread in alive:
                _interrupt(thread)
            alive[0].join(1.0)

    @property
    def running(self) -> list[str]:
        return sorted(self.threads)

    def start(self, step: StepExecutionContext) -> None:
        """Run a step in a thread of its own."""
        thread = threading.Thread(
            target=self._run_alone, args=(step,), name=f"step-{step.step.key}", daemon=True
        )
        self.threads[step.step.key] = thread
        thread.start()

    def run(self, step: StepExecutionContext) -> None:
        """Run a step in this thread."""
        self._coming.put((step, self._run(step)))

    def events(self) -> Iterator[tuple[StepExecutionContext, DagsterEvent | None]]:
        """What is there to be reported; None after a step's last. Waits a moment where nothing is.

        Raises:
            BaseException: what a step let through: the run ends.
        """
        wait = _POLL
        while True:
            try:
                step, event = self._coming.get(timeout=wait)
            except queue.Empty:
                return
            wait = 0.0
            if isinstance(event, BaseException):
                raise event
            if event is None:
                self.threads.pop(step.step.key, None)
            else:
                self.reported.setdefault(step.step.key, []).append(event)
            yield step, event

    def _run_alone(self, step: StepExecutionContext) -> None:
        with _own_lines(step):
            ended = self._run(step)
        end_thread(self.run_id)
        # Last: what the thread borrowed is there for the next step.
        self._coming.put((step, ended))

    def _run(self, step: StepExecutionContext) -> BaseException | None:
        """Report what a step does; what it lets through, if anything, the run raises."""
        try:
            for event in dagster_event_sequence_for_step(step):
                self._coming.put((step, event))
        except BaseException as error:  # noqa: BLE001
            return error
        return None

    def _alive(self) -> list[threading.Thread]:
        return [thread for thread in self.threads.values() if thread.is_alive()]


def _interrupt(thread: threading.Thread) -> None:
    """Raise in a thread what Dagster raises in the main one when a run is terminated."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(DagsterExecutionInterruptedError)
        )


_STEP_THREADS: set[int] = set()
"""Of the steps under way in this process."""


@contextmanager
def _own_lines(step: StepExecutionContext) -> Iterator[None]:
    """While the block runs, a step's handler takes no line that another step's thread logged.

    Dagster offers what the engine logs to every step under way, and the first one takes it. A line
    from a thread that a step started itself goes to any of them: it names its table.
    """
    mine = threading.get_ident()
    _STEP_THREADS.add(mine)
    for handler in step.log.handlers:
        handler.filter = _only(mine, handler.filter)
    try:
        yield
    finally:
        _STEP_THREADS.discard(mine)


class _Lines(Protocol):
    def __call__(self, record: LogRecord) -> bool: ...


def _only(mine: int, before: _Lines) -> _Lines:
    def chosen(record: LogRecord) -> bool:
        return (record.thread == mine or record.thread not in _STEP_THREADS) and before(record)

    return chosen
