"""Whether a side's files hold the rows that the server's text client prints; by DuckDB, which is
none of the sides.

Each cell is cast to its declared type and written as a text; a row is the hash of its cells, a
table the number of its rows and the sum of their hashes, which no order changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.sides import text_client
from benchmarks.source import Source


@dataclass(frozen=True)
class Sum:
    """A table's rows, the sum of their hashes, and by column the sum of its cells' hashes."""

    rows: int
    whole: int
    columns: tuple[tuple[str, int], ...]

    def unlike(self, other: Sum) -> list[str]:
        """The columns whose cells are not the same together; `rows` where they are as a whole."""
        theirs = dict(other.columns)
        found = [name for name, digest in self.columns if theirs[name] != digest]
        return found or ([] if self == other else ["rows"])


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
        text_client.write(source, database, table, out, "--skip-column-names")
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
    cells = [f'CAST(CAST("{name}" AS {kind}) AS VARCHAR)' for name, kind in columns]
    hashed = [f"hash({', '.join(cells)})", *(f"hash({cell})" for cell in cells)]
    sums = ", ".join(f"coalesce(sum({one}::HUGEINT), 0)" for one in hashed)
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT count(*), {sums} FROM {relation}").fetchone()
    if found is None:
        raise AssertionError("an aggregate has one row")
    rows, whole, *each = (int(number) for number in found)
    names = [name for name, _ in columns]
    return Sum(rows, whole, tuple(zip(names, each, strict=True)))


def _columns(source: Source, database: str, table: str) -> list[tuple[str, str]]:
    """The server's columns in order, each with DuckDB's name of its type."""
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE FROM information_schema.COLUMNS "
            "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (database, table),
        )
        found = [(str(name), str(kind), str(whole)) for name, kind, whole in cursor.fetchall()]
    return [
        (name, re.sub(r" .*", "", whole).upper() if kind == "decimal" else _TYPES[kind])
        for name, kind, whole in found
    ]
