"""A column's declaration, as the parser library reads it → what it says.

The library takes MySQL's ``INT8`` and ``LONG`` for other dialects' types: the name of a type is
read from the text beside it.

What belongs here: one column, and the columns of an index. What doesn't: what servers make of a
type (`mirrorlake.sources.mysql.ddl.types`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mirrorlake.sources.mysql.ddl.actions import AddForeignKey, DeclaredColumn
from mirrorlake.sources.mysql.ddl.text import Passage, depths
from mirrorlake.sources.mysql.ddl.types import DeclaredType

_VARCHAR: Final = r"(?:char(?:acter)?\s+varying|varchar(?:acter)?)"
_TYPE: Final = re.compile(
    rf"\s*(double\s+precision|(?:national\s+|long\s+)?{_VARCHAR}|national\s+char(?:acter)?|"
    r"nchar\s+(?:varchar(?:acter)?|varying)|long\s+varbinary|[a-z][a-z0-9_]*)(?!\w)",
    re.IGNORECASE,
)


def index_columns(expressions: Sequence[Any]) -> tuple[tuple[str, ...], bool]:
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


def read_reference(reference: Any) -> tuple[str, str]:
    """What a foreign key does ON UPDATE and ON DELETE, in the server's words."""
    said = " ".join(str(o) for o in reference.args.get("options") or ()).upper()
    return _rule(said, "UPDATE"), _rule(said, "DELETE")


def _rule(said: str, event: str) -> str:
    found = re.search(rf"ON {event} (CASCADE|SET NULL|SET DEFAULT|RESTRICT|NO ACTION)", said)
    return found[1] if found else "RESTRICT"


def read_column(definition: Any, clause: Passage, shift: int) -> DeclaredColumn:
    """A column.

    Args:
        clause: as it is written.
        shift: how many characters stood before it for the parser.

    Raises:
        DdlRefused: its type can't be read.
    """
    said: dict[str, Any] = {}
    name = definition.this.name
    for constraint in definition.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        read = _CONSTRAINTS.get(type(kind).__name__)
        if read is not None:
            said |= read(kind)
        elif type(kind).__name__ == "Reference":
            said["references"] = AddForeignKey((name,), *read_reference(kind))
        elif constraint.sql("mysql").upper() == "BINARY":
            said["collation"] = "binary"
    declared = _declared(definition, clause, shift)
    if declared.word == "serial":
        said |= {"nullable": False, "unique": said.get("unique", "unique"), "counts": True}
    position = definition.args.get("position")
    if position is not None:
        first = position.args.get("position").upper() == "FIRST"
        if not first and position.this is None:
            raise clause.refused("the column that it comes after is missing")
        said |= {"first": first} if first else {"position": position.this.name}
    return DeclaredColumn(name, declared, **said)


_CONSTRAINTS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "NotNullColumnConstraint": lambda said: {"nullable": bool(said.args.get("allow_null"))},
    "CharacterSetColumnConstraint": lambda said: {"charset": said.this.name.lower()},
    "CollateColumnConstraint": lambda said: {"collation": said.this.name.lower()},
    "CommentColumnConstraint": lambda said: {"comment": said.this.name},
    "PrimaryKeyColumnConstraint": lambda _: {"unique": "primary", "nullable": False},
    "UniqueColumnConstraint": lambda _: {"unique": "unique"},
    "ComputedColumnConstraint": lambda _: {"generated": True},
    "DefaultColumnConstraint": lambda said: {"default": said.this.sql("mysql")},
    "AutoIncrementColumnConstraint": lambda _: {"counts": True},
}
"""What each part of a column's declaration says, by the parser's name of it."""


def _declared(definition: Any, clause: Passage, shift: int) -> DeclaredType:
    """The type as it is written."""
    kind = definition.args.get("kind")
    end = definition.this.meta.get("end")
    word = _TYPE.match(clause.text, end + 1 - shift) if end is not None else None
    if kind is None or word is None:
        raise clause.refused(f"the type of {definition.this.name} can't be read")
    arguments = tuple(
        argument.name for argument in kind.expressions if argument.name or argument.this is not None
    )
    zerofill = any(
        type(c.args.get("kind")).__name__ == "ZeroFillColumnConstraint"
        for c in definition.args.get("constraints") or ()
    )
    unsigned = kind.sql("mysql").upper().endswith("UNSIGNED")
    words = " ".join(word[1].lower().split())
    return DeclaredType(
        words,
        arguments,
        unsigned=unsigned,
        zerofill=zerofill,
        compressed=_is_compressed(clause),
    )


def _is_compressed(clause: Passage) -> bool:
    """Whether a column of MariaDB says COMPRESSED; a name, or what follows AFTER, is none."""
    said = clause.said
    return any(
        word.said == "COMPRESSED" and not depth and number > 2 and said[number - 1] != "AFTER"
        for number, word, depth in depths(clause.words)
    )
