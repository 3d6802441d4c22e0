"""SQL that reads a value of one type as one of another: exactly, or as NULL with its exact text.

Where versions of a table differ in a column's type, what an older one holds is read in the type of
now. A value that has a place there is that value; of any other the column is NULL and its text is
an original, as of a value that MySQL's own type has no place for.

Texts have one form per type, whatever the session's time zone:

=====================  ===============================================================
int, long, decimal     its digits, all of its scale, no exponent
float, double          Java's, which reads back as the same number: 1.0E20
date                   2026-11-25
timestamp              2026-11-25 12:00:00, with as many digits after it as MySQL's type has
timestamptz            the same, in UTC
binary                 0x, and its bytes in hexadecimal, as MySQL's client prints them
=====================  ===============================================================

Java 17 writes more digits than it must of a few floating numbers, newer ones the fewest.

What belongs here: Spark's SQL for two types. What doesn't: which type it is to be
(`mirrorlake.schema.lattice`).

Source: Spark SQL reference, "ANSI Compliance" (``try_cast``); MySQL 8.0 manual, 11.2 "Date and Time
Data Types".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mirrorlake.schema.lattice import StoredType, holds_all

_FRACTION = re.compile(r"(?:datetime|timestamp)\((\d)\)")
_MOST_WHOLE = {"float": 2**24, "double": 2**53}
"""Every whole number of up to this is one of its own in a floating type."""
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


@dataclass(frozen=True)
class Conversion:
    """SQL of a value in another type, and of the exact text of one that has no place there (NULL
    of all others); ``original`` is None where every value has one."""

    value: str
    original: str | None = None


def convert(value: str, held: StoredType, wanted: StoredType, *, utc: bool = True) -> Conversion:
    """SQL of a value as another type has it.

    Args:
        value: SQL of the value.
        utc: whether times without a zone are written by UTC.
    """
    if held.iceberg == wanted.iceberg:
        return Conversion(value)
    if holds_all(held.iceberg, wanted.iceberg, utc=utc):
        return Conversion(_widened(value, held, wanted.iceberg))
    if (held.iceberg, wanted.iceberg) == ("timestamptz", "timestamp") and utc:
        return Conversion(_at_utc(value))
    there, same = _narrowed(value, held, wanted, utc=utc)
    kept = f"CASE WHEN {same} THEN {there} END"
    lost = f"CASE WHEN {value} IS NOT NULL AND NOT coalesce({same}, false)"
    return Conversion(kept, f"{lost} THEN {text_of(value, held)} END")


def text_of(value: str, held: StoredType) -> str:
    """SQL of a value's text, in the one form that its type has."""
    if held.iceberg == "string":
        return value
    if held.iceberg == "binary":
        return f"CONCAT('0x', HEX({value}))"
    if held.iceberg not in ("timestamp", "timestamptz"):
        # A plain cast writes a small decimal with an exponent in a session that is not strict.
        cast = "try_cast" if held.iceberg.startswith("decimal(") else "CAST"
        return f"{cast}({value} AS STRING)"
    moment = _at_utc(value) if held.iceberg == "timestamptz" else value
    digits = _FRACTION.match(held.mysql)
    text = f"CAST({moment} AS STRING)"  # without zeros at its end
    if digits is None:
        return text
    point = f"CONCAT({text}, CASE WHEN INSTR({text}, '.') > 0 THEN '' ELSE '.' END)"
    return f"RPAD({point}, {20 + int(digits[1])}, '0')"


def _widened(value: str, held: StoredType, wanted: str) -> str:
    if wanted == "string":
        return text_of(value, held)
    if wanted == "timestamptz":
        time = " 00:00:00" if held.iceberg == "date" else ""
        return f"CAST(CONCAT(CAST({value} AS STRING), '{time}Z') AS timestamp_ltz)"
    return f"CAST({value} AS {sql_type(wanted)})"


def _narrowed(value: str, held: StoredType, wanted: StoredType, *, utc: bool) -> tuple[str, str]:
    """SQL of what a narrower type makes of a value, and of whether that is the same value."""
    kind = sql_type(wanted.iceberg)
    if _is_number(held.iceberg) and _is_number(wanted.iceberg):
        if (held.iceberg in _MOST_WHOLE) != (wanted.iceberg in _MOST_WHOLE):
            return _whole(value, held, wanted)
        there = f"try_cast({value} AS {kind})"
        back = f"try_cast({there} AS {sql_type(held.iceberg)})"
        # As texts: SQL takes 0.0 and -0.0 for one.
        return there, f"{text_of(back, held)} = {text_of(value, held)}"
    if held.iceberg in ("timestamp", "timestamptz") and wanted.iceberg == "date":
        if held.iceberg == "timestamptz" and not utc:
            return "CAST(NULL AS date)", "false"
        moment = _at_utc(value) if held.iceberg == "timestamptz" else value
        there = f"CAST({moment} AS date)"
        return there, f"CAST({there} AS timestamp_ntz) = {moment}"
    if held.iceberg != "string" and not _is_number(held.iceberg):
        return f"CAST(NULL AS {kind})", "false"
    text = text_of(value, held)
    there = _parsed(text, wanted.iceberg)
    return there, f"{text_of(there, wanted)} = {text}"


def _whole(value: str, held: StoredType, wanted: StoredType) -> tuple[str, str]:
    """Between an exact number and a floating one only whole numbers are taken, as far as each is a
    number of its own in both: of fractions, SQL would call the nearest one the same."""
    number = f"try_cast({value} AS bigint)"
    there = f"try_cast({number} AS {sql_type(wanted.iceberg)})"
    back = f"try_cast({number} AS {sql_type(held.iceberg)})"
    most = _MOST_WHOLE.get(wanted.iceberg, _MOST_WHOLE["double"])
    same = f"{text_of(back, held)} = {text_of(value, held)}"
    return there, f"{there} IS NOT NULL AND {number} BETWEEN -{most} AND {most} AND {same}"


def _parsed(text: str, wanted: str) -> str:
    if wanted == "binary":
        return f"CASE WHEN {text} RLIKE '^0x([0-9A-F]{{2}})*$' THEN UNHEX(SUBSTR({text}, 3)) END"
    whole = f"CONCAT({text}, 'Z')" if wanted == "timestamptz" else text
    cast = f"try_cast({whole} AS {sql_type(wanted)})"
    # Spark's NaN, infinities and years beyond 1 to 9999 are no values of MySQL's.
    if wanted in _MOST_WHOLE:
        return f"CASE WHEN {text} RLIKE '^-?[0-9]' THEN {cast} END"
    if wanted in ("date", "timestamp", "timestamptz"):
        return f"CASE WHEN {text} RLIKE '^(?!0000)[0-9]{{4}}-' THEN {cast} END"
    return cast


def _at_utc(value: str) -> str:
    """SQL of an instant as a time without a zone, by UTC, whatever the session's zone."""
    return f"timestampadd(MICROSECOND, unix_micros({value}), {_EPOCH})"


def _is_number(iceberg: str) -> bool:
    return iceberg in ("int", "long", "float", "double") or iceberg.startswith("decimal(")


def sql_type(iceberg: str) -> str:
    """A type as SQL names it, whatever TIMESTAMP means in the session that reads a view."""
    return "timestamp_ltz" if iceberg == "timestamptz" else spark_type(iceberg)


def spark_type(iceberg: str) -> str:
    """Spark's name of an Iceberg type."""
    if iceberg.startswith("list<"):
        return "array<" + iceberg.removeprefix("list<")  # of texts: see `mirrorlake.sources.files`
    return {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}.get(
        iceberg, iceberg
    )
