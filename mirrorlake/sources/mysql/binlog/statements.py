"""QUERY events: statements as they are logged, and those that begin and end transactions.

A statement is never parsed here beyond its first words: whoever reads the log gets its text.

Source: MySQL source, ``binary_log::Query_event``; MariaDB knowledge base, "Query Event",
"Query_Compressed_Event"; MySQL 8.0 manual, 13.3.8 "XA Transactions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader
from mirrorlake.sources.mysql.binlog.column_forms import ServerForms
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import LogEvent
from mirrorlake.sources.mysql.binlog.events.payload import unpack_mariadb
from mirrorlake.sources.mysql.binlog.values.texts import UTF8

_MODE_CODE, _CHARSET_CODE = 1, 4
# The sizes of what may stand before these, and between them.
_FIXED = {0: 4, 3: 4}
_CATALOG_OLD, _CATALOG = 2, 6
_OF_TEMPORARY = 0x4  # LOG_EVENT_THREAD_SPECIFIC_F
# What the charset that is ASCII but for its letters (swe7) has in other places; all others that a
# client may have are ASCII as far as that goes.
_NOT_ASCII = frozenset(["swe7"])
_MOVED = frozenset(b"@[\\]^`{|}~")
_COMMENT = re.compile(r"\s+|/\*(?!!).*?\*/|--\s[^\n]*(\n|$)|#[^\n]*(\n|$)|/\*!\d*|\(", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_NAMES = re.compile(r"`((?:[^`]|``)+)`|\"((?:[^\"]|\"\")+)\"|([\w$]+)")
_DEFINING = frozenset(["ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE", "OPTIMIZE", "SET"])
_DATABASE = frozenset(["database", "schema"])
_ROW_WORDS = frozenset(
    ["INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "SELECT", "DO", "WITH", "VALUES"]
)


class QueryKind(Enum):
    """What a statement is to transactions."""

    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    ROLLBACK_TO = auto()
    SAVEPOINT = auto()
    XA_BEGIN = auto()
    XA_END = auto()
    XA_COMMIT = auto()
    XA_ROLLBACK = auto()
    OTHER = auto()


_KINDS = (
    ("ROLLBACK TO", QueryKind.ROLLBACK_TO),
    ("SAVEPOINT ", QueryKind.SAVEPOINT),
    ("RELEASE SAVEPOINT ", QueryKind.SAVEPOINT),
    ("XA START ", QueryKind.XA_BEGIN),
    ("XA BEGIN ", QueryKind.XA_BEGIN),
    ("XA END ", QueryKind.XA_END),
    ("XA COMMIT ", QueryKind.XA_COMMIT),
    ("XA ROLLBACK ", QueryKind.XA_ROLLBACK),
)
_WHOLE = {"BEGIN": QueryKind.BEGIN, "COMMIT": QueryKind.COMMIT, "ROLLBACK": QueryKind.ROLLBACK}


@dataclass(frozen=True, slots=True)
class StatementSession:
    """What a statement's words mean by its session.

    Attributes:
        sql_mode: as a number.
        temporary: whether it is about a temporary table of the session, maybe beside others.
    """

    sql_mode: int = 0
    temporary: bool = False


PLAIN_SESSION = StatementSession()
"""By which a statement means what its words say."""


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A statement: ``database`` is its session's, which may have nothing to do with it."""

    database: str
    text: str
    kind: QueryKind
    session: StatementSession

    @property
    def changes_rows(self) -> bool:
        """Whether it may have changed rows that are in no row event."""
        return self.kind is QueryKind.OTHER and first_word(self.text) in _ROW_WORDS

    @property
    def xid(self) -> str:
        """The name of the XA transaction that it is about, in one spelling."""
        _, _, name = self.text[3:].partition(" ")
        return "".join(name.split()).upper().removesuffix("ONEPHASE")


def read_query(event: LogEvent, server: ServerForms) -> LoggedQuery:
    """The statement of a QUERY event, compressed or not, or of a LOAD DATA.

    Raises:
        LogUnreadable: it is cut.
    """
    fields = ByteReader(event.body, f"An event ({event.name})")
    fields.take(8)
    name_size = fields.uint(1)
    fields.take(2)
    status_size = fields.uint(2)
    if event.kind == kinds.EXECUTE_LOAD_QUERY:
        fields.take(13)
    status = fields.take(status_size)
    database = fields.text(fields.take(name_size))
    fields.take(1)
    given = fields.take(fields.left)
    if event.kind == kinds.QUERY_COMPRESSED:
        given = unpack_mariadb(given)
    mode, charset = _settings(status, server)
    text = _decoded(given, charset, server)
    session = StatementSession(mode, bool(event.flags & _OF_TEMPORARY))
    return LoggedQuery(database, text, _kind_of(text), session)


def _settings(status: bytes, server: ServerForms) -> tuple[int, str]:
    """The session's ``sql_mode``, and the charset of the text: its client's, if the event says
    which."""
    mode = 0
    fields = ByteReader(status, "An event (QUERY)")
    while fields.left:
        code = fields.uint(1)
        if code == _CHARSET_CODE:
            return mode, server.charsets.get(fields.uint(2), "utf8mb4")
        if code == _MODE_CODE:
            mode = fields.uint(8)
        elif code in _FIXED:
            fields.take(_FIXED[code])
        elif code in (_CATALOG, _CATALOG_OLD):
            fields.take(fields.uint(1) + (code == _CATALOG_OLD))
        else:
            break
    return mode, "utf8mb4"


def _decoded(given: bytes, charset: str, server: ServerForms) -> str:
    is_plain = given.isascii() and (charset not in _NOT_ASCII or _MOVED.isdisjoint(given))
    if charset not in (*UTF8, "binary") and not is_plain:
        [(text, _)] = server.converter.convert(charset, [given])
        if text is not None:
            return text
    return given.decode(errors="backslashreplace")


def _kind_of(text: str) -> QueryKind:
    short = text[:32].upper()
    if (found := _WHOLE.get(short)) is not None:
        return found
    return next((kind for words, kind in _KINDS if short.startswith(words)), QueryKind.OTHER)


def first_word(text: str) -> str:
    """The first word of a statement, in capitals, behind comments and brackets.

    >>> first_word("/* by hand */ (select 1)"), first_word("/*!40000 ALTER TABLE t */")
    ('SELECT', 'ALTER')
    """
    at = 0
    while found := _COMMENT.match(text, at):
        at = found.end()
    word = _WORD.match(text, at)
    return word[0].upper() if word else ""


def names_in(text: str) -> frozenset[str]:
    """Whatever may be a name in a statement, in lower case; keywords are among them.

    >>> sorted(names_in("DROP TABLE `a``b`, Shop.c"))
    ['a`b', 'c', 'drop', 'shop', 'table']
    >>> "my table" in names_in('ALTER TABLE "my table" ADD c INT')  # under ANSI_QUOTES
    True
    """
    found = _NAMES.findall(text)
    return frozenset(
        (a.replace("``", "`") or b.replace('""', '"') or c).lower() for a, b, c in found
    )


def may_define(text: str, tables: Iterable[tuple[str | None, str]]) -> bool:
    """Whether a statement may define, move or empty one of these tables, or one of its name in
    another database; one that drops a database may. What it begins with says so:
    `mirrorlake.sources.mysql.ddl` reads the rest.

    Args:
        tables: database and name; None for a database that is not known, so that any may be it.

    >>> may_define("ALTER TABLE t ADD a INT", [("d", "T")])
    True
    >>> may_define("GRANT SELECT ON t TO u", [("d", "t")])
    False
    >>> may_define("DROP DATABASE D", [("d", "t")]), may_define("DROP DATABASE e", [("d", "t")])
    (True, False)
    """
    first = first_word(text)
    if first not in _DEFINING:
        return False
    names = names_in(text)
    drops = names & _DATABASE and (first != "CREATE" or "replace" in names)
    return any(
        table.lower() in names or (drops and (database is None or database.lower() in names))
        for database, table in tables
    )


def read_xa_prepare(event: LogEvent) -> tuple[bool, str]:
    """Whether the transaction ends for good here (one phase), and its name as statements spell it.

    Raises:
        LogUnreadable: the event is cut.
    """
    fields = ByteReader(event.body, f"An event ({event.name})")
    one_phase, form = fields.uint(1), fields.uint(4)
    global_size, branch_size = fields.uint(4), fields.uint(4)
    given = fields.take(global_size), fields.take(branch_size)
    hexed = ",".join(f"X'{part.hex().upper()}'" for part in given)
    return bool(one_phase), f"{hexed},{form}"
