"""Whether a side's files hold the rows that the server's text client prints; by DuckDB, which is
none of the sides.

Each cell is cast to its declared type and written as a text; a row is the hash of its cells, a
table the number of its rows and the sum of their hashes, which no order changes.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from benchmarks.source import Source

Sum = tuple[int, int]
"""Rows, and the sum of their hashes."""

_TYPES = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "date": "DATE",
    "datetime": "TIMESTAMP",
    "char": "VARCHAR",
    "varchar": "VARCHAR",
}


def server_sum(source: Source, database: str, table: str) -> Sum:
    """Of what ``mariadb --batch`` prints of the whole table. Its texts hold no tab and no newline,
    and none is NULL by letters.

    Raises:
        KeyError: a column's type has no counterpart here.
    """
    path = source.folder / f"{database}.{table}.tsv"
    with path.open("wb") as out:
        command = [*source.server.client_command, "--quick", "--batch", "--skip-column-names"]
        subprocess.run(
            [*command, database, "-e", f"SELECT * FROM {table}"],
            env=source.server.client_environment,
            stdout=out,
            check=True,
        )
    columns = _columns(source, database, table)
    named = ", ".join(f"'{name}': 'VARCHAR'" for name, _ in columns)
    read = (
        f"read_csv('{path}', delim='\t', header=false, quote='', escape='', nullstr='NULL', "
        f"auto_detect=false, columns={{{named}}})"
    )
    try:
        return _sum(read, columns)
    finally:
        path.unlink()


def files_sum(source: Source, database: str, table: str, files: Iterable[Path]) -> Sum:
    """Of a side's Parquet files; columns that the server's table lacks are left out."""
    listed = ", ".join(f"'{file}'" for file in sorted(files))
    return _sum(f"read_parquet([{listed}])", _columns(source, database, table))


def _sum(relation: str, columns: Sequence[tuple[str, str]]) -> Sum:
    cells = ", ".join(f'CAST(CAST("{name}" AS {kind}) AS VARCHAR)' for name, kind in columns)
    with duckdb.connect(config={"TimeZone": "UTC"}) as connection:
        found = connection.execute(
            f"SELECT count(*), coalesce(sum(hash({cells})::HUGEINT), 0) FROM {relation}"
        ).fetchone()
    if found is None:
        raise AssertionError("an aggregate has one row")
    return int(found[0]), int(found[1])


def _columns(source: Source, database: str, table: str) -> list[tuple[str, str]]:
    """The server's columns in order, each with DuckDB's name of its type."""
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE FROM information_schema.COLUMNS "
            "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (database, table),
        )
        told = [(str(name), str(kind), str(whole)) for name, kind, whole in cursor.fetchall()]
    return [
        (name, re.sub(r" .*", "", whole).upper() if kind == "decimal" else _TYPES[kind])
        for name, kind, whole in told
    ]
