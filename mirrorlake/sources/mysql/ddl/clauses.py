"""ALTER TABLE: its clauses, and what those do that declare nothing.

The parser library has no word for partitions, most of a table's options, and what servers do to an
index or a file; names and a verb are all that there is to read of them.

What belongs here: cutting, and clauses that their words alone explain. What doesn't: declarations
of columns, indexes and constraints (`mirrorlake.sources.mysql.ddl.declarations`).

Source: MySQL 8.0 manual, 13.1.9 "ALTER TABLE Statement"; MariaDB knowledge base, "ALTER TABLE".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mirrorlake.sources.mysql.ddl.actions import (
    Action,
    ConvertCharset,
    DefaultCharset,
    Kind,
    MoveRows,
    RenameTable,
    Rewrite,
    SetEngine,
    UseIndex,
)
from mirrorlake.sources.mysql.ddl.text import Passage, Word, depths

_PARTITION_VERBS: Final = (
    "ADD", "DROP", "TRUNCATE", "EXCHANGE", "REORGANIZE", "COALESCE", "ANALYZE", "CHECK", "OPTIMIZE",
    "REBUILD", "REPAIR", "DISCARD", "IMPORT", "CONVERT",
)  # fmt: skip
_LAST: Final = (("PARTITION", "BY"), ("REMOVE", "PARTITIONING"), ("UPGRADE", "PARTITIONING"))
"""What may follow other clauses without a comma, and is the statement's end."""

TableName = tuple[str | None, str]


def _is_name(word: Word) -> bool:
    """Whether it can be the name of a table, a column or an index."""
    first = word.text[0]
    return first in "`_$" or first.isalnum() or first >= "\x80"


def read_target(passage: Passage, at: int) -> tuple[TableName, int]:
    """The table that is named there (its database, or None; its name), and the number of the word
    behind it.

    Raises:
        DdlRefused: there is no name.
    """
    words = passage.words
    if at >= len(words) or not _is_name(words[at]):
        raise missing(passage, at, "a table's name is missing here")
    if not passage.says(".", at=at + 1):
        return (None, words[at].name), at + 1
    if at + 2 >= len(words) or not _is_name(words[at + 2]):
        raise missing(passage, at + 2, "a table's name is missing here")
    return (words[at].name, words[at + 2].name), at + 3


def read_list(passage: Passage, at: int) -> tuple[tuple[TableName, ...], int]:
    """Tables with commas between them, and the number of the word behind the last."""
    target, at = read_target(passage, at)
    found = [target]
    while passage.says(",", at=at):
        target, at = read_target(passage, at + 1)
        found.append(target)
    return tuple(found), at


def missing(passage: Passage, at: int, why: str) -> Exception:
    """The error for what should stand at a word, or behind the last."""
    place = passage.words[at].start if at < len(passage.words) else passage.words[-1].end
    return passage.refused(why, place)


def ends(passage: Passage, at: int) -> None:
    """See that nothing stands behind.

    Raises:
        DdlRefused: something does.
    """
    if at < len(passage.words):
        raise passage.refused("what begins here can't be read", passage.words[at].start)


def skip(passage: Passage, at: int, *forms: tuple[str, ...]) -> int:
    """The number of the word behind one of these, or the same where none stands there."""
    return next((at + len(form) for form in forms if passage.says(*form, at=at)), at)


def skip_wait(passage: Passage, at: int) -> int:
    """Behind MariaDB's WAIT n and NOWAIT: how long the statement waits for a lock."""
    if passage.says("WAIT", at=at) and at + 1 < len(passage.words):
        return at + 2
    return skip(passage, at, ("NOWAIT",))


def check_parentheses(passage: Passage) -> None:
    """See that each has its other one.

    Raises:
        DdlRefused: one has not.
    """
    opened: list[Word] = []
    for word in passage.words:
        if word.said == "(":
            opened.append(word)
        elif word.said == ")":
            if not opened:
                raise passage.refused("this parenthesis was not opened", word.start)
            opened.pop()
    if opened:
        raise passage.refused("this parenthesis is not closed", opened[-1].start)


def cut_clauses(passage: Passage, at: int) -> Iterator[Passage]:
    """The clauses of an ALTER TABLE, from a word on.

    Raises:
        DdlRefused: there is nothing between two commas.
    """
    start = at
    for number, word, depth in depths(passage.words):
        if number < start or depth:
            continue
        if number == start and _is_of_partitions(passage, number):
            yield passage.part(start)
            return
        if number > start and any(passage.says(*form, at=number) for form in _LAST):
            yield passage.part(start, number)
            yield passage.part(number)
            return
        if word.said == "," and not _orders_on(passage, start, number):
            if number == start:
                raise passage.refused("a clause is missing here", word.start)
            yield passage.part(start, number)
            start = number + 1
    if start < len(passage.words):
        yield passage.part(start)
    elif start > at:
        raise missing(passage, start, "a clause is missing here")


def _is_of_partitions(passage: Passage, at: int) -> bool:
    """Whether a clause does something to partitions: it then is the last, commas and all."""
    first = passage.words[at].said
    if first in _PARTITION_VERBS and passage.says("PARTITION", at=at + 1):
        return True
    if passage.says("CONVERT", "TABLE", at=at):
        return True
    return any(passage.says(*form, at=at) for form in _LAST)


def _orders_on(passage: Passage, start: int, comma: int) -> bool:
    """Whether a comma stands between two columns of ORDER BY."""
    if not passage.says("ORDER", "BY", at=start) or comma + 1 >= len(passage.words):
        return False
    column, after = passage.words[comma + 1], passage.part(comma + 2, comma + 3).said
    return (
        _is_name(column) and column.said != "FORCE" and after in ((), (",",), ("ASC",), ("DESC",))
    )


def read_plain(clause: Passage) -> tuple[Action, ...] | None:
    """What a clause does that its words alone explain; None where it is none of those.

    Raises:
        DdlRefused: its beginning is known, and the rest is not.
    """
    if _is_of_partitions(clause, 0):
        return _of_partitions(clause)
    for begins, read in _PLAIN.items():
        if clause.says(*begins):
            return read(clause)
    if clause.says("RENAME") and clause.said[1:2] not in (("COLUMN",), ("INDEX",), ("KEY",)):
        target, at = read_target(clause, skip(clause, 1, ("TO",), ("AS",), ("=",)))
        ends(clause, at)
        return (RenameTable(*target),)
    return _options(clause)


def _alone(*actions: Action) -> Callable[[Passage], tuple[Action, ...]]:
    """Of a clause that is two words, or FORCE."""

    def read(clause: Passage) -> tuple[Action, ...]:
        ends(clause, 1 if clause.says("FORCE") else 2)
        return actions

    return read


def _conversion(clause: Passage) -> tuple[Action, ...]:
    at = skip(clause, 2, ("CHARACTER", "SET"), ("CHAR", "SET"), ("CHARSET",))
    if at == 2:
        raise missing(clause, 2, "CHARACTER SET is missing here")
    charset, at = _value(clause, at)
    collation = None
    if clause.says("COLLATE", at=at):
        collation, at = _value(clause, at + 1)
    ends(clause, at)
    if charset == "default":
        raise clause.refused("which character set the database has is not looked up: name it")
    return (ConvertCharset(charset, collation),)


def _value(clause: Passage, at: int) -> tuple[str, int]:
    """What an option is set to, in lower case, and the number of the word behind it."""
    at = skip(clause, at, ("=",))
    if at >= len(clause.words) or (clause.words[at].said and not _is_name(clause.words[at])):
        raise missing(clause, at, "its value is missing here")
    return clause.words[at].name.lower(), at + 1


def _index_use(clause: Passage) -> tuple[Action, ...]:
    at = skip(clause, 2, ("IF", "EXISTS"))
    if at >= len(clause.words):
        raise missing(clause, at, "an index's name is missing here")
    used = _USES.get(clause.said[at + 1 :])
    if used is None:
        raise missing(clause, at + 1, "what is done to the index can't be read")
    return (UseIndex(clause.words[at].name, used, if_there=at > 2),)


_USES: Final[Mapping[tuple[str, ...], bool]] = {
    ("VISIBLE",): True, ("INVISIBLE",): False, ("NOT", "IGNORED"): True, ("IGNORED",): False,
}  # fmt: skip


def _enforcement(clause: Passage) -> tuple[Action, ...]:
    if clause.said[3:] not in (("ENFORCED",), ("NOT", "ENFORCED")):
        raise missing(clause, 3, "what is done to the check can't be read")
    return (Rewrite(redefines=True),)


def _check(clause: Passage) -> tuple[Action, ...]:
    closing = [n for n, word, depth in depths(clause.words) if word.said == ")" and not depth]
    if not clause.says("(", at=2) or not closing:
        raise missing(clause, 2, "its condition is missing here")
    ends(clause, skip(clause, closing[0] + 1, ("ENFORCED",), ("NOT", "ENFORCED")))
    return (Rewrite(redefines=True),)


_PLAIN: Final[Mapping[tuple[str, ...], Callable[[Passage], tuple[Action, ...]]]] = {
    ("FORCE",): _alone(Rewrite(redefines=False)),
    ("ENABLE", "KEYS"): _alone(),
    ("DISABLE", "KEYS"): _alone(),
    ("WITH", "VALIDATION"): _alone(),
    ("WITHOUT", "VALIDATION"): _alone(),
    ("DISCARD", "TABLESPACE"): _alone(MoveRows("all rows go with the table's file")),
    ("IMPORT", "TABLESPACE"): _alone(MoveRows("other rows come with a file")),
    ("ORDER", "BY"): lambda _: (Rewrite(redefines=False),),
    ("CONVERT", "TO"): _conversion,
    ("ADD", "CHECK"): _check,
    ("ALTER", "INDEX"): _index_use,
    ("ALTER", "KEY"): _index_use,
    ("ALTER", "CHECK"): _enforcement,
    ("ALTER", "CONSTRAINT"): _enforcement,
}

_REWRITES: Final = {
    "ADD": True, "COALESCE": True, "REORGANIZE": True, "REBUILD": False, "OPTIMIZE": False,
}  # fmt: skip
"""What moves rows between partitions, and whether the table's definition says so afterwards."""
_MOVES: Final = {
    "DROP": "the rows of {} go with {}", "TRUNCATE": "the rows of {} go",
    "DISCARD": "the rows of {} go with the file", "IMPORT": "other rows come into {} with a file",
}  # fmt: skip


def _of_partitions(clause: Passage) -> tuple[Action, ...]:
    verb = clause.words[0].said
    if any(clause.says(*form) for form in _LAST):
        if clause.says("PARTITION", "BY"):
            _missing_rest(clause, 2)
        else:
            ends(clause, 2)
        return (Rewrite(redefines=True),)
    if clause.says("CONVERT", "TABLE"):
        (_, name), _ = read_target(clause, 2)
        return (MoveRows(f"the rows of table {name} come into a partition"),)
    if verb in _REWRITES:
        if verb in ("ADD", "COALESCE"):
            _missing_rest(clause, 2)
        return (Rewrite(redefines=_REWRITES[verb]),)
    if verb in _MOVES:
        return (MoveRows(_MOVES[verb].format(_partitions(clause), "it")),)
    if verb in ("EXCHANGE", "CONVERT"):
        return (MoveRows(_swap_words(clause)),)
    return ()  # ANALYZE, CHECK, REPAIR


def _missing_rest(clause: Passage, at: int) -> None:
    """See that something stands there.

    Raises:
        DdlRefused: nothing does.
    """
    if at >= len(clause.words):
        raise missing(clause, at, "what follows is missing")


def _partitions(clause: Passage) -> str:
    """The partitions that are named, in words."""
    at = skip(clause, 2, ("IF", "EXISTS"))
    at = skip(clause, at, ("NO_WRITE_TO_BINLOG",), ("LOCAL",))
    if clause.says("ALL", at=at):
        return "all partitions"
    targets, at = read_list(clause, at)
    ends(clause, skip(clause, at, ("TABLESPACE",)))
    names = ", ".join(name for _, name in targets)
    return f"partition {names}" if len(targets) == 1 else f"partitions {names}"


def _swap_words(clause: Passage) -> str:
    partition = read_target(clause, 2)[0][1]
    [(_, (_, other), _)] = other_tables(clause)
    if clause.says("CONVERT"):
        return f"the rows of partition {partition} go, to table {other}"
    return f"the rows of partition {partition} and of table {other} change places"


def other_tables(clause: Passage) -> tuple[tuple[Kind, TableName, tuple[Action, ...]], ...]:
    """What a clause does to another table than its statement's.

    Raises:
        DdlRefused: the other table can't be read.
    """
    if clause.says("CONVERT", "TABLE"):
        return (("drop", read_target(clause, 2)[0], ()),)
    if not (clause.says("EXCHANGE", "PARTITION") or clause.says("CONVERT", "PARTITION")):
        return ()
    (_, partition), at = read_target(clause, 2)
    exchange = clause.says("EXCHANGE")
    behind = skip(clause, at, ("WITH", "TABLE") if exchange else ("TO", "TABLE"))
    if behind == at:
        raise missing(clause, at, "the other table is missing here")
    other, at = read_target(clause, behind)
    if not exchange:
        ends(clause, at)
        return (("create", other, ()),)
    ends(clause, skip(clause, at, ("WITH", "VALIDATION"), ("WITHOUT", "VALIDATION")))
    moved = MoveRows(f"its rows and those of partition {partition} change places")
    return (("alter", other, (moved,)),)


_HARMLESS: Final = frozenset((
    "AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM", "COMMENT", "COMPRESSION",
    "DELAY_KEY_WRITE", "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID", "ENGINE_ATTRIBUTE",
    "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PAGE_CHECKSUM", "PAGE_COMPRESSED",
    "PAGE_COMPRESSION_LEVEL", "ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE",
    "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "TABLESPACE",
    "TABLE_CHECKSUM", "TRANSACTIONAL",
))  # fmt: skip
"""Options of a table that change how it is stored or described, and no value."""
_HOW: Final = ("ALGORITHM", "LOCK")
"""How the statement itself is run."""


def _options(clause: Passage) -> tuple[Action, ...] | None:
    """A table's options, with blanks between them; None of a clause that begins with none."""
    found: list[Action] = []
    at = 0
    while at < len(clause.words):
        read = _option(clause, at)
        if read is None:
            if at == 0:
                return None
            raise missing(clause, at, "what begins here can't be read")
        actions, at = read
        found += actions
    return tuple(found)


def _option(clause: Passage, at: int) -> tuple[tuple[Action, ...], int] | None:
    said = clause.words[at].said
    if said in _HOW:
        return (), _value(clause, at + 1)[1]
    if said == "AUTO_INCREMENT":
        return (Rewrite(redefines=False),), _value(clause, at + 1)[1]
    if said in _HARMLESS:
        return (Rewrite(redefines=None),), _value(clause, at + 1)[1]
    if (behind := skip(clause, at, ("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY"))) > at:
        return (Rewrite(redefines=None),), _value(clause, behind)[1]
    if (behind := skip(clause, at, ("STORAGE", "ENGINE"), ("ENGINE",))) > at:
        _, end = _value(clause, behind)
        return (SetEngine(clause.words[end - 1].name),), end
    begins = skip(clause, at, ("DEFAULT",))
    behind = skip(clause, begins, ("CHARACTER", "SET"), ("CHAR", "SET"), ("CHARSET",))
    if behind > begins:
        charset, end = _value(clause, behind)
        return (DefaultCharset(charset),), end
    if clause.says("COLLATE", at=begins):
        collation, end = _value(clause, begins + 1)
        return (DefaultCharset(None, collation),), end
    return None
