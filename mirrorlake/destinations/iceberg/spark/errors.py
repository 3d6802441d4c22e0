"""What Spark and its JVM raise, as errors of ours."""

from __future__ import annotations

import functools
import importlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mirrorlake.errors import LakeError
from mirrorlake.runtime.extras import library
from mirrorlake.runtime.pandas_imports import use_pandas

_IMPORTING = threading.Lock()


def import_pyspark(what: str = "this step") -> None:
    """Import PySpark, one thread at a time. Its packages import one another in circles: two threads
    that begin at different ends each see half of them, and fail.

    Args:
        what: what needs it, as an error's first words.

    Raises:
        MachineError: it is not installed.
    """
    with _IMPORTING:
        library("pyspark", "spark", what)
        use_pandas()
        for name in ("pyspark.errors", "pyspark.sql"):
            importlib.import_module(name)
        _silence()


@functools.cache
def _silence() -> None:
    """What PySpark raises it also prints as a whole, which may hold values of rows: what people
    need to know of it is in our errors."""
    loggers = importlib.import_module("pyspark.logger").PySparkLogger
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        loggers.getLogger(name).disabled = True


@contextmanager
def spark_errors(table: str) -> Iterator[None]:
    """Turn what Spark and its JVM raise into LakeErrors of one line.

    Raises:
        MachineError: PySpark is not installed.
    """
    import_pyspark(f"table {table}: this step")
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise LakeError(
            f"Spark's JVM ended while it worked on table {table}",
            table=table,
            next_step="See its log (memory, most often), and sync again in a new process",
            retryable=True,
        ) from error
    except (Py4JError, PySparkException) as error:
        text = str(error)
        passes = any(words in text for words in _PASSING) and _NAMES not in text
        raise LakeError(
            f"Spark failed on table {table}: {_reason(error)}",
            table=table,
            next_step="Nothing of this step is visible: sync again" if passes else _step(text),
            retryable=passes,
        ) from error


# Another writer was faster, or holds the catalog.
_PASSING = ("CommitFailed", "ValidationException", "SQLITE_CONSTRAINT_PRIMARYKEY", "locked")
# A ValidationException that no later attempt passes: a column has a name of Iceberg's own.
_NAMES = "Table column names conflict"
_STEPS = {
    "OutOfMemoryError": "Give Spark more memory (`spark: {driver_memory: …}`), then sync again",
    "No space left on device": "Make room for Spark's temporary files and the warehouse, then sync "
    "again",
    "CAST_INVALID_INPUT": "Some text is no number, day or time there. What the mirror keeps as "
    "text is a text to Spark: write CAST(total AS DECIMAL(38, 10)), or TRY_CAST for NULL where "
    "that can't be",
}
"""What to do of errors that stay, by words in them."""


def _step(text: str) -> str:
    found = (step for words, step in _STEPS.items() if words in text)
    return next(
        found,
        "Nothing of this step is visible, and it would fail again as it is: see what `mirrorlake "
        "doctor` finds, and report this line if it finds nothing",
    )


_VALUE = re.compile("The value '(.*' of the type|.*$)")


def _reason(error: Any) -> str:
    """The deepest cause's first line, without a row's value: Spark wraps it in its own and in
    Python's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    if not causes and lines and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:] or lines  # py4j's own line; what Java says follows
    text = causes[-1].removeprefix("Caused by:") if causes else (lines[0] if lines else "")
    text = _VALUE.sub("A value of the type", text.strip(": "))
    return text[:500]
