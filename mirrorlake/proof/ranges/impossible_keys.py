"""Keys of the lake that MySQL's column can't hold: no row has them, so they are extra by that fact.

Somebody wrote them into the lake. A server that is queried for one may refuse the whole statement
(`Illegal mix of collations`, `Incorrect DATE value`), or take it for another value: 70 for 1970.

Source: MySQL 8.0 manual, 10.8.4 "Collation Coercibility in Expressions", 11.2.4 "The YEAR Type".
"""

from __future__ import annotations

import re

from mirrorlake.sources.mysql.tables import Column

NO_ROW = "0 = 1"
_UNICODE = ("utf8mb4", "utf8mb3", "utf8")
_NOT_ASCII = ("swe7",)
"""Charsets that lack characters of ASCII."""
_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
_HEXADECIMAL = "[0-9a-fA-F]"
_SHAPES = {
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "datetime": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+"),
    "timestamp": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+"),
    "time": re.compile(r"[0-9]+:-?[0-9]{2,3}:[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?"),
    "uuid": re.compile(rf"36:{_HEXADECIMAL}{{8}}(-{_HEXADECIMAL}{{4}}){{3}}-{_HEXADECIMAL}{{12}}"),
    "inet4": re.compile(r"[0-9]+:[0-9]{1,3}([.][0-9]{1,3}){3}"),
    "inet6": re.compile(rf"[0-9]+:({_HEXADECIMAL}|[:.])+"),
}
"""What forms of these types look like; see `mirrorlake.proof.forms.canonical`."""


def can_hold(column: Column, cell: str) -> bool:
    """Whether a form can be one of a value of the column, as far as the text alone shows.

    >>> from types import SimpleNamespace
    >>> [can_hold(SimpleNamespace(data_type="year"), year) for year in ("0", "70", "1970")]
    [True, False, True]
    """
    kind = column.data_type
    if cell == "!":
        return True  # an original that has no business there
    if kind in _SHAPES:
        return _SHAPES[kind].fullmatch(cell) is not None
    if kind == "year":
        return cell.isdigit() and (cell == "0" or 1901 <= int(cell) <= 2155)
    if kind == "decimal":
        # More digits than Iceberg has are a text there.
        return _NUMBER.fullmatch(cell.rpartition(":")[2]) is not None
    if column.charset in ("utf8mb3", "utf8"):
        return all(ord(character) <= 0xFFFF for character in cell)
    return True


def is_convertible(column: Column, text: str) -> bool:
    """Whether the column's charset surely has every character of a text."""
    if column.charset is None or column.charset in _UNICODE:
        return True
    return text.isascii() and column.charset not in _NOT_ASCII


def convertible_equals(column: Column, literal: str) -> str:
    """MySQL's SQL of ``column = literal`` that no row fulfils where the column's charset lacks a
    character of the literal; through the column's index."""
    there = f"CONVERT({literal} USING {column.charset})"
    collated = f"{there} COLLATE {column.collation}" if column.collation else there
    back = f"CONVERT({there} USING utf8mb4) COLLATE utf8mb4_bin"
    return f"({column.sql} = {collated} AND {back} = {literal} COLLATE utf8mb4_bin)"
