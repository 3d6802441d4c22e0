"""What work on the lake costs in bytes: what Spark read for it, what its commits added.

Scanned is what Spark's process read from files in the meantime, by the system's own count: data and
delete files (a column that is not selected is not read), metadata, and what it shuffled. Task
metrics would not do: Iceberg reads local files by a way that Hadoop does not count (a table of 8 MB
was called 6 KB). On a cluster, and with Spark Connect, other processes read: None. Iceberg's own
scan metric would be another figure: the length of the files that a plan names, whatever columns
are read of them.

Source: proc(5), /proc/pid/io, rchar; Spark SQL's metrics, ``total data file size (bytes)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.table import Table

from mirrorlake.ledger.records import Cost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADDED = "added-files-size"
_READ = re.compile(r"^rchar: (\d+)$", re.MULTILINE)
_LOCAL = re.compile(r"local(\[|$)")


@dataclass
class Scan:
    """Bytes that Spark read within a block, known at its end; None where it can't be counted."""

    bytes: int | None = None


@contextmanager
def counted(spark: SparkSession) -> Iterator[Scan]:
    """Count what Spark reads until the block ends; whatever else uses the session meanwhile is in
    it. A block that fails is not counted."""
    found, begun = Scan(), _read_so_far(spark)
    yield found
    ended = _read_so_far(spark)
    if begun is not None and ended is not None:
        found.bytes = ended - begun


def _read_so_far(spark: SparkSession) -> int | None:
    """What the JVM of a local session has read of files since it began."""
    if "connect" in type(spark).__module__:
        return None
    context: Any = spark.sparkContext
    process = getattr(context._gateway, "proc", None)
    if process is None or not _LOCAL.match(context.master):
        return None
    try:
        found = _READ.search(Path(f"/proc/{process.pid}/io").read_text("ascii"))
    except OSError:
        return None  # not every system has it
    return int(found[1]) if found else None


def written_since(table: Table | None, head: int | None) -> int:
    """Bytes of the files that a table's commits added after snapshot ``head`` (None: since it was
    made), compaction's too."""
    if table is None:
        return 0
    before = table.snapshot_by_id(head) if head is not None else None
    number = (before.sequence_number or 0) if before is not None else 0
    new = [s for s in table.snapshots() if (s.sequence_number or 0) > number]
    return sum(int(s.summary.get(_ADDED, "0") or 0) for s in new if s.summary is not None)


def scanned(costs: Sequence[Cost]) -> int | None:
    """What these scanned together; None where one of them is not known."""
    found = [cost.scanned for cost in costs]
    return None if None in found else sum(n for n in found if n is not None)
