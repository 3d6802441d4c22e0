"""The history of a table's loads: what is counted, and from when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from mirrorlake.ledger import Cost, Load, Receipt, Window
from mirrorlake.ledger.reports.since import LoadFigures
from mirrorlake.operations.status.history import History, history_of

SINCE = datetime(2026, 3, 1, tzinfo=UTC)
RECEIPT = Receipt(
    10, 100, 1, "0", "2026-03-01", None, "server", "", 0, 0, 1.5, gone=2, backward=1, read_bytes=7
)
LIVE = Window("live", "2026-03-01", None, date(2026, 3, 1))
LOAD = Load(
    seq=1,
    load_id="a",
    attempt=1,
    table="s.d.t",
    state="success",
    raw_table="t",
    window=LIVE,
    parent_snapshot=None,
    snapshot_id=1,
    started_at=SINCE,
    finished_at=SINCE + timedelta(seconds=2),
    receipt=RECEIPT,
    error=None,
)


def test_figures_of_loads_that_ended_since() -> None:
    loads = [
        replace(LOAD, seq=2),
        replace(LOAD, seq=3, state="errored", receipt=None, error="lost"),
        replace(LOAD, seq=4, attempt=2, finished_at=SINCE + timedelta(seconds=4)),
        replace(LOAD, seq=5, window=replace(LIVE, kind="reload")),
        replace(LOAD, seq=6, state="pending", finished_at=None, receipt=None),
    ]
    costs = [Cost("deduped", 2, 70, 20), Cost("verify", 2, 5, 0)]
    figures = [LoadFigures.of(load) for load in loads]
    assert history_of("s.d.t", figures, timedelta(hours=1), costs) == History(
        table="s.d.t",
        loads=4,
        errored=1,
        retries=1,
        rows=30,
        bytes=300,
        read_bytes=21,
        mean_seconds=2.67,
        longest_seconds=4.0,
        lake_written=320,
        lake_scanned=75,
        source_seconds=4.5,
        longest_query=1.5,
        originals=0,
        future=0,
        backward=3,
        freshness=timedelta(hours=1),
        reloads=1,
        gone=6,
        last_error="lost",
    )


def test_a_table_without_loads_has_no_times() -> None:
    found = history_of("s.d.t", [], None)
    assert (found.loads, found.mean_seconds, found.longest_seconds) == (0, None, None)


def test_a_scan_that_spark_does_not_tell_is_no_zero() -> None:
    costs = [Cost("deduped", 2, None, 20), Cost("verify", 2, 5, 0)]
    found = history_of("s.d.t", [], None, costs)
    assert (found.lake_scanned, found.lake_written) == (None, 20)
