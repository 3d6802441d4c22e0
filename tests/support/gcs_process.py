"""An emulator of Cloud Storage in a process of its own: PyArrow's client lets no other thread of
its process run while it asks for an object's size, so one in a thread would never answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gcp_storage_emulator.server import create_server

from tests.support.module_server import serving


@contextmanager
def emulator_process(bucket: str) -> Iterator[str]:
    """The endpoint of an emulator with one empty bucket."""
    with serving(__name__, bucket) as port:
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    server: Any = create_server(
        "127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket=sys.argv[2]
    )
    server.start()
    sys.stdin.read()  # ends with the process that started it
    server.stop()
