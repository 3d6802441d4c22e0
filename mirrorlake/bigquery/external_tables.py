"""Tables of BigQuery that models read: compared with what is declared, and copied once a version.

The copy is a folder of Parquet files beside the contract file, under a name that follows from the
table's version and the columns that are declared: what was read once is not read again, by no model
and no run. Spark reads the copy as it reads any folder of Parquet.

What belongs here: from a declaration to BigQuery's table, and to files. What doesn't: requests
(`mirrorlake.runtime.google.tables`).
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.bigquery.api.read_types import is_required, may_fit, type_read
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.config.fields import nearest
from mirrorlake.destinations.iceberg.storage.durable import flush_files
from mirrorlake.errors import BigQueryError, LandingError, MachineError, ModelError
from mirrorlake.models.external_sources.arrow_types import arrow_type
from mirrorlake.models.external_sources.tables import ExternalLook, ExternalTable
from mirrorlake.models.files.declared_columns import HeaderColumn
from mirrorlake.models.files.external_table import ExternalDeclaration
from mirrorlake.runtime.cache import cache_lock
from mirrorlake.runtime.google.tables import (
    BigQueryReader,
    BigQueryTable,
    ColumnJson,
    TableSeen,
    written,
)
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.sources.files.parquet_folder import ParquetFile, ParquetFolder
from mirrorlake.sources.files.parquet_table import check_files, list_files

logger = logging.getLogger(__name__)

FILE_BYTES = 128 * 2**20
"""A file of a copy that has grown so large is closed, and the next one begun."""
KEPT_COPIES = 2
"""Of a table, so that a run that began before it changed can end."""


# --- looking --------------------------------------------------------------------------------------


def look_at_bigquery(
    declared: ExternalDeclaration, settings: BigQueryConfig | None
) -> ExternalLook:
    """A table of BigQuery as it is now.

    Args:
        settings: the contract's section, whose project and location hold where the file says none.

    Raises:
        ModelError: it is not there, or no table.
        BigQueryError: Google refuses, or can't be reached.
    """
    project = declared.project or (settings.project if settings is not None else None)
    if project is None:
        raise declared.wrong(
            "nothing says which project the table is in",
            next_step="Write `table: project.dataset.table`, or a section bigquery in the contract",
        )
    table = BigQueryTable(project, *declared.table)
    seen = BigQueryReader(project).look(table)
    if seen is None:
        raise declared.wrong(
            f"there is no table {table} in BigQuery",
            next_step="Have it made first, or correct `table`",
        )
    if seen.kind != "TABLE":
        raise declared.wrong(
            f"{seen.table} is no table ({seen.kind}): nothing says when its rows change",
            next_step="Have its rows written to a table, and declare that",
        )
    drift = (*_other_location(declared, seen, settings), *_other_columns(declared, seen))
    names = {one.name for one in declared.columns}
    undeclared = tuple(one["name"] for one in seen.columns if one["name"] not in names)
    return ExternalLook(ExternalTable(declared, stored=seen), drift, undeclared)


def seen_of(table: ExternalTable) -> TableSeen:
    """The table as it was when `look_at_bigquery` looked at it."""
    if not isinstance(table.stored, TableSeen):
        raise TypeError(f"{table.name} was not looked at in BigQuery")
    return table.stored


def refuse_streamed(table: ExternalTable) -> None:
    """See that a table can be read as it was looked at.

    Raises:
        ModelError: it has rows that are in no version yet.
    """
    declared, seen = table.declaration, seen_of(table)
    if seen.streaming is not None:
        raise declared.wrong(
            f"rows are streamed into {seen.table}: those that just came are in no version yet",
            next_step="Run again once BigQuery has taken them in, which may be 90 minutes after "
            "the last one; or have them loaded by jobs",
        )


def _other_location(
    declared: ExternalDeclaration, seen: TableSeen, settings: BigQueryConfig | None
) -> Iterator[ModelError]:
    wanted = declared.location or (settings.location if settings is not None else None)
    if wanted is not None and wanted.lower() != seen.location.lower():
        by = "location" if declared.location else "the contract's bigquery.location"
        yield declared.wrong(
            f"{seen.table} is in {seen.location}, and {by} is {wanted}",
            next_step=f"Write `location: {seen.location}` if it may be read from there",
        )


def _other_columns(declared: ExternalDeclaration, seen: TableSeen) -> Iterator[ModelError]:
    columns = {column["name"]: column for column in seen.columns}
    for one in declared.columns:
        column = columns.get(one.name)
        if column is None:
            near = nearest(one.name, columns)
            yield declared.wrong(f"{seen.table} has no column {one.name}{near}", one.place)
            continue
        words = _unlike(column, one)
        if words:
            yield declared.wrong(f"column {one.name} {words} in {seen.table}", one.place)
        if not one.nullable and not is_required(column):
            yield declared.wrong(
                f"column {one.name} may be NULL in {seen.table}",
                one.place,
                "Leave out `nullable: false`",
            )


def _unlike(column: ColumnJson, declared: HeaderColumn) -> str:
    """What is wrong with a column's type; nothing of one that is as it is declared."""
    kind = type_read(column)
    if kind == declared.type or may_fit(column, declared.type):
        return ""
    if kind is not None:
        return f"is {written(column)}, which is {kind},"
    if may_fit(column, "decimal(38,9)"):
        return "is BIGNUMERIC, which is a decimal of as many digits as its values have,"
    return f"is {written(column)}, of which Spark has no exact type,"


# --- copying --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CopiedRows:
    """A copy of a version, as it is read."""

    folder: ParquetFolder
    files: tuple[ParquetFile, ...]


def copied_rows(table: ExternalTable) -> CopiedRows:
    """The rows of the version that was looked at, as files on this machine; read from BigQuery
    unless they are there.

    Raises:
        BigQueryError: Google refuses or can't be reached, the table changed since it was looked at,
            or a value is none of its column's declared type.
        MachineError: the files can't be written.
    """
    seen = seen_of(table)
    place = _place(table, seen)
    with cache_lock(f"copy-{hashlib.sha256(str(place.parent).encode()).hexdigest()[:16]}"):
        found = _found(table, seen, place)
        if found is None:
            try:
                _copy(table, seen, place)
            except OSError as error:
                raise MachineError(
                    f"{table.name} can't be copied to {place.parent}: {error.strerror or error}",
                    next_step="Make room, or make the folder writable",
                ) from error
            found = _found(table, seen, place)
        if found is None:
            raise MachineError(f"{place} is not what was just written there", retryable=True)
    return found


def _place(table: ExternalTable, seen: TableSeen) -> Path:
    declared = [(one.name, one.type) for one in table.declaration.columns]
    said = repr((str(seen.table), seen.version, declared))
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    return table.declaration.home / ".mirrorlake" / "bigquery" / table.name / digest


def _found(table: ExternalTable, seen: TableSeen, place: Path) -> CopiedRows | None:
    """A copy that is there, and whole."""
    if not place.is_dir():
        return None
    folder = ParquetFolder(
        FolderStore(str(place.parent)), place.name, _columns(table), 0, frozenset()
    )
    try:
        files = tuple(list_files(folder))
        rows = sum(check_files(folder, files))
    except LandingError:
        return None
    return CopiedRows(folder, files) if rows == seen.rows else None


def _columns(table: ExternalTable) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in table.declaration.columns])


def _copy(table: ExternalTable, seen: TableSeen, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    for left in place.parent.glob(".*"):
        shutil.rmtree(left, ignore_errors=True)  # of one that died
    building = place.with_name(f".{place.name}")
    building.mkdir()
    try:
        _read_all(table, seen, building)
        flush_files(building.iterdir())
        if place.is_dir():
            shutil.rmtree(place)
        building.replace(place)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    folders = (one for one in place.parent.iterdir() if one.is_dir())
    copies = sorted(folders, key=lambda one: one.stat().st_mtime)
    for old in copies[:-KEPT_COPIES]:
        shutil.rmtree(old)


def _read_all(table: ExternalTable, seen: TableSeen, folder: Path) -> None:
    """Read all rows into files."""
    rows = _write(_as_declared(table, BigQueryReader(seen.table.project), seen), folder)
    logger.info("%s: %d rows of %s were copied to %s", table.name, rows, seen.table, folder.parent)


def _as_declared(
    table: ExternalTable, reader: BigQueryReader, seen: TableSeen
) -> Iterator[pa.RecordBatch]:
    schema = _columns(table)
    wanted = [one for one in seen.columns if one["name"] in schema.names]
    for batch in reader.read(seen, wanted):
        arrays = [_exactly(batch.column(field.name), field, seen) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _exactly(values: pa.Array, field: pa.Field, seen: TableSeen) -> pa.Array:
    try:
        return values.cast(field.type, safe=True)
    except pa.ArrowInvalid:
        # Not chained: Arrow quotes values.
        raise BigQueryError(
            f"column {field.name} of {seen.table} has a value that {field.type} can't hold exactly",
            column=field.name,
            next_step="Declare more digits, or leave the column out",
        ) from None


def _write(batches: Iterator[pa.RecordBatch], folder: Path) -> int:
    """Write rows into files, a page at a time; how many there were."""
    rows, number = 0, 0
    writer: pq.ParquetWriter | None = None
    try:
        for batch in batches:
            path = folder / f"part-{number:05}.parquet"
            writer = writer or pq.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
            if path.stat().st_size >= FILE_BYTES:
                writer.close()
                writer, number = None, number + 1
    finally:
        if writer is not None:
            writer.close()
    return rows
