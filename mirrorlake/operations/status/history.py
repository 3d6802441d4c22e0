"""What a table's loads cost and how they went, from the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import mean

from mirrorlake.destinations.iceberg.spark.cost import scanned
from mirrorlake.ledger import Cost
from mirrorlake.ledger.reports.since import LoadFigures


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
    loads: Sequence[LoadFigures],
    freshness: timedelta | None,
    costs: Sequence[Cost] = (),
) -> History:
    """The figures of loads that began since a moment, and of the ``costs`` since; pure."""
    ended = [load for load in loads if load.finished_at is not None]
    good = [load for load in ended if load.state == "success"]
    bad = [load for load in ended if load.state == "errored"]
    seconds = [
        (load.finished_at - load.started_at).total_seconds()
        for load in good
        if load.finished_at is not None
    ]
    written = sum(load.bytes for load in good)
    return History(
        table=table,
        loads=len(ended),
        errored=len(bad),
        retries=sum(load.attempt > 1 for load in ended),
        rows=sum(load.rows for load in good),
        bytes=written,
        read_bytes=sum(load.read_bytes for load in good),
        mean_seconds=round(mean(seconds), 2) if seconds else None,
        longest_seconds=round(max(seconds), 2) if seconds else None,
        lake_written=written + sum(cost.written for cost in costs),
        lake_scanned=scanned(costs),
        source_seconds=round(sum(load.query_seconds for load in good), 2),
        longest_query=max((load.query_seconds for load in good), default=0.0),
        originals=sum(load.originals for load in good),
        future=sum(load.future for load in good),
        backward=sum(load.backward for load in good),
        freshness=freshness,
        reloads=sum(load.kind == "reload" for load in good),
        gone=sum(load.gone for load in good),
        last_error=bad[-1].error if bad else None,
    )
