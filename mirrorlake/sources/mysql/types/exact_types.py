"""How each MySQL type is kept exactly: what is selected, what Iceberg holds, and where a value has
no place.

The Arrow reader (connectorx) turns some types into something else, or can't take them, so such
columns are *projected in SQL* into a form that it carries unchanged, and cast in Arrow with
overflow checks:

========================================  =======================  =================================
MySQL                                     Iceberg                  selected as
========================================  =======================  =================================
TINYINT…INT, ≤ MEDIUMINT UNSIGNED, YEAR   int                      itself
INT UNSIGNED, BIGINT                      long                     itself
BIGINT UNSIGNED                           decimal(20,0)            itself (uint64)
DECIMAL(p ≤ 18, s)                        decimal(p,s)             × 10ˢ, a whole number
DECIMAL(p ≤ 38, s)                        decimal(p,s)             itself, or text
FLOAT, DOUBLE                             float, double            itself, binary protocol
CHAR, VARCHAR, TEXT, JSON, ENUM, SET      string                   its bytes in UTF-8
UUID, INET4, INET6                        string                   text
BINARY, VARBINARY, BLOB, spatial types    binary                   itself; the server's bytes
BIT(n ≤ 63), BIT(64)                      long, decimal(20,0)      CAST … AS UNSIGNED
DATE, DATETIME                            date, timestamp          a number; NULL + original if no
                                                                   real date
DATETIME(1…6)                             timestamp                NULL + original if no real date
TIMESTAMP                                 timestamptz              UNIX_TIMESTAMP × 10⁶, 0: original
TIME                                      string                   text
========================================  =======================  =================================

Anything else is refused by name before a row is read.

Source: MySQL 8.0 manual, chapter 11 "Data Types", 10.10 "Supported Character Sets and Collations";
MariaDB knowledge base, "Data Types"; Iceberg specification, "Primitive Types".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from mirrorlake.errors import TypeRefused
from mirrorlake.schema.versions import Exact
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.sources.mysql.types.registry import TYPES, Family

# Charsets whose stored bytes are UTF-8 as they are. Arrow checks that: wrong bytes are an error.
_UTF8 = ("utf8mb4", "utf8mb3", "utf8")
# Every byte of it is one character, and comes back as the same byte (a test tries all 256).
_REVERSIBLE = ("latin1",)
# Charsets in which MariaDB stores half a surrogate pair.
_UNCHECKED = ("ucs2", "utf32")
# The reader holds decimals as 96-bit integers at scale 10: more digits fail, a larger scale is cut.
_READER_SCALE, _READER_DIGITS = 10, 28
# A signed BIGINT holds every number of this many digits.
_INTEGER_DIGITS = 18


def exact_columns(table: SourceTable, excluded: frozenset[str] = frozenset()) -> tuple[Exact, ...]:
    """How every column of a table is kept, in the server's order; ``excluded`` ones are never read.

    Raises:
        TypeRefused: a column's type is not kept exactly yet; all such columns are named.
    """
    kept = [c for c in table.columns if c.name not in excluded]
    found = [(c, exact_column(c)) for c in kept]
    refused = [c for c, exact in found if exact is None]
    if refused:
        name = f"{table.database}.{table.name}"
        listed = ", ".join(f"{c.name} {c.column_type}{_charset(c)}" for c in refused)
        raise TypeRefused(
            f"table {name} has columns whose type can't be kept exactly: {listed}",
            table=name,
            column=refused[0].name,
            next_step="Leave the table out of the contract, or mark these columns `pci: "
            "never` to skip them",
        )
    return tuple(exact for _, exact in found if exact is not None)


def exact_column(column: Column) -> Exact | None:
    """How one column is kept, or None if its type is not handled exactly."""
    exact = _exact_column(column)
    if exact is not None and exact.select == "`*`":
        # MySQL 8 takes such a name alone for all columns (seen: 8.0.12), in quotes too; inside of a
        # function it does not, and COALESCE of one value is that value in its own type.
        exact = dataclasses.replace(exact, select="COALESCE(`*`)")
    if exact is not None and column.source:
        exact = dataclasses.replace(exact, source=column.source)
    return exact


def _exact_column(column: Column) -> Exact | None:
    kind = TYPES.get(column.data_type)
    return None if kind is None else _FAMILIES[kind.family](column)


def _integer(column: Column) -> Exact:
    bits, unsigned = TYPES[column.data_type].bits, column.unsigned
    if bits == 64 and unsigned:
        iceberg = "decimal(20,0)"
    else:
        iceberg = "int" if bits + unsigned <= 32 else "long"
    return Exact(column.name, iceberg, column.sql)


def _year(column: Column) -> Exact:
    return Exact(column.name, "int", column.sql)


def _float(column: Column) -> Exact:
    return Exact(column.name, column.data_type, column.sql)


def _bit(column: Column) -> Exact:
    iceberg = "decimal(20,0)" if (column.precision or 1) > 63 else "long"
    return Exact(column.name, iceberg, f"CAST({column.sql} AS UNSIGNED)")


def _binary(column: Column) -> Exact:
    return Exact(column.name, "binary", column.sql)


def _shape(column: Column) -> Exact:
    return Exact(column.name, "binary", f"CAST({column.sql} AS BINARY)")


def _printed(column: Column) -> Exact:
    return Exact(column.name, "string", f"CAST({column.sql} AS CHAR)")


def _json(column: Column) -> Exact:
    return Exact(column.name, "string", _as_utf8(column.sql))


def _decimal(column: Column) -> Exact:
    precision, scale = column.precision or 10, column.scale or 0
    name = column.sql
    # ZEROFILL prints digits that the number hasn't. Without a length, a UNION cuts the last digit
    # of a number that has as many after the point as at all: servers forget the 0 before it (seen:
    # MariaDB 11.4, MySQL 8.0). A number has 68 characters at most.
    text = f"CAST({name}{' + 0' if column.padded else ''} AS CHAR(70))"
    if precision > 38:
        return Exact(column.name, "string", text)
    if precision <= _INTEGER_DIGITS:
        # A whole number says it exactly, and costs both sides less than a decimal's text.
        whole = f"{name} * {10**scale}" if scale else name
        return Exact(
            column.name,
            f"decimal({precision},{scale})",
            f"CAST({whole} AS SIGNED)",
            decode="unscaled",
        )
    direct = scale <= _READER_SCALE and precision - scale + _READER_SCALE <= _READER_DIGITS
    select = name if direct else text
    return Exact(column.name, f"decimal({precision},{scale})", select)


def _temporal(column: Column) -> Exact:
    name = column.sql
    if column.data_type == "timestamp":
        # The column's instant itself, whatever the session's zone; 0 is the zero value's alone.
        instant = f"UNIX_TIMESTAMP({name})"
        return Exact(
            column.name,
            "timestamptz",
            f"CAST(NULLIF({instant}, 0) * 1000000 AS SIGNED)",
            f"IF({instant} = 0, CAST({name} AS CHAR), NULL)",
        )
    if column.data_type == "date":
        return Exact(column.name, "date", f"{name} + 0", decode="date")
    if not column.fraction:
        return Exact(column.name, "timestamp", f"{name} + 0", decode="datetime")
    # Zero dates, dates with a zero part, and (ALLOW_INVALID_DATES) days that the month hasn't:
    # servers differ in what LAST_DAY says of the latter, and either shows it.
    partial = (
        f"YEAR({name}) = 0 OR MONTH({name}) = 0 OR DAY({name}) = 0"
        f" OR DAY({name}) > COALESCE(DAY(LAST_DAY({name})), 0)"
    )
    return Exact(
        column.name,
        "timestamp",
        f"IF({partial}, NULL, {name})",
        f"IF({partial}, CAST({name} AS CHAR), NULL)",
    )


def _text(column: Column) -> Exact | None:
    name, kind = column.sql, column.data_type
    if column.charset is None:
        return None
    select, original = text_forms(name, column.charset)
    if kind == "enum":
        # Its error value prints like a legal '': index 0 tells them apart.
        error = f"{name} + 0 = 0"
        original = f"IF({error}, '0', {original or 'NULL'})"
        return Exact(column.name, "string", select, original, keeps_value=True)
    return Exact(column.name, "string", select, original)


def text_forms(sql: str, charset: str) -> tuple[str, str | None]:
    """How text of a charset is selected, as bytes of UTF-8, and its original where there may be
    one."""
    # As bytes: no session's charset and no reader then changes a letter, and it is faster.
    if charset in _UTF8:
        return _bytes(sql), None
    if charset in _REVERSIBLE:
        return _as_utf8(sql), None
    return _checked(sql, charset)


def _bytes(sql: str) -> str:
    return f"CAST({sql} AS BINARY)"


def _as_utf8(sql: str) -> str:
    return _bytes(f"CONVERT({sql} USING utf8mb4)")


def _checked(name: str, charset: str) -> tuple[str, str]:
    """Text of a charset with characters that don't survive the way to UTF-8 and back: those values
    are NULL, and their stored bytes are kept in hexadecimal."""
    # MariaDB turns half a surrogate pair into bytes that are no UTF-8, and back; UTF-16 it checks.
    from_ = f"CONVERT({name} USING utf16)" if charset in _UNCHECKED else name
    there_and_back = _bytes(f"CONVERT(CONVERT({from_} USING utf8mb4) USING {charset})")
    same = f"{there_and_back} = {_bytes(name)}"
    return f"IF({same}, {_as_utf8(name)}, NULL)", f"IF({same}, NULL, HEX({_bytes(name)}))"


def _charset(column: Column) -> str:
    return f" (charset {column.charset})" if column.charset else ""


_FAMILIES: Mapping[Family, Callable[[Column], Exact | None]] = {
    "integer": _integer,
    "year": _year,
    "decimal": _decimal,
    "float": _float,
    "bit": _bit,
    "moment": _temporal,
    "time": _printed,
    "text": _text,
    "label": _text,
    "json": _json,
    "bytes": _binary,
    "shape": _shape,
    "printed": _printed,
}
