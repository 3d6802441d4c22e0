"""An emulator of Cloud Storage in a process of its own: PyArrow's client lets no other thread of
its process run while it asks for an object's size, so one in a thread would never answer."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gcp_storage_emulator.server import create_server

_START = 30
_ROOT = Path(__file__).parents[2]


@contextmanager
def emulator_process(bucket: str) -> Iterator[str]:
    """The endpoint of an emulator with one empty bucket."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", __name__, str(port), bucket]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=_ROOT) as process:
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START
    while process.poll() is None and time.monotonic() < until:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the emulator of Cloud Storage does not start")


if __name__ == "__main__":
    server: Any = create_server(
        "127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket=sys.argv[2]
    )
    server.start()
    sys.stdin.read()  # ends with the process that started it
    server.stop()
