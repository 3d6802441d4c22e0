"""The server's own text client, read to the end into nothing: what the server can send at all."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import IO

from benchmarks.source import Source


def read(source: Source, database: str, table: str, beside: str = "") -> float:
    """Seconds of ``mariadb --quick > /dev/null`` over the whole table.

    Args:
        beside: SQL of one more column, after a comma.
    """
    started = time.perf_counter()
    with Path(os.devnull).open("wb") as out:
        write(source, database, table, out, beside=beside)
    return time.perf_counter() - started


def write(
    source: Source, database: str, table: str, out: IO[bytes], *options: str, beside: str = ""
) -> None:
    """What the client prints of the whole table."""
    command = [*source.server.client_command, "--quick", "--batch", *options, database]
    subprocess.run(
        [*command, "-e", f"SELECT *{beside} FROM {table}"],
        env=source.server.client_environment,
        stdout=out,
        check=True,
    )
