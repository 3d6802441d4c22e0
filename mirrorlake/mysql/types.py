"""How each MySQL type is kept exactly: what is selected, what Iceberg holds, and where a value has
no place.

The Arrow reader (connectorx) can't set its session and turns some types into something else, so
every column is *projected in SQL* into a form that the reader carries unchanged under any server
setting, and cast in Arrow with overflow checks:

========================================  =======================  =================================
MySQL                                     Iceberg                  selected as
========================================  =======================  =================================
TINYINT…INT, ≤ MEDIUMINT UNSIGNED, YEAR   int                      itself
INT UNSIGNED, BIGINT                      long                     itself
BIGINT UNSIGNED                           decimal(20,0)            itself (uint64)
DECIMAL(p ≤ 38, s)                        decimal(p,s)             itself, or text
FLOAT, DOUBLE                             float, double            itself, binary protocol
CHAR, VARCHAR, TEXT, JSON, SET            string                   text
ENUM                                      string                   text; index 0 is marked
BINARY, VARBINARY, BLOB                   binary                   itself
BIT(n ≤ 63), BIT(64)                      long, decimal(20,0)      CAST … AS UNSIGNED
DATE, DATETIME                            date, timestamp          NULL + original if no real date
TIMESTAMP                                 timestamptz              UNIX_TIMESTAMP × 10⁶, 0: original
TIME                                      string                   text
========================================  =======================  =================================

Anything else is refused by name before a row is read.

Source: MySQL 8.0 manual, chapter 11 "Data Types"; Iceberg specification, "Primitive Types".
"""

from __future__ import annotations

from mirrorlake.errors import TypeRefused
from mirrorlake.mysql.connect import quote
from mirrorlake.mysql.introspect import Column, SourceTable
from mirrorlake.schema import Exact

_SMALL_INTEGERS = ("tinyint", "smallint", "mediumint")
_TEXTS = ("varchar", "tinytext", "text", "mediumtext", "longtext", "set")
_BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
# Charsets whose every stored character the server gives back unchanged as utf8mb4.
_REVERSIBLE = ("utf8mb4", "utf8mb3", "utf8", "ascii", "latin1")
# The reader holds decimals as 96-bit integers at scale 10: more digits fail, a larger scale is cut.
_READER_SCALE, _READER_DIGITS = 10, 28


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
    name, kind = quote(column.name), column.data_type
    if kind in (*_SMALL_INTEGERS, "year") or (kind == "int" and not column.unsigned):
        return Exact(column.name, "int", name)
    if kind in ("int", "bigint"):
        wide = kind == "bigint" and column.unsigned
        return Exact(column.name, "decimal(20,0)" if wide else "long", name)
    if kind in ("float", "double"):
        return Exact(column.name, kind, name)
    if kind == "decimal":
        return _decimal(column)
    if kind == "bit":
        wide = (column.precision or 1) > 63
        return Exact(column.name, "decimal(20,0)" if wide else "long", f"CAST({name} AS UNSIGNED)")
    if kind in _BINARIES:
        return Exact(column.name, "binary", name)
    if kind in ("date", "datetime", "timestamp"):
        return _temporal(column)
    return _text(column)


def _decimal(column: Column) -> Exact:
    precision, scale = column.precision or 10, column.scale or 0
    name = quote(column.name)
    if precision > 38:
        return Exact(column.name, "string", f"CAST({name} AS CHAR)")
    direct = scale <= _READER_SCALE and precision - scale + _READER_SCALE <= _READER_DIGITS
    select = name if direct else f"CAST({name} AS CHAR)"
    return Exact(column.name, f"decimal({precision},{scale})", select)


def _temporal(column: Column) -> Exact:
    name = quote(column.name)
    if column.data_type == "timestamp":
        # The column's instant itself, whatever the session's zone; 0 is the zero value's alone.
        instant = f"UNIX_TIMESTAMP({name})"
        return Exact(
            column.name,
            "timestamptz",
            f"CAST(NULLIF({instant}, 0) * 1000000 AS SIGNED)",
            f"IF({instant} = 0, CAST({name} AS CHAR), NULL)",
        )
    # Zero dates, dates with a zero part, and (ALLOW_INVALID_DATES) days that the month hasn't:
    # servers differ in what LAST_DAY says of the latter, and both answers tell.
    partial = (
        f"YEAR({name}) = 0 OR MONTH({name}) = 0 OR DAY({name}) = 0"
        f" OR DAY({name}) > COALESCE(DAY(LAST_DAY({name})), 0)"
    )
    return Exact(
        column.name,
        "date" if column.data_type == "date" else "timestamp",
        f"IF({partial}, NULL, {name})",
        f"IF({partial}, CAST({name} AS CHAR), NULL)",
    )


def _text(column: Column) -> Exact | None:
    name, kind = quote(column.name), column.data_type
    as_text = f"CAST({name} AS CHAR)"
    if kind == "time":
        return Exact(column.name, "string", as_text)
    if kind == "json":
        return Exact(column.name, "string", as_text)
    if column.charset not in _REVERSIBLE:
        return None
    if kind == "char":
        # A server with PAD_CHAR_TO_FULL_LENGTH pads what it never stored.
        return Exact(column.name, "string", f"TRIM(TRAILING ' ' FROM {name})")
    if kind == "enum":
        # Its error value prints like a legal '': index 0 tells them apart.
        return Exact(
            column.name, "string", as_text, f"IF({name} + 0 = 0, '0', NULL)", keeps_value=True
        )
    return Exact(column.name, "string", name) if kind in _TEXTS else None


def _charset(column: Column) -> str:
    return f" (charset {column.charset})" if column.charset else ""
