"""Our side of part ``binlog``: a server's log from its first file on, read or only received.

Prints seconds, processor seconds, row images and the peak of memory as JSON.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from mirrorlake.config.server import SourceConfig
from mirrorlake.sources.mysql.binlog.charsets import read_server_forms
from mirrorlake.sources.mysql.binlog.log_reader import LogReader
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import session

SERVER_ID = 4_000_000_054


def peak() -> float:
    """The most memory that this process had, in MB; not its parent's, as getrusage has it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def main(url: str, place: str, table: str, *, decode: bool) -> None:
    """Read from ``place`` to the log's end."""
    parts = urlsplit(url)
    source = SourceConfig(
        name="bench",
        host=str(parts.hostname),
        port=int(parts.port or 3306),
        user=str(parts.username),
        password=str(parts.password),  # type: ignore[arg-type]
    )
    start = StreamPosition(LogPosition.parse(place))
    database, _, name = table.partition(".")
    rows = 0
    began, used = time.perf_counter(), time.process_time()
    with session(source) as asked, LogTransport(source, start, SERVER_ID, follow=False) as sent:
        if decode:
            described = read_table(asked, database, name)
            tables = {(database, name): FollowedTable.of(described)}
            reader = LogReader(start, tables, read_server_forms(asked), checksums=sent.checksums)
            for batch in reader.batches(sent.packets()):
                assert not batch.stopped, batch.stopped
                rows += batch.rows
        else:
            for _ in sent.packets():
                pass
    answer = {
        "seconds": time.perf_counter() - began,
        "used": time.process_time() - used,
        "images": rows,
        "peak": peak(),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], decode=sys.argv[4] == "decode")
