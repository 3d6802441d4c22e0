"""How many rows a lake table shows, without reading them.

Source: Iceberg specification, "Position Delete Files".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask

from mirrorlake.destinations.iceberg.manifests import entries_of, manifests_of
from mirrorlake.destinations.iceberg.model import LakeSnapshot, LakeTable, Storage

_FILE_PATH = 2147483546
"""The field of a file of deletes that names data files (Iceberg specification, "Reserved Field
IDs")."""


def count_shown(table: LakeTable) -> int:
    """The rows that a table's main shows: those of its data files, by its manifests, without the
    positions that its delete files name.

    No data file is opened. PyIceberg's own count decodes each one that has deletes, with all its
    columns: of six million rows 5 s and a gigabyte, for a few deleted ones. It still counts tables
    with other kinds of deletes.
    """
    scan = table.scan()
    tasks = list(scan.plan_files())
    if not all(map(_by_position, tasks)):
        return scan.count()
    paths = {file.file_path for task in tasks for file in task.delete_files}
    deleted = {path: deleted_positions(table.io, path) for path in sorted(paths)}
    return sum(task.file.record_count - _count_deleted(task, deleted) for task in tasks)


def _by_position(task: FileScanTask) -> bool:
    return all(
        file.content == DataFileContent.POSITION_DELETES and file.file_format == FileFormat.PARQUET
        for file in task.delete_files
    )


def deleted_positions(io: Storage, path: str) -> dict[str, Any]:
    """The positions that a file of deletes names, by data file."""
    with io.new_input(path).open() as file:
        table = pq.read_table(file, columns=["file_path", "pos"])
    of, at = table["file_path"].combine_chunks().dictionary_encode(), table["pos"].to_numpy()
    codes = of.indices.to_numpy(zero_copy_only=False)
    return {name: at[codes == code] for code, name in enumerate(of.dictionary.to_pylist())}


def positions_deleted(io: Storage, task: FileScanTask) -> Any | None:
    """The positions of a data file's rows that are deleted; None where they are deleted by other
    means than positions in Parquet files."""
    if not _by_position(task):
        return None
    path = task.file.file_path
    found = [deleted_positions(io, file.file_path).get(path) for file in task.delete_files]
    return np.unique(
        np.concatenate([np.empty(0, np.int64), *(one for one in found if one is not None)])
    )


def _count_deleted(task: FileScanTask, deleted: dict[str, dict[str, Any]]) -> int:
    """How many rows of a data file its files of deletes name; several may name one row."""
    path = task.file.file_path
    found = [deleted[file.file_path].get(path) for file in task.delete_files]
    positions = [each for each in found if each is not None]
    return len(np.unique(np.concatenate(positions))) if positions else 0


def count_by_manifests(table: LakeTable, snapshot: LakeSnapshot) -> int | None:
    """The rows that a version shows, by its manifests; None where deletes by value hide that."""
    files = [*_data_files(table, snapshot)]
    live = {one.file_path for one in files if one.content == DataFileContent.DATA}
    count = 0
    for one in files:
        if one.content == DataFileContent.EQUALITY_DELETES:
            return None
        if one.content == DataFileContent.DATA:
            count += one.record_count
        elif _deletes_from(one) in {None, *live}:  # else: of a file that was written again since
            count -= one.record_count
    return count


def _deletes_from(deletes: DataFile) -> str | None:
    """The one data file that a file of deletes by position is of; None where it is of several."""
    first, last = (b.get(_FILE_PATH) for b in (deletes.lower_bounds, deletes.upper_bounds))
    return first.decode() if first is not None and first == last else None


def _data_files(table: LakeTable, snapshot: LakeSnapshot) -> Iterator[DataFile]:
    for manifest in manifests_of(table.io, snapshot):
        for entry in entries_of(table.io, manifest):
            yield entry.data_file
