"""The two readings of the independent oracle: MySQL's own text, and what a lake cell stands for.

One text per cell, NULL apart. The rules are written from the documented type table alone, not from
the engine, and each text names one value only: DOUBLE and FLOAT are the shortest decimal that reads
back to the same bits (so -0.0 is not 0.0), binary is hexadecimal, BIT is its number, everything
else is what the server prints. Text of a charset that does not survive the way to UTF-8 and back is
its stored bytes, as ``x'…'``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.types as pat
from pymysql.connections import Connection
from pymysql.cursors import Cursor, SSCursor

from mirrorlake.errors import ProofError

pc: Any = _compute  # its functions are made at import: type checkers see none of them

ORIGINALS = "_mirror_original"
"""The lake column that keeps (column, text) of values that have no place in their column."""

ROWS_PER_FETCH = 20_000
# ENUM's error value prints like a legal '', and is another: its index, 0, is kept beside it.
_ENUM_ERROR = "\0"

_WHOLE = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_TEXT = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"} | {
    *("uuid", "inet4", "inet6")
}
_SHAPES = {"geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection"} | {
    f"multi{shape}" for shape in ("point", "linestring", "polygon")
}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"} | _SHAPES
_DATED = {"date", "datetime", "timestamp"}
_KNOWN = _WHOLE | _TEXT | _BYTES | _DATED | {"decimal", "float", "double", "bit", "year", "time"}
# The server turns these into utf8mb4 without loss; each value of any other charset is looked at.
_LOSSLESS = {None, "utf8mb4", "utf8mb3", "utf8", "latin1"}

_LAKE_TYPES: dict[str, pa.DataType] = (
    dict.fromkeys(_WHOLE | {"year"}, pa.int32())
    | dict.fromkeys(_TEXT | {"time"}, pa.string())
    | dict.fromkeys(_BYTES, pa.binary())
    | {"float": pa.float32(), "double": pa.float64(), "date": pa.date32()}
    | {"datetime": pa.timestamp("us"), "timestamp": pa.timestamp("us", "UTC")}
)


@dataclass(frozen=True)
class SourceColumn:
    """A MySQL column: its DATA_TYPE in lower case, and what of its sizes decides its lake type."""

    name: str
    type: str
    unsigned: bool = False
    precision: int = 0  # of DECIMAL in digits, of BIT in bits
    scale: int = 0
    fraction: int = 0  # digits of a second
    padded: bool = False  # ZEROFILL: prints more digits than the value has
    charset: str | None = None

    @property
    def is_text(self) -> bool:
        return self.type in _TEXT

    @property
    def lake_type(self) -> pa.DataType:
        """The Arrow type its lake column must have."""
        match self.type:
            case "bigint":
                return pa.decimal128(20, 0) if self.unsigned else pa.int64()
            case "int" if self.unsigned:
                return pa.int64()
            case "decimal" if self.precision <= 38:
                return pa.decimal128(self.precision, self.scale)
            case "decimal":
                return pa.string()
            case "bit":
                return pa.int64() if self.precision <= 63 else pa.decimal128(20, 0)
            case _:
                return _LAKE_TYPES[self.type]


@dataclass(frozen=True)
class SourceRows:
    """All rows of one source table as text: `rows` has a string column for each."""

    table: str
    columns: tuple[SourceColumn, ...]
    rows: pa.Table


def read_source(
    connection: Connection[Cursor],
    database: str,
    table: str,
    excluded: Collection[str] = frozenset(),
) -> SourceRows:
    """Read a whole table in one consistent read, as the text that the server prints.

    Excluded columns are not selected. The session's time zone becomes UTC.

    Raises:
        ProofError: no such table, or a column whose text would not be exact.
    """
    with connection.cursor(Cursor) as cursor:
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
        columns = _read_columns(cursor, database, table, excluded)
    cells = ", ".join(_projection(column) for column in columns)
    # One SELECT is one consistent read in InnoDB, whatever runs beside it.
    statement = f"SELECT {cells} FROM {_quoted(database)}.{_quoted(table)}"  # noqa: S608
    schema = pa.schema([(column.name, pa.large_string()) for column in columns])
    connection.rollback()  # a snapshot that the caller still holds would be compared, not the table
    batches: list[pa.RecordBatch] = []
    with _text_only(connection), connection.cursor(SSCursor) as stream:
        stream.execute(statement)
        while rows := stream.fetchmany(ROWS_PER_FETCH):
            texts = [
                _cells(c, values)
                for c, values in zip(columns, zip(*rows, strict=True), strict=True)
            ]
            batches.append(pa.record_batch(texts, schema=schema))
    connection.rollback()
    return SourceRows(f"{database}.{table}", columns, pa.Table.from_batches(batches, schema))


def same_type(wanted: pa.DataType, found: pa.DataType) -> bool:
    """Whether two Arrow types are one lake type: offset sizes and UTC's name don't matter."""
    if pat.is_string(wanted):
        return pat.is_string(found) or pat.is_large_string(found) or pat.is_string_view(found)
    if pat.is_binary(wanted):
        return pat.is_binary(found) or pat.is_large_binary(found) or pat.is_fixed_size_binary(found)
    if pat.is_timestamp(wanted) and pat.is_timestamp(found):
        return (wanted.tz is None) == (found.tz is None) and found.unit == "us"
    return bool(wanted == found)


def lake_text(column: SourceColumn, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """A lake column as the text that MySQL would print for each value."""
    found = cells.type
    if pat.is_timestamp(found):
        return _timestamp_text(cells, column.fraction)
    if pat.is_decimal(found):
        return _decimal_text(cells)
    if pat.is_floating(found):
        return _mapped(cells.cast(pa.float64()), repr)
    if same_type(pa.binary(), found):
        return _mapped(cells, lambda value: value.hex().upper())
    text = cells.cast(pa.large_string())
    return pc.utf8_lpad(text, 4, "0") if column.type == "year" else text


def with_originals(
    columns: Mapping[str, SourceColumn],
    text: dict[str, pa.ChunkedArray],
    originals: pa.ChunkedArray,
) -> set[str]:
    """Put the kept originals in the place of their NULLs, in `text`.

    An original beside a value, twice for one cell, or for a value that has a place becomes a text
    that no source cell has, so the comparison shows it.

    Returns:
        Names of originals that are no column of the source.
    """
    flat: list[tuple[int, str, str | None]] = []
    filled = pc.list_value_length(originals).fill_null(0).to_numpy()
    for row in np.flatnonzero(filled).tolist():
        flat += [(row, entry["column"], entry["text"]) for entry in originals[row].as_py()]
    strangers = {name for _, name, _ in flat} - set(columns)
    for name in {name for _, name, _ in flat} & set(text):
        cells: list[str | None] = text[name].to_pylist()
        for row, of, original in flat:
            if of == name:
                cells[row] = _restored(columns[name], cells[row], original)
        text[name] = pa.chunked_array([pa.array(cells, pa.large_string())])
    return strangers


def _restored(column: SourceColumn, typed: str | None, original: str | None) -> str:
    if column.type == "enum" and (typed, original) == ("", "0"):
        return _ENUM_ERROR
    if typed is not None:
        return f"{typed} (beside the original {original})"
    if original is None:
        return "NULL (with an original that is NULL)"
    if column.charset not in _LOSSLESS:
        return f"x'{original}'"
    if column.type in _DATED and _is_real_date(original):
        return f"NULL (though {original} has a place in the column)"
    return original


def _is_real_date(text: str) -> bool:
    try:
        return date.fromisoformat(text[:10]).year > 0
    except ValueError:
        return False


def _read_columns(
    cursor: Cursor, database: str, table: str, excluded: Collection[str]
) -> tuple[SourceColumn, ...]:
    cursor.execute(
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE,"
        " DATETIME_PRECISION, CHARACTER_SET_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (database, table),
    )
    columns: list[SourceColumn] = []
    for name, kind, full, precision, scale, fraction, charset in cursor.fetchall():
        if name in excluded:
            continue
        if kind.lower() not in _KNOWN:
            raise ProofError(
                f"the comparison can't read {database}.{table}.{name} exactly: {full}",
                next_step="add its rule to the comparison, or exclude the column",
                table=f"{database}.{table}",
                column=name,
            )
        sizes = (int(precision or 0), int(scale or 0), int(fraction or 0))
        padded = "zerofill" in full.lower()
        unsigned = "unsigned" in full.lower()
        columns.append(SourceColumn(name, kind.lower(), unsigned, *sizes, padded, charset))
    if not columns:
        raise ProofError(
            f"no table {database}.{table} on the server, or no right to see it",
            next_step="check the name and the grants",
            table=f"{database}.{table}",
        )
    return tuple(columns)


def _projection(column: SourceColumn) -> str:
    name = _quoted(column.name)
    if column.type in _BYTES:
        return f"HEX({name})"
    if column.padded or column.type == "bit":
        return f"{name} + 0"  # BIT prints as bytes
    if column.type in {"float", "double"}:
        return f"{name} * 1e0"  # FLOAT's own text is rounded to 6 digits; + 0e0 would lose -0.0
    cell = name
    if column.charset not in _LOSSLESS:
        text = f"CONVERT({name} USING utf8mb4)"
        back = f"CONVERT({text} USING {column.charset})"
        cell = f"CONCAT(HEX({name}), '/', HEX({back}), '/', HEX({text}))"
    if column.type == "enum":
        error = f"x'{_ENUM_ERROR.encode().hex()}'"
        if column.charset not in _LOSSLESS:
            error = "'00/00/00'"
        return f"IF({name} + 0 = 0, {error}, {cell})"
    if column.name == "*" and cell == name:
        return f"IFNULL({name}, NULL)"  # MySQL 8 takes `*` alone for all columns
    return cell


def _cells(column: SourceColumn, values: tuple[bytes | None, ...]) -> pa.Array:
    if column.type in {"float", "double"}:
        shortest = {value: None if value is None else repr(float(value)) for value in set(values)}
        return pa.array([shortest[value] for value in values], pa.large_string())
    if column.charset not in _LOSSLESS:
        return pa.array([_decoded(value) for value in values], pa.large_string())
    return pa.array(values, pa.large_string())


def _decoded(cell: bytes | None) -> str | None:
    """The text of a cell that came as stored bytes, the same after UTF-8, and in UTF-8."""
    if cell is None:
        return None
    stored, back, text = cell.decode().split("/")
    if stored == back:
        try:
            return bytes.fromhex(text).decode()
        except UnicodeDecodeError:
            pass  # half a surrogate pair: MariaDB takes it to bytes that are no UTF-8, and back
    return f"x'{stored}'"


@contextmanager
def _text_only(connection: Connection[Cursor]) -> Generator[None]:
    """Inside, rows are the bytes of the server's text protocol, nothing converted."""
    decoders, use_unicode = connection.decoders, connection.use_unicode
    connection.decoders, connection.use_unicode = {}, False
    try:
        yield
    finally:
        connection.decoders, connection.use_unicode = decoders, use_unicode


def _mapped(cells: pa.ChunkedArray, text: Callable[[Any], str]) -> pa.ChunkedArray:
    values = (None if value is None else text(value) for value in cells.to_pylist())
    return pa.chunked_array([pa.array(values, pa.large_string())])


def _decimal_text(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Plain digits with all places of the scale: Arrow's own cast prints small ones as 1E-12."""
    return _mapped(cells, lambda value: f"{value:f}")


def _timestamp_text(cells: pa.ChunkedArray, fraction: int) -> pa.ChunkedArray:
    """'YYYY-MM-DD hh:mm:ss[.f…]' in UTC with the column's digits; more if the value has more."""
    micros = cells.cast(pa.timestamp("us", cells.type.tz)).cast(pa.int64())
    full = micros.cast(pa.timestamp("us")).cast(pa.large_string())
    length = 19 + (fraction + 1 if fraction else 0)
    short = pc.utf8_slice_codeunits(full, 0, length)
    zeros = pc.match_substring_regex(pc.utf8_slice_codeunits(full, length), r"^\.?0*$")
    return pc.if_else(zeros, short, full)


def _quoted(identifier: str) -> str:
    return "`" + identifier.replace("`", "``") + "`"
