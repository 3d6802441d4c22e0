"""Texts that are one key to the server, under each of its collations: as its unique index says, and
as the bytes say by which the lake tells keys apart."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import pytest

from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.introspection.introspect import read_columns
from mirrorlake.sources.mysql.tables import Column, quote
from mirrorlake.sources.mysql.types.collations import (
    UNFAITHFUL,
    is_collated,
    text_identity,
    why_no_key,
)
from tests.unit.tables import column

# One of each family whose texts are known by other bytes.
FEW: Final = {
    *("utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_0900_ai_ci", "utf8mb4_0900_bin"),
    *("utf8mb4_0900_as_cs", "utf8mb4_uca1400_as_cs", "utf8mb4_uca1400_nopad_ai_cs"),
    *("utf8mb4_bin", "ucs2_hungarian_ci", "latin1_german2_ci", "latin7_general_ci"),
}
EVERY_CHARACTER: Final = {
    *("utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci", "utf8mb4_0900_ai_ci"),
    *("utf8mb4_0900_as_cs", "utf8mb4_ja_0900_as_cs_ks", "utf8mb4_zh_0900_as_cs"),
    *("utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_uca1400_nopad_ai_cs"),
    *("gbk_chinese_ci", "sjis_japanese_ci", "cp932_japanese_ci", "ujis_japanese_ci"),
    *("gb2312_chinese_ci", "eucjpms_japanese_ci", "utf8mb4_bin"),
}
LETTERS: Final = "aAbcdeghijklmnoprstuvyzåæöøßłÅŁıIiǆéñčřšžσςΣαάаёйกขแเะเかがガアハバパｶﾞ각가一丁亜"
MARKS: Final = (
    "\u0300\u0301\u0303\u0308\u030a\u030c\u0327\u0323\u031b\u3099\u309a\u0345\u0e48\u0e31"
)
WORDS: Final = (
    *("", "a", "ss", "ß", "Strasse", "Straße", "café", "cafe\u0301", "ch", "CH", "dzs", "ddzs"),
    *("ffi", "ﬃ", "ｱ", "あ", "ア", "カ", "Ⅷ", "VIII", "½", "1/2", "①", "กะ", "แก", "ll", "ñ"),
    *("각", "\u1100\u1161\u11a8", "カー", "カア", "かあ"),
)
ENDS: Final = (
    *(" ", "  ", "\u00a0", "\0", "\t", "\n", "\u200b", "\u00ad", "\u3000", "\u2003", "\u0301"),
    *("\ufeff", "\x7f", "\x01", "\ue000", "-", "'", "\x1f", "!", "\u0e48", "\u2028"),
)
UNICODE: Final = {"utf8", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32", "gb18030"}
CHANCE: Final = random.Random(50)  # noqa: S311


def texts(one_in: int) -> list[str]:
    """Characters, contractions, expansions, marks, and words that end in spaces or in nothing."""
    low = [*range(0x600), *range(0x1E00, 0x2200), *range(0x3000, 0x3100)]
    high = [*range(0x600, 0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x1FFFF, 16)]
    found = {chr(c) for c in [*low, *high[:: 8 * one_in], 0x1F600, 0x2F800, 0x10FFFF]}
    pairs = {a + b for a, b in product(LETTERS, LETTERS)}
    pairs |= {a + b for a, b in product("aceiouyzsnαωаикカかハ", MARKS)}
    pairs |= {a + b + c for a, b, c in product("aeou", MARKS, "\u0301\u0323\u0308")}
    ended = {w + a + b for w, a, b in product(WORDS, ENDS, ("", "a", *ENDS))}
    few = [
        *CHANCE.sample(sorted(pairs), 2400 // one_in),
        *CHANCE.sample(sorted(ended), 3600 // one_in),
    ]
    named = {w + end for w, end in product(WORDS, ("", " ", "\u00a0", "\0", "\0 ", " \0"))}
    named |= {first + w for w, first in product(WORDS, ("\x1f ", "\u00a0 "))}
    return sorted(found | set(few) | named)


@dataclass
class Texts:
    """Tables of texts in the server: ``u`` of Unicode, ``b`` of bytes."""

    connection: Any
    kind: str = "VARCHAR"

    def query(self, *statements: str) -> Any:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def fill(self, unicode: Iterable[str], raw: Iterable[bytes]) -> None:
        self.query(
            "DROP TABLE IF EXISTS u, b",
            "CREATE TABLE u (s VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL)",
            "CREATE TABLE b (s VARBINARY(8) NOT NULL)",
        )
        with self.connection.cursor() as cursor:
            cursor.executemany("INSERT INTO u VALUES (%s)", [(one,) for one in unicode])
            cursor.executemany("INSERT INTO b VALUES (%s)", [(one,) for one in raw])

    def collations(self) -> dict[str, str]:
        """Every collation of a text that the server has, with its charset."""
        named = self.query(
            "SELECT TABLE_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "
            "'information_schema' AND COLUMN_NAME = 'FULL_COLLATION_NAME'"
        )
        name = "FULL_COLLATION_NAME" if named else "COLLATION_NAME"
        table = "information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        found = self.query(f"SELECT {name}, CHARACTER_SET_NAME FROM {table} ORDER BY 2, 1")
        return {c: charset for c, charset in found if charset not in (None, "binary", "filename")}

    def keep(self, collation: str, charset: str) -> None:
        """Tables of the texts that a charset has: ``w`` of all, ``r`` of those that differ to a
        unique index; in ``w`` each knows its own in ``r``."""
        kept = f"k {self.kind}(20) CHARACTER SET {charset} COLLATE {collation} NOT NULL"
        there = f"CONVERT(s USING {charset})"
        self.query(
            "DROP TABLE IF EXISTS w, r, t",
            f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, {kept})",
            f"CREATE TABLE r (id INT PRIMARY KEY, {kept}, UNIQUE (k))",
            f"CREATE TABLE w ({kept}, id INT)",
            f"INSERT INTO t (k) SELECT {there} FROM u "
            f"WHERE CAST(CONVERT({there} USING utf8mb4) AS BINARY) = CAST(s AS BINARY)",
        )
        if charset not in UNICODE:
            self.query(f"INSERT INTO t (k) SELECT {there} FROM b WHERE CAST({there} AS BINARY) = s")
        self.query(
            "INSERT IGNORE INTO r SELECT id, k FROM t ORDER BY id",
            "INSERT INTO w SELECT STRAIGHT_JOIN t.k, r.id FROM t "
            "LEFT JOIN r FORCE INDEX (k) ON r.k = t.k",
        )

    def is_faithful(self, sql: str) -> bool:
        """Whether bytes are equal exactly where the index calls texts equal."""
        # Hashed, for a server may compare the beginnings of long values alone.
        [counts] = self.query(
            f"SELECT (SELECT COUNT(*) FROM r), COUNT(DISTINCT k), COUNT(DISTINCT f), "
            f"COUNT(DISTINCT id, f), SUM(f IS NULL OR id IS NULL) "
            f"FROM (SELECT k, id, SHA2({sql}, 256) AS f FROM w) AS x"
        )
        *groups, unknown = (int(count) for count in counts)
        return unknown == 0 and len(set(groups)) == 1

    def is_equality(self, sql: str) -> bool:
        """Whether it is so, too, of any two texts of a sample, compared by ``=``."""
        self.query(
            "DROP TABLE IF EXISTS t",
            "CREATE TABLE t LIKE w",
            "ALTER TABLE t DROP COLUMN id, ADD COLUMN f CHAR(64)",
            f"INSERT INTO t SELECT k, SHA2({sql}, 256) FROM w ORDER BY CRC32(HEX(k)) LIMIT 120",
        )
        other = "SELECT COUNT(*) FROM t AS a CROSS JOIN t AS c WHERE (a.k = c.k) <> (a.f = c.f)"
        [(count,)] = self.query(other)
        return int(count) == 0


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


@pytest.fixture
def kept(server: EmbeddedServer, database: str) -> Iterator[Texts]:
    connection = server.admin(database)
    found = Texts(connection)
    found.query("SET sql_mode = ''")
    yield found
    connection.close()


def raw_texts(one_in: int) -> list[bytes]:
    singles = [bytes([a]) for a in range(256)]
    pairs = [bytes(pair) for pair in product(range(256), range(256))]
    ended = [a + end for a in singles for end in (b" ", b"\xa0", b"\0", b"  ", b"h", b"a ", b" \0")]
    return [*singles, *ended, *CHANCE.sample(pairs, len(pairs) // (12 * one_in))]


def identities(short: Column) -> set[str]:
    """The bytes of a short column and of a long one: they need not be the same."""
    long = replace(short, data_type="longtext", column_type="longtext", length=2**32 - 1)
    named = quote(short.name)
    return {
        text_identity(one) if is_collated(one) else f"CAST({named} AS BINARY)"
        for one in (short, long)
    }


def unfaithful(kept: Texts, collations: dict[str, str]) -> set[str]:
    """The collations under which some column's keys are not told apart as the server does."""
    found: set[str] = set()
    for collation, charset in collations.items():
        kept.keep(collation, charset)
        [(database,)] = kept.query("SELECT DATABASE()")
        _, short = read_columns(kept.connection, database, "r")
        if not all(kept.is_faithful(i) and kept.is_equality(i) for i in identities(short)):
            found.add(collation)
    return found


def column_of(collation: str, charset: str) -> Column:
    return replace(column("k", "varchar"), charset=charset, collation=collation, length=20)


def fixed_of(collation: str, charset: str, *, mariadb: bool) -> Column:
    return replace(column_of(collation, charset), data_type="char", mariadb=mariadb)


def refused(collations: dict[str, str]) -> set[str]:
    return {c for c, charset in collations.items() if why_no_key(column_of(c, charset))}


def test_one_collation_of_each_family(kept: Texts) -> None:
    kept.fill(texts(16), raw_texts(16))
    few = {c: charset for c, charset in kept.collations().items() if c in FEW}
    assert not unfaithful(kept, few)


def test_texts_of_a_fixed_length(kept: Texts) -> None:
    """What is refused of them alone differs, and nothing else does."""
    kept.kind = "CHAR"
    kept.fill(texts(16), raw_texts(16))
    few = {c: charset for c, charset in kept.collations().items() if c in FEW}
    [(version,)] = kept.query("SELECT VERSION()")
    mariadb = "MariaDB" in version
    fixed = {c for c, charset in few.items() if why_no_key(fixed_of(c, charset, mariadb=mariadb))}
    assert unfaithful(kept, few) == fixed
    assert fixed or not mariadb


def test_every_collation_is_known(kept: Texts) -> None:
    there = kept.collations()
    assert refused(there) == UNFAITHFUL.keys() & there.keys()
    assert why_no_key(column_of("utf8mb4_phone_ci", "utf8mb4"))


@pytest.mark.full
def test_every_collation(kept: Texts) -> None:
    kept.fill(texts(2), raw_texts(1))
    there = kept.collations()
    assert unfaithful(kept, there) <= refused(there)


@pytest.mark.full
def test_every_character(kept: Texts) -> None:
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    assigned = [c for c in every if unicodedata.category(c) != "Cn"]
    kept.fill(assigned, (bytes(pair) for pair in product(range(256), range(256))))
    few = {c: charset for c, charset in kept.collations().items() if c in EVERY_CHARACTER}
    assert not unfaithful(kept, few)


@pytest.mark.full
def test_what_is_refused_is_unfaithful_on_a_server(
    mariadb: EmbeddedServer, mysql8: EmbeddedServer
) -> None:
    """None is refused that could be told apart."""
    found: set[str] = set()
    for server in (mariadb, mysql8):
        with server.admin() as connection:
            kept = Texts(connection)
            kept.query("SET sql_mode = ''", "CREATE DATABASE refused", "USE refused")
            kept.fill(texts(1), raw_texts(1))
            there = kept.collations()
            found |= unfaithful(kept, {c: there[c] for c in UNFAITHFUL if c in there})
            kept.query("DROP DATABASE refused")
    assert found == UNFAITHFUL.keys()
