"""CREATE TABLE: the columns, indexes and options that it declares, as the actions of an ALTER TABLE
that would add them to a table without any.

What can't be read is said, and not refused: a new table is most often none that is mirrored.

Source: MySQL 8.0 manual, 13.1.20 "CREATE TABLE Statement"; MariaDB knowledge base, "CREATE TABLE".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mirrorlake.errors import DdlRefused
from mirrorlake.sources.mysql.ddl.actions import Action, AddColumn
from mirrorlake.sources.mysql.ddl.clauses import cut_clauses, read_plain
from mirrorlake.sources.mysql.ddl.declarations import read_declaration
from mirrorlake.sources.mysql.ddl.text import Passage, depths

_OF_QUERY: Final = frozenset(("SELECT", "WITH", "VALUES", "TABLE"))
"""With these words a query begins, whose columns and rows the table gets."""


def read_columns(passage: Passage, at: int) -> tuple[tuple[Action, ...], str]:
    """What a CREATE TABLE declares, and why that is not known; '' if it is.

    Args:
        at: the number of the word behind the table's name.
    """
    if any(word.unsure for word in passage.words[at:]):
        return (), "some of it stands in a comment that servers run or not, by their release"
    outside = [(n, word.said) for n, word, depth in depths(passage.words) if n >= at and not depth]
    if any(said in _OF_QUERY for _, said in outside):
        return (), "they come from a query"
    if not passage.says("(", at=at):
        return (), "it declares none"
    if passage.said[at + 1 : at + 2] in (("SELECT",), ("WITH",)):
        return (), "they come from a query"
    closing = next(n for n, said in outside if said == ")")
    head = replace(passage.words[0], text="ADD", said="ADD")
    declared = replace(passage, words=(head, *passage.words[at : closing + 1]))
    try:
        actions = (*read_declaration(declared), *_options(passage, closing + 1))
    except DdlRefused as error:
        return (), error.message
    if not any(isinstance(action, AddColumn) for action in actions):
        return (), "it declares none"
    return actions, ""


def _options(passage: Passage, at: int) -> Iterator[Action]:
    """The options behind the columns, with blanks or commas between them, and the partitions.

    Raises:
        DdlRefused: they can't be read.
    """
    for clause in cut_clauses(passage, at) if at < len(passage.words) else ():
        found = read_plain(clause)
        if found is None:
            raise clause.refused("what begins here can't be read")
        yield from found
