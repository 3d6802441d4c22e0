"""A raw day's rows are in files of that day, each as its writer says, however many days there are;
or no file is left."""

from __future__ import annotations

import hashlib
import os
import threading
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, LongType, NestedField, StringType

from mirrorlake.destinations.iceberg.commits import data_files
from mirrorlake.destinations.iceberg.commits.data_files import PartFiles, WrittenFile, holds
from mirrorlake.destinations.iceberg.metadata.metrics import FileMetrics
from mirrorlake.schema.own_columns import DAY

FIRST = date(2026, 1, 1)
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "v", StringType()),
    NestedField(3, DAY, DateType()),
)
ARROW = schema_to_pyarrow(SCHEMA)


def rows_of(ids: range, days: int) -> pa.Table:
    """Rows dealt to as many days in turn."""
    at = [FIRST + timedelta(days=n % days) for n in ids]
    return pa.table([list(ids), [f"v{n}" for n in ids], at], schema=ARROW)


def files_in(folder: Path) -> PartFiles:
    location = f"file://{folder}"
    return PartFiles({}, location, "load-1-00000", ARROW, SCHEMA.model_dump_json())


def local(file: WrittenFile) -> Path:
    return Path(file.path.removeprefix("file://"))


@pytest.fixture(params=["one day", "many days"])
def days(request: pytest.FixtureRequest) -> int:
    return {"one day": 1, "many days": 40}[request.param]


@pytest.fixture(params=["at once", "in row groups"])
def budget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are held to the end; or written as they come, with few files open."""
    if request.param == "in row groups":
        monkeypatch.setattr(data_files, "BUDGET_BYTES", 2_000)
        monkeypatch.setattr(data_files, "OPEN_FILES", 3)


@pytest.mark.usefixtures("budget")
def test_every_row_is_in_a_file_of_its_day(tmp_path: Path, days: int) -> None:
    files = files_in(tmp_path)
    for start in range(0, 1_000, 250):
        files.add(rows_of(range(start, start + 250), days))
    written = files.finish()
    assert [f.path for f in written] == sorted(f.path for f in written)
    found: list[int] = []
    for file in written:
        table = pq.ParquetFile(local(file)).read()
        told = FileMetrics.from_json(file.metrics)
        assert set(table[DAY].to_pylist()) == {told.partition}
        assert f"/{DAY}={told.partition}/" in file.path
        ids = table["id"].to_pylist()
        assert ids == sorted(ids)  # in the order in which they came
        assert table["v"].to_pylist() == [f"v{n}" for n in ids]
        found += ids
    assert sorted(found) == list(range(1_000))
    assert {local(f) for f in written} == set(tmp_path.rglob("*.parquet"))


def in_order(ids: range) -> pa.Table:
    """Rows of ten a day, day after day."""
    at = [FIRST + timedelta(days=n // 10) for n in ids]
    return pa.table([list(ids), [f"v{n}" for n in ids], at], schema=ARROW)


@pytest.mark.usefixtures("budget")
def test_days_that_come_in_order_are_written_beside_the_read(tmp_path: Path) -> None:
    """Then one comes again: it gets another file, and nothing is lost."""
    files = files_in(tmp_path)
    for start in range(0, 1_000, 100):
        files.add(in_order(range(start, start + 100)))
    files._wait(0)
    whole = {file.path.rsplit("/", 2)[1] for file in files.closed()}
    assert whole >= {f"{DAY}={FIRST + timedelta(days=n)}" for n in range(99)}
    late = in_order(range(500, 520))
    files.add(late.set_column(0, "id", pa.array(range(1_000, 1_020))))
    files.add(in_order(range(1_020, 1_040)))
    found = [(n, file) for file in files.finish() for n in ids_of(file)]
    assert sorted(n for n, _ in found) == list(range(1_040))
    assert len({file.path for n, file in found if 500 <= n < 510 or 1_000 <= n < 1_010}) == 2


def test_days_in_any_order_are_held_together(tmp_path: Path) -> None:
    """A day whose rows are spread over a read has one file, not one a batch."""
    files = files_in(tmp_path)
    for start in range(0, 1_000, 100):
        files.add(rows_of(range(start, start + 100), 40))
        assert files.closed() == []
    assert len(files.finish()) == 40


def ids_of(file: WrittenFile) -> list[int]:
    return pq.ParquetFile(local(file)).read()["id"].to_pylist()


@pytest.mark.usefixtures("budget")
def test_what_comes_beside_rows_is_in_their_order_and_in_no_file(tmp_path: Path, days: int) -> None:
    location = f"file://{tmp_path}"
    files = PartFiles({}, location, "load-1", ARROW, SCHEMA.model_dump_json(), aside="h")
    handed: list[WrittenFile] = []
    for start in range(0, 300, 100):
        rows = rows_of(range(start, start + 100), days)
        files.add(rows.append_column("h", pa.array([n * 7 for n in range(start, start + 100)])))
        handed += files.closed()
    written = files.finish()
    handed += files.closed()
    assert sorted(file.path for file in handed) == [file.path for file in written]
    assert sum(len(file.aside) for file in handed) == 300
    for file in handed:
        found = pq.read_table(local(file), partitioning=None)
        assert found.column_names == ARROW.names
        assert file.aside.to_pylist() == [n * 7 for n in found["id"].to_pylist()]


@pytest.mark.usefixtures("budget")
def test_a_file_is_what_its_writer_says(tmp_path: Path, days: int) -> None:
    files = files_in(tmp_path)
    files.add(rows_of(range(1_000), days))
    for file in files.finish():
        told, content = FileMetrics.from_json(file.metrics), local(file).read_bytes()
        assert told.checksum == hashlib.sha256(content).hexdigest()
        assert file.bytes == told.size == len(content)
        assert told.rows == pq.read_metadata(local(file)).num_rows
        assert holds(files._io, file.path, file.metrics, SCHEMA)


def test_files_and_folders_are_on_the_disk_at_the_end(
    tmp_path: Path, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: dict[str, int] = {}
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        flushed[str(path)] = path.stat().st_size

    monkeypatch.setattr(os, "fsync", seen)
    files = files_in(tmp_path)
    files.add(rows_of(range(1_000), days))
    written = files.finish()
    # Flushed when whole, and not before.
    assert {str(local(f)): f.bytes for f in written}.items() <= flushed.items()
    assert {str(local(f).parent) for f in written} <= flushed.keys()


@pytest.mark.parametrize("at", [1, 20, 40])
def test_a_day_that_fails_leaves_no_file(
    tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody writes any more once the failure is there."""
    files, opened = files_in(tmp_path), 0
    new, lock = files._io.new_output, threading.Lock()

    def full(path: str) -> Any:
        nonlocal opened
        with lock:
            opened += 1
            if opened == at:
                raise OSError(28, "No space left on device")
        return new(path)

    monkeypatch.setattr(files._io, "new_output", full)
    files.add(rows_of(range(1_000), 40))
    with pytest.raises(OSError, match="No space left"):
        files.finish()
    assert not [t for t in threading.enumerate() if t.name.startswith("days")]
    files.discard()
    assert not list(tmp_path.rglob("*.parquet"))
