"""A process that is kept, with its JVM, for what several tests have run beside them: imports and
Java's start, ten seconds together, are paid for once.

Reads one JSON object a line from standard input: ``what`` (a name of `ORDERS`), ``arguments``,
``environment`` and ``output``, the file that all it prints goes to; answers each with its exit code. The
Spark session ends with its order, as it would with a process: the next one may be another lake's.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mirrorlake.cli.main import main as mirrorlake
from mirrorlake.destinations.iceberg.spark import session as spark
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from tests.location import run_steps
from tests.support.dagster_storage import read_scripts_once
from tests.support.quick_spark import MARK, plan_once
from tests.support.unflushed import write_unflushed
from tests.ui import mirror

ROOT = Path(__file__).parents[2]
ORDERS: dict[str, Callable[..., Any]] = {
    "mirrorlake": lambda *_: mirrorlake(),
    "pytest": lambda *arguments: pytest.main(list(arguments)),
    "steps": run_steps.main,
    "chains": mirror.main,
}


class KeptProcess:
    """The other end: starts the process with the first order, and again if it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.end)

    def run(
        self, what: str, *arguments: object, environment: Mapping[str, str] = os.environ
    ) -> tuple[int, str]:
        """The exit code of an order, and what it printed; both streams together."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.location.kept_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace") as output:
            order = {"what": what, "arguments": list(map(str, arguments)), "output": output.name}
            line = json.dumps({**order, "environment": dict(environment)})
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            return (int(answer) if answer else self._process.wait(60)), output.read()

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.communicate(timeout=60)


KEPT = KeptProcess()


@contextmanager
def ordered(order: dict[str, Any]) -> Iterator[None]:
    """Its environment, arguments and streams, and afterwards nothing of them."""
    before = dict(os.environ), sys.argv, LazySpark.stop, LazySpark._start
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = [order["what"], *order["arguments"]]
    streams = [os.dup(1), os.dup(2)]
    with Path(order["output"]).open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, kept in enumerate(streams, 1):
            os.dup2(kept, number)
            os.close(kept)
        there = SparkSession._instantiatedSession
        if there is not None:
            there.stop()
        os.environ.clear()
        os.environ.update(before[0])
        sys.argv, LazySpark.stop, LazySpark._start = before[1:]  # type: ignore[method-assign]


def follow(order: dict[str, Any]) -> int:
    """The exit code that a process of its own would have had."""
    with ordered(order):
        try:
            return int(ORDERS[order["what"]](*order["arguments"]) or 0)
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001 - as an interpreter shows it
            traceback.print_exc()
            return 1


def main() -> None:
    write_unflushed()
    read_scripts_once()
    if MARK in os.environ:
        plan_once()
    assert hasattr(spark, "stop_gateway")
    spark.stop_gateway = lambda seconds: None  # the JVM stays
    for line in sys.stdin:
        answer = follow(json.loads(line))
        print(answer, flush=True)


if __name__ == "__main__":
    main()
