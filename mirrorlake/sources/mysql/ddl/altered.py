"""A table as its server describes it → as it would after statements that have not run.

Source: MySQL 8.0 manual, 13.1.9 "ALTER TABLE Statement"; MariaDB knowledge base, "ALTER TABLE".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirrorlake.errors import DdlRefused
from mirrorlake.sources.mysql.ddl.actions import (
    Action,
    AddColumn,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    ConvertCharset,
    DeclaredColumn,
    DefaultCharset,
    DropColumn,
    DropConstraint,
    DropIndex,
    MoveRows,
    RenameColumn,
    RenameIndex,
    RenameTable,
    Rewrite,
    SetColumn,
    SetEngine,
    UseIndex,
)
from mirrorlake.sources.mysql.ddl.types import LONGER, Charsets, TooLong, UnknownType, describe_type
from mirrorlake.sources.mysql.tables import Column, ForeignKey, Index, SourceTable


@dataclass(frozen=True)
class Surroundings:
    """What decides about a column beside its declaration.

    Attributes:
        collation: the table's default.
        indexes: the names of all its indexes, in lower case: of those, too, that serve no range and
            keep nothing unique.
        strict: whether the server refuses what has no place, by its own ``sql_mode``; a session may
            have another.
        one_case: whether the server takes names of tables and databases that differ in case alone
            for one (``lower_case_table_names``).
    """

    charsets: Charsets
    collation: str
    mariadb: bool
    indexes: frozenset[str] = frozenset()
    strict: bool = False
    one_case: bool = False


def made(database: str, name: str, actions: Sequence[Action], around: Surroundings) -> SourceTable:
    """The table that a CREATE TABLE with these actions makes.

    Args:
        around: with the database's default collation, and no index.

    Raises:
        DdlRefused: the server would refuse it.
    """
    # Whatever stands behind the columns is of all of them.
    around = around_after(actions, around)
    empty = SourceTable(database, name, "InnoDB", (), (), 0, ())
    return alter(empty, [a for a in actions if not isinstance(a, DefaultCharset)], around)


def around_after(actions: Sequence[Action], around: Surroundings) -> Surroundings:
    """What decides about columns that come with these actions, or after them."""
    for action in actions:
        if not isinstance(action, ConvertCharset | DefaultCharset):
            continue
        charsets = around.charsets
        collation = charsets.collation_named(action.collation)
        if collation is None:
            charset = charsets.charset_named(action.charset)
            collation = charsets.defaults.get(charset or "", "")
        around = replace(around, collation=collation)
    return around


def alter(table: SourceTable, actions: Sequence[Action], around: Surroundings) -> SourceTable:
    """The table after these actions of one statement.

    Raises:
        DdlRefused: one names a column or an index that is not there, or is there already: the
            server would refuse it.
    """
    actions = [action for action in actions if not _skipped(table, action)]
    # Whatever their order, the server takes what goes from the table as it was, and all names at
    # once: two columns may swap theirs.
    gone = [action for action in actions if isinstance(action, DropColumn)]
    for action in gone:
        table = _dropped(table, action)
    table = _all_renamed(table, [a for a in actions if isinstance(a, RenameColumn | ChangeColumn)])
    for action in actions:
        if isinstance(action, ConvertCharset):
            table = _converted(table, action, around.charsets)
    # What comes in the same statement is of the new charset, and not converted.
    around = around_after(actions, around)
    for action in sorted(actions, key=_turn):
        table = _apply(table, action, around)
    columns = tuple(replace(c, ordinal=number) for number, c in enumerate(table.columns, 1))
    return replace(table, columns=columns)


def _turn(action: Action) -> int:
    """When a server comes to an action: indexes go first, and new ones may be over new columns."""
    if isinstance(action, DropIndex | DropConstraint):
        return 0
    return 1 if isinstance(action, AddColumn | ChangeColumn) else 2


def _skipped(table: SourceTable, action: Action) -> bool:
    """Whether an action is about a column that is not there, and says IF EXISTS."""
    if not isinstance(action, ChangeColumn | RenameColumn | SetColumn) or not action.if_there:
        return False
    return _find(table, action.name) is None


def _apply(table: SourceTable, action: Action, around: Surroundings) -> SourceTable:  # noqa: C901
    match action:
        case AddColumn(column, if_missing):
            if _find(table, column.name) is not None:
                if if_missing:
                    return table
                raise _refuse(table, f"it has a column {column.name!r} already")
            return _with_column(table, column, around, None)
        case ChangeColumn(_, column):
            return _with_column(table, column, around, _column(table, column.name))
        case SetColumn(name):
            _column(table, name)
            return table
        case DropColumn() | RenameColumn() | ConvertCharset():
            return table  # done already
        case DefaultCharset() | Rewrite() | MoveRows():
            return table  # no column changes
        case AddIndex():
            return _with_index(table, action)
        case DropIndex() | RenameIndex() | UseIndex():
            return _with_changed_index(table, action, around)
        case DropConstraint(name):
            dropped = DropIndex(name, if_there=True)  # else it is a check or a foreign key
            return _with_changed_index(table, dropped, around)
        case RenameTable(database, name):
            return replace(table, name=name, database=database or table.database)
        case AddForeignKey(columns, on_update, on_delete):
            for name in columns:
                _column(table, name)
            key = ForeignKey(columns, on_update, on_delete)
            return replace(table, foreign_keys=(*table.foreign_keys, key))
        case SetEngine(name):
            return replace(table, engine=name)


def _refuse(table: SourceTable, why: str) -> DdlRefused:
    name = f"{table.database}.{table.name}"
    return DdlRefused(
        f"table {name}: {why}: the server would refuse it",
        table=name,
        next_step="Its columns are: " + ", ".join(c.name for c in table.columns),
    )


def _find(table: SourceTable, name: str) -> Column | None:
    return next((c for c in table.columns if c.name.lower() == name.lower()), None)


def _column(table: SourceTable, name: str) -> Column:
    found = _find(table, name)
    if found is None:
        raise _refuse(table, f"it has no column {name!r}")
    return found


def _with_column(
    table: SourceTable, declared: DeclaredColumn, around: Surroundings, before: Column | None
) -> SourceTable:
    """The table with a column that is new, or takes the place of another."""
    column = _described(declared, around)
    columns = [c for c in table.columns if c.name.lower() != declared.name.lower()]
    if declared.first:
        at = 0
    elif declared.position is not None:
        at = columns.index(_column(replace(table, columns=tuple(columns)), declared.position)) + 1
    elif before is not None:
        at = [c.name.lower() for c in table.columns].index(declared.name.lower())
    else:
        at = len(columns)
    columns.insert(at, column)
    table = replace(table, columns=tuple(columns))
    if declared.references is not None and around.mariadb:
        table = _apply(table, declared.references, around)
    if declared.unique is not None:
        name = "PRIMARY" if declared.unique == "primary" else None
        table = _with_index(table, AddIndex(name, (declared.name,), unique=True))
    if any(i.name == "PRIMARY" and declared.name in i.columns for i in table.indexes):
        table = _not_null(table, (declared.name,))
    return table


def _too_long(declared: DeclaredColumn, error: TooLong) -> DdlRefused:
    size = ",".join(declared.type.arguments)
    becomes = f" (without strict mode it would become {error.kind.upper()})" if error.kind else ""
    return DdlRefused(
        f"column {declared.name}: {declared.type.word.upper()}({size}) is longer than "
        f"{error.longest:,}, and the server would refuse it{becomes}",
        column=declared.name,
        next_step="Declare it shorter, or as a TEXT or BLOB that is long enough",
    )


def _described(declared: DeclaredColumn, around: Surroundings) -> Column:
    charsets = around.charsets
    national = "utf8mb3" if declared.type.is_national else declared.charset
    charset = charsets.charset_named(national)
    collation = charsets.collation_named(declared.collation)
    if charset is None and collation not in (None, "binary"):
        charset = charsets.of_collation.get(str(collation))
    if charset is None:
        charset = charsets.of_collation.get(around.collation)
        collation = collation or around.collation
    if collation is None:
        collation = charsets.defaults.get(charset or "")
    elif collation == "binary" and charset != "binary":
        collation = f"{charset}_bin"
    as_text = around.mariadb and declared.collation is not None and charset != "binary"
    try:
        kind = describe_type(
            declared.type.as_text if as_text else declared.type,
            charset,
            collation,
            charsets,
            mariadb=around.mariadb,
            strict=around.strict,
        )
    except TooLong as error:
        raise _too_long(declared, error) from None
    except UnknownType as error:
        raise DdlRefused(
            f"column {declared.name}: {'MariaDB' if around.mariadb else 'MySQL'} has no type "
            f"{str(error).upper()}, as far as we know",
            column=declared.name,
            next_step="Spell it as MySQL's manual does, or look at it by hand",
        ) from None
    return Column(
        name=declared.name,
        ordinal=0,
        data_type=kind.data_type,
        column_type=kind.column_type,
        nullable=declared.nullable is not False,
        charset=kind.charset,
        collation=kind.collation,
        precision=kind.precision,
        scale=kind.scale,
        length=kind.length,
        fraction=kind.fraction,
        extra="",
        comment=declared.comment,
        generated="?" if declared.generated else "",
        mariadb=around.mariadb,
    )


def _dropped(table: SourceTable, action: DropColumn) -> SourceTable:
    """Without a column, and without it in every index; one that has no column left goes."""
    if action.if_there and _find(table, action.name) is None:
        return table
    column = _column(table, action.name)
    indexes = (
        replace(i, columns=tuple(c for c in i.columns if c != column.name)) for i in table.indexes
    )
    return replace(
        table,
        columns=tuple(c for c in table.columns if c != column),
        indexes=tuple(i for i in indexes if i.columns),
    )


def _all_renamed(table: SourceTable, actions: Sequence[RenameColumn | ChangeColumn]) -> SourceTable:
    now = {
        _column(table, a.name).name: a.now if isinstance(a, RenameColumn) else a.column.name
        for a in actions
    }
    names = [now.get(c.name, c.name) for c in table.columns]
    taken = {name.lower() for name in names}
    if len(taken) < len(names):
        twice = next(n for n in now.values() if [x.lower() for x in names].count(n.lower()) > 1)
        raise _refuse(table, f"it has a column {twice!r} already")
    return replace(
        table,
        columns=tuple(replace(c, name=name) for c, name in zip(table.columns, names, strict=True)),
        indexes=tuple(
            replace(i, columns=tuple(now.get(c, c) for c in i.columns)) for i in table.indexes
        ),
        foreign_keys=tuple(
            replace(k, columns=tuple(now.get(c, c) for c in k.columns)) for k in table.foreign_keys
        ),
    )


def _with_changed_index(
    table: SourceTable, action: DropIndex | RenameIndex | UseIndex, around: Surroundings
) -> SourceTable:
    same = action.name.lower()
    found = [i for i in table.indexes if i.name.lower() == same]
    if not found:
        if action.if_there or same in around.indexes:
            return table  # of the latter we keep nothing
        raise _refuse(table, f"it has no index {action.name!r} that we know of")
    match action:
        case DropIndex():
            now = None
        case RenameIndex():
            now = replace(found[0], name=action.now)
        case UseIndex():
            now = replace(found[0], ranged=None if action.used else 0)
    changed = (now if i is found[0] else i for i in table.indexes)
    return replace(table, indexes=tuple(i for i in changed if i is not None))


def _with_index(table: SourceTable, added: AddIndex) -> SourceTable:
    if added.if_missing and added.name is not None:
        taken = {i.name.lower() for i in table.indexes}
        if added.name.lower() in taken:
            return table
    columns = tuple(_column(table, name).name for name in added.columns)
    if not columns:
        return table
    taken = {i.name.lower() for i in table.indexes}
    name = added.name or columns[0]
    number = 2
    while added.name is None and name.lower() in taken:
        name, number = f"{columns[0]}_{number}", number + 1
    if name.lower() in taken:
        raise _refuse(table, f"it has an index {name!r} already")
    # A part of a column tells no two values apart that differ behind it.
    index = Index(name, added.unique and added.whole, columns, None if added.used else 0)
    table = replace(table, indexes=(*table.indexes, index))
    return _not_null(table, columns) if name == "PRIMARY" else table


def _converted(table: SourceTable, action: ConvertCharset, charsets: Charsets) -> SourceTable:
    """With all its texts in another charset; a TEXT becomes long enough for as many characters."""
    charset = charsets.charset_named(action.charset) or ""
    wanted = charsets.collation_named(action.collation) or charsets.defaults.get(charset)

    def convert(column: Column) -> Column:
        if column.charset is None or column.data_type == "json":
            return column
        found = replace(column, charset=charset, collation=wanted)
        wider = charsets.width.get(charset, 1) > charsets.width.get(column.charset, 1)
        if wider and column.data_type in LONGER:
            kind = LONGER[column.data_type]
            found = replace(found, data_type=kind, column_type=kind)
        return found

    return replace(table, columns=tuple(convert(c) for c in table.columns))


def _not_null(table: SourceTable, names: Sequence[str]) -> SourceTable:
    return replace(
        table,
        columns=tuple(replace(c, nullable=False) if c.name in names else c for c in table.columns),
    )
