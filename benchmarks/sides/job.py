"""The words between the benchmark and a side's process. Standard library only: dlt's side runs in
an environment of its own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Job:
    """Copy one table once.

    Attributes:
        url: the server, as mysql://user:password@host:port.
        mode: the contract's mode, where the side has one.
        run: counts up; what a run writes has it in its name.
        folder: where the side may write.
    """

    url: str
    database: str
    table: str
    mode: str
    key: list[str]
    cursor: str
    run: int
    folder: str


def serve(do: Callable[[Job], int]) -> None:
    """Answer every job with its seconds and rows until standard input ends."""
    answers = sys.stdout
    # What libraries print must not be taken for an answer.
    sys.stdout = sys.stderr
    for line in sys.stdin:
        job = Job(**json.loads(line))
        started = time.perf_counter()
        rows = do(job)
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "rows": rows}), file=answers, flush=True)


def as_line(job: Job) -> str:
    """The job as its side reads it."""
    return json.dumps(asdict(job)) + "\n"
