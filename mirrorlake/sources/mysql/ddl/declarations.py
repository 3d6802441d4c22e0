"""Clauses that declare, rename or drop columns, indexes and constraints → what they do.

A parser library reads them. What its grammar of MySQL lacks and no value depends on (IF EXISTS, an
index's visibility, where a column is stored) is taken out of its sight before, and types that it
does not know stand for others: everything keeps its place.

What belongs here: one clause of ALTER TABLE. What doesn't: cutting them
(`mirrorlake.sources.mysql.ddl.clauses`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from mirrorlake.sources.mysql.ddl.actions import (
    Action,
    AddColumn,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    DropColumn,
    DropConstraint,
    DropIndex,
    RenameColumn,
    RenameIndex,
    Rewrite,
    SetColumn,
    UseIndex,
)
from mirrorlake.sources.mysql.ddl.clauses import ends, missing, read_plain, skip
from mirrorlake.sources.mysql.ddl.columns import index_columns, read_column, read_reference
from mirrorlake.sources.mysql.ddl.text import Passage, Word, depths

_HEAD: Final = "ALTER TABLE t "
_KEYS: Final = (
    "INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "PRIMARY", "CONSTRAINT", "FOREIGN", "CHECK",
)  # fmt: skip
"""Reserved words: unquoted they begin no column."""
_UNKNOWN_TYPES: Final = (
    "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON",
    "GEOMETRYCOLLECTION", "GEOMCOLLECTION", "INET4", "INET6",
)  # fmt: skip
_ASIDE: Final = {
    "SRID": 2, "REF_SYSTEM_ID": 3, "COLUMN_FORMAT": 2, "STORAGE": 2, "VISIBLE": 1, "PERSISTENT": 1,
    "ENFORCED": 1, "COMPRESSED": 1,
}  # fmt: skip
"""Of a column: what says nothing of its values, and of how many words it is."""
_SPELLINGS: Final[Mapping[tuple[str, ...], str]] = {
    ("NATIONAL", "CHAR", "VARYING"): "VARCHAR", ("NATIONAL", "CHARACTER", "VARYING"): "VARCHAR",
    ("NATIONAL", "VARCHAR"): "VARCHAR", ("NATIONAL", "VARCHARACTER"): "VARCHAR",
    ("NATIONAL", "CHARACTER"): "CHAR", ("NATIONAL", "CHAR"): "CHAR",
    ("NCHAR", "VARCHAR"): "VARCHAR", ("NCHAR", "VARCHARACTER"): "VARCHAR",
    ("NCHAR", "VARYING"): "VARCHAR", ("LONG", "CHAR", "VARYING"): "TEXT",
    ("LONG", "CHARACTER", "VARYING"): "TEXT", ("LONG", "VARCHAR"): "TEXT",
    ("LONG", "VARCHARACTER"): "TEXT", ("LONG", "VARBINARY"): "BLOB", ("LONG",): "TEXT",
    ("VARCHARACTER",): "VARCHAR", ("MIDDLEINT",): "INT", ("INT3",): "INT",
    ("FLOAT",): "DOUBLE", ("FLOAT4",): "DOUBLE",  # it reads none that is UNSIGNED
    **{(name,): "JSON" for name in _UNKNOWN_TYPES},
}  # fmt: skip
"""Types that the parser does not know → one that is written in the same way."""
_STANDS_FOR: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("SERIAL", "DEFAULT", "VALUE"): ("NOT", "NULL", "UNIQUE"),
    ("BYTE",): ("CHARACTER SET binary",),
}
"""Attributes of a column that the parser does not know → what they mean."""


def read_declaration(clause: Passage) -> tuple[Action, ...]:
    """What a clause does.

    Raises:
        DdlRefused: it can't be read.
    """
    opened = skip(clause, 1, ("COLUMN",))
    conditional = skip(clause, opened, ("IF", "NOT", "EXISTS"))
    if clause.says("ADD") and clause.says("(", at=conditional):
        return tuple(
            action
            for element in _elements(clause, conditional)
            for action in _element(element, conditional=conditional > opened)
        )
    bare, is_conditional = _without_condition(clause)
    return tuple(_read(bare, conditional=is_conditional))


def _element(element: Passage, *, conditional: bool) -> Iterator[Action]:
    if element.says("ADD", "CHECK"):
        yield from read_plain(element) or ()
    else:
        yield from _read(element, conditional=conditional)


def _elements(clause: Passage, opening: int) -> Iterator[Passage]:
    """``ADD (a INT, b INT)`` as a clause for each."""
    start = opening + 1
    for number, word, depth in depths(clause.words):
        closes = word.said == ")" and depth == 0
        if number > opening and (closes or (word.said == "," and depth == 1)):
            if number == start:
                raise missing(clause, number, "a column is missing here")
            yield replace(clause, words=(clause.words[0], *clause.words[start:number]))
            start = number + 1
            if closes:
                break
    ends(clause, start)


def _without_condition(clause: Passage) -> tuple[Passage, bool]:
    """A clause without IF EXISTS or IF NOT EXISTS, and whether it had one."""
    for number, word, depth in depths(clause.words):
        if word.said == "IF" and not depth:
            end = skip(clause, number, ("IF", "NOT", "EXISTS"), ("IF", "EXISTS"))
            if end > number:
                kept = (*clause.words[:number], *clause.words[end:])
                return replace(clause, words=kept), True
    return clause, False


def _read(clause: Passage, *, conditional: bool) -> Iterator[Action]:
    keys = clause.says("ADD") and clause.said[1:2] != () and clause.said[1] in _KEYS
    seen, used = _without_index_options(clause) if keys else (_without_attributes(clause), True)
    for action in _actions(_parsed(seen), clause):
        if isinstance(action, AddIndex) and not used:
            action = replace(action, used=False)
        yield _if(action) if conditional else action


def _if(action: Action) -> Action:
    """An action that does nothing where there is nothing to do."""
    if isinstance(action, AddColumn | AddIndex):
        return replace(action, if_missing=True)
    if isinstance(
        action,
        ChangeColumn | DropColumn | RenameColumn | SetColumn | DropIndex | RenameIndex | UseIndex,
    ):
        return replace(action, if_there=True)
    return action


def _without_index_options(clause: Passage) -> tuple[Passage, bool]:
    """A clause that adds an index or a constraint without what says whether it is used or enforced,
    and whether queries may use it."""
    kept: list[Word] = []
    used, behind = True, False
    words = clause.words
    for number, word, depth in depths(words):
        if not depth and "USING" in (word.said, words[number - 1].said):
            continue  # BTREE or HASH: of InnoDB and MyISAM the former whatever is said
        behind = behind or (word.said == ")" and depth == 0)
        negated = word.said == "NOT" and clause.part(number + 1, number + 2).said
        if behind and not depth and (negated in (("IGNORED",), ("ENFORCED",))):
            continue
        if behind and not depth and word.said in ("VISIBLE", "INVISIBLE", "IGNORED", "ENFORCED"):
            if word.said in ("INVISIBLE", "IGNORED"):
                used = words[number - 1].said == "NOT"
            continue
        kept.append(word)
    return replace(clause, words=tuple(kept)), used


def _without_attributes(clause: Passage) -> Passage:
    """A clause that declares a column, with a type that the parser knows and without what says
    nothing of its values."""
    at = skip(clause, 1, ("COLUMN",)) + (2 if clause.says("CHANGE") else 1)
    if not clause.says("ADD") and not clause.says("MODIFY") and not clause.says("CHANGE"):
        return clause
    clause = _known_type(clause, at)
    kept: list[Word] = []
    skipped = 0
    for number, word, depth in depths(clause.words):
        if number > at and not depth and clause.words[number - 1].said not in ("AFTER", "DEFAULT"):
            negated = word.said == "NOT" and clause.says("ENFORCED", at=number + 1)
            assigned = word.said == "COMPRESSED" and clause.says("=", at=number + 1)
            aside = 3 if assigned else _ASIDE.get(word.said, 0)
            skipped = skipped or (1 if negated else aside)
        if skipped:
            skipped -= 1
        else:
            kept.append(word)
    return replace(clause, words=tuple(kept))


def _known_type(clause: Passage, at: int) -> Passage:
    """A clause that declares a column in words that the parser knows.

    Args:
        at: the number of the word with which the type begins.
    """
    words = list(clause.words)
    for said, known in _SPELLINGS.items():
        if clause.says(*said, at=at):
            words[at : at + len(said)] = [replace(words[at], text=known, said=known)]
            break
    clause = replace(clause, words=tuple(words))
    outside = [n for n, _, depth in depths(clause.words) if not depth and n > at]
    for number in outside:
        for said, known in _STANDS_FOR.items():
            if clause.says(*said, at=number) and words[number - 1].said != "AFTER":
                means = zip(words[number : number + len(said)], known, strict=True)
                words[number : number + len(said)] = [
                    replace(word, text=text, said=text) for word, text in means
                ]
    return replace(clause, words=tuple(words))


def _parsed(clause: Passage) -> Any:
    """The parser's tree of a clause.

    Raises:
        DdlRefused: it can't read it.
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import ParseError, TokenError

    # It warns of what it can't read; we say so ourselves, with the place.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    text = _HEAD + clause.text
    try:
        found: Any = parse_one(text, read="mysql")
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        why = str(details.get("description") or "it can't be read")
        raise clause.refused(why, _place(clause, text, details)) from error
    except TokenError as error:
        raise clause.refused("it can't be read") from error
    if not isinstance(found, exp.Alter) or found.args.get("options"):
        raise clause.refused("this clause can't be read yet")
    return found


def _place(clause: Passage, text: str, details: dict[str, Any]) -> int:
    """Where in the migration the parser stopped: it says the last column of a word."""
    line, column = int(details.get("line") or 1), int(details.get("col") or 1)
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
    at += column - max(1, len(str(details.get("highlight") or "")))
    return max(clause.start, clause.start + at - len(_HEAD))


def _actions(found: Any, clause: Passage) -> Iterator[Action]:
    for action in found.args.get("actions") or ():
        yield from _action(action, clause)


def _action(action: Any, clause: Passage) -> Iterator[Action]:
    from sqlglot import exp

    if isinstance(action, exp.ColumnDef):
        yield AddColumn(read_column(action, clause, len(_HEAD)))
    elif isinstance(action, exp.ModifyColumn):
        column = read_column(action.this, clause, len(_HEAD))
        before = action.args.get("rename_from")
        yield ChangeColumn(before.name if before is not None else column.name, column)
    elif isinstance(action, exp.RenameColumn):
        yield RenameColumn(action.this.name, action.args["to"].name)
    elif isinstance(action, exp.RenameIndex):
        yield RenameIndex(action.this.name, action.args["to"].name)
    elif isinstance(action, exp.DropPrimaryKey):
        yield DropIndex("PRIMARY")
    elif isinstance(action, exp.Drop):
        yield _drop(action, clause)
    elif isinstance(action, exp.AddConstraint):
        for part in action.expressions:
            yield from _constraint(part, clause)
    elif isinstance(action, exp.AlterColumn) and action.args.get("dtype") is None:
        yield SetColumn(action.this.name)
    else:
        raise clause.refused(f"what {action.sql('mysql')} does can't be told")


def _drop(action: Any, clause: Passage) -> Action:
    kind, dropped = action.args.get("kind"), action.args["tables"]
    if not dropped or dropped[0] is None:
        raise clause.refused("what it drops is missing")
    name = dropped[0].name
    if kind == "COLUMN":
        return DropColumn(name)
    if kind in ("INDEX", "KEY"):
        return DropIndex(name)
    if kind == "CONSTRAINT":
        return DropConstraint(name)
    if kind in ("FOREIGN KEY", "CHECK"):
        return Rewrite(redefines=True)
    raise clause.refused(f"what DROP {kind} does can't be told")


def _constraint(part: Any, clause: Passage) -> Iterator[Action]:
    from sqlglot import exp

    name = None
    if isinstance(part, exp.Constraint):
        name, part = part.this.name, part.expressions[0]
    if isinstance(part, exp.PrimaryKey):
        columns, whole = index_columns(part.expressions)
        yield AddIndex("PRIMARY", columns, unique=True, whole=whole)
    elif isinstance(part, exp.UniqueColumnConstraint):
        schema = part.this
        if schema is None or not schema.expressions:
            raise clause.refused("its columns are missing")
        columns, whole = index_columns(schema.expressions)
        named = schema.this.name if schema.this is not None else name
        yield AddIndex(named, columns, unique=True, whole=whole)
    elif isinstance(part, exp.IndexColumnConstraint):
        columns, whole = index_columns(part.expressions)
        if part.args.get("kind"):  # a FULLTEXT or SPATIAL one serves no range
            yield Rewrite(redefines=True)
        else:
            yield AddIndex(part.this.name if part.this is not None else None, columns, whole=whole)
    elif isinstance(part, exp.ForeignKey):
        columns, _ = index_columns(part.expressions)
        reference = part.args["reference"]
        if reference is None or reference.this is None:
            raise clause.refused("the table that it references is missing")
        yield AddForeignKey(columns, *read_reference(reference))
    elif isinstance(part, exp.CheckColumnConstraint):
        yield Rewrite(redefines=True)
    else:
        raise clause.refused(f"what {part.sql('mysql')} does can't be told")
