"""A snapshot that is written: whole with its manifest, nothing of it after an error, and never
taken for complete while it is being written."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from mirrorlake.errors import LandingError
from mirrorlake.landing.files.writer import SnapshotWriter
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.sources.files.layout import TableFolder
from tests.unit.landing.files.test_take import ONE, Landing

DAY = date(2026, 1, 30)
PLACE = "json/feed/d/t/dq/20260130"


def writer(root: Path, *, packed: bool = False, most: int = 30) -> SnapshotWriter:
    folder = TableFolder("json", "feed", "d", "t", "dq")
    return SnapshotWriter(FolderStore(str(root)), folder, ONE, DAY, packed=packed, most=most)


@pytest.mark.parametrize("packed", [False, True])
def test_it_is_taken_as_it_was_written(tmp_path: Path, packed: bool) -> None:
    landing = Landing(tmp_path)
    made = writer(landing.root, packed=packed)
    made.begin()
    lines = [b'{"id": %d}\n' % n for n in range(7)]
    for line in lines:
        made.add(line)
    assert landing.look().arriving in ((), (ONE,))
    made.close(7)
    assert landing.ready() == [ONE]
    taken = landing.take(ONE)
    assert (taken.record.files, taken.record.bytes) == (3, made.bytes)
    unpack = gzip.decompress if packed else bytes
    files = [(landing.root / file.path).read_bytes() for file in taken.files]
    assert b"".join(map(unpack, files)) == b"".join(lines)
    assert all(len(unpack(file)) <= 30 for file in files)
    names = {path.name for path in (landing.root / PLACE).iterdir()}
    assert len(names) == 4  # three chunks and the manifest: no draft, no sign of writing


def test_one_record_may_be_longer_than_a_chunk(tmp_path: Path) -> None:
    made = writer(tmp_path, most=3)
    made.begin()
    made.add(b'{"id": 1}\n')
    made.add(b'{"id": 2}\n')
    made.close(2)
    assert len(made.files) == 2


def test_what_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.begin()
    for _ in range(5):
        made.add(b'{"id": 1}\n')
    made.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_snapshot_of_the_same_second_is_left_alone(tmp_path: Path) -> None:
    first = writer(tmp_path)
    first.begin()
    first.add(b'{"id": 1}\n')
    second = writer(tmp_path)
    with pytest.raises(LandingError, match="is there already"):
        second.begin()
    second.discard()
    first.close(1)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    third = writer(tmp_path)
    with pytest.raises(LandingError, match="is there already"):
        third.begin()
    third.discard()
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "json").write_text("a file")
    with pytest.raises(LandingError, match=r"20260130000000_export\.part can't be written"):
        writer(tmp_path).begin()


_RUN = """
from datetime import date
from mirrorlake.sources.files.layout import TableFolder
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.landing.files.writer import SnapshotWriter
folder = TableFolder("json", "feed", "d", "t", "dq")
day = date(2026, 1, 30)
made = SnapshotWriter(FolderStore({root!r}), folder, {one}, day, packed=False, most=30)
made.begin()
for number in range(9):
    made.add(b'{{"id": %d}}\\n' % number)
made.close(9)
"""


@pytest.mark.parametrize("place", ["export.chunk:2", "export.manifest"])
def test_killed_it_is_complete_or_never_taken(tmp_path: Path, place: str) -> None:
    """Even where files count as complete once they don't change any more."""
    landing = Landing(tmp_path, complete="settle", settle="0s")
    done = subprocess.run(
        [sys.executable, "-c", _RUN.format(root=str(landing.root), one=ONE)],
        env={**os.environ, "MIRRORLAKE_FAILPOINT": place},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert landing.ready() == []
    strict = Landing(tmp_path)  # the same landing, by its manifest
    assert strict.ready() == ([ONE] if place == "export.manifest" else [])
    if place == "export.manifest":
        assert json.loads((landing.root / PLACE / f"{ONE}_manifest.json").read_text())["rows"] == 9


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    outside, landing = tmp_path / "outside", tmp_path / "landing"
    outside.write_text("mine")
    landing.mkdir()
    (landing / "l.tmp").symlink_to(outside)
    (landing / ".l.tmp").symlink_to(outside)
    store = FolderStore(str(landing))
    for replace in (False, True):
        with store.create("l", replace=replace) as stream:
            stream.write(b"x")
    assert (outside.read_text(), (landing / "l").read_bytes()) == ("mine", b"x")
