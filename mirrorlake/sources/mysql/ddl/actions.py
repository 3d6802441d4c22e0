"""What DDL statements say of tables: the words in which they are looked at before they run.

What belongs here: the statements and their parts. What doesn't: reading them from text
(`mirrorlake.sources.mysql.ddl.parser`), and what a table is afterwards
(`mirrorlake.sources.mysql.ddl.altered`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from mirrorlake.sources.mysql.ddl.types import DeclaredType

Kind: TypeAlias = Literal["alter", "drop", "truncate", "create", "other"]


@dataclass(frozen=True)
class DeclaredColumn:
    """A column as a statement declares it.

    Attributes:
        nullable: None where nothing is said.
        position: ``first``, or the name of the column before it; None: at the end, or where it is.
        unique: ``primary`` or ``unique``, where the column itself says so.
        generated: whether it is computed; the server prints the expression in its own way.
        default: SQL of what a row gets that says nothing of it; None where nothing is said.
        counts: whether its values are numbers that the server gives out.
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
    default: str | None = None
    counts: bool = False
    references: AddForeignKey | None = None
    """MariaDB makes a foreign key of it, MySQL 8 nothing."""


@dataclass(frozen=True)
class AddColumn:
    column: DeclaredColumn
    if_missing: bool = False


@dataclass(frozen=True)
class ChangeColumn:
    """MODIFY and CHANGE; ``name`` is the column's name before."""

    name: str
    column: DeclaredColumn
    if_there: bool = False


@dataclass(frozen=True)
class SetColumn:
    """ALTER COLUMN: its default, or whether ``*`` shows it. No value of it changes."""

    name: str
    if_there: bool = False


@dataclass(frozen=True)
class DropColumn:
    name: str
    if_there: bool = False


@dataclass(frozen=True)
class RenameColumn:
    name: str
    now: str
    if_there: bool = False


@dataclass(frozen=True)
class AddIndex:
    """``columns``: up to the first that is an expression or a part of a column; ``used``: whether
    queries may use it."""

    name: str | None
    columns: tuple[str, ...]
    unique: bool = False
    whole: bool = True
    used: bool = True
    if_missing: bool = False


@dataclass(frozen=True)
class DropIndex:
    name: str
    if_there: bool = False


@dataclass(frozen=True)
class DropConstraint:
    """DROP CONSTRAINT: an index, if it has that name; a check or a foreign key changes nothing."""

    name: str


@dataclass(frozen=True)
class RenameIndex:
    name: str
    now: str
    if_there: bool = False


@dataclass(frozen=True)
class UseIndex:
    """Whether queries may use an index: VISIBLE and INVISIBLE, NOT IGNORED and IGNORED."""

    name: str
    used: bool
    if_there: bool = False


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


@dataclass(frozen=True)
class DefaultCharset:
    """DEFAULT CHARACTER SET: of the columns that come after it."""

    charset: str | None
    collation: str | None = None


@dataclass(frozen=True)
class Rewrite:
    """The server writes or describes the table again, with the same columns and rows.

    Attributes:
        redefines: whether its definition reads otherwise afterwards; None: that depends on what it
            said before.
    """

    redefines: bool | None


@dataclass(frozen=True)
class MoveRows:
    """Rows come or go as a whole, and no cursor moves with them.

    Attributes:
        words: which, and how.
    """

    words: str


Action: TypeAlias = (
    AddColumn | ChangeColumn | SetColumn | DropColumn | RenameColumn | AddIndex | DropIndex
    | DropConstraint | RenameIndex | UseIndex | RenameTable | AddForeignKey | SetEngine
    | ConvertCharset | DefaultCharset | Rewrite | MoveRows
)  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """One statement about one table.

    Attributes:
        database: as written; None where the session's is meant.
        line: where the statement begins, from 1.
        words: its beginning, to be shown.
        if_missing: whether it only makes a table that is not there.
        adds: how many rows it adds, at most; None: its text does not tell.
        empties: whether it deletes every row, one by one.
        like: the table whose definition a new one gets.
        definition: of a new table, its words behind its name.
        unread: why the columns of a new table, which its ``actions`` declare, are not known: what
            stands there can't be read, or comes from a SELECT; '' where they are.
    """

    kind: Kind
    database: str | None
    table: str
    actions: tuple[Action, ...] = ()
    line: int = 1
    words: str = ""
    if_missing: bool = False
    adds: int | None = 0
    empties: bool = False
    like: tuple[str | None, str] | None = None
    definition: tuple[str, ...] = ()
    unread: str = ""
