"""Which snapshots are found and taken: once, in order, late ones too, and whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import time
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import Config, TableContract, load_config
from mirrorlake.errors import LandingError
from mirrorlake.landing.files.expire import expire_landed
from mirrorlake.landing.files.land import TakenSnapshot, open_taken, take
from mirrorlake.landing.files.listing import Looked, Place, look, place_of
from mirrorlake.landing.files.snapshots import list_landed
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.ledger import Ledger
from mirrorlake.operations.status.status import status_of
from mirrorlake.sources.files.layout import id_of

SCHEMA = '{"version": 1, "columns": [{"name": "id", "type": "long", "nullable": false}]}'
ONE, TWO, THREE = 20260130000000, 20260131000000, 20260131120000


class Landing:
    """A landing on local disk, its ledger, and what a writer does to it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.root = folder / "landed here"
        text = {
            "version": 1,
            "ledger": {"url": "sqlite:///ledger.db"},
            "sources": {"feed": {"landing": {"url": "landed here"}, "databases": {"d": {"tables": {
                "t": {"mode": "snapshot", "key": ["id"], "snapshot": settings}}}}}},
        }  # fmt: skip
        path = folder / "m.yaml"
        path.write_text(json.dumps(text))
        self.config: Config = load_config(path)
        self.ledger = Ledger(self.config.ledger.url)
        self.write("schemas/feed/d/t.json", SCHEMA)

    @property
    def contract(self) -> TableContract:
        return self.config.snapshot_table("t")

    @property
    def place(self) -> Place:
        return place_of(self.config, self.contract)

    def write(self, path: str, text: str = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def land(self, snapshot: int, *chunks: str, manifest: bool = True) -> Path:
        folder = f"json/feed/d/t/dq/{snapshot // 1_000_000}"
        for number, text in enumerate(chunks):
            self.write(f"{folder}/{snapshot}_{number}.json", text)
        if manifest:
            self.manifest(snapshot, dict(enumerate(chunks)))
        return self.root / folder

    def manifest(self, snapshot: int, chunks: dict[int, str], **more: Any) -> None:
        files = [
            {"name": f"{snapshot}_{n}.json", "bytes": len(text.encode()),
             "sha256": hashlib.sha256(text.encode()).hexdigest()}
            for n, text in chunks.items()
        ]  # fmt: skip
        text = json.dumps({"version": 1, "files": files, **more})
        self.write(f"json/feed/d/t/dq/{snapshot // 1_000_000}/{snapshot}_manifest.json", text)

    def look(self, *, whole: bool = False) -> Looked:
        return look(self.place, self.ledger, whole=whole)

    def take(self, snapshot: int) -> TakenSnapshot:
        return take(self.place, self.ledger, no_spark, snapshot)

    def ready(self) -> list[int]:
        return [one.id for one in self.look().ready]


def no_spark() -> Any:
    raise AssertionError("no Spark is needed")


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


def test_snapshots_are_ready_by_id_and_taken_once(landing: Landing) -> None:
    landing.land(THREE, '{"id": 3}')
    landing.land(ONE, '{"id": 1}', '{"id": 2}')
    assert landing.ready() == [ONE, THREE]
    taken = landing.take(ONE)
    assert (taken.record.state, taken.record.files, taken.record.number) == ("landed", 2, ONE)
    digest = hashlib.sha256(b'{"id": 1}').hexdigest()
    assert (
        LandedSnapshots(landing.ledger).landed_files("feed.d.t", ONE)[0].digest
        == f"sha256:{digest}"
    )
    assert landing.ready() == [ONE, THREE]  # until it is published
    LandedSnapshots(landing.ledger).publish_snapshots("feed.d.t", [ONE])
    assert landing.ready() == [THREE]
    # It stays published, whoever looks at it again.
    assert landing.take(ONE).record.state == "published"
    assert landing.ready() == [THREE]


def test_what_is_not_complete_waits(landing: Landing) -> None:
    folder = landing.land(ONE, '{"id": 1}', manifest=False)
    (folder / f"{ONE}_1.json.tmp").write_text("half")
    found = landing.look()
    assert (found.ready, found.arriving, found.strange) == ((), (ONE,), ())
    with pytest.raises(LandingError, match="is not complete yet"):
        landing.take(ONE)
    landing.manifest(ONE, {0: '{"id": 1}'})
    assert landing.ready() == [ONE]


def test_a_marker_says_so_too(tmp_path: Path) -> None:
    landing = Landing(tmp_path, complete="marker", marker=".done")
    folder = landing.land(ONE, "", manifest=False)
    assert landing.look().arriving == (ONE,)
    (folder / f"{ONE}.done").touch()
    assert landing.ready() == [ONE]


def test_files_settle_by_our_own_clock(tmp_path: Path) -> None:
    """A copy may keep its original's times: a file of last year is not an old one."""
    landing = Landing(tmp_path, complete="settle", settle="1s")
    folder = landing.land(ONE, "a", manifest=False)
    os.utime(folder / f"{ONE}_0.json", (1, 1))
    assert landing.look().arriving == (ONE,)
    time.sleep(1.1)
    (folder / f"{ONE}_1.json").write_text("b")
    assert landing.look().arriving == (ONE,)
    time.sleep(1.1)
    assert landing.ready() == [ONE]


def test_late_and_unordered_ids_are_taken(landing: Landing) -> None:
    landing.land(THREE, "")
    landing.take(THREE)
    LandedSnapshots(landing.ledger).publish_snapshots("feed.d.t", [THREE])
    landing.land(ONE, "")
    assert landing.ready() == [ONE]
    old = 20250101000000
    landing.land(old, "")
    found = landing.look()
    assert [one.id for one in found.ready] == [ONE]
    # It is not left without a word, and stays so until somebody takes it, or leaves it out.
    assert found.refused[old].startswith("it came later than `late` allows (2d before the newest")
    [shown] = status_of(landing.config, landing.ledger, [landing.contract])
    assert f"snapshot {old} is refused: it came later" in (shown.error or "")
    folder = landing.land(20250101000001, "")  # of a day of which one is known by now
    assert set(landing.look().refused) == {old}
    landing.ledger.record_definition(LOOKED, "2026-01-01T00:00:00+00:00")
    assert set(landing.look().refused) == {old, 20250101000001}
    (folder / f"{old}_0.json").write_text("other content")
    assert [one.id for one in landing.look().ready] == [ONE]
    (folder / f"{old}_0.json").write_text("")
    SnapshotNotices(landing.ledger).skip_snapshot("feed.d.t", 20250101000001)
    assert set(landing.look().refused) == {old}
    assert [one.id for one in landing.look(whole=True).ready] == [old, ONE]


LOOKED = "landing looked through feed.d.t"

BROKEN = {
    "a file is missing": (lambda f: (f / f"{TWO}_1.json").unlink(), "lacks 20260131000000_1.json"),
    "a file more": (lambda f: (f / f"{TWO}_2.json").touch(), "has 20260131000000_2.json, which its manifest does not"),
    "another size": (lambda f: (f / f"{TWO}_1.json").write_text("xyz"), "has 3 bytes, and its manifest says 1"),
    "two of a number": (lambda f: (f / f"{TWO}_1.json.gz").touch(), "has two files of one number"),
    "no manifest": (lambda f: (f / f"{TWO}_manifest.json").write_text("{}"), "is no manifest of version 1"),
    "half a manifest": (lambda f: (f / f"{TWO}_manifest.json").write_text('{"ver'), "is no manifest of version 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_not_whole_is_refused_until_it_changes(landing: Landing, case: str) -> None:
    breaks, reason = BROKEN[case]
    folder = landing.land(TWO, "a", "b")
    breaks(folder)
    found = landing.look()
    assert found.ready == ()
    assert reason in found.refused[TWO]
    with pytest.raises(LandingError) as caught:
        landing.take(TWO)
    assert reason in str(caught.value)
    for name in folder.iterdir():
        name.unlink()
    landing.land(TWO, "a", "c")
    assert landing.ready() == [TWO]


def test_another_content_than_the_manifest_says_is_refused(landing: Landing) -> None:
    folder = landing.land(ONE, "a")
    (folder / f"{ONE}_0.json").write_text("b")
    assert landing.ready() == [ONE]  # of the same size: only its digest tells
    with pytest.raises(LandingError, match="its sha256 is another one"):
        landing.take(ONE)
    assert "its sha256" in landing.look().refused[ONE]


def test_a_gap_in_the_numbers_is_a_missing_file(tmp_path: Path) -> None:
    landing = Landing(tmp_path, complete="marker")
    folder = landing.land(ONE, "a", "b", "c", manifest=False)
    (folder / f"{ONE}_SUCCESS").touch()
    (folder / f"{ONE}_1.json").unlink()
    assert "there are the numbers 0, 2" in landing.look().refused[ONE]


def test_an_id_is_one_content_for_good(landing: Landing) -> None:
    landing.land(ONE, '{"id": 1}')
    landing.take(ONE)
    landing.land(ONE, '{"id": 2}')
    with pytest.raises(LandingError, match="has another content than when it was taken"):
        landing.take(ONE)
    LandedSnapshots(landing.ledger).publish_snapshots("feed.d.t", [ONE])
    folder = landing.land(ONE, '{"id": 1}')
    (folder / f"{ONE}_1.json").write_text('{"id": 9}')
    assert "was taken with 1" in landing.look().refused[ONE]


def test_a_file_that_is_gone_or_new_is_seen_before_anything_is_published(landing: Landing) -> None:
    folder = landing.land(ONE, "a")
    landing.take(ONE)
    (taken,) = open_taken(landing.place, landing.ledger, [ONE])
    taken.check_files()
    file = folder / f"{ONE}_0.json"
    file.write_text("b")
    with pytest.raises(LandingError, match="was written again"):
        taken.check_files()
    file.unlink()
    with pytest.raises(LandingError, match="is not there any more"):
        taken.check_files()


def test_a_landing_without_a_schema_is_refused(landing: Landing) -> None:
    landing.land(ONE, "a")
    (landing.root / "schemas/feed/d/t.json").unlink()
    with pytest.raises(LandingError, match=r"there is no schema .*schemas/feed/d/t.json"):
        landing.take(ONE)


def test_a_landing_that_is_not_there_is_not_an_empty_one(landing: Landing) -> None:
    landing.root.rename(landing.root.with_name("unmounted"))
    with pytest.raises(LandingError, match="there is no landing folder") as caught:
        landing.look()
    assert caught.value.retryable


def test_strange_names_are_told(landing: Landing) -> None:
    landing.land(ONE, "")
    landing.write("json/feed/d/t/dq/20260130/readme.txt")
    landing.write("json/feed/d/t/dq/backup/20260130000000_0.json")
    assert sorted(landing.look().strange) == [
        "json/feed/d/t/dq/20260130/readme.txt",
        "json/feed/d/t/dq/backup",
    ]


def test_only_new_days_are_listed(tmp_path: Path) -> None:
    """Of many files those are looked at whose day may hold something new."""
    landing = Landing(tmp_path, late="1d")
    first = datetime(2026, 1, 1)
    for hour in range(0, 24 * 5, 6):
        landing.land(id_of(first + timedelta(hours=hour)), "")
    everything = landing.look()
    assert (len(everything.ready), everything.files) == (20, 40)
    for one in everything.ready:
        landing.take(one.id)
    LandedSnapshots(landing.ledger).publish_snapshots(
        "feed.d.t", [one.id for one in everything.ready]
    )
    again = landing.look()
    assert (again.ready, again.files) == ((), 16)
    place = landing.place
    assert list_landed(place.store, place.folder, (), date(2026, 1, 5)).files == 8


def test_files_leave_the_landing_when_their_time_is_over(tmp_path: Path) -> None:
    """Not the newest snapshot's, not what somebody else wrote there, and nothing without a word."""
    landing = Landing(tmp_path, keep_landed="1s")
    for snapshot in (ONE, TWO, THREE):
        landing.land(snapshot, "a", "b")
        landing.take(snapshot)
    LandedSnapshots(landing.ledger).publish_snapshots("feed.d.t", [ONE, TWO])
    assert expire_landed(landing.place, landing.ledger).snapshots == 0
    time.sleep(1.1)
    kept = landing.root / f"json/feed/d/t/dq/20260130/{ONE}_1.json"
    kept.write_text("somebody's")
    done = expire_landed(landing.place, landing.ledger)
    assert (done.snapshots, done.files, done.bytes, done.kept) == (1, 2, 2, 1)
    assert [p.name for p in (landing.root / "json/feed/d/t/dq/20260130").iterdir()] == [kept.name]
    with pytest.raises(LandingError, match="left the landing"):
        open_taken(landing.place, landing.ledger, [ONE])
    assert landing.ready() == [THREE]  # the first is not new
    LandedSnapshots(landing.ledger).publish_snapshots("feed.d.t", [THREE])
    done = expire_landed(landing.place, landing.ledger)
    assert (done.snapshots, done.kept) == (1, 1)
    assert expire_landed(landing.place, landing.ledger).snapshots == 0
    for_good = Landing(tmp_path)
    assert expire_landed(for_good.place, for_good.ledger).snapshots == 0
