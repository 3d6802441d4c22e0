"""One version of a lake table, as each engine reads it: PyIceberg, DuckDB, Spark.

They share no code: PyIceberg's scan, DuckDB's extension ``iceberg`` in C++, Iceberg's runtime in
Java. Each reads the same columns of the same snapshot, and gives them in batches of Arrow.

What belongs here: asking engines. What doesn't: comparing what they gave
(`mirrorlake.operations.checking.readers`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.storage.cloud_client import in_cloud_storage
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.errors import LakeError, ReaderMissing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXTENSIONS = ("avro", "iceberg")
"""Of DuckDB; the second needs the first."""


def columns_of(table: Table, version: int) -> pa.Schema:
    """The columns of a version, typed as Arrow has Iceberg's types."""
    scan = table.scan(snapshot_id=version)
    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


def read_by_pyiceberg(lake: Connection, table: Table, version: int) -> Iterator[pa.RecordBatch]:
    """All rows of a version, by PyIceberg's own scan.

    Raises:
        LakeError: they can't be read.
    """
    name = ".".join(table.name())
    try:
        with lake.translated(name):
            yield from table.scan(snapshot_id=version).to_arrow_batch_reader()
    except pa.ArrowException as error:
        raise LakeError(
            f"PyIceberg can't read lake table {name}: {str(error).splitlines()[0]}",
            table=name,
            next_step="`mirrorlake check` says whether a file is damaged",
        ) from error


def read_by_duckdb(table: Table, version: int) -> Iterator[pa.RecordBatch]:
    """All rows of a version, by DuckDB from the metadata file that the catalog names.

    Raises:
        ReaderMissing: DuckDB's extension is not installed.
        LakeError: they can't be read.
    """
    duckdb = importlib.import_module("duckdb")
    columns = ", ".join(_quoted(name) for name in columns_of(table, version).names)
    if in_cloud_storage(table.metadata_location):
        raise ReaderMissing(
            "DuckDB is given no access to Cloud Storage here",
            next_step="Spark and PyIceberg read the table; DuckDB's own settings can let it in",
        )
    place = str(local_path(table.metadata_location) or table.metadata_location)
    try:
        with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
            _load_extensions(connection, duckdb)
            connection.execute("SET TimeZone = 'UTC'")
            statement = f"SELECT {columns} FROM iceberg_scan(?, snapshot_from_id => ?)"  # noqa: S608
            yield from connection.execute(statement, [place, version]).to_arrow_reader(50_000)
    except duckdb.Error as error:
        first = str(error).strip().splitlines()[0]
        raise LakeError(
            f"DuckDB can't read lake table {'.'.join(table.name())}: {first}",
            table=".".join(table.name()),
            next_step="See DuckDB's documentation of its extension iceberg",
        ) from error


def rows_of_spark(
    spark: SparkSession, identifier: Identifier, version: int, names: list[str]
) -> DataFrame:
    """All rows of a version, by Iceberg's runtime in Spark; nothing is read yet."""
    columns = ", ".join(as_sql_identifier(name) for name in names)
    return spark.sql(
        f"SELECT {columns} FROM {identifier.sql} VERSION AS OF {version}"  # noqa: S608
    )


def _load_extensions(connection: Any, duckdb: Any) -> None:
    """Those that DuckDB has installed, or that came as packages; none is downloaded."""
    for name in _EXTENSIONS:
        try:
            connection.execute(f"LOAD {name}")
        except duckdb.Error as error:
            file = _packaged(name)
            if file is None:
                raise ReaderMissing(
                    f"DuckDB's extension {name} is not installed",
                    next_step=f"INSTALL {name} in DuckDB, or pip install duckdb-extension-{name}",
                ) from error
            connection.execute(f"LOAD '{file}'")


def _packaged(name: str) -> Path | None:
    try:
        package = importlib.import_module(f"duckdb_extension_{name}")
    except ImportError:
        return None
    folder = Path(str(package.__file__)).parent
    return next(iter(folder.glob("extensions/*/*.duckdb_extension")), None)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
