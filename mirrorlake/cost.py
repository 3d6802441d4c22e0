"""What work on the lake costs in bytes: what Spark's tasks read for it, what its commits added.

Scanned: the bytes that tasks read of data and delete files (a column that is not asked for is not
among them), and of rows that they kept in memory from job to job. Metadata, which the driver and
PyIceberg read, are not. A Spark Connect server keeps these figures to itself: None.

Source: Apache Spark, "Monitoring", task metrics: inputMetrics.bytesRead.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyiceberg.table import Table

from mirrorlake.ledger import Cost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADDED = "added-files-size"


@dataclass
class Scan:
    """Bytes that tasks read within a block, known at its end; None where Spark does not tell."""

    bytes: int | None = None


@contextmanager
def counted(spark: SparkSession) -> Iterator[Scan]:
    """Count what the jobs of this thread read until the block ends; one that fails is not
    counted."""
    found, tag = Scan(), f"mirrorlake-{uuid.uuid4().hex}"
    context: Any = None if _is_remote(spark) else spark.sparkContext
    if context is None:
        yield found
        return
    context.addJobTag(tag)
    try:
        yield found
    finally:
        context.removeJobTag(tag)
    found.bytes = _read_by(context, tag)


def _is_remote(spark: SparkSession) -> bool:
    return "connect" in type(spark).__module__


def _read_by(context: Any, tag: str) -> int | None:
    """What the stages of the jobs of a tag have read; a stage is counted once."""
    scala = context._jsc.sc()
    try:
        scala.listenerBus().waitUntilEmpty()
        store = scala.statusStore()
        stages: set[int] = set()
        for job in scala.statusTracker().getJobIdsForTag(tag):
            ids = store.job(job).stageIds()
            stages.update(int(ids.apply(n)) for n in range(ids.length()))
        return sum(int(store.lastStageAttempt(stage).inputBytes()) for stage in stages)
    except Py4JError:
        return None  # Spark forgets old stages, and a figure is not worth a fold


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
