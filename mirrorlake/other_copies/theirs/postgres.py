"""Postgres: a schema's tables, read in one transaction that can't write.

Every value comes as the server prints it, and DuckDB reads that: no driver's idea of a type is
between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa

from mirrorlake.errors import LakeError, ReaderMissing
from mirrorlake.other_copies.their_columns import quoted
from mirrorlake.other_copies.theirs.streamed import put_aside
from mirrorlake.other_copies.theirs.table import TheirRows, types_of
from mirrorlake.runtime.extras import library

SCHEMES = ("postgres://", "postgresql://")
_ROWS = 10_000
_SESSION = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'postgres'",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 3",
)
_BOUNDS = {"connect_timeout": 30, "keepalives_idle": 30, "tcp_user_timeout": 120_000}
"""A server that is gone is not waited for, in seconds, and the last in milliseconds."""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n
    ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_TABLES = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"""
_CASTS = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "boolean": "BOOLEAN",
    "interval": "INTERVAL",
    "uuid": "UUID",
}


@dataclass(frozen=True)
class PostgresTable:
    """A table or view of a server."""

    name: str
    schema: str
    url: str

    @property
    def place(self) -> str:
        return f"Postgres, {_without_password(self.url)}, {self.schema}.{self.name}"

    def open(self, database: Any, folder: Path) -> TheirRows:
        """See `TheirTable.open`."""
        with _connected(self.url) as connection, connection.cursor() as asked:
            asked.execute(_COLUMNS, (self.schema, self.name))
            columns = [(str(name), str(kind)) for name, kind in asked.fetchall()]
            asked.execute("SELECT now() AT TIME ZONE 'UTC'")
            [(now,)] = asked.fetchall()
            schema = pa.schema([(f"c{n}", pa.string()) for n in range(len(columns))])
            version = f"one transaction, begun {now:%Y-%m-%d %H:%M:%S} UTC by its clock"
            batches = self._batches(connection, columns, schema)
            put = put_aside(database, folder, schema, batches, version)
        cells = (f"{_cast(f'c{n}', kind)} AS {quoted(name)}" for n, (name, kind) in _each(columns))
        relation = f"(SELECT {', '.join(cells)} FROM {put.relation})"  # noqa: S608
        return TheirRows(relation, types_of(database, relation), version, written=dict(columns))

    def _batches(
        self, connection: Any, columns: Sequence[tuple[str, str]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(f"CAST({quoted(name)} AS text)" for name, _ in columns)
        with connection.cursor(name="mirrorlake_check") as cursor:
            whole = f"{quoted(self.schema)}.{quoted(self.name)}"
            cursor.execute(f"SELECT {listed} FROM {whole}")  # noqa: S608
            while rows := cursor.fetchmany(_ROWS):
                arrays = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _each(columns: Sequence[tuple[str, str]]) -> Iterator[tuple[int, tuple[str, str]]]:
    return iter(enumerate(columns))


def _cast(cell: str, kind: str) -> str:
    """SQL of a value of a type, from its text."""
    kind = kind.strip(chr(34))  # as `"bit"` is printed
    if found := re.fullmatch(r"numeric\((\d+),(\d+)\)", kind):
        fits = int(found[1]) <= 38
        return f"CAST({cell} AS DECIMAL({found[1]},{found[2]}))" if fits else cell
    if kind == "bytea":
        return f"unhex({cell}[3:])"
    if kind == "date" or kind.startswith("timestamp"):
        name = "DATE" if kind == "date" else "TIMESTAMP"
        name = "TIMESTAMPTZ" if kind.endswith("with time zone") else name
        return f"CAST(replace({cell}, ' BC', ' (BC)') AS {name})"
    if kind.startswith("time") and kind.endswith("without time zone"):
        return f"CAST({cell} AS TIME)"
    if kind.startswith("bit"):
        return f"CAST({cell} AS BIT)"
    return f"CAST({cell} AS {_CASTS[kind]})" if kind in _CASTS else cell


def postgres_tables(url: str) -> list[PostgresTable]:
    """Every table and view that this account sees.

    Raises:
        ReaderMissing: psycopg is not installed.
        LakeError: the server can't be reached, or refuses.
    """
    with _connected(url) as connection, connection.cursor() as cursor:
        cursor.execute(_TABLES)
        return [PostgresTable(str(name), str(schema), url) for schema, name in cursor.fetchall()]


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    psycopg = library("psycopg", "postgres", "a copy in Postgres", ReaderMissing)
    try:
        with psycopg.connect(url, **_BOUNDS) as connection:
            connection.autocommit = True
            for statement in _SESSION:
                connection.execute(statement)
            connection.autocommit = False
            yield connection
            connection.rollback()
    except psycopg.OperationalError as error:
        # Behind the tab libpq asks whether the server runs.
        said = [line for line in str(error).strip().splitlines() if not line.startswith("\t")]
        words = said[-1]
        raise LakeError(
            f"{_without_password(url)} can't be read: {words}",
            next_step="Check host, user and database; the password may be in PGPASSWORD",
        ) from error
    except (psycopg.Error, duckdb.Error) as error:
        raise LakeError(
            f"{_without_password(url)} can't be read: {str(error).strip().splitlines()[0]}",
            next_step="Check the table's name, and that this account may read it",
        ) from error


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    user, _, _ = parts.netloc.rpartition("@")[0].partition(":")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{user + '@' if user else ''}{host}{parts.path}"
