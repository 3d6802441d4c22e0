"""Rows that a table shows are counted by manifests and files of deletes; no data file is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, FileFormat

from mirrorlake.destinations.iceberg.metadata.row_counts import count_shown


@dataclass(frozen=True)
class File:
    """A data file that is not there, or a file of deletes that is."""

    file_path: str
    record_count: int = 0
    content: DataFileContent = DataFileContent.POSITION_DELETES
    file_format: FileFormat = FileFormat.PARQUET


@dataclass(frozen=True)
class Task:
    """A data file, and the files of deletes that go for it."""

    file: File
    delete_files: set[File] = field(default_factory=set)


@dataclass(frozen=True)
class Scan:
    """A table's scan; its own count is -1, which shows that the library counted."""

    tasks: Sequence[Task]

    def plan_files(self) -> Sequence[Task]:
        return self.tasks

    def count(self) -> int:
        return -1


@dataclass(frozen=True)
class Shown:
    """A table, as far as it is counted."""

    tasks: Sequence[Task]
    io: PyArrowFileIO = field(default_factory=PyArrowFileIO)

    def scan(self) -> Scan:
        return Scan(self.tasks)


def counted(*tasks: Task) -> int:
    return count_shown(cast(Any, Shown(tasks)))


def deletes(folder: Path, name: str, *rows: tuple[str, int]) -> File:
    path = folder / name
    columns = {"file_path": [of for of, _ in rows], "pos": [at for _, at in rows]}
    schema = pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
    pq.write_table(pa.table(columns, schema), path)
    return File(str(path), len(rows))


def test_positions_of_several_files_are_counted_once(tmp_path: Path) -> None:
    one = deletes(tmp_path, "one.parquet", ("a", 0), ("a", 7), ("b", 7))
    two = deletes(tmp_path, "two.parquet", ("a", 7), ("a", 9))
    whole, cut = File("c", 5), File("a", 10)
    assert counted(Task(whole), Task(cut, {one, two})) == 5 + 10 - 3
    # A file of deletes that does not go for a data file takes none of its rows, whatever it names.
    assert counted(Task(cut, {one}), Task(File("b", 10))) == 8 + 10
    assert counted(Task(cut, {one}), Task(File("b", 10), {one})) == 8 + 9
    assert counted() == 0


def test_deletes_of_another_kind_are_left_to_the_library(tmp_path: Path) -> None:
    vector = File("v", 1, file_format=FileFormat.PUFFIN)
    one = deletes(tmp_path, "one.parquet", ("a", 0))
    assert counted(Task(File("a", 10), {one}), Task(File("b", 10), {vector})) == -1
