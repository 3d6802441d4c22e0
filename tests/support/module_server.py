"""A server that is a module of the tests, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_START = 30
_ROOT = Path(__file__).parents[2]


@contextmanager
def serving(module: str, argument: str) -> Iterator[int]:
    """The port of a server in a process of its own: ``python -m module PORT argument``."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", module, str(port), argument]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=_ROOT) as process:
        try:
            _wait_for(module, port, process)
            yield port
        finally:
            process.terminate()


def _wait_for(module: str, port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START
    while process.poll() is None and time.monotonic() < until:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{module} does not start")
