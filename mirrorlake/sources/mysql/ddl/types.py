"""A column as a statement declares it → as a server describes it afterwards.

MySQL knows many types by several names, gives some a size of their own, and prints all of them in
one way in ``information_schema``. What is done here is what the servers do; a test declares every
form on both, and compares.

Source: MySQL 8.0 manual, 11.1 to 11.5 "Data Types", 11.9 "Using Data Types from Other Database
Engines"; MariaDB knowledge base, "Data Types".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mirrorlake.sources.mysql.types.registry import INTEGERS, LABELS, PRINTED, TYPES


@dataclass(frozen=True)
class Charsets:
    """What a server knows of character sets.

    Attributes:
        defaults: charset → its default collation.
        of_collation: collation → its charset.
        width: charset → the most bytes of one character.
    """

    defaults: Mapping[str, str] = field(default_factory=dict[str, str])
    of_collation: Mapping[str, str] = field(default_factory=dict[str, str])
    width: Mapping[str, int] = field(default_factory=dict[str, int])

    def charset_named(self, name: str | None) -> str | None:
        """A charset as this server calls it: ``utf8`` and ``utf8mb3`` are one."""
        return _other_utf8(name) if name is not None and name not in self.width else name

    def collation_named(self, name: str | None) -> str | None:
        """A collation as this server calls it."""
        there = self.of_collation
        return _other_utf8(name) if name is not None and name not in there else name


def _other_utf8(name: str) -> str:
    if name == "utf8" or name.startswith("utf8_"):
        return name.replace("utf8", "utf8mb3", 1)
    return name.replace("utf8mb3", "utf8", 1)


@dataclass(frozen=True)
class DeclaredType:
    """A type as it is written.

    Attributes:
        word: its name, in lower case, as the statement spells it: ``int8``, ``double precision``.
        arguments: what stands in its parentheses: numbers, or the labels of an ENUM or SET.
        compressed: whether MariaDB stores its values compressed.
    """

    word: str
    arguments: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False
    compressed: bool = False

    @property
    def is_national(self) -> bool:
        """Whether it is in the charset that standard SQL calls national: utf8mb3, always."""
        return self.word.startswith(("national ", "nchar", "nvarchar"))

    @property
    def as_text(self) -> DeclaredType:
        """What MariaDB takes a type of bytes for that has a collation."""
        return replace(self, word=_TEXT_OF.get(self.word, self.word))


@dataclass(frozen=True)
class DescribedType:
    """A type as ``information_schema.COLUMNS`` has it; integers without their display width."""

    data_type: str
    column_type: str
    charset: str | None = None
    collation: str | None = None
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    fraction: int | None = None


_SAME: Final = {
    "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "int4": "int",
    "int8": "bigint", "middleint": "mediumint", "bool": "tinyint", "boolean": "tinyint",
    "serial": "bigint", "dec": "decimal", "numeric": "decimal", "fixed": "decimal",
    "real": "double", "double precision": "double", "float4": "float", "float8": "double",
    "character": "char", "nchar": "char", "nvarchar": "varchar", "varcharacter": "varchar",
    "character varying": "varchar", "char varying": "varchar", "long": "mediumtext",
    "long varchar": "mediumtext", "long varcharacter": "mediumtext",
    "long char varying": "mediumtext", "long character varying": "mediumtext",
    "long varbinary": "mediumblob", "national char": "char", "national character": "char",
    "national varchar": "varchar", "national varcharacter": "varchar",
    "national char varying": "varchar", "national character varying": "varchar",
    "nchar varchar": "varchar", "nchar varcharacter": "varchar", "nchar varying": "varchar",
}  # fmt: skip
_TEXT_OF: Final = {
    "binary": "char", "varbinary": "varchar", "tinyblob": "tinytext", "blob": "text",
    "mediumblob": "mediumtext", "longblob": "longtext", "long varbinary": "mediumtext",
}  # fmt: skip
_SIZES: Final = (("tiny", 2**8), ("", 2**16), ("medium", 2**24), ("long", 2**32))
_BYTES: Final = {"char": "binary", "varchar": "varbinary"}
_STRINGS: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")


LONGER: Final = {"tinytext": "text", "text": "mediumtext", "mediumtext": "longtext"}
"""What a text becomes where its characters need more bytes, so that as many have room."""


_LONGEST: Final = {"mariadb": 65_532, "mysql": 65_535}
"""The most bytes of a VARCHAR or VARBINARY."""
COMPRESSED: Final = " /*M!100301 COMPRESSED*/"
"""What MariaDB prints behind a type whose values it compresses."""


class UnknownType(ValueError):
    """A type that no release of this server is known to have under this name."""


class TooLong(ValueError):
    """A type that is longer than servers let it be; ``kind`` is what it becomes where they don't
    mind."""

    def __init__(self, longest: int, kind: str) -> None:
        super().__init__(longest, kind)
        self.longest, self.kind = longest, kind


def describe_type(
    declared: DeclaredType,
    charset: str | None,
    collation: str | None,
    charsets: Charsets,
    *,
    mariadb: bool,
    strict: bool = False,
) -> DescribedType:
    """The type as the server describes it once the statement has run.

    Args:
        charset, collation: as the column declares them, else the table's.
        strict: whether the server refuses a VARCHAR that is too long, and does not make a TEXT of
            it.

    Raises:
        UnknownType: no release of this server is known to have it.
        TooLong: the server would refuse its length.
    """
    if declared.compressed:
        if not mariadb:
            raise UnknownType(f"{declared.word} COMPRESSED")
        plain = replace(declared, compressed=False)
        found = describe_type(plain, charset, collation, charsets, mariadb=True, strict=strict)
        return replace(found, column_type=found.column_type + COMPRESSED)
    kind = _SAME.get(declared.word, declared.word)
    if kind == "json" and mariadb:
        # MariaDB keeps JSON as text.
        return DescribedType("longtext", "longtext", "utf8mb4", "utf8mb4_bin", length=2**32 - 1)
    if kind == "float" and len(declared.arguments) == 1:
        kind, declared = ("float" if int(declared.arguments[0]) < 25 else "double"), _bare(declared)
    if (kind not in TYPES and kind != "vector") or (kind in PRINTED and not mariadb):
        raise UnknownType(declared.word)
    if kind in ("geometrycollection", "geomcollection"):
        kind = "geometrycollection" if mariadb else "geomcollection"
    if kind in (*_STRINGS, *LABELS):
        found = _text(kind, declared, charset, collation, charsets)
        if kind in LABELS and charset == "binary" and not mariadb:
            return replace(found, charset=None, collation=None)
        return _fitted(found, charsets, mariadb=mariadb, strict=strict)
    if kind in INTEGERS:
        return DescribedType(kind, kind + _suffix(declared))
    return _fitted(_other(kind, declared), charsets, mariadb=mariadb, strict=strict)


def _fitted(
    found: DescribedType, charsets: Charsets, *, mariadb: bool, strict: bool
) -> DescribedType:
    """A VARCHAR or VARBINARY that is too long as what servers make of it.

    Raises:
        TooLong: they refuse it.
    """
    length, of = found.length or 0, found.data_type
    if of in ("char", "binary") and length > 255:
        raise TooLong(255, "")
    if of not in ("varchar", "varbinary"):
        return found
    width = charsets.width.get(found.charset or "", 1)
    most = _LONGEST["mariadb" if mariadb else "mysql"] // width
    if length <= most:
        return found
    kind = _sized("text" if of == "varchar" else "blob", length * width)
    if strict:
        raise TooLong(most, kind)
    return DescribedType(kind, kind, found.charset, found.collation)


def _bare(declared: DeclaredType) -> DeclaredType:
    return DeclaredType(declared.word, (), declared.unsigned, declared.zerofill)


def _suffix(declared: DeclaredType) -> str:
    unsigned = declared.unsigned or declared.zerofill or declared.word == "serial"
    return (" unsigned" if unsigned else "") + (" zerofill" if declared.zerofill else "")


def _text(
    kind: str,
    declared: DeclaredType,
    charset: str | None,
    collation: str | None,
    charsets: Charsets,
) -> DescribedType:
    if kind in LABELS:
        # Spaces at the end of a label are taken away when it is declared.
        labels = [label.rstrip(" ").replace("'", "''") for label in declared.arguments]
        listed = ",".join(f"'{label}'" for label in labels)
        return DescribedType(kind, f"{kind}({listed})", charset, collation)
    if charset == "binary":
        return _other(_BYTES.get(kind, kind.replace("text", "blob")), declared)
    if kind in _BYTES:
        length = int(declared.arguments[0]) if declared.arguments else 1
        return DescribedType(kind, f"{kind}({length})", charset, collation, length=length)
    if declared.arguments and int(declared.arguments[0]) and kind == "text":
        width = charsets.width.get(charset or "", 4)
        kind = _sized("text", int(declared.arguments[0]) * width)
    return DescribedType(kind, kind, charset, collation)


def _sized(kind: str, size: int) -> str:
    return next(prefix for prefix, limit in _SIZES if size < limit) + kind


def _other(kind: str, declared: DeclaredType) -> DescribedType:
    given = declared.arguments
    if kind == "decimal":
        precision = int(given[0]) if given else 10
        precision = precision or 10
        scale = int(given[1]) if len(given) > 1 else 0
        column_type = f"decimal({precision},{scale})" + _suffix(declared)
        return DescribedType(kind, column_type, precision=precision, scale=scale)
    if kind in ("float", "double"):
        size = f"({','.join(given)})" if given else ""
        return DescribedType(kind, f"{kind}{size}{_suffix(declared)}")
    if kind in ("datetime", "timestamp", "time"):
        fraction = int(given[0]) if given else 0
        return DescribedType(kind, f"{kind}({fraction})" if fraction else kind, fraction=fraction)
    if kind in ("bit", "binary", "varbinary"):
        size = int(given[0]) if given else 1
        size = size or int(kind == "bit")
        precise = size if kind == "bit" else None
        return DescribedType(kind, f"{kind}({size})", precision=precise, length=size)
    if kind == "blob" and given and int(given[0]):
        kind = _sized("blob", int(given[0]))
        return DescribedType(kind, kind)
    if kind == "vector":
        return DescribedType(kind, f"vector({given[0] if given else 2048})")
    return DescribedType(kind, kind)
