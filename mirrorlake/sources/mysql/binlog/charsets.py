"""Text that is not UTF-8, turned by the server's own tables, as a SELECT of ours has it turned.

Python's codecs differ from MySQL's in places, and servers from one another. So the server is asked:
once for a charset of single bytes, and once for each text of other charsets that is not all ASCII.

Source: MySQL 8.0 manual, 10.3.8 "Character Set Introducers", 26.4 "The INFORMATION_SCHEMA
CHARACTER_SETS Table"; `mirrorlake.sources.mysql.types.exact_types`, which has the expressions.
"""

from __future__ import annotations

import codecs
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.binlog.column_forms import ServerForms
from mirrorlake.sources.mysql.binlog.values.json_binary import JsonPrint
from mirrorlake.sources.mysql.binlog.values.texts import WIDE, ConvertedText
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of
from mirrorlake.sources.mysql.types.exact_types import text_forms

_COLLATIONS = "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID > 0"
_MORE_COLLATIONS = (
    "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
)
_LONGEST = "SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS"
_JSON = (
    "SELECT CAST(CAST('1.0' AS JSON) AS CHAR),"
    " CAST(JSON_ARRAY(CAST(REPEAT('x', 58) AS BINARY)) AS CHAR)"
)
_MOST_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 2**20
_REMEMBERED: Final = 50_000
_NONE: Final = "\ufffe"
_ASCII = tuple(bytes([n]) for n in range(128))


def read_server_forms(connection: Connection[Any]) -> ServerForms:
    """What decoding has to know of a server. It keeps the session, and asks it for texts.

    Raises:
        SourceError: the server was lost.
    """
    mariadb = is_mariadb(connection)
    charsets = {int(n): str(name) for n, name in rows_of(connection, _COLLATIONS)}
    form = JsonPrint()
    if mariadb:
        charsets |= {int(n): str(name) for n, name in _more(connection)}
    else:
        [(number, lines)] = rows_of(connection, _JSON)
        form = JsonPrint(str(number) == "1.0", "\\n" if "\\n" in str(lines) else "\n")
    return ServerForms(charsets, _ServerCharsets(connection), form)


def _more(connection: Connection[Any]) -> list[tuple[Any, ...]]:
    """Collations of MariaDB that belong to several charsets (10.10 and later)."""
    try:
        return [row for row in rows_of(connection, _MORE_COLLATIONS) if row[0] is not None]
    except SourceError as error:
        if error.retryable:
            raise
        return []  # it has no numbers there: those of `COLLATIONS` are all


class _ServerCharsets:
    """Converts by one server's tables (`TextConverter`).

    Args:
        connection: of ours; used by one thread at a time.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        found = rows_of(connection, _LONGEST)
        self._single = {str(name) for name, longest in found if int(longest) == 1}
        self._tables: dict[str, Any] = {}
        self._ascii: dict[str, bool] = {}
        self._known: OrderedDict[tuple[str, bytes], ConvertedText] = OrderedDict()

    def convert(self, charset: str, values: Sequence[bytes]) -> list[ConvertedText]:
        """See `TextConverter.convert`."""
        with self._lock:
            if charset in self._single:
                return self._by_table(charset, values)
            return self._by_asking(charset, values)

    def _by_table(self, charset: str, values: Sequence[bytes]) -> list[ConvertedText]:
        table: Any = self._tables.get(charset)
        if table is None:
            every = [bytes([n]) for n in range(256)]
            texts = [text for text, _ in self._ask(charset, every)]
            known = "".join(t if t is not None and len(t) == 1 else _NONE for t in texts)
            table = self._tables[charset] = known
        found: list[ConvertedText] = []
        for value in values:
            try:
                found.append((codecs.charmap_decode(value, "strict", table)[0], None))  # pyright: ignore[reportArgumentType]
            except UnicodeDecodeError:
                found.append((None, value.hex().upper()))
        return found

    def _by_asking(self, charset: str, values: Sequence[bytes]) -> list[ConvertedText]:
        plain = self._keeps_ascii(charset)
        found: dict[bytes, ConvertedText] = {}
        unknown: list[bytes] = []
        for value in values:
            if plain and value.isascii():
                found[value] = (value.decode("ascii"), None)
            elif (known := self._known.get((charset, value))) is not None:
                found[value] = known
            else:
                unknown.append(value)
        for some in _portions(unknown):
            for value, converted in zip(some, self._ask(charset, some), strict=True):
                found[value] = self._known[charset, value] = converted
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return [found[value] for value in values]

    def _keeps_ascii(self, charset: str) -> bool:
        """Whether each byte of ASCII is itself in this charset."""
        if charset in WIDE:
            return False
        known = self._ascii.get(charset)
        if known is None:
            texts = [text for text, _ in self._ask(charset, _ASCII)]
            known = self._ascii[charset] = texts == [value.decode() for value in _ASCII]
        return known

    def _ask(self, charset: str, values: Sequence[bytes]) -> list[ConvertedText]:
        # Bytes until each is looked at: MySQL 9 refuses a row of a text that its charset hasn't.
        select, original = text_forms(f"CAST(v.x AS CHAR CHARACTER SET {charset})", charset)
        rows = " UNION ALL ".join(
            f"SELECT {n} AS n, x'{value.hex()}'{' AS x' if not n else ''}"
            for n, value in enumerate(values)
        )
        # Literals of hexadecimal digits, and names of charsets from the server's own list.
        sql = f"SELECT v.n, {select}, {original or 'NULL'} FROM ({rows}) AS v"  # noqa: S608
        found = {
            int(n): _as_converted(text, kept) for n, text, kept in rows_of(self._connection, sql)
        }
        lost = [value for n, value in enumerate(values) if found.get(n) in (None, (None, None))]
        if lost:
            raise SourceError(
                f"the server can't read {len(lost)} of {len(values)} texts in its charset "
                f"{charset}",
                next_step="Repair them in MySQL, or mark the column `pci: never` to leave it out",
            )
        return [found[n] for n in range(len(values))]


def _as_converted(text: Any, original: Any) -> ConvertedText:
    read = bytes(text).decode() if isinstance(text, bytes | bytearray) else text
    kept = bytes(original).decode() if isinstance(original, bytes | bytearray) else original
    return read, kept


def _portions(values: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The values in order, not too many and not too large together."""
    found: list[bytes] = []
    size = 0
    for value in values:
        found.append(value)
        size += len(value)
        if len(found) == _MOST_AT_ONCE or size > _BYTES_AT_ONCE:
            yield found
            found, size = [], 0
    if found:
        yield found
