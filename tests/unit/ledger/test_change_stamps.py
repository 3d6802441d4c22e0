"""Stamps: written, replaced, and told to be unchanged for longer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mirrorlake.ledger import Ledger, Load, Stamp, Window, age_of
from mirrorlake.ledger.records import Receipt

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STAMP = Stamp("s.d.t", 7, '{"lsn": 5}', "terms", "lake", None, NOON, NOON)


def test_a_stamp_is_what_was_written_and_the_newest(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    names = [f"s.d.t{n}" for n in range(1_200)]
    assert ledger.stamps(names) == {}
    ledger.record_stamp(STAMP)
    ledger.record_stamp(replace(STAMP, table="s.d.t1199", form="f", evidence="digest"))
    newer = replace(STAMP, seq=8, shown="{}", seen_at=NOON + timedelta(hours=1))
    ledger.record_stamp(newer)
    assert ledger.stamps([*names, "s.d.t"]) == {
        "s.d.t": newer,
        "s.d.t1199": replace(STAMP, table="s.d.t1199", form="f", evidence="digest"),
    }


def test_what_is_seen_is_seen_of_one_load(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.record_stamp(STAMP)
    later = NOON + timedelta(hours=2)
    ledger.record_unchanged({("s.d.t", 7): (later, "server"), ("s.d.other", 7): (later, "table")})
    assert ledger.stamps(["s.d.t", "s.d.other"]) == {
        "s.d.t": replace(STAMP, seen_at=later, evidence="server")
    }
    # A sync replaced the stamp meanwhile.
    ledger.record_stamp(replace(STAMP, seq=8))
    ledger.record_unchanged({("s.d.t", 7): (later, "server")})
    assert ledger.stamps(["s.d.t"]) == {"s.d.t": replace(STAMP, seq=8)}


def test_a_tables_age_counts_from_when_it_was_last_seen() -> None:
    receipt = Receipt(0, 0, 0, "", "2026-01-01 12:00:00", None, "", "", 0, 0, 0.0)
    window = Window("full", None, None, NOON.date())
    load = Load(7, "l", 1, "s.d.t", "success", "r", window, None, None, NOON, NOON, receipt, None)
    now, seen = NOON + timedelta(hours=5), replace(STAMP, seen_at=NOON + timedelta(hours=4))
    assert age_of(load, now) == timedelta(hours=5)
    assert age_of(load, now, seen) == timedelta(hours=1)
    assert age_of(load, now, replace(seen, seq=6)) == timedelta(hours=5)
    assert age_of(load, now, replace(seen, seen_at=NOON - timedelta(days=1))) == timedelta(hours=5)
