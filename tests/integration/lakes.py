"""A lake table as rows of Arrow, by readers that share no code: PyIceberg and DuckDB; and the modes
of its files."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
from pyiceberg.table import Table


def by_pyiceberg(table: Table) -> pa.Table:
    return table.refresh().scan().to_arrow()


def by_duckdb(table: Table) -> pa.Table:
    """The newest snapshot, read from its metadata file alone: no catalog, no Mirrorlake."""
    path = table.refresh().metadata_location.removeprefix("file://")
    with duckdb.connect(config={"allow_unsigned_extensions": "false"}) as connection:
        for package in (duckdb_extension_avro, duckdb_extension_iceberg):
            [extension] = Path(str(package.__file__)).parent.glob("extensions/*/*.duckdb_extension")
            connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        found: Any = connection.execute("SELECT * FROM iceberg_scan(?)", [path])
        return found.to_arrow_table()


READERS = {"PyIceberg": by_pyiceberg, "DuckDB": by_duckdb}


def modes(paths: Iterable[Path]) -> dict[Path, int]:
    """All that is at some paths and below them, with its permissions."""
    every = [one for path in paths for one in (path, *path.rglob("*"))]
    return {one: stat.S_IMODE(one.lstat().st_mode) for one in every}


def open_to_others(*paths: Path) -> dict[Path, str]:
    """What at some paths and below them grants anything to anybody but its owner."""
    return {path: oct(mode) for path, mode in modes(paths).items() if mode & 0o077}
