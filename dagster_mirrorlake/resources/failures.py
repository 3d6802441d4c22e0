"""The engine's errors in Dagster's words: one message, retried where that may help."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import dagster as dg

from mirrorlake.errors import LeaseHeld, MirrorlakeError, NotProved

RETRIES = 3
WAIT_SECONDS = 10
_LONGEST_WAIT = 60
MOST_WAITS = 240
"""Attempts at a table that another run holds: some hours. A dead run's lease ends by itself."""


@contextmanager
def named_failures(table: str) -> Iterator[None]:
    """A step's failure begins with its table's name: it is read in lists of runs and in alerts.

    Raises:
        Failure: the same one, its description after the table's name.
    """
    try:
        yield
    except dg.Failure as failure:
        if table in (failure.description or ""):
            raise
        raise dg.Failure(
            f"table {table}: {failure.description}",
            metadata=failure.metadata,
            allow_retries=failure.allow_retries,
        ) from (failure.__cause__ or failure)


class Step(Protocol):
    """What is known of a step that may be tried again: Dagster's contexts of ops and assets."""

    @property
    def retry_number(self) -> int:
        """How often it was."""
        ...

    @property
    def run(self) -> Any:
        """Dagster's own record of its run."""
        ...

    def get_step_execution_context(self) -> Any:
        """Dagster's own context of it."""
        ...


@contextmanager
def dagster_errors(step: Step | None = None, *, only_held: bool = False) -> Iterator[None]:
    """Raise `MirrorlakeError` as a failure of the step, or as a request to try it again.

    A table that another run holds is no failure: the step waits for it as long as that run lives.
    These attempts don't count among the three that an error gets which may pass by itself.

    Args:
        step: which may be tried again; None: never.
        only_held: whether it is tried again for a table that is held, and for nothing else.

    Raises:
        RetryRequested: the table is held, or the error may pass by itself and retries are left.
        Failure: it is not.
    """
    try:
        yield
    except MirrorlakeError as error:
        if step is not None and isinstance(error, LeaseHeld):
            number = _WAITED[_name(step)] = _WAITED[_name(step)] + 1
            if number <= MOST_WAITS:
                raise dg.RetryRequested(MOST_WAITS + RETRIES, pause(number - 1)) from error
        elif step is not None and error.retryable and not only_held:
            number = step.retry_number - _WAITED[_name(step)]
            if number < RETRIES:
                raise dg.RetryRequested(MOST_WAITS + RETRIES, pause(number)) from error
        metadata = {"error": type(error).__name__, "next step": error.next_step or "-"}
        if isinstance(error, NotProved):
            metadata |= {"branch": error.branch, "differences": "\n".join(error.differences) or "-"}
        raise dg.Failure(str(error), metadata=metadata, allow_retries=False) from error


def pause(number: int) -> float:
    """Seconds to wait before the next attempt: each time twice as long, up to a minute."""
    return min(WAIT_SECONDS * 2 ** min(number, 10), _LONGEST_WAIT)


_WAITED: Counter[tuple[str, str]] = Counter()
"""By run and step: how often this process tried it again for a table that was held."""


def _name(step: Step) -> tuple[str, str]:
    return step.run.run_id, step.get_step_execution_context().step.key
