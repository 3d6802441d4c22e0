"""Generated columns whose value in the log may not be what we would read.

A VIRTUAL column is computed when it is read. The log has what its writer's session computed, a
SELECT what ours does, and by an expression over a TIMESTAMP, or under another ``sql_mode``, these
are two. Only expressions of what surely depends on no session are taken as they are logged.

Source: MySQL 8.0 manual, 13.1.20.8 "CREATE TABLE and Generated Columns", 5.1.11 "Server SQL Modes";
MariaDB knowledge base, "Generated (Virtual and Persistent/Stored) Columns".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from mirrorlake.sources.mysql.tables import Column

_TOKEN: Final = re.compile(
    r"\s+|`(?P<name>(?:[^`]|``)+)`|(?P<text>'[^']*')(?!')|\d+(?:\.\d+)?(?![\w.])"
    r"|(?P<word>[A-Za-z_]\w*)|[-+*,()]|<=>|<>|!=|[<>]=?|="
)
_NAMED_SETS: Final = re.compile(r"\b(?:using|collate|charset)\s+\w+", re.IGNORECASE)
_SAME_FOR_ALL: Final = """
    abs and as between binary both case cast char char_length character_length coalesce concat
    concat_ws convert crc32 date day dayofmonth dayofyear decimal else end false from greatest hex
    hour if ifnull in is isnull json json_array json_contains json_contains_path json_exists
    json_extract json_keys json_length json_object json_quote json_type json_unquote json_valid
    json_value lcase leading least left length locate lower ltrim md5 minute month not null nullif
    octet_length or quarter replace reverse right rtrim second sha sha1 sha2 signed substr substring
    substring_index then to_days trailing trim true ucase unhex unsigned upper when xor year
"""
"""Not here, as they depend on a session: now, from_unixtime, date_format, dayname, week, format,
str_to_date, like (its escape), division (div_precision_increment), …"""
_WORDS: Final = frozenset(_SAME_FOR_ALL.split())
_PLAIN: Final = """
    tinyint smallint mediumint int bigint decimal varchar tinytext text mediumtext longtext
    varbinary tinyblob blob mediumblob longblob json date datetime year
"""
"""CHAR is not here (PAD_CHAR_TO_FULL_LENGTH), nor are FLOAT, TIME and TIMESTAMP."""
_TYPES: Final = frozenset(_PLAIN.split())
_KEPT: Final = frozenset(["STORED", "PERSISTENT"])


def session_dependent(columns: Iterable[Column]) -> list[str]:
    """The VIRTUAL columns of a table whose value may depend on the session that computes it, as
    MySQL calls them; in the table's order."""
    return _not_fixed(columns, _is_virtual)


def recomputed(columns: Iterable[Column]) -> list[str]:
    """The STORED columns of a table whose value may be another one where a statement that alters it
    computes them again: it does so in its own session, and logs no row."""
    return _not_fixed(columns, _is_stored)


def _not_fixed(columns: Iterable[Column], is_meant: Callable[[Column], bool]) -> list[str]:
    there = {column.in_mysql.lower(): column for column in columns}
    return [c.in_mysql for c in there.values() if is_meant(c) and not _is_fixed(c, there)]


def _is_stored(column: Column) -> bool:
    return not _KEPT.isdisjoint(column.extra.upper().split())


def _is_virtual(column: Column) -> bool:
    return bool(column.generated) and "VIRTUAL" in column.extra.upper()


def _is_fixed(column: Column, there: dict[str, Column]) -> bool:
    """Whether its expression is made of nothing that depends on a session."""
    # MySQL's list of columns escapes the quotes of texts.
    text = _NAMED_SETS.sub(" ", column.generated.replace("\\'", "'"))
    if "\\" in text:
        return False
    at, unsigned, subtracts = 0, False, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return False
        if token["name"] is not None:
            other = there.get(token["name"].replace("``", "`").lower())
            if other is None or not _is_plain(other, there):
                return False
            unsigned |= other.unsigned
        elif token["word"] is not None:
            introducer = token["word"].startswith("_") and text[token.end() :].lstrip()[:1] == "'"
            if token["word"].lower() not in _WORDS and not introducer:
                return False
        subtracts |= token[0] == "-"
        at = token.end()
    return not (unsigned and subtracts)  # NO_UNSIGNED_SUBTRACTION


def _is_plain(column: Column, there: dict[str, Column]) -> bool:
    """Whether what an expression makes of a column's value is the same for every session."""
    if column.data_type not in _TYPES or (column.data_type == "datetime" and column.fraction):
        return False  # TIME_TRUNCATE_FRACTIONAL
    return not _is_virtual(column) or _is_fixed(column, there)
