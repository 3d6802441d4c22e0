"""The canonical form of a cell, per type: once as MySQL's SQL, once as Spark's over the lake.

Two cells have one form exactly if they are one value, so a digest of forms speaks for the values. A
row's form is its cells' forms with commas between them. It can be taken apart again, so no two rows
share one: NULL is ``N``; a text or a time is its length in bytes, a colon and its bytes; a long
text or blob is its SHA-256; every other form (digits, dates, hexadecimal) holds no comma.

Forms are made in other ways than the engine's: a date is its text here, a number there; a double is
its bits, which MySQL shows inside a POINT. What the lake keeps as original text must be a value
that really has no place in its column: any other original makes the form ``!``, which MySQL's is
never.

Source: MySQL 8.0 manual, 12.8 "String Functions"; Spark SQL's function reference; OGC 06-103r4,
8.2.4 "Well-known Binary".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.errors import TypeRefused
from mirrorlake.proof.forms.hashing import lake_hash, source_hash
from mirrorlake.sources.mysql.tables import Column

ORIGINALS = "_mirror_original"
DELETED_AT = "_mirror_deleted_at"
"""When a row of the lake was found gone from MySQL, in tables that flag such rows."""
NULL = "N"
SHORT = 255
"""Texts and blobs of columns that hold more characters or bytes than this are digested alone."""
SHOWN = 300
"""Characters of a value that are shown to people, at most."""

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SHAPES = (
    *("geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection"),
    *("multipoint", "multilinestring", "multipolygon"),
)
_PRINTED = ("uuid", "inet4", "inet6")
# Charsets of which every text comes back from UTF-8 as the same bytes.
_LOSSLESS = ("utf8mb4", "utf8mb3", "utf8", "latin1")
# Units of UTF-16's surrogates are no characters in these charsets; MariaDB stores them.
_SURROGATES = {"ucs2": "^(....)*D[89ABCDEF]", "utf32": "^(........)*0000D[89ABCDEF]"}


@dataclass(frozen=True)
class Form:
    """How one column is compared.

    Attributes:
        name: the column, in the lake.
        iceberg: the type that the lake's column must have.
        source, lake: SQL of the form, never NULL for a cell that could be read.
        source_shown, lake_shown: SQL of the value as people read it, NULL for NULL.
        original: whether the lake may hold an original text beside it.
        text: whether the value is shown between quotes.
        digested: whether the form is the hash of the value.
    """

    name: str
    iceberg: str
    source: str
    lake: str
    source_shown: str
    lake_shown: str
    original: bool = False
    text: bool = False
    digested: bool = False


def form_of(column: Column, originals: bool, short: int = SHORT) -> Form:
    """The form of one column.

    Args:
        originals: whether the lake's table has the column of original texts.
        short: up to how many characters a text is written out rather than digested alone.

    Raises:
        TypeRefused: there is no form for this type.
    """
    kind = column.data_type
    if kind in (*_INTEGERS, "year", "bit"):
        return _integer(column)
    if kind == "decimal":
        return _decimal(column)
    if kind in ("float", "double"):
        return _double(column)
    if kind in ("date", "datetime", "timestamp"):
        return _moment(column, originals)
    if kind in (*_BYTES, *_SHAPES):
        return _binary(column, short)
    if kind in _TEXTS or kind in _PRINTED or kind in ("time", "json"):
        return _text(column, originals, short)
    raise TypeRefused(
        f"column {column.name} is {column.column_type}, which has no form to compare",
        column=column.name,
        next_step="Mark it `pci: never` to leave it out",
    )


def _plain(
    column: Column, iceberg: str, source: str, lake: str, shown: tuple[str, str] | None = None
) -> Form:
    """A form without a comma: the value's own text, or N."""
    shown = shown or (f"CAST({source} AS CHAR)", lake)
    nullable = f"IFNULL({source},'{NULL}')" if column.nullable else source
    return Form(column.name, iceberg, nullable, f"coalesce({lake},'{NULL}')", *shown)


def _integer(column: Column) -> Form:
    name, lake = column.sql, as_sql_identifier(column.name)
    # These print other digits than the number's, or bytes.
    printed = column.padded or column.data_type in ("year", "bit")
    source = f"({name} + 0)" if printed else name
    return _plain(column, _integer_type(column), source, f"CAST({lake} AS STRING)")


def _integer_type(column: Column) -> str:
    """The narrowest of the lake's types that holds every number of the column."""
    if column.data_type == "bit":
        return "decimal(20,0)" if column.precision == 64 else "long"
    if column.data_type == "bigint":
        return "decimal(20,0)" if column.unsigned else "long"
    return "long" if column.data_type == "int" and column.unsigned else "int"


def _decimal(column: Column) -> Form:
    name, lake = column.sql, as_sql_identifier(column.name)
    digits, scale = column.precision or 10, column.scale or 0
    source = f"CAST({name} AS DECIMAL({digits},{scale}))" if column.padded else name
    if digits <= 38:
        return _plain(column, f"decimal({digits},{scale})", source, f"CAST({lake} AS STRING)")
    # The lake's column is a text there: whatever it holds must not run into its neighbour.
    text = f"CAST({source} AS CHAR)"
    return _prefixed(column, text, lake, "string")


def _double(column: Column) -> Form:
    name, lake = column.sql, as_sql_identifier(column.name)
    # Byte order, type, then x: eight bytes, the lowest first.
    bits = f"HEX(REVERSE(CAST(MID(ST_AsBinary(POINT({name},0)),6,8) AS BINARY)))"
    raw = f"reflect('java.lang.Double','doubleToRawLongBits',CAST({lake} AS DOUBLE))"
    of_lake = f"CASE WHEN {lake} IS NOT NULL THEN lpad(hex(CAST({raw} AS BIGINT)),16,'0') END"
    shown = (f"CAST({name} * 1e0 AS CHAR)", f"CAST(CAST({lake} AS DOUBLE) AS STRING)")
    return _plain(column, column.data_type, bits, of_lake, shown)


def _binary(column: Column, short: int) -> Form:
    name, lake = column.sql, as_sql_identifier(column.name)
    stored = f"CAST({name} AS BINARY)" if column.data_type in _SHAPES else name
    shown = (
        f"CONCAT('0x',HEX(LEFT({stored},{SHOWN // 2})))",
        f"concat('0x',hex(substring({lake},1,{SHOWN // 2})))",
    )
    if column.length is not None and column.length <= short:
        return _plain(column, "binary", f"HEX({stored})", f"hex({lake})", shown)
    return Form(
        column.name,
        "binary",
        f"IF({name} IS NULL,'{NULL}',{source_hash(stored)})",
        f"coalesce({lake_hash(lake)},'{NULL}')",
        *shown,
        digested=True,
    )


# --- times ----------------------------------------------------------------------------------------


def _moment(column: Column, originals: bool) -> Form:
    name, lake = column.sql, as_sql_identifier(column.name)
    kind, digits = column.data_type, column.fraction or 0
    iceberg = {"date": "date", "datetime": "timestamp", "timestamp": "timestamptz"}[kind]
    text = f"CAST({lake} AS STRING)"
    if digits:
        text = _with_fraction(text, digits)
    form = _plain(column, iceberg, name, text)
    if not originals:
        return form
    kept = _original_sql(column.name)
    if kind == "timestamp":
        has_place = f"NOT {kept} RLIKE '^0000-00-00 00:00:00([.]0+)?$'"
    else:
        has_place = (
            f"NOT {kept} RLIKE '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[0-9 :.]*$'"
            f" OR (try_cast(substr({kept},1,10) AS DATE) IS NOT NULL AND {kept} NOT LIKE '0000-%')"
        )
    return _with_original(form, kept, text, f"{lake} IS NOT NULL OR {has_place}", kept)


def _with_fraction(text: str, digits: int) -> str:
    """Spark leaves out the zeros at a fraction's end; MySQL prints as many digits as declared."""
    whole = 20 + digits
    return (
        f"CASE WHEN length({text}) = 19 THEN concat({text},'.{'0' * digits}')"
        f" WHEN length({text}) < {whole} THEN rpad({text},{whole},'0') ELSE {text} END"
    )


def _original_sql(name: str) -> str:
    """Spark SQL of the original text that a row keeps for a column, NULL where it keeps none."""
    found = f"filter({as_sql_identifier(ORIGINALS)}, x -> x.column = {lake_literal(name)})"
    return f"try_element_at({found},1).text"


def _with_original(form: Form, kept: str, value: str, wrong: str, right: str) -> Form:
    """The form where the lake may keep an original: ``wrong`` says that it may not keep this one
    here, ``right`` is the form of one that it may."""
    both = f"concat(coalesce({value},'NULL'),' with the original ',{kept})"
    return Form(
        form.name,
        form.iceberg,
        form.source,
        f"CASE WHEN {kept} IS NULL THEN {form.lake} WHEN {wrong} THEN '!' ELSE {right} END",
        form.source_shown,
        f"CASE WHEN {kept} IS NULL THEN {form.lake_shown} WHEN {wrong} THEN {both} ELSE {kept} END",
        original=True,
        text=form.text,
        digested=form.digested,
    )


# --- texts ----------------------------------------------------------------------------------------


def _text(column: Column, originals: bool, short: int) -> Form:
    name, lake, kind = column.sql, as_sql_identifier(column.name), column.data_type
    if kind == "time":
        return _prefixed(column, f"CAST({name} AS CHAR)", lake, "string", quoted=False)
    if kind in _PRINTED:
        return _prefixed(column, f"CAST({name} AS CHAR)", lake, "string")
    utf8 = name if column.charset in ("utf8mb4", "utf8mb3", "utf8") else _utf8(name)
    long = kind == "json" or column.length is None or column.length > short
    stored = f"CAST({utf8} AS BINARY)"
    form = _digested(column, stored, lake) if long else _prefixed(column, stored, lake, "string")
    checked = kind != "json" and column.charset not in _LOSSLESS
    if not checked and kind != "enum":
        return form
    return _unplaced(column, form, originals, checked=checked, long=long)


def _prefixed(column: Column, stored: str, lake: str, iceberg: str, *, quoted: bool = True) -> Form:
    source = f"CONCAT(LENGTH({stored}),':',{stored})"
    return Form(
        column.name,
        iceberg,
        f"IFNULL({source},'{NULL}')" if column.nullable else source,
        f"coalesce(concat(CAST(octet_length({lake}) AS STRING),':',{lake}),'{NULL}')",
        *_shown(stored, lake),
        text=quoted,
    )


def _digested(column: Column, stored: str, lake: str) -> Form:
    """A long text: only its hash goes into the row, which no packet's size then limits."""
    name = column.sql
    return Form(
        column.name,
        "string",
        # Not IFNULL: a text too large for the server's functions is NULL to them, and must show.
        f"IF({name} IS NULL,'{NULL}',{source_hash(stored)})",
        f"coalesce({lake_hash(f'CAST({lake} AS BINARY)')},'{NULL}')",
        *_shown(stored, lake),
        text=True,
        digested=True,
    )


def _shown(stored: str, lake: str) -> tuple[str, str]:
    return f"LEFT(CONVERT({stored} USING utf8mb4),{SHOWN})", f"left({lake},{SHOWN})"


def _utf8(name: str) -> str:
    return f"CONVERT({name} USING utf8mb4)"


def _unplaced(column: Column, form: Form, originals: bool, *, checked: bool, long: bool) -> Form:
    """Texts that UTF-8 can't give back, kept as their stored bytes; ENUM's error value."""
    name, lake, kept = column.sql, as_sql_identifier(column.name), _original_sql(column.name)
    source, shown = form.source, form.source_shown
    wrong, right = f"{lake} IS NOT NULL", f"concat('x',{kept})"
    if checked:
        lost = _lost(name, column.charset or "")
        hexed = source_hash(f"HEX({name})") if long else f"HEX({name})"
        source = f"IF({lost},CONCAT('x',{hexed}),{source})"
        shown = f"IF({lost},LEFT(HEX({name}),{SHOWN}),{shown})"
        right = f"concat('x',{lake_hash(f'CAST({kept} AS BINARY)') if long else kept})"
        wrong += f" OR NOT {kept} RLIKE '^([0-9A-F]{{2}})+$'"
    else:
        wrong = "true"
    if column.data_type == "enum":
        source = f"IF({name} + 0 = 0,'E',{source})"
        error = f"{kept} = '0' AND octet_length({lake}) = 0"
        wrong = f"NOT coalesce({error}, false) AND ({wrong})"
        right = f"CASE WHEN {error} THEN 'E' ELSE {right} END"
    extended = replace(form, source=source, source_shown=shown)
    return _with_original(extended, kept, lake, wrong, right) if originals else extended


def _lost(name: str, charset: str) -> str:
    """SQL: this text does not come back from UTF-8 as the bytes that are stored."""
    same = f"HEX(CONVERT({_utf8(name)} USING {charset})) = HEX({name})"
    surrogates = _SURROGATES.get(charset)
    if surrogates is None:
        return f"NOT ({same})"
    return f"(NOT ({same}) OR HEX({name}) REGEXP '{surrogates}')"


def lake_literal(text: str) -> str:
    """A text as a literal of Spark SQL.

    >>> lake_literal("it's \\\\")
    "'it\\\\'s \\\\\\\\'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
