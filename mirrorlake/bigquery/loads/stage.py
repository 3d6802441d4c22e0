"""The files of a publication: rows of the lake as Parquet, in the bucket. No JVM is needed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.parquet as pq
from pydantic import SecretStr

from mirrorlake.bigquery.api.client import BigQuery, TableLayout
from mirrorlake.bigquery.api.statements import GONE
from mirrorlake.bigquery.api.types import FieldJson
from mirrorlake.bigquery.loads.table_form import PublishedForm
from mirrorlake.bigquery.loads.touched_days import MOST_PARTITIONS, DaysTouched
from mirrorlake.bigquery.loads.which_rows import LoadChoice
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.model import LakeTable, arrow_schema
from mirrorlake.destinations.iceberg.reading.changes import VersionChanges
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.errors import ConfigError

pc: Any = _compute  # its functions are made at import: type checkers see none of them
FILE_BYTES = 256 * 2**20
"""A file that has grown so large is uploaded, and the next one begun."""


@dataclass
class StagedFiles:
    """What was uploaded.

    Attributes:
        rows: of all files; bytes: of the files.
        days: those of their rows, and of the rows that they replace.
    """

    addresses: list[str] = field(default_factory=list[str])
    rows: int = 0
    bytes: int = 0
    days: DaysTouched = field(default_factory=DaysTouched)


def staged_as(form: PublishedForm, *, changes: bool) -> tuple[list[FieldJson], TableLayout]:
    """The columns of a publication's files, and the layout of the table that they are loaded into:
    of all rows the table's own, of changes without partitions."""
    if not changes:
        return form.columns, form.layout
    if form.parts:
        return form.columns, replace(form.layout, column="", per="")
    gone = FieldJson(name=GONE, type="BOOLEAN", mode="NULLABLE")
    return [*form.columns, gone], replace(form.layout, column="", per="")


def upload_rows(
    bigquery: BigQuery,
    publication: str,
    lake: Connection,
    table: LakeTable,
    form: PublishedForm,
    choice: LoadChoice,
    hash_key: SecretStr | None,
) -> StagedFiles:
    """Write the rows of a publication to the bucket, at most one file of them on this machine.

    Raises:
        LakeError: the lake can't be read.
        BigQueryError: the bucket can't be written.
        ConfigError: the rows are of more partitions than BigQuery takes in one job.
    """
    staged = StagedFiles()
    with tempfile.TemporaryDirectory(prefix="mirrorlake-") as folder:
        path = Path(folder) / "part.parquet"
        writer: pq.ParquetWriter | None = None
        for batch in _rows(lake, table, form, choice, hash_key):
            if writer is None:
                writer = pq.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
            staged.rows += batch.num_rows
            if form.column:
                staged.days.add(_dated(batch, form.column))
            if path.stat().st_size >= FILE_BYTES:
                writer.close()
                writer = None
                _send(bigquery, publication, path, staged)
        if writer is not None:
            writer.close()
            _send(bigquery, publication, path, staged)
    if form.column and isinstance(choice.changes, VersionChanges):
        staged.days.add(choice.changes.find_left(lake, form.key, form.column))
    refuse_too_many(".".join(table.name()), form, staged.days)
    return staged


def refuse_too_many(table: str, form: PublishedForm, days: DaysTouched) -> None:
    """See that BigQuery takes a load's rows in one job.

    Raises:
        ConfigError: they are of too many partitions; nothing was submitted.
    """
    found = days.partitions(form.per) if form.column else 0
    if found > MOST_PARTITIONS:
        raise ConfigError(
            f"table {table}: its rows are of {found:,} days in {form.column}, and BigQuery takes "
            f"{MOST_PARTITIONS:,} partitions at once",
            table=table,
            column=form.column,
            next_step=f"Write bigquery: {{partition_by: {form.column}, partition: month}} in its "
            "contract, or in the model's header",
        )


def _dated(batch: pa.RecordBatch, column: str) -> pa.Array:
    """The days of the rows of a batch, but of those that are gone: these have none here."""
    if GONE not in batch.schema.names:
        return batch.column(column)
    return batch.column(column).filter(pc.invert(batch.column(GONE)))


def _send(bigquery: BigQuery, publication: str, path: Path, staged: StagedFiles) -> None:
    name = f"part-{len(staged.addresses):05}.parquet"
    staged.addresses.append(bigquery.upload(publication, name, path))
    staged.bytes += path.stat().st_size


def _rows(
    lake: Connection,
    table: LakeTable,
    form: PublishedForm,
    choice: LoadChoice,
    hash_key: SecretStr | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a publication; without any, one batch of none, so that there is a file."""
    schema = _plain(pa.schema([arrow_schema(table.schema()).field(name) for name in form.read]))
    none = form.shown(_empty(schema), hash_key)
    changes = choice.changes
    if not isinstance(changes, VersionChanges):
        yield none
        read = (
            read_batches(lake, table, form.read)
            if changes is None
            else changes.read_added(lake, form.read)
        )
        for batch in read:
            yield form.shown(_as(batch, schema), hash_key)
        return
    with_gone = none.schema.append(pa.field(GONE, pa.bool_()))
    yield _empty(with_gone)
    for batch in changes.read_added(lake, form.read):
        shown = form.shown(_as(batch, schema), hash_key)
        marks = pa.array([False] * shown.num_rows, pa.bool_())
        yield pa.RecordBatch.from_arrays([*shown.columns, marks], schema=with_gone)
    for batch in changes.find_gone(lake, form.key).to_batches():
        yield _gone(batch, with_gone)


def _gone(keys: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows that have a key alone, and say that it is no more."""
    count = keys.num_rows
    arrays = [
        keys.column(f.name).cast(f.type) if f.name in keys.schema.names else pa.nulls(count, f.type)
        for f in schema
    ]
    arrays[-1] = pa.array([True] * count, pa.bool_())
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Columns without the lake's field ids, each of which may be NULL."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
