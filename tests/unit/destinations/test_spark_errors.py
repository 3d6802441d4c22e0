"""What Spark, its JVM and the way to it raise is told as one LakeError."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import LakeError


@pytest.mark.parametrize(
    ("error", "retryable", "words"),
    [
        # A JVM that was killed: the command on its way, and the next one.
        (Py4JNetworkError("Answer from Java side is empty"), True, "JVM ended"),
        (ConnectionRefusedError(111, "Connection refused"), True, "JVM ended"),
        (ConnectionResetError(104, "Connection reset by peer"), True, "JVM ended"),
        # Another run's commit came first.
        (Py4JError("x.ValidationException: Found conflicting files"), True, "conflicting files"),
        (
            Py4JError("An error occurred while calling o1.sql.\n: x.Bad: why\n\tat x"),
            False,
            "Bad: why",
        ),
        # Two made the same view.
        (Py4JError("x: [SQLITE_CONSTRAINT_PRIMARYKEY] A PRIMARY KEY"), True, "PRIMARY KEY"),
        (Py4JError("no such thing"), False, "no such thing"),
        # No later attempt passes these: what is to be done first is said.
        (
            Py4JError("x.ValidationException: Table column names conflict with names reserved"),
            *(False, "mirrorlake doctor"),
        ),
        (Py4JError("java.lang.OutOfMemoryError: Java heap space"), False, "driver_memory"),
        (Py4JError("java.io.IOException: No space left on device"), False, "Make room"),
        (
            Py4JError("[CAST_INVALID_INPUT] The value '4-2' of the type \"STRING\" cannot be cast"),
            *(False, r"on table s.d.t: \[CAST_INVALID_INPUT\] A value of the type .* as text"),
        ),
        (
            Py4JError("[CAST_INVALID_INPUT] The value '4\n2' of the type \"STRING\" cannot be"),
            *(False, r"on table s.d.t: \[CAST_INVALID_INPUT\] A value of the type\. .* as text"),
        ),
    ],
)
def test_a_failure_of_spark_is_one_line(error: Exception, retryable: bool, words: str) -> None:
    with pytest.raises(LakeError, match=words) as caught, spark_errors("s.d.t"):
        raise error
    assert caught.value.retryable is retryable
    assert "s.d.t" in str(caught.value)
    assert "\n" not in str(caught.value)
    if "sync again" in caught.value.next_step and not retryable:
        assert caught.value.next_step.endswith("then sync again"), "after something was changed"
