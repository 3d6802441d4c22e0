"""What jobs took is summed; what nobody says is not 0."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from mirrorlake.bigquery.api.job_costs import JobCost, cost_from
from mirrorlake.bigquery.costs import costs_of
from mirrorlake.bigquery.loads.settle import record_cost
from mirrorlake.ledger import Ledger

QUERY = {"query": {"totalBytesBilled": "10485760", "totalBytesProcessed": "77"}}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def test_statistics_are_read_as_google_writes_them() -> None:
    found = cost_from("j", "query", {"totalSlotMs": "12", **QUERY}, emulated=False)
    assert found == JobCost("j", "query", 77, 10_485_760, 12)
    zero = {"totalBytesProcessed": "0", "query": {"totalBytesBilled": "0"}}
    assert cost_from("j", "query", zero, emulated=False) == JobCost("j", "query", 0, 0, None)


def test_an_emulators_zeros_are_unknown() -> None:
    zero = {"totalBytesProcessed": "0", "query": {"totalBytesBilled": "0"}}
    assert cost_from("j", "query", zero, emulated=True) == JobCost("j", "query")


def test_costs_are_summed_by_table_and_purpose_and_kept_once(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    record_cost(ledger, "t", "publish", JobCost("l", "load", None, None, 5))
    for _ in range(2):
        record_cost(ledger, "t", "publish", JobCost("m", "query", 100, 200, 7))
    record_cost(ledger, "t", "check", JobCost("c", "query"))
    record_cost(ledger, "u", "check", JobCost("d", "query", 1, 1, 1))
    table, other = costs_of(ledger, ["t", "v"], LONG_AGO)
    assert table.publish.jobs == {"load": 1, "query": 1}
    assert (table.publish.bytes_billed, table.publish.slot_ms) == (200, 12)
    assert table.publish.unknown == 0
    assert (table.check.bytes_billed, table.check.unknown) == (None, 1)
    assert other.publish.jobs == {}
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert costs_of(ledger, ["t"], later)[0].publish.jobs == {}
