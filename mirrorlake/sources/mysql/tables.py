"""A table as its server describes it: columns, indexes, foreign keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mirrorlake.errors import SchemaError, SourceError

UNKNOWN: Final = "UNKNOWN"
"""The rule of a foreign key that this account may not see."""


@dataclass(frozen=True)
class Column:
    """One column, in the server's own words."""

    name: str
    ordinal: int
    data_type: str
    column_type: str
    nullable: bool
    charset: str | None
    collation: str | None
    precision: int | None
    scale: int | None
    length: int | None
    fraction: int | None
    extra: str
    comment: str
    generated: str = ""
    """The expression of a generated column."""
    mariadb: bool = False
    """Whether its server is MariaDB: one collation's weights are padded differently there."""
    source: str = field(default="", repr=False)
    """MySQL's name of it, where the contract gives it another one in the lake
    (`mirrorlake.sources.mysql.introspection.lake_names`). No part of its text: identities are made
    of that."""

    default: str | None = field(default=None, repr=False, compare=False)
    """What a row gets that is inserted without it, as the server prints it; no part of a table's
    identity."""

    @property
    def fixed_time(self) -> str | None:
        """The moment that a row gets if it is inserted without one, where that is a constant and no
        clock: such a row lies behind what was read by this column."""
        text = (self.default or "").strip("'")
        return (
            text
            if self.data_type in ("date", "datetime", "timestamp") and text[:1].isdigit()
            else None
        )

    @property
    def in_mysql(self) -> str:
        """What its server calls it."""
        return self.source or self.name

    @property
    def sql(self) -> str:
        """What it is called in a statement to its server."""
        return quote(self.in_mysql)

    @property
    def unsigned(self) -> bool:
        return "unsigned" in self.column_type.lower()

    @property
    def padded(self) -> bool:
        """Whether the server prints it with leading zeros (ZEROFILL)."""
        return "zerofill" in self.column_type.lower()


@dataclass(frozen=True)
class Index:
    """An index over columns; its parts from the first that is an expression on are left out.

    Attributes:
        unique: whether no two rows have the same values of all its columns, were they NOT NULL.
        ranged: by how many of its first columns ranges are read: by none of a hash, or of an index
            that queries don't use; None: by all.
    """

    name: str
    unique: bool
    columns: tuple[str, ...]
    ranged: int | None = None

    @property
    def ranges(self) -> tuple[str, ...]:
        """The columns by which the server reads ranges, in the index's order."""
        return self.columns[: self.ranged]


@dataclass(frozen=True)
class ForeignKey:
    """A foreign key of this table; ``on_update`` and ``on_delete`` are the server's words
    (CASCADE…), or `UNKNOWN`."""

    columns: tuple[str, ...]
    on_update: str
    on_delete: str


@dataclass(frozen=True)
class SourceTable:
    """A base table as introspected at one moment; columns are in the server's order."""

    database: str
    name: str
    engine: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    estimated_rows: int
    foreign_keys: tuple[ForeignKey, ...]
    keys_hidden: bool = False
    """Whether this account may not see foreign keys, so that there may be others."""
    comment: str = ""
    """What its makers wrote of it."""
    versioned: bool = field(default=False, repr=False, compare=False)
    """Whether its server keeps old rows in it too (MariaDB), which a SELECT does not show."""

    @property
    def unseen_rules(self) -> bool:
        """Whether a foreign key may change rows of it by a rule that this account can't see."""
        return self.keys_hidden or any(
            UNKNOWN in (k.on_update, k.on_delete) for k in self.foreign_keys
        )

    @property
    def merges(self) -> bool:
        """Whether its rows are those of several tables, each of which has a key of its own."""
        return self.engine.lower() == "mrg_myisam"

    def primary_key(self) -> tuple[str, ...]:
        """The primary key, else the first unique index whose columns are all NOT NULL, else
        ``()``."""
        nullable = {c.name for c in self.columns if c.nullable}
        unique = [i for i in self.indexes if i.unique and not nullable & set(i.columns)]
        unique.sort(key=lambda i: (i.name != "PRIMARY", len(i.columns), i.name))
        return unique[0].columns if unique else ()

    def column(self, name: str) -> Column:
        """The column of that name, matched as MySQL does: without regard to case."""
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise SchemaError(
            f"table {self.database}.{self.name} has no column {name!r}",
            table=f"{self.database}.{self.name}",
            column=name,
            next_step=f"Its columns are: {', '.join(c.name for c in self.columns)}. If MySQL "
            f"dropped {name}, take it out of the contract; if it was renamed, write its new name "
            f"there, and `renamed_from: {name}` under `columns`",
        )

    def led_by(self, column: str) -> bool:
        """Whether an index begins with that column, so that a range of it is read without a
        scan."""
        return any(i.ranges and i.ranges[0].lower() == column.lower() for i in self.indexes)

    def unused_index(self, column: str) -> str | None:
        """The name of an index that begins with that column and serves no range of it, if any: a
        hash, or one that queries may not use."""
        named = (i for i in self.indexes if i.columns[0].lower() == column.lower())
        return next((i.name for i in named if not i.ranges), None)

    def has_unique(self, key: Sequence[str]) -> bool:
        """Whether the server guarantees that no two rows share these columns' values."""
        wanted = {k.lower() for k in key}
        nullable = {c.name.lower() for c in self.columns if c.nullable}
        return any(
            i.unique and {c.lower() for c in i.columns} <= wanted and not nullable & wanted
            for i in self.indexes
        )


def quote(identifier: str) -> str:
    """An identifier between backticks, its own backticks doubled (MySQL manual, 9.2)."""
    if not identifier or "\0" in identifier:
        raise SourceError(f"{identifier!r} can't be the name of a table or a column in MySQL")
    return "`" + identifier.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A text as a literal that every ``sql_mode`` reads alike.

    >>> quoted_text("it's")
    "_utf8mb4 x'69742773'"
    >>> quoted_text("")
    "''"
    """
    return f"_utf8mb4 x'{text.encode().hex()}'" if text else "''"
