"""What each type of the log is decoded as: the Arrow that a SELECT of ours gives for the column.

Types that the log does not tell from others (MariaDB writes UUID and INET6 as BINARY) are known by
what the server declares of the column.

Source: `mirrorlake.sources.mysql.types.exact_types`, which says what a SELECT gives; a test
compares the two, type by type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from mirrorlake.errors import TypeRefused
from mirrorlake.sources.mysql.binlog.cells import ColumnCells
from mirrorlake.sources.mysql.binlog.events import wire_types as wire
from mirrorlake.sources.mysql.binlog.events.table_map import LoggedColumn
from mirrorlake.sources.mysql.binlog.row_scanner import Width
from mirrorlake.sources.mysql.binlog.values import (
    binaries,
    json_binary,
    moments,
    numbers,
    packed_decimals,
    texts,
)
from mirrorlake.sources.mysql.binlog.values.decoded import Decoded

BINARY: Final = "binary"
Decode = Callable[[ColumnCells], Decoded]
_TEXT, _BYTES = pa.large_string(), pa.large_binary()
_PRINTED: Final = {
    "uuid": (16, binaries.uuid),
    "inet6": (16, binaries.inet6),
    "inet4": (4, binaries.inet4),
}
_VARYING: Final = (
    *(wire.VARCHAR, wire.VAR_STRING, wire.VARCHAR_COMPRESSED),
    *(*wire.BLOBS, wire.BLOB_COMPRESSED, wire.GEOMETRY, wire.JSON, wire.VECTOR),
)


@dataclass(frozen=True)
class ServerForms:
    """What decoding has to know of the server that writes the log.

    Attributes:
        charsets: the charset of each collation, by its number.
        json: how it prints JSON.
    """

    charsets: Mapping[int, str]
    converter: texts.TextConverter
    json: json_binary.JsonPrint = field(default_factory=json_binary.JsonPrint)


@dataclass(frozen=True)
class ColumnForm:
    """How a column is decoded.

    Attributes:
        originals: whether a value of it may have no place in the type, and keep its text.
    """

    name: str
    kind: pa.DataType
    decode: Decode
    originals: bool = False


def width_of(column: LoggedColumn) -> Width:
    """How a column's values are found in an image.

    Raises:
        TypeRefused: their size is not logged.
    """
    kind, size = column.kind, column.size
    if kind in wire.OLD:
        raise _refused(
            column,
            f"a {wire.OLD[kind]} of before MySQL 5.6, whose size is not logged",
            "Rebuild the table: ALTER TABLE … FORCE",
        )
    fixed = _fixed_size(column)
    if fixed is not None:
        return True, fixed
    if kind in (wire.VARCHAR, wire.VAR_STRING, wire.VARCHAR_COMPRESSED, wire.STRING):
        return False, 1 if size < 256 else 2
    if kind in _VARYING and 1 <= size <= 4:
        return False, size
    raise _refused(column, f"type {wire.NAMES[kind]} ({kind}) with {size} bytes of length")


def _fixed_size(column: LoggedColumn) -> int | None:
    kind = column.kind
    if kind in wire.INTEGERS:
        return wire.INTEGERS[kind]
    if kind in (wire.ENUM, wire.SET):
        return column.size
    if kind == wire.BIT:
        return (column.size + 7) // 8
    if kind == wire.NEWDECIMAL:
        return packed_decimals.decimal_size(column.size, column.scale)
    base = {wire.TIMESTAMP2: 4, wire.DATETIME2: 5, wire.TIME2: 3}.get(kind)
    if base is not None:
        return base + moments.fraction_size(column.scale)
    return {wire.FLOAT: 4, wire.DOUBLE: 8, wire.YEAR: 1, wire.DATE: 3, wire.NEWDATE: 3}.get(kind)


def form_of(
    column: LoggedColumn, server: ServerForms, declared: str = "", charset: str | None = None
) -> ColumnForm:
    """How a column is decoded.

    Args:
        declared: its type as information_schema names it (``data_type``); '': not known.
        charset: that of an ENUM or SET, where the log has none.

    Raises:
        TypeRefused: it can't be decoded exactly.
    """
    if declared == "vector" or column.kind == wire.VECTOR:
        raise _refused(column, "type VECTOR")
    if declared in _PRINTED:
        size, decode = _PRINTED[declared]
        if (column.kind, column.size) != (wire.STRING, size):
            raise _refused(column, f"type {declared}, and the log has something else there")
        return ColumnForm(column.name, _TEXT, decode)
    form = _number_form(column) or _moment_form(column)
    if form is None and column.kind in (wire.ENUM, wire.SET):
        form = _label_form(column, server, charset)
    return form or _string_form(column, server)


def _number_form(column: LoggedColumn) -> ColumnForm | None:
    name, kind, size = column.name, column.kind, column.size
    if kind in wire.INTEGERS:
        octets = wire.INTEGERS[kind]
        arrow: pa.DataType = pa.int32() if 8 * octets + column.unsigned <= 32 else pa.int64()
        if column.unsigned and octets == 8:
            arrow = numbers.UNSIGNED_LONG
        return ColumnForm(name, arrow, numbers.integer(octets, arrow, unsigned=column.unsigned))
    if kind == wire.YEAR:
        return ColumnForm(name, pa.int32(), numbers.year)
    if kind == wire.FLOAT:
        return ColumnForm(name, pa.float32(), numbers.single)
    if kind == wire.DOUBLE:
        return ColumnForm(name, pa.float64(), numbers.double)
    if kind == wire.BIT and 0 < size <= 64:
        arrow = numbers.UNSIGNED_LONG if size == 64 else pa.int64()
        return ColumnForm(name, arrow, numbers.bits(size))
    if kind == wire.NEWDECIMAL and 0 < size <= 65 and column.scale <= size:
        arrow = _TEXT if size > 38 else pa.decimal128(size, column.scale)
        return ColumnForm(name, arrow, packed_decimals.decimal(size, column.scale))
    return None


def _moment_form(column: LoggedColumn) -> ColumnForm | None:
    name, kind, digits = column.name, column.kind, column.scale
    if kind in (wire.DATE, wire.NEWDATE):
        return ColumnForm(name, pa.date32(), moments.date, originals=True)
    if kind == wire.DATETIME2:
        return ColumnForm(name, pa.timestamp("us"), moments.datetime(digits), originals=True)
    if kind == wire.TIMESTAMP2:
        return ColumnForm(name, moments.INSTANT, moments.timestamp(digits), originals=True)
    if kind == wire.TIME2:
        return ColumnForm(name, _TEXT, moments.time(digits))
    return None


def _label_form(column: LoggedColumn, server: ServerForms, told: str | None) -> ColumnForm:
    logged = column.collation is not None or told is None
    charset = _charset_of(column, server) if logged else str(told)
    if not column.labels:
        raise _refused(column, "labels that are not logged (binlog_row_metadata is not FULL)")
    checked = charset not in (*texts.UTF8, "latin1")
    if column.kind == wire.ENUM and column.size in (1, 2):
        decode = texts.enum(column.size, column.labels, charset, server.converter)
        return ColumnForm(column.name, _TEXT, decode, originals=True)
    if column.kind == wire.SET and 1 <= column.size <= 8:
        decode = texts.set_of(column.size, column.labels, charset, server.converter)
        return ColumnForm(column.name, _TEXT, decode, originals=checked)
    raise _refused(column, f"labels in {column.size} bytes")


def _string_form(column: LoggedColumn, server: ServerForms) -> ColumnForm:
    name, kind = column.name, column.kind
    if kind == wire.JSON:
        return ColumnForm(name, _TEXT, json_binary.json_text(server.json))
    if kind == wire.GEOMETRY:
        return ColumnForm(name, _BYTES, binaries.varying)
    if kind not in (*_VARYING, wire.STRING):
        raise _refused(column, f"type {wire.NAMES.get(kind, kind)}")
    charset = _charset_of(column, server)
    if charset == BINARY:
        decode = binaries.padded(column.size) if kind == wire.STRING else binaries.varying
        return ColumnForm(name, _BYTES, _unpacked(kind, decode))
    decode = _unpacked(kind, texts.text(charset, server.converter))
    return ColumnForm(name, _TEXT, decode, originals=charset not in (*texts.UTF8, "latin1"))


def _unpacked(kind: int, decode: Decode) -> Decode:
    if kind not in (wire.VARCHAR_COMPRESSED, wire.BLOB_COMPRESSED):
        return decode
    return lambda cells: decode(binaries.unpacked(cells))


def _charset_of(column: LoggedColumn, server: ServerForms) -> str:
    charset = server.charsets.get(column.collation) if column.collation is not None else None
    if charset is None:
        raise _refused(column, f"a text whose charset is not known (collation {column.collation})")
    return charset


def _refused(column: LoggedColumn, what: str, step: str = "") -> TypeRefused:
    return TypeRefused(
        f"column {column.name!r} has {what}: it can't be read from the binary log exactly",
        column=column.name,
        next_step=step
        or "Leave the table out, read it by another mode, or mark the column "
        "`pci: never` to skip it",
    )
