"""Iceberg tables that are no part of our lake: by a metadata file, a folder, or a catalog of
PyIceberg's; they are only read.

What belongs here: opening and reading them. What doesn't: our lake's own tables
(`mirrorlake.destinations.iceberg.lake`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import StaticTable, Table

from mirrorlake.destinations.iceberg.reading.readers import read_by_duckdb
from mirrorlake.errors import LakeError


def newest_metadata(folder: Path) -> Path | None:
    """The newest metadata file of a table's folder, if it is one: that of the highest version."""
    hint = folder / "metadata" / "version-hint.text"
    if hint.is_file():
        named = folder / "metadata" / f"v{hint.read_text().strip()}.metadata.json"
        if named.is_file():
            return named
    found = [*folder.glob("metadata/*.metadata.json")]
    return max(found, key=lambda path: (_version_of(path), path.stat().st_mtime), default=None)


def _version_of(path: Path) -> int:
    digits = re.match(r"v?(\d+)", path.name)
    return int(digits[1]) if digits else 0


def open_metadata(location: str) -> Table:
    """The table that a metadata file describes.

    Raises:
        LakeError: it can't be read.
    """
    try:
        return StaticTable.from_metadata(location)
    except Exception as error:
        raise LakeError(
            f"{location} can't be read as Iceberg's metadata: {_first_line(error)}",
            next_step="Name the table's folder, its newest metadata/…metadata.json, or its catalog",
        ) from error


def open_in_catalog(catalog: str, name: str) -> Table:
    """A table of a catalog that PyIceberg's own configuration names.

    Raises:
        LakeError: there is none, or its catalog can't be reached.
    """
    try:
        return load_catalog(catalog).load_table(name)
    except NoSuchTableError as error:
        raise LakeError(
            f"catalog {catalog} has no table {name}",
            next_step="Write it as iceberg://catalog/namespace/table",
        ) from error
    except Exception as error:
        raise LakeError(
            f"catalog {catalog} can't be read: {_first_line(error)}",
            next_step="PyIceberg finds it in ~/.pyiceberg.yaml, or in PYICEBERG_CATALOG__… of the "
            "environment",
        ) from error


def tables_in_catalog(catalog: str, namespace: str) -> list[str]:
    """The names of the tables in a namespace.

    Raises:
        LakeError: the catalog can't be read.
    """
    try:
        return sorted(name[-1] for name in load_catalog(catalog).list_tables(namespace))
    except Exception as error:
        raise LakeError(
            f"catalog {catalog} can't list {namespace}: {_first_line(error)}",
            next_step="PyIceberg finds it in ~/.pyiceberg.yaml, or in PYICEBERG_CATALOG__… of the "
            "environment",
        ) from error


def rows_of_other(table: Table) -> tuple[pa.Schema, Iterator[pa.RecordBatch], str]:
    """The columns and rows of a table as it is now, and which version that is.

    Raises:
        LakeError: the rows can't be read.
    """
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    snapshot = table.current_snapshot()
    if snapshot is None:
        return schema, iter(()), "no snapshot: it is empty"
    written = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
    version = f"snapshot {snapshot.snapshot_id}, written {written:%Y-%m-%d %H:%M:%S} UTC"
    return schema, _batches(table, snapshot.snapshot_id), version


def _batches(table: Table, version: int) -> Iterator[pa.RecordBatch]:
    if _has_equality_deletes(table):
        # PyIceberg can't apply them.
        yield from read_by_duckdb(table, version)
        return
    try:
        yield from table.scan(snapshot_id=version).to_arrow_batch_reader()
    except Exception as error:
        raise LakeError(
            f"the rows of Iceberg table {table.metadata_location} can't be read: "
            f"{_first_line(error)}",
            next_step="See that its files are where its metadata says; a table whose folder was "
            "moved can be read in its old place alone",
        ) from error


def _has_equality_deletes(table: Table) -> bool:
    contents: Sequence[int] = table.inspect.delete_files().column("content").to_pylist()
    return DataFileContent.EQUALITY_DELETES.value in contents


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
