"""Collations: bytes of a text that are equal exactly where the server calls two texts equal.

A key is what the server's unique index says it is: under one collation 'Straße' and 'Strasse' are
one key, under most 'a' and 'a ' are. `text_identity` is SQL of bytes by which the lake tells keys
apart as that index does; `why_no_key` says under which collations there is none. Both are compared
with the servers' own indexes, collation by collation (`tests/integration/sources/mysql/
test_collations.py`).

Source: MySQL 8.0 manual, 12.8 "String Functions" (``WEIGHT_STRING``), 10.10.1 "Unicode Character
Sets" (trailing spaces); MariaDB: "WEIGHT_STRING" (``LEVEL``).
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from mirrorlake.sources.mysql.tables import Column
from mirrorlake.sources.mysql.types.registry import LABELS

TextForm: TypeAlias = Literal["weights", "padded", "trimmed", "levels", "bytes"]
"""Which bytes identify a text: its weights; its weights, padded to the column's length; its weights
without those of trailing spaces; its weights, level by level; its bytes without trailing spaces."""

UNFAITHFUL: Final = {
    "big5_chinese_ci": "different characters have one weight",
    "big5_chinese_nopad_ci": "different characters have one weight",
    "cp1250_czech_cs": "texts that are equal have different weights",
    "euckr_korean_ci": "characters that are equal have different weights",
    "gb18030_chinese_ci": "the server's index and its GROUP BY compare differently",
    "tis620_thai_ci": "different texts have one weight",
    "tis620_thai_nopad_ci": "different texts have one weight",
}
"""Collations whose weights are not what their comparison goes by, on one of the servers."""

_LANGUAGES: Final = (
    "unicode|icelandic|latvian|romanian|slovenian|polish|estonian|spanish|swedish|turkish|czech|"
    "danish|lithuanian|slovak|spanish2|roman|persian|esperanto|hungarian|sinhala|german2|"
    "croatian|croatian_mysql561|unicode_520|vietnamese|myanmar"
)
_UCA: Final = re.compile(
    rf"(utf8|utf8mb3|utf8mb4|ucs2|utf16|utf32)_(({_LANGUAGES})_ci|unicode(_520)?_nopad_ci"
    r"|thai_520_w2)|gb18030_unicode_520_ci"
)
_UNEQUAL_PADDED: Final = re.compile("latin7_(general_ci|general_cs|estonian_cs)")
_UNEQUAL_PADDED_MYSQL: Final = re.compile(
    rf"{_UCA.pattern}|{_UNEQUAL_PADDED.pattern}|latin1_german2_ci"
)
"""Those whose padded weights are not equal wherever texts are. A text may have more weights than
characters, and MySQL pads by characters, where MariaDB pads by weights."""
_UCA_14: Final = re.compile(
    r"(utf8mb3|utf8mb4|ucs2|utf16|utf32)_uca1400(_[a-z0-9_]+)?_(ai|as)_(ci|cs)"
)
"""Of MariaDB alone."""
_UCA_9: Final = re.compile(r"utf8mb4(_[a-z_]+)?_0900_(ai_ci|as_ci|as_cs|as_cs_ks)")
_BY_CHARACTER: Final = re.compile(
    r".*_bin|.*_general(_nopad|_mysql500)?_(ci|cs)|utf8(mb3)?_tolower_ci"
    r"|(latin1_(swedish|german1|german2|danish|spanish)|latin2_(hungarian|croatian)|latin5_turkish"
    r"|cp1250_(croatian|polish)|cp1251_(bulgarian|ukrainian)|cp1257_lithuanian"
    r"|dec8_swedish|hp8_english|swe7_swedish|gb2312_chinese|gbk_chinese|sjis_japanese"
    r"|ujis_japanese|cp932_japanese|eucjpms_japanese)(_nopad)?_ci|latin7_estonian_cs"
    r"|latin2_czech_cs|euckr_korean_nopad_ci"
)
_UCA_NOPAD: Final = re.compile(
    r".*_(unicode|unicode_520|uca1400(_[a-z0-9_]+)?)_nopad_.*|.*_0900_a.*"
)
"""In a CHAR of these, MariaDB's index compares the spaces that fill the column, too."""
_KNOWN: Final = (_UCA, _UCA_14, _UCA_9, _BY_CHARACTER)

_LONGEST_PADDED: Final = 3_072
"""Characters of a column whose weights are padded: no index of InnoDB's has more bytes. The weights
of a longer one, padded, would not fit in a packet."""


def _no_pad(column: Column) -> bool:
    """Whether trailing spaces count in comparisons: in UCA 9.0.0 and MariaDB's nopad collations."""
    return "_0900_" in (column.collation or "") or "_nopad_" in (column.collation or "")


def is_collated(column: Column) -> bool:
    """Whether texts of a column that differ may be equal to the server."""
    # Two labels of one ENUM or SET are never equal to the server.
    text = column.collation and column.data_type not in LABELS
    return bool(text) and not _by_bytes(column)


def _by_bytes(column: Column) -> bool:
    """Whether equal keys have equal texts. A CHAR never holds the trailing spaces that it would
    ignore."""
    binary = (column.collation or "").endswith("_bin")
    return binary and (column.data_type == "char" or _no_pad(column))


def why_no_key(column: Column) -> str:
    """Why keys in a column can't be told apart as the server does, in words; '' where they can."""
    if not is_collated(column):
        return ""
    collation = column.collation or ""
    if collation in UNFAITHFUL:
        return f"under {collation}, {UNFAITHFUL[collation]}"
    if column.mariadb and column.data_type == "char" and _UCA_NOPAD.fullmatch(collation):
        return f"under {collation}, the server tells apart CHAR that have the same weights"
    if any(known.fullmatch(collation) for known in _KNOWN):
        return ""
    return f"{collation} is a collation that Mirrorlake does not know"


def is_short(column: Column) -> bool:
    """Whether a column is so short that the weights of its texts, padded, fit in any packet."""
    return column.data_type in ("char", "varchar") and (column.length or 1) <= _LONGEST_PADDED


def identity_form(column: Column) -> TextForm:
    """Which bytes identify a text of a collated column."""
    collation = column.collation or ""
    if _no_pad(column):
        # All weights in one hold accents that such a collation does not compare.
        return "levels" if collation.endswith("_nopad_ai_cs") else "weights"
    # The lakes of older releases have padded weights, and go on wherever those are right.
    others = _UNEQUAL_PADDED if column.mariadb else _UNEQUAL_PADDED_MYSQL
    if is_short(column) and not others.fullmatch(collation):
        return "padded"
    return "bytes" if collation.endswith("_bin") else "trimmed"


def text_identity(column: Column) -> str:
    """SQL of bytes that are equal exactly where the server calls two texts of a collated column
    equal; NULL of a text whose weights don't fit in ``max_allowed_packet``."""
    name, form = column.sql, identity_form(column)
    if form == "bytes":
        return f"CAST(TRIM(TRAILING ' ' FROM {name}) AS BINARY)"
    if form == "weights":
        return f"WEIGHT_STRING({name})"
    if form == "padded":
        return f"WEIGHT_STRING({name} AS CHAR({(column.length or 1) * _expansion(column)}))"
    # Of those that don't pad, MariaDB still pads what comes after the first level.
    levels = enumerate(_levels(column))
    weights = [_weights(column, level, trimmed=n > 0 or form == "trimmed") for n, level in levels]
    if len(weights) == 1:
        return weights[0]
    # Hashed apart: joined, they would not be injective.
    return f"CONCAT({', '.join(f'SHA2({each}, 256)' for each in weights)})"


def _weights(column: Column, level: str, *, trimmed: bool) -> str:
    weights = f"WEIGHT_STRING({column.sql}{level})"
    if not trimmed:
        return weights
    # A collation that pads compares the shorter text as if spaces followed: what weighs as they do
    # counts as little.
    space = f"CONVERT(' ' USING {column.charset}) COLLATE {column.collation}"
    return f"TRIM(TRAILING WEIGHT_STRING({space}{level}) FROM {weights})"


def _levels(column: Column) -> tuple[str, ...]:
    """The clauses of the levels on which a collation compares, where their weights must be told
    apart. They exist in MariaDB alone, as do the collations that need them."""
    collation = column.collation or ""
    if collation.endswith("_ai_cs") and _UCA_14.fullmatch(collation):
        return (" LEVEL 1", " LEVEL 3")
    if collation.endswith("_thai_520_w2") or (
        _UCA_14.fullmatch(collation) and not collation.endswith("_ai_ci")
    ):
        return (" LEVEL 1", " LEVEL 2", " LEVEL 3")
    return ("",)


def _expansion(column: Column) -> int:
    """Into how many weights one character may expand ('ß' into two). Padding to fewer would cut the
    weights of a long key, and make two keys one."""
    collation = column.collation or ""
    return 1 if collation.endswith(("_bin", "_general_ci")) else 8
