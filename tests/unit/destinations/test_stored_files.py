"""Files of an object store: what is asked of it, and what is not."""

from __future__ import annotations

import io
from typing import Any

import pytest

from mirrorlake.destinations.iceberg.storage import stored_files
from mirrorlake.destinations.iceberg.storage.stored_files import StoredInput, StoredOutput

MANIFEST = "gs://lake/t/metadata/a-m0.avro"


class File:
    """PyIceberg's, which notes what is asked of it."""

    def __init__(self, location: str, content: bytes = b"content") -> None:
        self.location, self.content, self.asked = location, content, list[str]()

    def __len__(self) -> int:
        self.asked.append("length")
        return len(self.content)

    def open(self, seekable: bool = True) -> io.BytesIO:
        self.asked.append("open, with its length" if seekable else "open")
        return io.BytesIO(self.content)

    def create(self, overwrite: bool = False) -> io.BytesIO:
        self.asked.append("create" if overwrite else "look, create")
        return io.BytesIO()


@pytest.fixture(autouse=True)
def nothing_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_files, "_RECENT", stored_files._Recent())


def stored(file: File) -> Any:
    return StoredInput(file)  # type: ignore[arg-type]


def test_a_manifest_is_read_once_in_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(stored_files.time, "monotonic", lambda: now)
    file = File(MANIFEST)
    for _ in range(3):
        with stored(file).open() as stream:
            assert stream.read() == b"content"
    assert file.asked == ["open"]
    now += 61
    stored(file).open().read()
    assert file.asked == ["open", "open"], "one that was damaged is found after a minute"


def test_a_table_s_metadata_are_read_each_time() -> None:
    file = File("gs://lake/t/metadata/00001-a.metadata.json")
    for _ in range(2):
        stored(file).open().read()
    assert file.asked == ["open", "open"]


def test_what_was_read_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_files, "_KEPT", 10)
    first, second = File(MANIFEST), File(MANIFEST.replace("m0", "m1"))
    for file in (first, second, second, first):
        stored(file).open().read()
    assert first.asked == ["open", "open"]
    assert second.asked == ["open"]


def test_a_file_that_is_written_is_not_looked_for_and_its_length_is_known() -> None:
    file = File(MANIFEST)
    output = StoredOutput(file)  # type: ignore[arg-type]
    with output.create() as stream:
        stream.write(b"four")
    assert len(output) == 4
    assert file.asked == ["create"]


def test_before_it_is_written_its_length_is_asked_for() -> None:
    file = File(MANIFEST)
    assert len(StoredOutput(file)) == 7  # type: ignore[arg-type]
    assert file.asked == ["length"]
