"""What waits, what is refused and what somebody decided about it: said once, and never forgotten."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from mirrorlake.errors import LakeError, LandingError
from mirrorlake.landing.files.land import open_taken
from mirrorlake.landing.files.waiting_snapshots import find_overdue
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.landing.rolled_back import refuse_over_gap
from tests.unit.landing.files.test_take import ONE, THREE, TWO, Landing

TABLE = "feed.d.t"
HOUR = timedelta(hours=1)


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


def overdue(landing: Landing, later: timedelta) -> dict[int, str]:
    """What is overdue ``later`` than now, where an hour is the limit."""
    ledger = landing.ledger
    now = ledger.clock() + later
    return find_overdue(
        LandedSnapshots(ledger).snapshots(TABLE), SnapshotNotices(ledger).notices(TABLE), HOUR, now
    )


def test_other_content_under_an_id_is_refused_however_often_it_is_tried(landing: Landing) -> None:
    landing.land(ONE, '{"id": 1}')
    landing.take(ONE)
    landing.land(ONE, '{"id": 2}')
    for _ in range(3):
        with pytest.raises(LandingError, match="has another content than when it was taken"):
            landing.take(ONE)
        landing.look()
    assert "another content" in landing.look().refused[ONE]
    landing.land(ONE, '{"id": 1}')  # what was taken first may come back
    assert landing.ready() == [ONE]
    assert landing.take(ONE).record.state == "landed"


def test_a_published_snapshot_that_is_written_again_is_reported(landing: Landing) -> None:
    """Once; and a copy of the same content is no finding, and can be read."""
    folder = landing.land(ONE, '{"id": 1}')
    landing.take(ONE)
    LandedSnapshots(landing.ledger).publish_snapshots(TABLE, [ONE])
    file = folder / f"{ONE}_0.json"
    os.utime(file, (1, 1))
    assert landing.look().refused == {}
    (taken,) = open_taken(landing.place, landing.ledger, [ONE])
    taken.check_files()
    file.write_text('{"id": 7}')
    for _ in range(2):
        found = landing.look()
        assert "has another content than when it was taken" in found.refused[ONE]
        assert not found.ready
    assert [notice.id for notice in SnapshotNotices(landing.ledger).report_notices(TABLE)] == [ONE]
    assert SnapshotNotices(landing.ledger).report_notices(TABLE) == []
    assert overdue(landing, timedelta(0)) == {ONE: "its files changed after it was published"}
    assert SnapshotNotices(landing.ledger).acknowledge_notice(TABLE, ONE)
    assert landing.look().refused == {}
    assert overdue(landing, timedelta(0)) == {}
    file.write_text('{"id": 8}')  # other files are another notice
    assert ONE in landing.look().refused
    file.write_text('{"id": 1}')
    assert landing.look().refused == {}
    assert SnapshotNotices(landing.ledger).notices(TABLE) == {}


def test_what_waits_says_for_what_and_since_when(landing: Landing, tmp_path: Path) -> None:
    folder = landing.land(ONE, "a", "b", manifest=False)
    landing.write(f"json/feed/d/t/dq/20260131/{TWO}_0.json.tmp")
    first, second = landing.look().waiting
    assert (first.id, first.files, first.bytes) == (ONE, 2, 2)
    assert first.reason == f"its manifest {ONE}_manifest.json"
    assert (second.id, second.files) == (TWO, 0)
    assert second.reason.startswith(f"its manifest {TWO}_manifest.json; a file with a name like")
    assert overdue(landing, timedelta(0)) == {}
    assert overdue(landing, 2 * HOUR) == {ONE: "not taken yet", TWO: "not taken yet"}
    landing.land(THREE, "c")
    landing.take(THREE)
    assert overdue(landing, 2 * HOUR)[THREE] == "landed, and not published"
    LandedSnapshots(landing.ledger).publish_snapshots(TABLE, [THREE])
    assert landing.look().arriving == (ONE, TWO)
    for file in folder.iterdir():  # its writer took it away: nothing is waited for
        file.unlink()
    assert landing.look().arriving == (TWO,)
    assert list(overdue(landing, 2 * HOUR)) == [TWO]


def test_one_that_waits_is_seen_however_old_it_is(landing: Landing) -> None:
    landing.land(ONE, "a", manifest=False)
    assert landing.look().arriving == (ONE,)
    later = 20260315000000
    landing.land(later, "b")
    landing.take(later)
    LandedSnapshots(landing.ledger).publish_snapshots(TABLE, [later])
    assert landing.look().arriving == (ONE,)  # its day lies long before ``late``
    landing.manifest(ONE, {0: "a"})
    assert landing.ready() == [ONE]


@pytest.mark.parametrize("complete", ["marker", "settle"])
def test_what_a_marker_or_time_is_waited_for(tmp_path: Path, complete: str) -> None:
    landing = Landing(tmp_path, complete=complete)
    landing.land(ONE, "a", manifest=False)
    (one,) = landing.look().waiting
    words = {"marker": f"its marker {ONE}_SUCCESS", "settle": "its files to stay unchanged for 5m"}
    assert one.reason == words[complete]


def test_a_skipped_snapshot_is_left_out_whatever_becomes_of_it(landing: Landing) -> None:
    folder = landing.land(ONE, "a", "b")
    (folder / f"{ONE}_1.json").unlink()
    assert ONE in landing.look().refused
    assert overdue(landing, timedelta(0)) == {ONE: "refused"}
    assert SnapshotNotices(landing.ledger).skip_snapshot(TABLE, ONE)
    assert overdue(landing, 2 * HOUR) == {}
    landing.land(ONE, "a", "c")
    found = landing.look()
    assert (found.ready, found.arriving, found.refused) == ((), (), {})
    landing.land(20991231000000, "x", manifest=False)  # a wrong clock of the exporter's
    landing.look()
    assert SnapshotNotices(landing.ledger).skip_snapshot(TABLE, 20991231000000)
    landing.land(TWO, '{"id": 1}')
    assert landing.ready() == [TWO]
    landing.take(ONE)  # asked for by name it is taken
    assert landing.ready() == [ONE, TWO]
    LandedSnapshots(landing.ledger).publish_snapshots(TABLE, [ONE])
    assert not SnapshotNotices(landing.ledger).skip_snapshot(TABLE, ONE)


def test_a_snapshot_whose_files_vanish_before_they_are_read_does_not_stay(landing: Landing) -> None:
    folder = landing.land(ONE, '{"id": 1}')
    landing.take(ONE)
    for file in folder.iterdir():
        file.unlink()
    with pytest.raises(LandingError, match="has no snapshot"):
        landing.take(ONE)
    found = landing.look()
    assert found.ready == ()
    assert "has no snapshot" in found.refused[ONE]


def test_nothing_new_is_folded_over_snapshots_that_a_rollback_took_back(landing: Landing) -> None:
    for number in (ONE, TWO, THREE):
        landing.land(number, f'{{"id": {number}}}')
        landing.take(number)
    ledger, contract = landing.ledger, landing.contract
    LandedSnapshots(ledger).publish_snapshots(TABLE, [ONE, TWO])
    SnapshotNotices(ledger).withdraw_snapshots(TABLE, [TWO])
    assert landing.look().withdrawn == (TWO,)
    assert overdue(landing, timedelta(0)) == {TWO: "published before, and not in what readers see"}
    with pytest.raises(LakeError, match=r"20260131000000 were published, .*--skip withdrawn"):
        refuse_over_gap(ledger, contract, [THREE])
    refuse_over_gap(ledger, contract, [TWO])
    landing.take(TWO)  # taken again, it has landed
    refuse_over_gap(ledger, contract, [THREE])


def test_what_was_refused_for_its_content_may_land_corrected(landing: Landing) -> None:
    """In folders of days an id is a day: there is no other one."""
    landing.land(ONE, '{"id": 1}')
    landing.take(ONE)
    LandedSnapshots(landing.ledger).refuse_snapshot(TABLE, ONE, "a key twice", dismissed=True)
    assert landing.look().refused == {ONE: "a key twice"}
    landing.land(ONE, '{"id": 2}')
    assert landing.ready() == [ONE]
    assert landing.take(ONE).record.state == "landed"
    landing.land(ONE, '{"id": 3}')
    with pytest.raises(LandingError, match="has another content"):
        landing.take(ONE)
