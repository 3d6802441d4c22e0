"""Every kind of index as a real server lists it: what it keeps unique, and which ranges it serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.init.suggest_tables import suggest_contract
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.introspection.introspect import read_tables
from mirrorlake.sources.mysql.tables import SourceTable
from tests.integration.conftest import connected
from tests.support.mysql8 import MySQL8

Sql = Callable[..., Any]
M = "m DATETIME NOT NULL"


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


# The table's definition; its key; whether ranges of m are read by an index.
BOTH: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "hash_key": ("(id INT PRIMARY KEY, m INT NOT NULL, KEY (m)) ENGINE=MEMORY", ("id",), False),
    "btree_in_memory": (
        "(id INT PRIMARY KEY, m INT NOT NULL, KEY (m) USING BTREE) ENGINE=MEMORY",
        ("id",),
        True,
    ),
    "hash_of_innodb": (f"(id INT, {M}, PRIMARY KEY (id) USING HASH, KEY (m))", ("id",), True),
    "descending": (f"(id INT, {M}, PRIMARY KEY (id DESC), KEY (m DESC))", ("id",), True),
    "bytes_by_prefix": (f"(b BLOB NOT NULL, {M}, PRIMARY KEY (b(9)))", ("b",), False),
    "binary_text_by_prefix": (
        f"(t TEXT COLLATE utf8mb4_bin NOT NULL, {M}, PRIMARY KEY (t(9)), KEY (m, t(9)))",
        ("t",),
        True,
    ),
    "by_character": (
        f"(t TEXT COLLATE utf8mb4_general_ci NOT NULL, {M}, UNIQUE KEY (t(9)))",
        ("t",),
        False,
    ),
    # The rows 'ß' and 'ss' are two by their first letters, and one key to the collation.
    "expanding": (f"(t TEXT COLLATE utf8mb4_unicode_ci NOT NULL, {M}, UNIQUE (t(1)))", (), False),
    "composite_with_prefix": (
        f"(id INT NOT NULL, n VARCHAR(99) COLLATE utf8mb4_bin NOT NULL, {M}, UNIQUE (id, n(5)))",
        ("id", "n"),
        False,
    ),
    "nullable": (f"(id INT, {M}, UNIQUE (id))", (), False),
    "shorter_first": (f"(a INT NOT NULL, b INT NOT NULL, {M}, UNIQUE (a, b), UNIQUE (b))", ("b",), False),
    "fulltext_beside": (f"(id INT, {M}, t TEXT, FULLTEXT (t), KEY (m, id))", (), True),
    "spatial": (f"(g GEOMETRY NOT NULL, {M}, SPATIAL KEY (g))", (), False),
    "generated": (f"(id INT NOT NULL, g INT AS (id + 1) VIRTUAL, {M}, UNIQUE (g))", (), False),
    "partitioned": (f"(id INT PRIMARY KEY, {M}) PARTITION BY HASH (id) PARTITIONS 2", ("id",), False),
    "disabled": (f"(id INT PRIMARY KEY, {M}, KEY (m)) ENGINE=MyISAM", ("id",), False),
}  # fmt: skip
MARIADB: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "whole_text": (f"(t TEXT NOT NULL, {M}, UNIQUE (t))", ("t",), False),
    # 0.0 and -0.0 are equal, and have two hashes: this index has both.
    "hash_of_floats": (f"(t TEXT NOT NULL, d DOUBLE NOT NULL, {M}, UNIQUE (t, d))", (), False),
    "hash_of_whole_numbers": (f"(t TEXT NOT NULL, d INT NOT NULL, {M}, UNIQUE (t, d))", ("t", "d"), False),
    "ignored": (f"(id INT PRIMARY KEY, {M}, KEY (m) IGNORED)", ("id",), False),
    "versioned": (f"(id INT PRIMARY KEY, {M}, KEY (m)) WITH SYSTEM VERSIONING", ("id",), True),
    "versioned_by_name": (
        f"(id INT PRIMARY KEY, {M}, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
        "e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) "
        "WITH SYSTEM VERSIONING",
        ("id",),
        False,
    ),
    "periods": (
        f"(id INT, a DATE, b DATE, {M}, PERIOD FOR p (a, b), PRIMARY KEY (id, p WITHOUT OVERLAPS))",
        ("id", "b", "a"),
        False,
    ),
    "invisible_column": (f"(k INT INVISIBLE NOT NULL DEFAULT 0, {M}, PRIMARY KEY (k))", ("k",), False),
}  # fmt: skip
MYSQL8: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "invisible": (f"(id INT PRIMARY KEY, {M}, KEY (m) INVISIBLE)", ("id",), False),
    "invisible_unique": (
        f"(id INT NOT NULL, k INT NOT NULL PRIMARY KEY, {M}, UNIQUE (id) INVISIBLE)",
        ("k",),
        False,
    ),
    "archive": (f"(id INT AUTO_INCREMENT PRIMARY KEY, {M}) ENGINE=ARCHIVE", ("id",), False),
}


def tables_of(server: EmbeddedServer, database: str) -> dict[str, SourceTable]:
    with connected(server, database) as connection:
        return {t.name: t for t in read_tables(connection, database)}


def test_each_kind_gives_its_key_and_its_ranges(
    server: EmbeddedServer, sql: Sql, database: str
) -> None:
    cases = BOTH | (MYSQL8 if isinstance(server, MySQL8) else MARIADB)
    for name, (definition, _, _) in cases.items():
        sql(f"CREATE TABLE `{name}` {definition}")
    sql("ALTER TABLE disabled DISABLE KEYS")
    found = tables_of(server, database)
    said = {n: (found[n].primary_key(), found[n].led_by("m")) for n in cases}
    assert said == {n: (key, ranges) for n, (_, key, ranges) in cases.items()}
    for name in cases:
        assert suggest_contract(found[name], {}).key == cases[name][1]


def test_a_merge_table_keeps_no_key_unique(server: EmbeddedServer, sql: Sql, database: str) -> None:
    """It shows the rows of its tables: two of them may have one primary key."""
    one = "(id INT PRIMARY KEY) ENGINE="
    sql(
        f"CREATE TABLE a {one}MyISAM",
        f"CREATE TABLE b {one}MyISAM",
        f"CREATE TABLE whole {one}MERGE UNION=(a, b)",
        "INSERT INTO a VALUES (1)",
        "INSERT INTO b VALUES (1)",
    )
    assert len(sql("SELECT * FROM whole")) == 2
    tables = tables_of(server, database)
    assert tables["a"].primary_key() == ("id",)
    assert tables["whole"].primary_key() == ()
    assert not tables["whole"].has_unique(["id"])


def test_texts_that_one_prefix_tells_apart_may_be_one_key(server: EmbeddedServer, sql: Sql) -> None:
    """Why a prefix under an expanding collation gives no key."""
    sql(
        "CREATE TABLE t (t TEXT COLLATE utf8mb4_unicode_ci NOT NULL, UNIQUE (t(1)))",
        "INSERT INTO t VALUES ('ß'), ('ss')",
    )
    assert sql("SELECT COUNT(*), COUNT(DISTINCT CONCAT(t, '')) FROM t") == ((2, 1),)


def test_what_a_row_gets_without_a_time_is_a_constant_or_a_clocks(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    constants = {"a": "'2000-01-01'", "b": "'1970-01-02 00:00:01.500000'"}
    clocks = {"c": "CURRENT_TIMESTAMP(6)", "d": "NOW(6)", "e": None, "f": "NULL"}
    columns = ", ".join(
        f"{name} DATETIME(6) {'NULL' if value == 'NULL' else 'NOT NULL'}"
        f"{f' DEFAULT {value}' if value else ''}"
        for name, value in {**constants, **clocks}.items()
    )
    sql(
        f"CREATE TABLE defaults (id INT PRIMARY KEY DEFAULT 1, z VARCHAR(9) DEFAULT '1', {columns})"
    )
    columns_of = tables_of(server, database)["defaults"].columns
    found = {c.name: c.fixed_time for c in columns_of}
    assert {name for name, fixed in found.items() if fixed} == set(constants)
    assert str(found["a"]).startswith("2000-01-01")
