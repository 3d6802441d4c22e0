"""Rows of a chain of copies, found in raw by their keys, without Spark.

The key columns of the chain's files are read, and the other columns of those row groups alone that
have a row which is wanted: one row group is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeFile, LakeTable
from mirrorlake.ledger import Load
from mirrorlake.load.row_hashes.delta import CopyPlan
from mirrorlake.load.row_hashes.fingerprint import Words, in_order, key_fingerprints
from mirrorlake.load.row_hashes.row_index import DeltaGivenUp, KeySet
from mirrorlake.schema.own_columns import DELETED

LoadNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RawRows:
    """The files of one version of a raw table, by the load that wrote them.

    Attributes:
        schema: the table's, in Arrow's types, as rows are written.
    """

    table: LakeTable
    schema: pa.Schema
    copy: CopyPlan
    files: dict[str, list[LakeFile]]

    def check(self, chain: Sequence[Load]) -> None:
        """See that the rows of these loads are there, by the lake's metadata.

        Raises:
            DeltaGivenUp: some are not.
        """
        for load in chain:
            there = sum(file.record_count for file in self.files.get(load.load_id, ()))
            if load.receipt is None or there != load.receipt.committed:
                raise DeltaGivenUp(f"raw does not hold the rows of load {load.load_id} as it did")

    def current(
        self, chain: Sequence[Load], keys: KeySet, columns: Sequence[str]
    ) -> Iterator[tuple[LoadNumbers, pa.Table]]:
        """The newest version, among these loads, of the rows under some keys, tombstones left out:
        each with its key's number.

        Raises:
            DeltaGivenUp: a load has two rows of one key.
        """
        found = np.zeros(len(keys), dtype=bool)
        for load in reversed(chain):
            for file in self.files.get(load.load_id, ()):
                yield from self._of_file(file, keys, found, columns)

    def of_load(self, load_id: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows of one load, tombstones too."""
        for file in self.files.get(load_id, ()):
            with _readable(file), self._opened(file) as parquet:
                for group in range(parquet.num_row_groups):
                    yield self._read(parquet, group, columns)

    def key_prints(self, rows: pa.Table) -> Words:
        return key_fingerprints(rows, self.copy.columns, self.copy.key)

    def key_columns(self) -> list[str]:
        return in_order(self.copy.columns, self.copy.key)

    def _of_file(
        self, file: LakeFile, keys: KeySet, found: npt.NDArray[np.bool_], columns: Sequence[str]
    ) -> Iterator[tuple[LoadNumbers, pa.Table]]:
        named = [*self.key_columns(), DELETED]
        with _readable(file), self._opened(file) as parquet:
            for group in range(parquet.num_row_groups):
                key_rows = self._read(parquet, group, named)
                numbers = keys.find(self.key_prints(key_rows))
                new = numbers >= 0
                new[new] = ~found[numbers[new]]
                if len(np.unique(numbers[new])) != new.sum():
                    raise DeltaGivenUp("raw has a key twice in one load")
                found[numbers[new]] = True
                alive = new & ~_flags(key_rows.column(DELETED))
                if not alive.any():
                    continue
                enough = set(columns) <= set(named)
                rows = key_rows if enough else self._read(parquet, group, columns)
                chosen = pa.array(np.flatnonzero(alive))
                yield numbers[alive], rows.select(list(columns)).take(chosen)

    def _opened(self, file: LakeFile) -> pq.ParquetFile:
        stream = self.table.io.new_input(file.file_path).open(seekable=True)
        return pq.ParquetFile(stream)

    def _read(self, parquet: pq.ParquetFile, group: int, columns: Sequence[str]) -> pa.Table:
        found = parquet.read_row_group(group, columns=list(columns))
        fields = [self.schema.field(name).remove_metadata() for name in columns]
        arrays = [found.column(f.name).cast(_plain(f.type)) for f in fields]
        return pa.Table.from_arrays(arrays, names=[f.name for f in fields])


@contextmanager
def _readable(file: LakeFile) -> Generator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DeltaGivenUp(f"{file.file_path} can't be read") from error


def _flags(column: Any) -> npt.NDArray[np.bool_]:
    return column.fill_null(False).to_numpy().astype(bool)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without the metadata of the table's fields, which a file's lists do not have."""
    if pa.types.is_large_list(kind):
        entry = kind.value_type
        parts = [pa.field(f.name, f.type) for f in entry]
        return pa.large_list(pa.field("element", pa.struct(parts)))
    return kind


def raw_rows(
    lake: Lake, table: LakeTable, snapshot: int | None, schema: pa.Schema, copy: CopyPlan
) -> RawRows:
    """The files of a raw table's version.

    Raises:
        DeltaGivenUp: somebody deleted rows of it.
        LakeError: the catalog or the storage failed.
    """
    files: dict[str, list[LakeFile]] = {}
    with lake.translated(".".join(table.name())):
        for task in table.scan(snapshot_id=snapshot).plan_files() if snapshot else ():
            if task.delete_files:
                raise DeltaGivenUp("somebody deleted rows of raw")
            load_id = task.file.file_path.rsplit("/", 1)[-1].split("-", 1)[0]
            files.setdefault(load_id, []).append(task.file)
    return RawRows(table, schema, copy, files)
