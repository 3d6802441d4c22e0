"""A folder of Parquet files as it was listed; small, and made to be pickled.

What belongs here: what is known of it. What doesn't: listing and reading it
(`mirrorlake.sources.files.parquet_table`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa

from mirrorlake.sources.files.store import Store

PartitionValue = str | int | date | None


@dataclass(frozen=True)
class ParquetFile:
    """One file, as it was listed.

    Attributes:
        path: in its store.
        version: what distinguishes its content from another under its name, as its store says it.
        values: of the partition that it is in.
        changed_at: when it was last written (UTC), where its store says that.
    """

    path: str
    bytes: int
    version: str
    values: tuple[PartitionValue, ...] = ()
    changed_at: datetime | None = None


@dataclass(frozen=True)
class ParquetFolder:
    """The folder and what is read of it; it travels to the workers.

    Attributes:
        path: where it is in its store.
        columns: of a row: those of the files, then those of the partitions.
        by: how many of these the partitions are.
        needed: columns without NULL.
    """

    store: Store
    path: str
    columns: pa.Schema
    by: int
    needed: frozenset[str]

    @property
    def in_files(self) -> Sequence[pa.Field]:
        return [*self.columns][: len(self.columns) - self.by]

    @property
    def partitions(self) -> Sequence[pa.Field]:
        return [*self.columns][len(self.columns) - self.by :]
