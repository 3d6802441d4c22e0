"""Reading a lake table's rows without Spark, in memory that does not grow with the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, IsNull
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import FileScanTask, Table

from mirrorlake.destinations.base import EVERY_ROW, Condition
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.metadata.conditions import rows_of_load
from mirrorlake.destinations.iceberg.metadata.expressions import expression
from mirrorlake.destinations.iceberg.reading.plain_files import has_columns
from mirrorlake.schema.own_columns import LOAD

pc: Any = _compute  # its functions are made at import: type checkers see none of them
_AT_ONCE = 32_768
"""Rows of a file that are decoded at once."""

_SAMPLED_FILES = 20
"""How many files a sample opens, at most."""


def read_batches(
    lake: Connection,
    table: Table,
    columns: Sequence[str] = ("*",),
    since: int | None = None,
    days: Condition = EVERY_ROW,
) -> Iterator[pa.RecordBatch]:
    """The rows of the snapshot that ``table`` was loaded at, in no order, typed as its schema says.

    One data file is in memory at a time: PyIceberg's own reader of batches starts every file of the
    scan at once.

    Args:
        columns: those that are read; all by default.
        since: a snapshot of the table: rows of files that it had already are left out.
        days: a condition on the partition, by which whole files are left out; all by default.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    scan = table.scan(row_filter=expression(days), selected_fields=tuple(columns))
    projection = scan.projection()
    schema = schema_to_pyarrow(projection, include_field_ids=False)
    reader = ArrowScan(table.metadata, table.io, projection, AlwaysTrue())
    with lake.translated(".".join(table.name())):
        seen = _paths(table, since)
        for task in scan.plan_files():
            if task.file.file_path in seen:
                continue
            yield from _typed(reader, task, schema)


def read_rows(
    lake: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Condition,
    snapshot: int | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a snapshot that a condition selects, in no order, typed as its schema says.

    Args:
        columns: those that are read.
        snapshot: None for the one that ``table`` was loaded at.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    wanted = expression(rows)
    scan = table.scan(wanted, selected_fields=tuple(columns), snapshot_id=snapshot)
    projection = scan.projection()
    schema = schema_to_pyarrow(projection)
    reader = ArrowScan(table.metadata, table.io, projection, wanted)
    with lake.translated(".".join(table.name())):
        for task in scan.plan_files():
            yield from _typed(reader, task, schema)


def read_load(
    lake: Connection, table: Table, columns: Sequence[str], load_id: str, snapshot: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a load in a snapshot, in no order, typed as its schema says; a few row groups'
    pages are in memory at a time, where PyIceberg's own reader has most of a file.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    wanted = expression(rows_of_load(load_id))
    scan = table.scan(wanted, selected_fields=(*columns, LOAD), snapshot_id=snapshot)
    schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)
    reader = ArrowScan(table.metadata, table.io, scan.projection(), wanted)
    with_ids = schema_to_pyarrow(scan.projection())
    with lake.translated(".".join(table.name())):
        for task in scan.plan_files():
            with table.io.new_input(task.file.file_path).open(seekable=True) as stream:
                file = pq.ParquetFile(stream)
                if task.delete_files or not has_columns(file.schema_arrow, with_ids):
                    yield from _typed(reader, task, schema)
                    continue
                for batch in file.iter_batches(_AT_ONCE, columns=schema.names, use_threads=False):
                    rows = batch.filter(pc.equal(batch.column(LOAD), load_id))
                    arrays = [rows.column(field.name).cast(field.type) for field in schema]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_tasks(
    lake: Connection, table: Table, tasks: Sequence[FileScanTask], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows that some files show, in no order, typed as the table's schema says.

    Raises:
        LakeError: the storage failed.
    """
    projection = table.scan(selected_fields=tuple(columns)).projection()
    schema = schema_to_pyarrow(projection, include_field_ids=False)
    reader = ArrowScan(table.metadata, table.io, projection, AlwaysTrue())
    with lake.translated(".".join(table.name())):
        for task in tasks:
            yield from _typed(reader, task, schema)


def count_unset(lake: Connection, table: Table, column: str) -> int:
    """How many rows of the snapshot that ``table`` was loaded at have no value in a column; files
    whose statistics say that they have none are not opened.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    unset = cast(Any, IsNull)(column)
    with lake.translated(".".join(table.name())):
        return table.scan(unset, selected_fields=(column,)).count()


def sample_batches(
    lake: Connection, table: Table, columns: Sequence[str], since: int | None, most: int
) -> Iterator[pa.RecordBatch]:
    """Some rows of the files that came since a snapshot: the first ones of files chosen evenly.

    Args:
        columns: those that are read.
        since: as in `read_batches`.
        most: how many rows, at most.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    scan = table.scan(selected_fields=tuple(columns))
    with lake.translated(".".join(table.name())):
        seen = _paths(table, since)
        tasks = [task for task in scan.plan_files() if task.file.file_path not in seen]
        step = max(1, len(tasks) // _SAMPLED_FILES)
        tasks = tasks[::step][:_SAMPLED_FILES]
        for number, task in enumerate(tasks):
            share = -(-most // (len(tasks) - number))
            reader = ArrowScan(
                table.metadata, table.io, scan.projection(), AlwaysTrue(), limit=share
            )
            for batch in reader.to_record_batches([task]):
                most -= batch.num_rows
                yield batch


def _typed(reader: ArrowScan, task: FileScanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one data file, each column cast to its declared type."""
    for batch in reader.to_record_batches([task]):
        arrays = [batch.column(field.name).cast(field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _paths(table: Table, snapshot: int | None) -> set[str]:
    if snapshot is None or table.snapshot_by_id(snapshot) is None:
        return set()
    return {task.file.file_path for task in table.scan(snapshot_id=snapshot).plan_files()}
