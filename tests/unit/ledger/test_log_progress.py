"""How far tables were followed in their servers' logs: of one load each, all of them or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from mirrorlake.ledger import Ledger, LogProgress

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST = LogProgress("s.d.t", 7, '{"log": "bin.000001:4", "made": 1}', NOON)


def test_the_newest_record_counts_and_is_the_tables_stamp(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.record_log_progress([])
    assert ledger.log_progress("s.d.t") is None
    other = replace(FIRST, table="s.d.u")
    ledger.record_log_progress([FIRST, other])
    assert (ledger.log_progress("s.d.t"), ledger.log_progress("s.d.u")) == (FIRST, other)
    later = replace(FIRST, seq=8, place="p" * 5_000, at=NOON.replace(hour=13))
    ledger.record_log_progress([later])
    assert (ledger.log_progress("s.d.t"), ledger.log_progress("s.d.u")) == (later, other)
    stamp = ledger.stamps(["s.d.t"])["s.d.t"]
    assert (stamp.seq, stamp.seen_at, stamp.evidence) == (8, later.at, "log")
