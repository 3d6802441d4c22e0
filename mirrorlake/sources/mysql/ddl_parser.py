"""DDL statements: their text → what they say.

A parser library reads MySQL's and MariaDB's grammar; what it can't read, or reads as something that
it is not, is refused with its line and column, never guessed.

What belongs here: reading the text. What doesn't: what a table is afterwards
(`mirrorlake.sources.mysql.altered`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from mirrorlake.errors import DdlRefused
from mirrorlake.sources.mysql.ddl import (
    Action,
    AddColumn,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    ConvertCharset,
    DeclaredColumn,
    DropColumn,
    DropIndex,
    Kind,
    RenameColumn,
    RenameIndex,
    RenameTable,
    SetEngine,
    Statement,
)
from mirrorlake.sources.mysql.ddl_types import DeclaredType

_RENAMES: Final = re.compile(r"\s*RENAME\s+TABLES?\b", re.IGNORECASE)
_IGNORED: Final = re.compile(
    r"\s*(?:SET|USE|COMMIT|BEGIN|START\s+TRANSACTION|LOCK|UNLOCK|ANALYZE|SELECT|SHOW)\b",
    re.IGNORECASE,
)
"""Statements that change no table."""
_OTHERS: Final = re.compile(
    r"\s*(?:GRANT|REVOKE|CALL|DO|FLUSH|OPTIMIZE|CHECK|REPAIR|HANDLER|KILL|SIGNAL|DELIMITER|END|"
    r"(?:CREATE|DROP|ALTER)\s+(?:OR\s+REPLACE\s+)?(?:DEFINER\s*=\s*\S+\s+)?"
    r"(?:DATABASE|SCHEMA|TRIGGER|PROCEDURE|FUNCTION|EVENT|USER|ROLE|VIEW|SERVER|SEQUENCE))\b",
    re.IGNORECASE,
)
"""Statements that declare no column of a table; what they do to rows is not looked at."""
_KNOWN: Final = re.compile(
    r"\s*(?:ALTER|CREATE|DROP|TRUNCATE|INSERT|REPLACE|UPDATE|DELETE|LOAD|WITH|RENAME)\b",
    re.IGNORECASE,
)
_HASH_LINE: Final = re.compile(r"^([ \t]*)--(?=\S)", re.MULTILINE)
"""What tools write as a comment and MySQL does not read as one: ``--liquibase formatted sql``."""
_ONLINE: Final = re.compile(r"\b(ALTER)\s+(?:ONLINE|IGNORE)\s+(?=TABLE\b)", re.IGNORECASE)
_TYPE: Final = re.compile(
    r"\s*(double\s+precision|(?:national\s+)?(?:char(?:acter)?\s+varying|varchar|char)|"
    r"long\s+varchar|[a-z][a-z0-9_]*)",
    re.IGNORECASE,
)


def parse_ddl(text: str) -> tuple[Statement, ...]:
    """The statements of a migration, in order; those that change no table are left out.

    Raises:
        DdlRefused: a statement can't be read; with its line and column.
    """
    text = _HASH_LINE.sub(r"\1# ", text)
    return tuple(statement for part, line in _split(text) for statement in _read(part, line))


def _split(text: str) -> Iterator[tuple[str, int]]:
    """Each statement with the line on which it begins, comments and all."""
    from sqlglot.errors import TokenError

    try:
        tokens = _dialect().tokenize(text)
    except TokenError as error:
        line = text.count("\n") + 1
        raise DdlRefused(
            f"the text ends inside of a quoted name, a string or a comment, line {line}",
            next_step="Close it",
        ) from error
    start: int | None = None
    end = 0
    for token in tokens:
        if token.token_type.name == "SEMICOLON":
            if start is not None:
                yield text[start : token.start], text.count("\n", 0, start) + 1
            start = None
            continue
        start, end = (token.start if start is None else start), token.end
    if start is not None:
        yield text[start : end + 1], text.count("\n", 0, start) + 1


def _dialect() -> Any:
    from sqlglot.dialects.dialect import Dialect

    return Dialect.get_or_raise("mysql")


def _read(text: str, line: int) -> Iterator[Statement]:
    from sqlglot import exp, parse_one
    from sqlglot.errors import ParseError

    bare = _without_comments(text)
    if _IGNORED.match(bare):
        return
    if _RENAMES.match(bare):
        yield from _renames(bare, line)
        return
    if _OTHERS.match(bare):
        yield Statement("other", None, "", (), line, " ".join(text.split())[:80])
        return
    if not _KNOWN.match(bare):
        raise _refused(text, line, 1, 1, "this is no statement of MySQL's that is known here")
    text, converted = _take_conversion(text)
    # As long as what it stands for: positions stay right.
    text = _ONLINE.sub(lambda m: m[1] + " " * (len(m[0]) - len(m[1])), text)
    try:
        found: Any = parse_one(text, read="mysql")
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        raise _refused(
            text, line, int(details.get("line") or 1), int(details.get("col") or 1),
            str(details.get("description") or "it can't be read"),
        ) from error  # fmt: skip
    if isinstance(found, exp.Command):
        raise _refused(text, line, 1, 1, "this statement can't be read yet")
    words = " ".join(text.split())[:80]
    for kind, database, table, actions in _said(found, text, line):
        yield Statement(kind, database, table, (*actions, *converted), line, words)


def _without_comments(text: str) -> str:
    """The statement from its first word on."""
    tokens = _dialect().tokenize(text)
    return text[tokens[0].start :] if tokens else text


def _take_conversion(text: str) -> tuple[str, tuple[ConvertCharset, ...]]:
    """A statement without its CONVERT TO CHARACTER SET, for which the parser has no word, and that
    clause; what takes its place says nothing and is as long."""
    tokens = _dialect().tokenize(text)
    for token, after in pairwise(tokens):
        # In quotes it would be a token of its own, with them around it.
        if (token.text.upper(), after.text.upper()) != ("CONVERT", "TO"):
            continue
        found = _CONVERT.match(text, token.start)
        if found is None:
            continue
        filler = _FILLER + " " * (len(found[0]) - len(_FILLER))
        said = ConvertCharset(found[1].lower(), found[2].lower() if found[2] else None)
        return text[: token.start] + filler + text[found.end() :], (said,)
    return text, ()


_CONVERT: Final = re.compile(
    r"CONVERT\s+TO\s+(?:CHARACTER\s+SET|CHARSET)\s*=?\s*'?(\w+)'?(?:\s+COLLATE\s*=?\s*'?(\w+)'?)?",
    re.IGNORECASE,
)
_FILLER: Final = "AUTO_INCREMENT=1"


_Said = tuple[Kind, str | None, str, tuple[Action, ...]]


def _said(found: Any, text: str, line: int) -> Iterator[_Said]:
    """What a parsed statement says, table by table."""
    from sqlglot import exp

    what = found.args.get("kind")
    if isinstance(found, exp.Alter) and what == "TABLE":
        yield "alter", *_table(found.this), tuple(_actions(found, text, line))
    elif isinstance(found, exp.Drop) and what == "TABLE":
        for table in found.args["tables"]:
            yield "drop", *_table(table), ()
    elif isinstance(found, exp.TruncateTable):
        for table in found.expressions:
            yield "truncate", *_table(table), ()
    elif isinstance(found, (exp.Create, exp.Drop)) and what == "INDEX":
        yield _index_statement(found)
    elif isinstance(found, exp.Create) and what == "TABLE":
        table = found.this.this if isinstance(found.this, exp.Schema) else found.this
        yield "create", *_table(table), ()
    else:
        table = found.find(exp.Table)
        database, name = _table(table) if table is not None else (None, "")
        yield "other", database, name, ()


def _refused(text: str, start: int, line: int, column: int, why: str) -> DdlRefused:
    words = " ".join(text.split())[:60]
    return DdlRefused(
        f"line {start + line - 1}, column {column}: {words}: {why}",
        next_step="Write it in a form that MySQL's manual has, one ALTER TABLE for each table, or "
        "look at it by hand",
    )


def _table(table: Any) -> tuple[str | None, str]:
    return table.db or None, table.name


def _renames(text: str, line: int) -> Iterator[Statement]:
    """``RENAME TABLE a TO b, c TO d`` as an ALTER TABLE each: the parser has no word for it."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import ParseError

    rest = text[_RENAMES.match(text).end() :]  # type: ignore[union-attr]
    for pair in rest.split(","):
        names = re.split(r"\s+TO\s+", pair.strip(), flags=re.IGNORECASE)
        try:
            before, now = (parse_one(name, read="mysql", into=exp.Table) for name in names)
        except (ParseError, ValueError) as error:
            raise _refused(text, line, 1, 1, "the names can't be read") from error
        action = RenameTable(*_table(now))
        yield Statement("alter", *_table(before), (action,), line, " ".join(text.split())[:80])


def _index_statement(found: Any) -> _Said:
    from sqlglot import exp

    if isinstance(found, exp.Drop):
        place = _table(found.args["cluster"].this)
        return "alter", *place, (DropIndex(found.args["tables"][0].name),)
    columns, whole = _index_columns(found.this.args["params"].args.get("columns") or ())
    unique = bool(found.args.get("unique"))
    index = AddIndex(found.this.name, columns, unique=unique, whole=whole)
    return "alter", *_table(found.this.args["table"]), (index,)


def _index_columns(expressions: Sequence[Any]) -> tuple[tuple[str, ...], bool]:
    """The columns of an index up to the first that is an expression, and whether all are whole."""
    from sqlglot import exp

    names: list[str] = []
    whole = True
    for expression in expressions:
        part = expression.this if isinstance(expression, exp.Ordered) else expression
        if isinstance(part, exp.ColumnPrefix):
            part, whole = part.this, False
        if not isinstance(part, (exp.Column, exp.Identifier)):
            return tuple(names), False
        names.append(part.name)
    return tuple(names), whole


def _actions(found: Any, text: str, line: int) -> Iterator[Action]:
    for action in found.args.get("actions") or ():
        yield from _action(action, text, line)
    for option in found.args.get("options") or ():
        name = type(option).__name__
        if name == "EngineProperty":
            yield SetEngine(option.name)
        elif name not in _HARMLESS:
            raise _refused(text, line, 1, 1, f"what {option.sql('mysql')} does can't be told")


_HARMLESS: Final = (
    "AlgorithmProperty", "LockProperty", "AutoIncrementProperty", "SchemaCommentProperty",
    # Of columns that are added later, by a statement of its own: they say it themselves.
    "CharacterSetProperty", "CollateProperty", "RowFormatProperty",
)  # fmt: skip


def _action(action: Any, text: str, line: int) -> Iterator[Action]:  # noqa: C901 - one case each
    from sqlglot import exp

    if isinstance(action, exp.ColumnDef):
        yield AddColumn(_column(action, text, line), bool(action.args.get("exists")))
    elif isinstance(action, exp.ModifyColumn):
        column = _column(action.this, text, line)
        before = action.args.get("rename_from")
        yield ChangeColumn(before.name if before is not None else column.name, column)
    elif isinstance(action, exp.RenameColumn):
        yield RenameColumn(action.this.name, action.args["to"].name)
    elif isinstance(action, exp.AlterRename):
        yield RenameTable(*_table(action.this))
    elif isinstance(action, exp.RenameIndex):
        yield RenameIndex(action.this.name, action.args["to"].name)
    elif isinstance(action, exp.DropPrimaryKey):
        yield DropIndex("PRIMARY")
    elif isinstance(action, exp.Drop):
        kind, name = action.args.get("kind"), action.args["tables"][0].name
        if kind == "COLUMN":
            yield DropColumn(name, bool(action.args.get("exists")))
        elif kind in ("INDEX", "KEY"):
            yield DropIndex(name)
        elif kind not in ("FOREIGN KEY", "CONSTRAINT", "CHECK"):
            raise _refused(text, line, 1, 1, f"what DROP {kind} does can't be told")
    elif isinstance(action, exp.AddConstraint):
        for part in action.expressions:
            yield from _constraint(part, text, line)
    elif not isinstance(action, exp.AlterColumn):  # a default or its visibility moves no value
        words = action.sql("mysql")
        raise _refused(text, line, 1, 1, f"what {words} does can't be told")


def _constraint(part: Any, text: str, line: int) -> Iterator[Action]:
    from sqlglot import exp

    name = None
    if isinstance(part, exp.Constraint):
        name, part = part.this.name, part.expressions[0]
    if isinstance(part, exp.PrimaryKey):
        columns, whole = _index_columns(part.expressions)
        yield AddIndex("PRIMARY", columns, unique=True, whole=whole)
    elif isinstance(part, exp.UniqueColumnConstraint):
        schema = part.this
        columns, whole = _index_columns(schema.expressions)
        named = schema.this.name if schema.this is not None else name
        yield AddIndex(named, columns, unique=True, whole=whole)
    elif isinstance(part, exp.IndexColumnConstraint):
        columns, whole = _index_columns(part.expressions)
        if not part.args.get("kind"):  # a FULLTEXT or SPATIAL one serves no range
            yield AddIndex(part.this.name if part.this is not None else None, columns, whole=whole)
    elif isinstance(part, exp.ForeignKey):
        columns, _ = _index_columns(part.expressions)
        said = " ".join(str(o) for o in part.args["reference"].args.get("options") or ()).upper()
        yield AddForeignKey(columns, _rule(said, "UPDATE"), _rule(said, "DELETE"))
    elif not isinstance(part, exp.CheckColumnConstraint):
        raise _refused(text, line, 1, 1, f"what {part.sql('mysql')} does can't be told")


def _rule(said: str, event: str) -> str:
    found = re.search(rf"ON {event} (CASCADE|SET NULL|SET DEFAULT|RESTRICT|NO ACTION)", said)
    return found[1] if found else "RESTRICT"


def _column(definition: Any, text: str, line: int) -> DeclaredColumn:
    said: dict[str, Any] = {}
    for constraint in definition.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        read = _CONSTRAINTS.get(type(kind).__name__)
        if read is not None:
            said |= read(kind)
        elif constraint.sql("mysql").upper() == "BINARY":
            said["collation"] = "binary"
    declared = _declared(definition, text, line)
    if declared.word == "serial":
        said |= {"nullable": False, "unique": said.get("unique", "unique")}
    position = definition.args.get("position")
    if position is not None:
        first = position.args.get("position") == "FIRST"
        said |= {"first": first} if first else {"position": position.this.name}
    return DeclaredColumn(definition.this.name, declared, **said)


_CONSTRAINTS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "NotNullColumnConstraint": lambda said: {"nullable": bool(said.args.get("allow_null"))},
    "CharacterSetColumnConstraint": lambda said: {"charset": said.this.name.lower()},
    "CollateColumnConstraint": lambda said: {"collation": said.this.name.lower()},
    "CommentColumnConstraint": lambda said: {"comment": said.this.name},
    "PrimaryKeyColumnConstraint": lambda _: {"unique": "primary", "nullable": False},
    "UniqueColumnConstraint": lambda _: {"unique": "unique"},
    "ComputedColumnConstraint": lambda _: {"generated": True},
}
"""What each part of a column's declaration says, by the parser's name of it."""


def _declared(definition: Any, text: str, line: int) -> DeclaredType:
    """The type as it is written: the parser takes MySQL's INT8 for another dialect's."""
    kind = definition.args.get("kind")
    end = definition.this.meta.get("end")
    word = _TYPE.match(text, end + 1) if end is not None else None
    if kind is None or word is None:
        name = definition.this.name
        raise _refused(text, line, 1, 1, f"the type of {name} can't be read")
    arguments = tuple(
        argument.name for argument in kind.expressions if argument.name or argument.this is not None
    )
    zerofill = any(
        type(c.args.get("kind")).__name__ == "ZeroFillColumnConstraint"
        for c in definition.args.get("constraints") or ()
    )
    unsigned = kind.sql("mysql").upper().endswith("UNSIGNED")
    words = " ".join(word[1].lower().split())
    return DeclaredType(words, arguments, unsigned=unsigned, zerofill=zerofill)
