"""QUERY events: statements as they are logged, and those that begin and end transactions.

A statement is never parsed here beyond its first words: whoever reads the log gets its text.

Source: MySQL source, ``binary_log::Query_event``; MariaDB knowledge base, "Query Event",
"Query_Compressed_Event"; MySQL 8.0 manual, 13.3.8 "XA Transactions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from mirrorlake.errors import DdlRefused
from mirrorlake.sources.mysql.binlog.byte_reader import ByteReader
from mirrorlake.sources.mysql.binlog.column_forms import ServerForms
from mirrorlake.sources.mysql.binlog.events import event_kinds as kinds
from mirrorlake.sources.mysql.binlog.events.framing import LogEvent
from mirrorlake.sources.mysql.binlog.events.payload import unpack_mariadb
from mirrorlake.sources.mysql.binlog.values.texts import UTF8
from mirrorlake.sources.mysql.ddl.text import COMMENT, WORD, read_words

_MODE_CODE, _CHARSET_CODE = 1, 4
# The sizes of what may stand before these, and between them.
_FIXED = {0: 4, 3: 4}
_CATALOG_OLD, _CATALOG = 2, 6
_OF_TEMPORARY = 0x4  # LOG_EVENT_THREAD_SPECIFIC_F
# What the charset that is ASCII but for its letters (swe7) has in other places; all others that a
# client may have are ASCII as far as that goes.
_NOT_ASCII = frozenset(["swe7"])
_MOVED = frozenset(b"@[\\]^`{|}~")
_SKIPPED = re.compile(rf"\s+|{COMMENT}|\(|\*/", re.DOTALL)
# A comment that some servers run; MySQL runs none of MariaDB's, which begin with an M.
_OPENS = re.compile(r"/\*M?!\d*")
_VERB = re.compile(r"[A-Za-z]+")
_WORD = re.compile(WORD)
_FOR = re.compile(r"\bFOR\b", re.IGNORECASE)
_DEFINING = frozenset(["ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE", "OPTIMIZE"])
_DATABASE = frozenset(["database", "schema"])
_OF_NO_ROWS = _DEFINING | {
    *("ANALYZE", "BEGIN", "CHECK", "COMMIT", "FLUSH", "GRANT", "INSTALL", "LOCK", "RELEASE"),
    *("REPAIR", "REVOKE", "ROLLBACK", "SAVEPOINT", "SET", "START", "UNINSTALL", "UNLOCK"),
    *("USE", "XA"),
}
"""What statements begin with that change rows in row events alone, or all rows of a table."""
_QUERIES = frozenset(["SELECT", "ROW"])


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
        return self.kind is QueryKind.OTHER and may_change_rows(self.text)

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


def may_change_rows(text: str) -> bool:
    """Whether a statement may change rows otherwise than by defining a table: then it was logged in
    place of them, for its session had another ``binlog_format``.

    >>> may_change_rows("DELETE FROM t"), may_change_rows("ALTER TABLE t ADD a INT")
    (True, False)
    >>> may_change_rows("ANALYZE TABLE t"), may_change_rows("ANALYZE FORMAT=JSON DELETE FROM t")
    (False, True)
    >>> may_change_rows("CREATE TABLE t (a INT)"), may_change_rows("CREATE TABLE t SELECT f()")
    (False, True)
    """
    verbs = verbs_of(text)
    if not verbs <= _OF_NO_ROWS:
        return True
    if verbs.isdisjoint({"ANALYZE", "CREATE"}):
        return False
    try:
        said = [word.said for word in read_words(text)[1]]
    except DdlRefused:
        return True
    if "ANALYZE" in verbs and "TABLE" not in said[:3] and "TABLES" not in said[:3]:
        return True
    # What is stored with a query runs later, and is logged then. A query that fills a table may
    # call what changes others.
    return _makes_table(said) and (not _QUERIES.isdisjoint(said) or said.count("TABLE") > 1)


def _makes_table(said: Sequence[str]) -> bool:
    """Whether words are of a CREATE TABLE."""
    if "CREATE" not in said:
        return False
    behind = said[said.index("CREATE") + 1 :]
    return next((word for word in behind if word not in _BEFORE_TABLE), "") == "TABLE"


_BEFORE_TABLE = frozenset(["OR", "REPLACE", "TEMPORARY"])


@lru_cache(maxsize=64)
def verbs_of(text: str) -> frozenset[str]:
    """What a statement may begin with, in capitals, behind comments and brackets: one word, but
    where a comment that only some servers run stands before it, or MariaDB's ``SET STATEMENT``.

    >>> [*verbs_of("/* by hand */ (select 1)")], [*verbs_of("/*!40000 ALTER TABLE t */")]
    (['SELECT'], ['ALTER'])
    >>> sorted(verbs_of("/*M!100100 LOCK TABLES t WRITE */ TRUNCATE t"))
    ['LOCK', 'TRUNCATE']
    >>> sorted(verbs_of("SET STATEMENT max_statement_time = 9 FOR UPDATE t SET n = 1"))
    ['SET', 'UPDATE']
    >>> sorted(verbs_of("SET STATEMENT /* it's */ lock_wait_timeout = 9 FOR UPDATE t SET n = 1"))
    ['SET', 'UPDATE']
    """
    found, places, seen = set[str](), [0], set[int]()
    while places:
        at = places.pop()
        while skipped := _SKIPPED.match(text, at):
            at = skipped.end()
        if at in seen:
            continue
        seen.add(at)
        if opens := _OPENS.match(text, at):
            end = text.find("*/", opens.end())
            places += [opens.end(), len(text) if end < 0 else end + 2]
        elif verb := _VERB.match(text, at):
            found.add(verb[0].upper())
            if verb[0].upper() == "SET" and "statement" in _words_of(text):
                places += [behind.end() for behind in _FOR.finditer(text, at)]
    return frozenset(found)


def mentions(text: str, name: str) -> bool:
    """Whether a name stands in a statement, maybe in a comment or as something else, in whatever
    case and between whatever quotes.

    >>> mentions("DROP TABLE `a``b`, Shop.c", "A`b"), mentions("DROP TABLE `a``b`, Shop.c", "shop")
    (True, True)
    >>> mentions('TRUNCATE /* " */ TABLE /*!50000t*/', "t"), mentions("DROP TABLE my_t", "t")
    (True, False)
    """
    wanted = name.lower()
    if _WORD.fullmatch(wanted):
        return wanted in _words_of(text)
    return any(wanted.replace(quote, 2 * quote) in text.lower() for quote in '`"')


@lru_cache(maxsize=64)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(_OPENS.sub(" ", text)))


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
    verbs = verbs_of(text)
    if _DEFINING.isdisjoint(verbs):
        return False
    words = _words_of(text)
    drops = words & _DATABASE and (verbs - {"CREATE"} or "replace" in words)
    return any(
        mentions(text, table) or (drops and (database is None or mentions(text, database)))
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
