"""The types of columns, by the numbers that the log has for them.

Source: MySQL source, ``enum_field_types``; MariaDB source, the same with compressed columns.
"""

from __future__ import annotations

from typing import Final

TINY: Final = 1
SHORT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
LONGLONG: Final = 8
_INT24: Final = 9
DATE: Final = 10
YEAR: Final = 13
NEWDATE: Final = 14
VARCHAR: Final = 15
BIT: Final = 16
TIMESTAMP2: Final = 17
DATETIME2: Final = 18
TIME2: Final = 19
BLOB_COMPRESSED: Final = 140
VARCHAR_COMPRESSED: Final = 141
VECTOR: Final = 242
JSON: Final = 245
NEWDECIMAL: Final = 246
ENUM: Final = 247
SET: Final = 248
BLOB: Final = 252
VAR_STRING: Final = 253
STRING: Final = 254
GEOMETRY: Final = 255

BLOBS: Final = (249, 250, 251, BLOB)
OLD: Final = {7: "TIMESTAMP", 11: "TIME", 12: "DATETIME"}
"""As MySQL had them before 5.6: how many digits a value has is not logged."""

INTEGERS: Final = {TINY: 1, SHORT: 2, _INT24: 3, LONG: 4, LONGLONG: 8}
"""Whole numbers, by their bytes."""

NAMES: Final[dict[int, str]] = {
    **dict.fromkeys(BLOBS, "BLOB"),
    **OLD,
    **{
        number: name
        for name, number in list(globals().items())
        if isinstance(number, int) and name.isupper()
    },
}
"""Every type whose part of a TABLE_MAP can be read over."""
