"""Dirty marks: written once, and gone in the step that answers them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from mirrorlake.ledger import Lease, Ledger, Window
from mirrorlake.ledger.proofs.dirty import DirtyMark

TABLE = "s.shop.t"
OF_TABLE = DirtyMark("m1", "d1", TABLE, "a wrong rate", "ann@host", first=date(2026, 1, 1))
OF_MODEL = DirtyMark("m2", "d1", "m.daily", "a wrong rate", "ann@host", key="day=2026-01-01")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def ledger(url: str) -> Ledger:
    return Ledger(url)


def test_marks_survive_and_know_the_newest_load(ledger: Ledger, url: str) -> None:
    window = Window("live", "2026-01-01 00:00:00", None, date(2026, 1, 2))
    load_id = ledger.create_load(TABLE, window)
    load = ledger.start_load(load_id, Lease(TABLE, "somebody", 1), "run", "t_v_1", None)
    ledger.declare_invalid([OF_TABLE, OF_MODEL])
    found = Ledger(url).dirty_marks()
    assert {one.mark_id: (one.target, one.key, one.first, one.last) for one in found} == {
        "m1": (TABLE, None, date(2026, 1, 1), None),
        "m2": ("m.daily", "day=2026-01-01", None, None),
    }
    assert {one.seq for one in found} == {load.seq}
    assert {(one.reason, one.by, one.declaration) for one in found} == {
        ("a wrong rate", "ann@host", "d1")
    }
    at = found[0].at
    assert at is not None
    assert timedelta(0) <= datetime.now(UTC) - at < timedelta(minutes=1)
    assert [one.mark_id for one in ledger.dirty_marks(TABLE)] == ["m1"]
    ledger.forget_marks(["m1", "nobody's"])
    assert [one.mark_id for one in ledger.dirty_marks()] == ["m2"]


def test_marks_are_written_all_or_none(ledger: Ledger) -> None:
    with pytest.raises(Exception, match="UNIQUE"):
        ledger.declare_invalid([OF_TABLE, OF_MODEL, OF_TABLE])
    assert ledger.dirty_marks() == []
    ledger.declare_invalid([])
    ledger.forget_marks([])
