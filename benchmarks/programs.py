"""Programs that run beside this one, and never outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

# Ends the whole group when this process lets go of its standard input, or dies: by themselves many
# programs leave behind what they started when they are killed.
WATCH = """
import os, signal, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.read()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
try:
    child.wait(10)
finally:
    os.killpg(0, signal.SIGKILL)
"""


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, in its log's folder, ended with everything it started."""
    with log.open("ab") as stream:
        watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WATCH, *command],
            cwd=log.parent,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        yield watcher
    finally:
        with suppress(BrokenPipeError):
            watcher.communicate(timeout=60)
        with suppress(ProcessLookupError):
            os.killpg(watcher.pid, signal.SIGKILL)
