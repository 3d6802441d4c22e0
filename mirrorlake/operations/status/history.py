"""What a table's loads cost and how they went, from the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import mean

from mirrorlake.destinations.iceberg.spark.cost import scanned
from mirrorlake.ledger import MOVING, Cost, Load, Stamp, age_of


@dataclass(frozen=True)
class History:
    """The loads of one table since a moment.

    Attributes:
        table: ``source.db.table``.
        loads: attempts that ended.
        errored: how many of them failed.
        retries: attempts after a window's first.
        rows, bytes: committed to raw.
        read_bytes: of the rows in memory as they came from MySQL.
        mean_seconds, longest_seconds: from an attempt's start to its end, of successes; None
            without any.
        lake_written: bytes that loads, folds and compactions added to the lake.
        lake_scanned: bytes that Spark read for folds and proofs of loads; None where other
            processes read for it.
        source_seconds: the longest query of each success, summed: what MySQL spent at least.
        longest_query: seconds of the longest statement that read rows.
        originals: values kept as original text.
        future: rows dated after the source's clock.
        backward: rows whose time went back since the load before saw them.
        freshness: how long ago MySQL stood where the mirror stands; None before the first load.
        reloads: successes that read whole days again.
        gone: keys that reloads found to be no more.
        last_error: the newest failure's words, None if nothing failed.
    """

    table: str
    loads: int
    errored: int
    retries: int
    rows: int
    bytes: int
    read_bytes: int
    mean_seconds: float | None
    longest_seconds: float | None
    lake_written: int
    lake_scanned: int | None
    source_seconds: float
    longest_query: float
    originals: int
    future: int
    backward: int
    freshness: timedelta | None
    reloads: int
    gone: int
    last_error: str | None


def history_of(
    table: str,
    loads: Sequence[Load],
    since: datetime,
    now: datetime | None = None,
    costs: Sequence[Cost] = (),
    stamp: Stamp | None = None,
) -> History:
    """The figures of the loads that began at or after ``since`` (UTC), and of the ``costs`` since;
    pure.

    Args:
        stamp: the table's: until when it was seen unchanged.
    """
    moving = [x for x in loads if x.state == "success" and x.window.kind in MOVING]
    ended = [load for load in loads if load.started_at >= since and load.finished_at is not None]
    good = [load for load in ended if load.state == "success"]
    bad = [load for load in ended if load.state == "errored"]
    receipts = [load.receipt for load in good if load.receipt is not None]
    seconds = [
        (load.finished_at - load.started_at).total_seconds()
        for load in good
        if load.finished_at is not None
    ]
    return History(
        table=table,
        loads=len(ended),
        errored=len(bad),
        retries=sum(load.attempt > 1 for load in ended),
        rows=sum(r.rows for r in receipts),
        bytes=sum(r.bytes for r in receipts),
        read_bytes=sum(r.read_bytes for r in receipts),
        mean_seconds=round(mean(seconds), 2) if seconds else None,
        longest_seconds=round(max(seconds), 2) if seconds else None,
        lake_written=sum(r.bytes for r in receipts) + sum(cost.written for cost in costs),
        lake_scanned=scanned(costs),
        source_seconds=round(sum(r.query_seconds for r in receipts), 2),
        longest_query=max((r.query_seconds for r in receipts), default=0.0),
        originals=sum(r.originals for r in receipts),
        future=sum(r.future for r in receipts),
        backward=sum(r.backward or 0 for r in receipts),
        freshness=age_of(moving[-1] if moving else None, now, stamp),
        reloads=sum(load.window.kind == "reload" for load in good),
        gone=sum(r.gone for r in receipts),
        last_error=bad[-1].error if bad else None,
    )
