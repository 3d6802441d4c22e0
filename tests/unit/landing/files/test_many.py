"""A landing with 100,000 files: a look lists the days that may hold something new, and asks the
disk for the files of those days alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest
import sqlalchemy as sa

from mirrorlake.landing.files.listing import look, seen_of
from mirrorlake.landing.files.snapshots import Chunk, Landed
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.sources.files.layout import id_of
from mirrorlake.sources.files.store import Entry, Wanted
from tests.unit.landing.files.test_take import Landing

FIRST, DAYS, A_DAY, FILES = datetime(2024, 1, 31, tzinfo=UTC), 730, 6, 22
NAME = "feed.d.t"


class Counting(FolderStore):
    """Counts what the disk is asked."""

    listed: ClassVar[list[str]] = []
    stats: ClassVar[int] = 0

    def folders(self, path: str, first: str) -> list[str]:
        Counting.listed.append(f"{path} from {first}")
        return super().folders(path, first)

    def files(self, path: str, wanted: Wanted) -> Iterator[Entry]:
        Counting.listed.append(path)
        for entry in super().files(path, wanted):
            Counting.stats += 1
            yield entry


def fill(landing: Landing) -> list[Landed]:
    found: list[Landed] = []
    for number in range(DAYS * A_DAY):
        when = FIRST + timedelta(hours=24 // A_DAY * number)
        snapshot = id_of(when)
        folder = landing.root / f"json/feed/d/t/dq/{when:%Y%m%d}"
        folder.mkdir(parents=True, exist_ok=True)
        for chunk in range(FILES):
            (folder / f"{snapshot}_{chunk}.json").touch()
        (folder / f"{snapshot}_manifest.json").touch()
        entry = Entry(f"{snapshot}_0.json", 0, "v")
        found.append(Landed(snapshot, tuple(Chunk(entry.name, n, entry) for n in range(FILES))))
    return found


@pytest.mark.full
def test_of_many_files_those_that_may_be_new_are_looked_at(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landed = fill(landing)
    assert len(landed) * (FILES + 1) > 100_000
    LandedSnapshots(landing.ledger).see_snapshots(NAME, [seen_of(one) for one in landed])
    with sa.create_engine(landing.config.ledger.url).begin() as connection:
        connection.execute(sa.text("UPDATE landed_snapshots SET state = 'published'"))
    late = FIRST + timedelta(days=DAYS - 2, hours=1)
    landing.land(id_of(late), "a")
    new = FIRST + timedelta(days=DAYS)
    landing.land(id_of(new), "b", "c")
    place = replace(landing.place, store=Counting(str(landing.root)))
    Counting.listed, Counting.stats = [], 0
    found = look(place, landing.ledger)
    assert [one.id for one in found.ready] == [id_of(late), id_of(new)]
    root = "json/feed/d/t/dq"
    days = [date(2026, 1, 27) + timedelta(days=n) for n in range(4)]
    assert Counting.listed == [f"{root} from ", *(f"{root}/{day:%Y%m%d}" for day in days)]
    # Four days of them: one that was taken may be written again.
    assert Counting.stats == found.files < 1_000


class Silent(FolderStore):
    """Fails where the words of an error are made although there is none."""

    def describe(self, path: str) -> str:
        raise AssertionError(path)


def test_no_words_are_made_for_files_that_are_there(tmp_path: Path) -> None:
    """They took most of the time of a folder with 100,000 files."""
    for number in range(3):
        (tmp_path / f"{number}.json").touch()
    found = Silent(str(tmp_path)).files("", lambda name: name != "1.json")
    assert sorted(entry.name for entry in found) == ["0.json", "2.json"]
