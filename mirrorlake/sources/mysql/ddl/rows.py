"""Statements that write rows, as far as a migration's preflight needs them: which table, how many.

What belongs here: what their words tell. What doesn't: what they do to values, which nobody looks
at, and statements that declare something (`mirrorlake.sources.mysql.ddl.parser`).
"""

from __future__ import annotations

from typing import Any

from mirrorlake.sources.mysql.ddl.clauses import TableName, read_target, skip
from mirrorlake.sources.mysql.ddl.text import Passage, depths, split_statements

_BEHIND_ROWS = ("ON", "AS", "RETURNING")
"""What may follow the rows of an INSERT."""


def target_of_rows(passage: Passage) -> TableName:
    """The table whose rows a statement changes; no name where that is not told by its beginning.

    Raises:
        DdlRefused: it can't be read.
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import ParseError, TokenError

    if passage.says("LOAD"):
        into = passage.said.index("INTO") if "INTO" in passage.said else len(passage.words)
        return read_target(passage, skip(passage, into + 1, ("TABLE",)))[0]
    if passage.says("INSERT") or passage.says("REPLACE"):
        at = skip(passage, 1, ("LOW_PRIORITY",), ("HIGH_PRIORITY",), ("DELAYED",))
        at = skip(passage, skip(passage, at, ("IGNORE",)), ("INTO",))
        return read_target(passage, at)[0]
    try:
        found: Any = parse_one(passage.text, read="mysql")
    except (ParseError, TokenError) as error:
        raise passage.refused("it can't be read") from error
    table = None if isinstance(found, exp.Command) else found.find(exp.Table)
    return (table.db or None, table.name) if table is not None else (None, "")


def rows_added(passage: Passage) -> int | None:
    """How many rows a statement adds at most; None where its text does not tell."""
    if passage.says("LOAD"):
        return None
    if not passage.says("INSERT") and not passage.says("REPLACE"):
        return 0
    outside = [(n, word.said) for n, word, depth in depths(passage.words) if not depth]
    begins = next((n for n, said in outside if said in ("VALUES", "VALUE")), None)
    if begins is None:
        return 1 if any(said == "SET" for _, said in outside) else None
    ends = next((n for n, said in outside if n > begins and said in _BEHIND_ROWS), None)
    return sum(said == "(" for n, said in outside if n > begins and (ends is None or n < ends))


def empties(passage: Passage) -> bool:
    """Whether a statement deletes all rows of its table."""
    if not passage.says("DELETE"):
        return False
    at = skip(passage, 1, ("LOW_PRIORITY",), ("QUICK",), ("IGNORE",))
    if not passage.says("FROM", at=at):
        return False
    return read_target(passage, at + 1)[1] == len(passage.words)


def definition_words(passage: Passage) -> tuple[str, ...]:
    """A table's definition word by word, without what its AUTO_INCREMENT gives out next."""
    words = [word.text for word in passage.words]
    found: list[str] = []
    skipped = 0
    for number, word in enumerate(passage.words):
        if word.said == "AUTO_INCREMENT" and passage.says("=", at=number + 1):
            skipped = 3
        if skipped:
            skipped -= 1
        else:
            found.append(words[number])
    return tuple(found)


def words_of_definition(text: str) -> tuple[str, ...]:
    """The same of a server's `SHOW CREATE TABLE`."""
    (passage,) = split_statements(text)
    at = read_target(passage, passage.said.index("TABLE") + 1)[1]
    return definition_words(passage.part(at))
