"""The engine's errors in Dagster's words: one message, retried where that may help."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from mirrorlake.errors import MirrorlakeError, NotProved

RETRIES = 3
WAIT_SECONDS = 10


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


@contextmanager
def dagster_errors(retries: int, *, again: bool = True) -> Iterator[None]:
    """Raise `MirrorlakeError` as a failure of the step, or as a request to try it again.

    Args:
        retries: how often the step was retried already; each time it waits twice as long.
        again: whether to retry at all.

    Raises:
        RetryRequested: the error is of a kind that may pass by itself, and retries are left.
        Failure: it is not.
    """
    try:
        yield
    except MirrorlakeError as error:
        if again and error.retryable and retries < RETRIES:
            raise dg.RetryRequested(RETRIES, WAIT_SECONDS * 2**retries) from error
        metadata = {"error": type(error).__name__, "next step": error.next_step or "-"}
        if isinstance(error, NotProved):
            metadata |= {"branch": error.branch, "differences": "\n".join(error.differences) or "-"}
        raise dg.Failure(str(error), metadata=metadata, allow_retries=False) from error
