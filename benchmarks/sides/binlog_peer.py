"""python-mysql-replication's side of part ``binlog``: row events as dictionaries.

It runs in an environment of its own, and prints what `binlog_ours` prints.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent


def peak() -> float:
    """The most memory that this process had, in MB; not its parent's, as getrusage has it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def main(url: str, place: str, table: str) -> None:
    """Read from ``place`` to the log's end."""
    parts = urlsplit(url)
    file, _, offset = place.rpartition(":")
    database, _, name = table.partition(".")
    images = 0
    began, used = time.perf_counter(), time.process_time()
    stream = BinLogStreamReader(
        connection_settings={
            "host": parts.hostname,
            "port": parts.port,
            "user": parts.username,
            "passwd": parts.password,
        },
        server_id=4_000_000_055,
        log_file=file,
        log_pos=int(offset),
        resume_stream=True,
        only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent],
        only_schemas=[database],
        only_tables=[name],
    )
    for event in stream:
        images += len(event.rows) * (2 if isinstance(event, UpdateRowsEvent) else 1)
    stream.close()
    answer = {
        "seconds": time.perf_counter() - began,
        "used": time.process_time() - used,
        "images": images,
        "peak": peak(),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:4])
