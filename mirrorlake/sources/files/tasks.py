"""Files that Spark's tasks read by our code, and what a task says of a file that it can't read.

What belongs here: tasks and their errors. What doesn't: what is read of a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mirrorlake.errors import LandingError, MirrorlakeError

_MARK = re.compile(r"<<mirrorlake-landing (\{\"message\".*?\}) mirrorlake-landing>>", re.DOTALL)


def file_tasks(session: Any, count: int) -> Any:
    """One row a task: the number of a file."""
    return session.range(0, count, 1, count)


@contextmanager
def carried() -> Iterator[None]:
    """On a worker: an error of ours travels to the driver in Spark's message."""
    try:
        yield
    except MirrorlakeError as error:
        text = json.dumps({"message": error.message, "next_step": error.next_step})
        raise RuntimeError(f"<<mirrorlake-landing {text} mirrorlake-landing>>") from None


@contextmanager
def landing_errors(table: str) -> Iterator[None]:
    """What a task of ours said of a file, found in what Spark made of it.

    Raises:
        LandingError: a file can't be read as the contract's.
    """
    try:
        yield
    except Exception as error:
        found = _said(error)
        if found is None:
            raise
        said = json.loads(found)
        raise LandingError(said["message"], next_step=said["next_step"], table=table) from error


def _said(error: BaseException | None) -> str | None:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        found = _MARK.search(str(error))
        if found:
            return found[1]
        error = error.__cause__ or error.__context__
    return None
