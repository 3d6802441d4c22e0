"""The JVM that a session of this process runs in: started with settings hidden, and stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mirrorlake.runtime.launch import hidden_settings

if TYPE_CHECKING:
    pass


def start_gateway(settings: dict[str, str]) -> None:
    """Start the JVM, unless this process has one: its command line shows none of the settings. The
    session's builder gives them to it again, through the gateway, to the letter."""
    from pyspark import SparkContext

    with hidden_settings(settings):
        SparkContext._ensure_initialized()  # pyright: ignore[reportPrivateUsage]


@contextmanager
def kept_interrupts() -> Iterator[None]:
    """Keep the program's own answer to Ctrl-C: PySpark puts one in its place, which outlives its
    session and then fails."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


def stop_gateway(seconds: float) -> None:
    """End the JVM itself: ``SparkSession.stop`` leaves it waiting for the next session."""
    from pyspark import SparkContext

    gateway = getattr(SparkContext, "_gateway", None)
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    if process is not None:
        if process.stdin:
            process.stdin.close()
        process.wait(timeout=seconds)
    # PySpark keeps the dead gateway for the next session.
    setattr(SparkContext, "_gateway", None)  # noqa: B010
    setattr(SparkContext, "_jvm", None)  # noqa: B010
