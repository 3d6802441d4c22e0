"""What DDL statements say of tables: the words in which they are looked at before they run.

What belongs here: the statements and their parts. What doesn't: reading them from text
(`mirrorlake.sources.mysql.ddl_parser`), and what a table is afterwards
(`mirrorlake.sources.mysql.altered`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from mirrorlake.sources.mysql.ddl_types import DeclaredType

Kind: TypeAlias = Literal["alter", "drop", "truncate", "create", "other"]


@dataclass(frozen=True)
class DeclaredColumn:
    """A column as a statement declares it.

    Attributes:
        nullable: None where nothing is said.
        position: ``first``, or the name of the column before it; None: at the end, or where it is.
        unique: ``primary`` or ``unique``, where the column itself says so.
        generated: whether it is computed; the server prints the expression in its own way.
    """

    name: str
    type: DeclaredType
    nullable: bool | None = None
    charset: str | None = None
    collation: str | None = None
    position: str | None = None
    first: bool = False
    comment: str = ""
    unique: Literal["primary", "unique"] | None = None
    generated: bool = False


@dataclass(frozen=True)
class AddColumn:
    column: DeclaredColumn
    if_missing: bool = False


@dataclass(frozen=True)
class ChangeColumn:
    """MODIFY and CHANGE; ``name`` is the column's name before."""

    name: str
    column: DeclaredColumn


@dataclass(frozen=True)
class DropColumn:
    name: str
    if_there: bool = False


@dataclass(frozen=True)
class RenameColumn:
    name: str
    now: str


@dataclass(frozen=True)
class AddIndex:
    """``columns``: up to the first that is an expression or a part of a column."""

    name: str | None
    columns: tuple[str, ...]
    unique: bool = False
    whole: bool = True


@dataclass(frozen=True)
class DropIndex:
    name: str


@dataclass(frozen=True)
class RenameIndex:
    name: str
    now: str


@dataclass(frozen=True)
class RenameTable:
    database: str | None
    name: str


@dataclass(frozen=True)
class AddForeignKey:
    """``rules``: the server's words for ON UPDATE and ON DELETE."""

    columns: tuple[str, ...]
    on_update: str
    on_delete: str


@dataclass(frozen=True)
class SetEngine:
    name: str


@dataclass(frozen=True)
class ConvertCharset:
    """CONVERT TO CHARACTER SET: of all texts of a table."""

    charset: str
    collation: str | None = None


Action: TypeAlias = (
    AddColumn | ChangeColumn | DropColumn | RenameColumn | AddIndex | DropIndex | RenameIndex
    | RenameTable | AddForeignKey | SetEngine | ConvertCharset
)  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """One statement about one table.

    Attributes:
        database: as written; None where the session's is meant.
        line: where the statement begins, from 1.
        words: its beginning, to be shown.
    """

    kind: Kind
    database: str | None
    table: str
    actions: tuple[Action, ...] = ()
    line: int = 1
    words: str = ""
