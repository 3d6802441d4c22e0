"""What a commit says of a data file, known from its writer: then no footer is read again.

Source: Iceberg specification, "Manifests", the fields of ``data_file``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

_EPOCH = date(1970, 1, 1)
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class FileMetrics:
    """A data file's size in bytes, its partition (a raw day, or the number of a bucket of tenants),
    and its rows, sizes, counts and bounds per field.

    As texts they travel from a task to the driver. ``checksum`` is the SHA-256 of the bytes as
    their writer sent them, in hexadecimal; '' where nobody computed it. No manifest has a place for
    it: the ledger keeps it.
    """

    size: int
    partition: date | int
    statistics: dict[str, Any]
    checksum: str = field(default="", compare=False)

    def to_json(self) -> str:
        statistics = dict(self.statistics)
        for name in _BOUNDS:
            statistics[name] = {k: bytes(v).hex() for k, v in statistics[name].items()}
        of = self.partition
        part = of.isoformat() if isinstance(of, date) else of
        return json.dumps([self.size, part, statistics, self.checksum])

    @staticmethod
    def from_json(text: str) -> FileMetrics:
        size, part, statistics, *more = json.loads(text)
        for name in _COUNTS:
            statistics[name] = {int(k): v for k, v in statistics[name].items()}
        for name in _BOUNDS:
            statistics[name] = {int(k): bytes.fromhex(v) for k, v in statistics[name].items()}
        partition = part if isinstance(part, int) else date.fromisoformat(part)
        return FileMetrics(size, partition, statistics, more[0] if more else "")

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return int(self.statistics["record_count"])

    def data_file(self, table: Table, path: str) -> DataFile:
        """The file as a manifest names it, in its partition."""
        of = self.partition
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record((of - _EPOCH).days if isinstance(of, date) else of),
            file_size_in_bytes=self.size,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            spec_id=table.metadata.default_spec_id,
            **self.statistics,
        )


def rows_in(metrics: str) -> int:
    """How many rows a file has, by its metrics in JSON."""
    return FileMetrics.from_json(metrics).rows
