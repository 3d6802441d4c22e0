"""What a SQL catalog names at one moment, as three engines read it.

Each is given the metadata files that one SELECT found, so that what the tables show is of that
moment, however long the engine takes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
from pyiceberg.table import StaticTable

Place = tuple[str, str]
"""A namespace and a name."""


class HeadReader(Protocol):
    """An engine that answers a query over tables that are named by their metadata files."""

    def ask(self, heads: Mapping[str, str], query: str) -> tuple[Any, ...]:
        """The one row that a query gives.

        Args:
            heads: name of a table, as the query has it → its metadata file.
        """
        ...


def named_at_once(catalog: Path) -> dict[Place, str]:
    """The metadata file of each table, by one SELECT."""
    query = (
        "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
        " WHERE iceberg_type IS NULL OR iceberg_type <> 'VIEW'"
    )
    with closing(sqlite3.connect(catalog, timeout=60)) as connection:
        return {(space, name): at for space, name, at in connection.execute(query)}


def opened() -> duckdb.DuckDBPyConnection:
    """DuckDB with what it needs to read Iceberg."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "false"})
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        [extension] = Path(str(package.__file__)).parent.glob("extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    return connection


class ByDuckDB:
    """DuckDB's own reader of Iceberg."""

    def __init__(self) -> None:
        self._connection = opened()

    def ask(self, heads: Mapping[str, str], query: str) -> tuple[Any, ...]:
        """See `HeadReader.ask`."""
        for name, at in heads.items():
            path = at.removeprefix("file://")
            view = f"CREATE OR REPLACE TEMP VIEW {name} AS FROM iceberg_scan('{path}')"
            self._connection.execute(view)
        [found] = self._connection.execute(query).fetchall()
        return found


class ByPyIceberg:
    """PyIceberg's rows; the query over them is DuckDB's."""

    def ask(self, heads: Mapping[str, str], query: str) -> tuple[Any, ...]:
        """See `HeadReader.ask`."""
        with closing(duckdb.connect()) as connection:
            for name, at in heads.items():
                rows = StaticTable.from_metadata(at).scan().to_arrow()
                connection.register(name, rows)
            [found] = connection.execute(query).fetchall()
        return found


class BySpark:
    """Spark, by paths: no catalog is asked again."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def ask(self, heads: Mapping[str, str], query: str) -> tuple[Any, ...]:
        """See `HeadReader.ask`."""
        for name, at in heads.items():
            self._spark.read.format("iceberg").load(at).createOrReplaceTempView(name)
        [found] = self._spark.sql(query).collect()
        return tuple(found)
