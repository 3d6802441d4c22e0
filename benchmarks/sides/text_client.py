"""The server's own text client, read to the end into nothing: what the server can send at all."""

from __future__ import annotations

import subprocess
import time

from benchmarks.source import Source


def read(source: Source, database: str, table: str) -> float:
    """Seconds of ``mariadb --quick > /dev/null`` over the whole table."""
    command = [*source.server.client_command, "--quick", "--batch", database]
    started = time.perf_counter()
    subprocess.run(
        [*command, "-e", f"SELECT * FROM {table}"],
        env=source.server.client_environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started
