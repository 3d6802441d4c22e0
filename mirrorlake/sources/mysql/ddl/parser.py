"""DDL statements: their text → what they say.

A parser library reads MySQL's and MariaDB's grammar of declarations; verbs, names and lists are
read from the words. What can't be read is refused with its line and column, never guessed.

What belongs here: one statement's kind and its tables. What doesn't: clauses of ALTER TABLE
(`mirrorlake.sources.mysql.ddl.clauses`, `mirrorlake.sources.mysql.ddl.declarations`), and what a
table is afterwards (`mirrorlake.sources.mysql.ddl.altered`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mirrorlake.errors import DdlRefused
from mirrorlake.sources.mysql.ddl.actions import (
    Action,
    AddIndex,
    DropIndex,
    Kind,
    MoveRows,
    RenameColumn,
    RenameIndex,
    RenameTable,
    Rewrite,
    SetColumn,
    Statement,
    UseIndex,
)
from mirrorlake.sources.mysql.ddl.clauses import (
    TableName,
    check_parentheses,
    cut_clauses,
    ends,
    missing,
    other_tables,
    read_list,
    read_plain,
    read_target,
    skip,
    skip_wait,
)
from mirrorlake.sources.mysql.ddl.create import read_columns
from mirrorlake.sources.mysql.ddl.declarations import read_declaration
from mirrorlake.sources.mysql.ddl.rows import definition_words, empties, rows_added, target_of_rows
from mirrorlake.sources.mysql.ddl.text import Passage, Word, depths, read_words, split_statements

_IGNORED: Final = frozenset((
    "USE", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "BEGIN", "START", "LOCK", "UNLOCK",
    "ANALYZE", "SELECT", "SHOW", "SET", "DESCRIBE", "DESC", "EXPLAIN",
))  # fmt: skip
"""Statements that change no table."""
_OTHERS: Final = frozenset((
    "GRANT", "REVOKE", "CALL", "DO", "FLUSH", "CHECK", "REPAIR", "HANDLER", "KILL", "SIGNAL",
    "END", "EXECUTE", "PREPARE", "DEALLOCATE", "INSTALL", "UNINSTALL", "RESET", "PURGE",
    "CHANGE", "STOP",
))  # fmt: skip
"""Statements that declare no column of a table; what they do to rows is not looked at."""
_THINGS: Final = (
    "DATABASE", "SCHEMA", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "VIEW",
    "SERVER", "SEQUENCE", "PACKAGE", "TABLESPACE", "LOGFILE", "INSTANCE", "UNDO", "RESOURCE",
    "PREPARE",
)  # fmt: skip
"""What CREATE, ALTER and DROP are about that is no table."""
_FIRST_WORDS: Final = 4
"""Among these stands what a statement is about; its options may come before."""
_ROWS: Final = frozenset(["INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH"])


def parse_ddl(text: str) -> tuple[Statement, ...]:
    """The statements of a migration, in order; those that change no table are left out.

    Raises:
        DdlRefused: a statement can't be read; with its line and column.
    """
    return tuple(statement for passage in split_statements(text) for statement in _read(passage))


def is_of_no_table(text: str) -> bool:
    """Whether one statement makes, changes or drops something that is no table: a view, a user, a
    stored program, whose body may be about tables.

    >>> is_of_no_table("CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 1")
    True
    >>> is_of_no_table("TRUNCATE role"), is_of_no_table("ALTER /* by a user */ TABLE t ADD b INT")
    (False, False)
    """
    try:
        _, words = read_words(text)
    except DdlRefused:
        return False
    sure = not any(word.unsure for word in words[:_FIRST_WORDS])
    return sure and _says_no_table([word.said for word in words])


def dropped_database(text: str) -> str | None:
    """The database that one statement drops, with all of its tables.

    >>> dropped_database("DROP /* old */ SCHEMA IF EXISTS `a b`"), dropped_database("DROP TABLE a")
    ('a b', None)
    >>> dropped_database("CREATE OR REPLACE DATABASE a CHARACTER SET utf8mb4")  # of MariaDB
    'a'
    """
    try:
        [passage] = split_statements(text)
    except (DdlRefused, ValueError):
        return None
    begin = passage.said.index("FOR") + 1 if passage.says("SET", "STATEMENT") else 0
    verb = skip(passage, begin, ("DROP",), ("CREATE", "OR", "REPLACE"))
    thing = skip(passage, verb, ("DATABASE",), ("SCHEMA",))
    name = skip(passage, thing, ("IF", "EXISTS"))
    if not begin < verb < thing or name >= len(passage.words):
        return None
    return passage.words[name].name


def _read(passage: Passage) -> Iterator[Statement]:
    first = passage.words[0].said
    if passage.says("SET", "STATEMENT"):  # of MariaDB: variables for the statement behind FOR
        behind = passage.said.index("FOR") + 1 if "FOR" in passage.said else 0
        if not 0 < behind < len(passage.words):
            raise missing(passage, len(passage.words), "FOR and a statement are missing here")
        yield from _read(passage.part(behind))
        return
    if first == "BEGIN" and len(passage.words) > 1 and not passage.says("WORK", at=1):
        raise passage.refused(
            "what runs in a block depends on its rows: write its statements alone"
        )
    # Where a server skips the comment, something else begins the statement.
    unsure = [word.unsure for word in passage.words]
    if first in _IGNORED and (all(unsure) or not unsure[0]):
        return
    _refuse_unsure(passage)
    if first in _OTHERS or _says_no_table(passage.said):
        yield _statement(passage, "other", (None, ""))
        return
    check_parentheses(passage)
    read = next((read for begins, read in _KNOWN.items() if _begins(passage, begins)), None)
    if read is not None:
        yield from read(passage)
    elif first in _ROWS:
        statement = _statement(passage, "other", target_of_rows(passage))
        yield replace(statement, adds=rows_added(passage), empties=empties(passage))
    else:
        raise passage.refused("this is no statement of MySQL's that is known here")


_CHANGING: Final = ("CREATE", "ALTER", "DROP")


def _refuse_unsure(passage: Passage) -> None:
    """Refuse what some servers run and others take for a comment; behind the name of a CREATE TABLE
    it leaves its columns unknown (`mirrorlake.sources.mysql.ddl.create`)."""
    head = passage.words[: _head_of_create(passage)]
    unsure = next((word for word in head if word.unsure), None)
    if unsure is not None:
        raise passage.refused(
            "whether a server runs what stands in this comment depends on its release: write it "
            "out, or leave it out",
            unsure.start,
        )


def _head_of_create(passage: Passage) -> int | None:
    if passage.words[0].said != "CREATE" or "TABLE" not in passage.said[:5]:
        return None
    return next((n for n, word in enumerate(passage.words) if word.said == "("), None)


def _says_no_table(said: Sequence[str]) -> bool:
    if [*said[:2]] == ["RENAME", "USER"]:
        return True
    return bool(said) and said[0] in _CHANGING and _thing(said) in _THINGS


def _thing(said: Sequence[str]) -> str:
    """What a CREATE, ALTER or DROP is about."""
    things = (*_THINGS, "TABLE", "TABLES", "INDEX")
    return next((word for word in said if word in things), "")


def _begins(passage: Passage, begins: str) -> bool:
    first, thing = begins.split()
    if passage.words[0].said != first:
        return False
    return thing == "*" or _thing(passage.said) == thing


def _statement(
    passage: Passage, kind: Kind, target: TableName, actions: Sequence[Action] = ()
) -> Statement:
    return Statement(kind, *target, tuple(actions), passage.line, passage.shown)


def _alter(passage: Passage) -> Iterator[Statement]:
    ignores = passage.says("IGNORE", at=1) or passage.says("IGNORE", at=2)
    at = skip(passage, 1, ("ONLINE", "IGNORE"), ("ONLINE",), ("IGNORE",))
    at = skip(passage, at, ("TABLE",))
    at = skip(passage, at, ("IF", "EXISTS"))
    target, at = read_target(passage, at)
    at = skip_wait(passage, at)
    actions: list[Action] = []
    others: list[Statement] = []
    for clause in cut_clauses(passage, at):
        plain = read_plain(clause)
        actions += read_declaration(clause) if plain is None else plain
        for kind, other, moved in other_tables(clause):
            others.append(_statement(passage, kind, (other[0] or target[0], other[1]), moved))
    if ignores and not all(_takes_every_row(action) for action in actions):
        actions.append(MoveRows("rows that don't fit what is declared go (IGNORE)"))
    yield _statement(passage, "alter", target, actions)
    yield from others


def _takes_every_row(action: Action) -> bool:
    """Whether no row can be in the way of an action."""
    match action:
        case AddIndex():
            return not action.unique
        case Rewrite():
            return not action.redefines
        case _:
            return isinstance(action, DropIndex | RenameIndex | UseIndex | RenameColumn | SetColumn)


def _create(passage: Passage) -> Iterator[Statement]:
    at = passage.said.index("TABLE") + 1
    if "TEMPORARY" in passage.said[:at]:
        return  # of one session alone
    behind = skip(passage, at, ("IF", "NOT", "EXISTS"))
    target, end = read_target(passage, behind)
    if end == len(passage.words):
        raise missing(passage, end, "its columns are missing here")
    like = skip(passage, skip(passage, end, ("(",)), ("LIKE",))
    source = read_target(passage, like)[0] if passage.says("LIKE", at=like - 1) else None
    actions, unread = ((), "") if source else read_columns(passage, end)
    yield replace(
        _statement(passage, "create", target, actions),
        if_missing=behind > at,
        adds=None if "SELECT" in passage.said[end:] else 0,
        like=source,
        definition=definition_words(passage.part(end)),
        unread=unread,
    )


def _drop(passage: Passage) -> Iterator[Statement]:
    at = skip(passage, 1, ("TEMPORARY",))
    behind = skip(passage, at, ("TABLE",), ("TABLES",))
    targets, end = read_list(passage, skip(passage, behind, ("IF", "EXISTS")))
    ends(passage, skip(passage, skip_wait(passage, end), ("RESTRICT",), ("CASCADE",)))
    for target in () if at > 1 else targets:
        yield _statement(passage, "drop", target)


def _truncate(passage: Passage) -> Iterator[Statement]:
    target, at = read_target(passage, skip(passage, 1, ("TABLE",)))
    ends(passage, skip_wait(passage, at))
    yield _statement(passage, "truncate", target)


def _rename(passage: Passage) -> Iterator[Statement]:
    at = skip(passage, 1, ("TABLE",), ("TABLES",))
    if at == 1:
        raise missing(passage, at, "TABLE is missing here")
    at = skip(passage, at, ("IF", "EXISTS"))
    while True:
        before, at = read_target(passage, at)
        at = skip_wait(passage, at)
        if not passage.says("TO", at=at):
            raise missing(passage, at, "TO is missing here")
        now, at = read_target(passage, at + 1)
        yield _statement(passage, "alter", before, (RenameTable(*now),))
        if not passage.says(",", at=at):
            break
        at += 1
    ends(passage, at)


def _optimize(passage: Passage) -> Iterator[Statement]:
    at = skip(passage, 1, ("NO_WRITE_TO_BINLOG",), ("LOCAL",))
    behind = skip(passage, at, ("TABLE",), ("TABLES",))
    targets, end = read_list(passage, behind)
    ends(passage, skip_wait(passage, end))
    for target in targets:
        yield _statement(passage, "alter", target, (Rewrite(redefines=False),))


def _create_index(passage: Passage) -> Iterator[Statement]:
    """As the clause of ALTER TABLE that does the same: its words stand in the same order."""
    words = list(passage.words)
    on = passage.said.index("ON") if "ON" in passage.said else len(words)
    target, end = read_target(passage, on + 1)
    head = [replace(words[0], text="ADD", said="ADD"), *words[1:on]]
    replaces = passage.says("OR", "REPLACE", at=1)
    if replaces:
        del head[1:3]
    clause = replace(passage, words=(*head, *_without_how(words[end:])))
    actions = read_declaration(clause)
    if replaces:
        names = [a.name for a in actions if isinstance(a, AddIndex) and a.name is not None]
        actions = (*(DropIndex(name, if_there=True) for name in names), *actions)
    yield _statement(passage, "alter", target, actions)


def _without_how(words: Sequence[Word]) -> list[Word]:
    """The end of CREATE INDEX or DROP INDEX without how the statement is run: ALGORITHM, LOCK, and
    MariaDB's WAIT."""
    kept: list[Word] = []
    skipped = 0
    for number, word, depth in depths(words):
        if not skipped and not depth and word.said in _RUN:
            assigned = number + 1 < len(words) and words[number + 1].said == "="
            skipped = _RUN[word.said] + assigned
        if skipped:
            skipped -= 1
        else:
            kept.append(word)
    return kept


_RUN: Final = {"ALGORITHM": 2, "LOCK": 2, "WAIT": 2, "NOWAIT": 1}
"""Of how many words each is, without a sign of equality."""


def _drop_index(passage: Passage) -> Iterator[Statement]:
    at = skip(passage, 2, ("IF", "EXISTS"))
    if not passage.says("ON", at=at + 1):
        raise missing(passage, at + 1, "ON and the table are missing here")
    target, end = read_target(passage, at + 2)
    rest = _without_how(passage.words[end:])
    if rest:
        raise passage.refused("what begins here can't be read", rest[0].start)
    index = DropIndex(passage.words[at].name, if_there=at > 2)
    yield _statement(passage, "alter", target, (index,))


_KNOWN: Final[Mapping[str, Callable[[Passage], Iterator[Statement]]]] = {
    "ALTER TABLE": _alter,
    "CREATE TABLE": _create,
    "CREATE INDEX": _create_index,
    "DROP TABLE": _drop,
    "DROP TABLES": _drop,
    "DROP INDEX": _drop_index,
    "TRUNCATE *": _truncate,
    "RENAME *": _rename,
    "OPTIMIZE *": _optimize,
}
"""Each kind by its first word and by what it is about."""
