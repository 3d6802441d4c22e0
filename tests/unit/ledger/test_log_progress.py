"""How far tables were followed in their servers' logs: of one load each, all of them or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from mirrorlake.ledger import Ledger, LogProgress, Window
from tests.unit.ledger.test_ledger import RECEIPT

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


def test_what_a_stamp_says_of_the_lake_stays_while_it_is_of_the_same_load(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.record_log_progress([FIRST])
    stamp = replace(ledger.stamps(["s.d.t"])["s.d.t"], terms="of the contract", lake="as left")
    ledger.record_stamp(stamp)
    later = replace(FIRST, at=NOON.replace(hour=13))
    ledger.record_log_progress([later])
    kept = ledger.stamps(["s.d.t"])["s.d.t"]
    assert (kept.terms, kept.lake, kept.seen_at) == ("of the contract", "as left", later.at)
    ledger.record_log_progress([replace(later, seq=8)])
    assert ledger.stamps(["s.d.t"])["s.d.t"].terms == ""


def test_it_stands_while_no_load_came_after_it(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    window = Window("initial", None, None, NOON.date())
    with ledger.lease("s.d.t", "run") as lease:
        load_id = ledger.create_load("s.d.t", window)
        load = ledger.start_load(load_id, lease, "run", "t_v_0", None)
        first = replace(FIRST, seq=load.seq)
        ledger.record_log_progress([first, replace(FIRST, table="s.d.u")])
        assert set(ledger.standing_progress()) == {"s.d.t", "s.d.u"}
        ledger.record_log_progress([replace(first, seq=load.seq - 1)])
        assert set(ledger.standing_progress()) == {"s.d.u"}
        # A repair moves nothing, once it has succeeded.
        ledger.record_log_progress([first])
        repair = ledger.create_load("s.d.t", Window("repair", None, None, NOON.date()))
        again = ledger.start_load(repair, lease, "run", "t_v_0", None)
        assert set(ledger.standing_progress()) == {"s.d.u"}
        ledger.finish_load(again, None, RECEIPT)
        assert ledger.standing_progress()["s.d.t"] == first


def test_a_place_is_in_the_log_of_the_server_that_its_load_read(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    window = Window("initial", None, None, NOON.date())
    # Sets of GTIDs name other servers, too.
    place = '{"mysql": "other:1-5", "server": "other"}'
    with ledger.lease("s.d.t", "run") as lease:
        load = ledger.start_load(ledger.create_load("s.d.t", window), lease, "run", "t_v_0", None)
        ledger.record_log_progress([replace(FIRST, seq=load.seq)])
        assert ledger.followed_elsewhere("mine") == {"s.d.t"}, "it has no receipt yet"
        ledger.finish_load(load, None, replace(RECEIPT, server="mine", log_place=place))
    assert ledger.followed_elsewhere("mine") == set()
    assert ledger.followed_elsewhere("other") == {"s.d.t"}
    assert ledger.followed_elsewhere("min_") == {"s.d.t"}
