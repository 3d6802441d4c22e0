"""Whether a column of another type has the values that it had, as they are read and kept.

Said is what is surely so, whatever a column holds: a wider integer, a longer text. Where the same
value has another text (``TIME`` with more digits) or the server cuts or pads, it is not.

Source: MySQL 8.0 manual, 11 "Data Types", 13.1.9 "ALTER TABLE Statement".
"""

from __future__ import annotations

from typing import Final

from mirrorlake.schema.versions import without_width
from mirrorlake.sources.mysql.tables import Column

_INTEGERS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXTS: Final = {"tinytext": 2**8, "text": 2**16, "mediumtext": 2**24, "longtext": 2**32}
_BLOBS: Final = {"tinyblob": 2**8, "blob": 2**16, "mediumblob": 2**24, "longblob": 2**32}
_MOST_BYTES: Final = 4
"""Of a character."""


def keeps_values(before: Column, now: Column) -> bool:
    """Whether every value of a column is the same one after it became another.

    >>> def column(kind, data_type, **more):
    ...     parts = dict(precision=None, scale=None, length=None, fraction=None, extra="")
    ...     return Column("a", 1, data_type, kind, True, None, None, **parts | more, comment="")
    >>> small, large = column("int(11)", "int"), column("bigint(20)", "bigint")
    >>> keeps_values(small, large), keeps_values(large, small)
    (True, False)
    """
    if before.nullable and not now.nullable:
        return False
    if (before.charset, before.collation) != (now.charset, now.collation):
        return False
    if before.generated or now.generated:
        return bool(before.generated and now.generated) and _same_type(before, now)
    return _same_type(before, now) or _is_wider(before, now)


def _same_type(before: Column, now: Column) -> bool:
    return without_width(before.column_type) == without_width(now.column_type)


def _is_wider(before: Column, now: Column) -> bool:
    was, becomes = before.data_type, now.data_type
    if was in _INTEGERS and becomes in _INTEGERS:
        return _is_wider_integer(before, now)
    if was == becomes == "decimal":
        sizes = before.precision, now.precision
        same_kind = before.unsigned == now.unsigned or not now.unsigned
        return same_kind and before.scale == now.scale and (sizes[0] or 0) <= (sizes[1] or 0)
    if was in ("enum", "set") and was == becomes:
        return now.column_type.startswith(before.column_type[:-1] + ",")
    if was == becomes == "bit":
        return (before.precision or 0) <= (now.precision or 0)
    return _is_longer(before, now)


def _is_wider_integer(before: Column, now: Column) -> bool:
    bits, later = _INTEGERS[before.data_type], _INTEGERS[now.data_type]
    if before.unsigned == now.unsigned:
        return bits <= later
    return before.unsigned and bits < later


def _is_longer(before: Column, now: Column) -> bool:
    """Of texts and of bytes. CHAR loses its trailing spaces whenever it is read."""
    was, becomes, length = before.data_type, now.data_type, before.length or 0
    if becomes == was in ("varchar", "varbinary", "char"):
        return length <= (now.length or 0)
    if (was, becomes) == ("char", "varchar"):
        return length <= (now.length or 0)
    for sizes, short in ((_TEXTS, ("char", "varchar")), (_BLOBS, ("varbinary",))):
        if becomes in sizes:
            most = sizes.get(was, length * _MOST_BYTES + 1 if was in short else 2**33)
            return most <= sizes[becomes]
    return False
