"""What statements change of a table's identity, on both servers: the table in the documents."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.introspection.identity import (
    Identity,
    filled_partitions,
    read_fingerprints,
    read_identity,
    why_another,
)
from mirrorlake.sources.mysql.introspection.innodb_ids import can_see_numbers, read_numbers_in
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import is_mariadb
from tests.integration.conftest import connected
from tests.support.mysql8 import MySQL8

PAGE = Path(__file__).parents[3] / "docs" / "contract-changes.md"
PLAIN = "(id INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT) ENGINE=InnoDB"
INDEXED = PLAIN.replace("b INT)", "b INT, KEY (a))")
PARTED = """(id INT PRIMARY KEY, a INT) ENGINE=InnoDB PARTITION BY RANGE (id) (
    PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20),
    PARTITION pm VALUES LESS THAN MAXVALUE)"""
ROWS = "INSERT INTO {} VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)"
SPLIT = """ALTER TABLE t REORGANIZE PARTITION pm INTO (
    PARTITION p2 VALUES LESS THAN (30), PARTITION pm VALUES LESS THAN MAXVALUE)"""


@dataclass(frozen=True)
class Case:
    """Statements after which a table's identity is looked at again.

    Attributes:
        title: the row of the documents' table.
        made: how the table was made.
        first: statements before the first look.
    """

    title: str
    statements: tuple[str, ...]
    made: str = PLAIN
    first: tuple[str, ...] = ()


CASES = (
    Case(
        "`DROP`, `CREATE` the same", ("DROP TABLE t", f"CREATE TABLE t {PLAIN}", ROWS.format("t"))
    ),
    Case(
        "`DROP`, `CREATE` another",
        ("DROP TABLE t", f"CREATE TABLE t {INDEXED}", ROWS.format("t")),
    ),
    Case("`TRUNCATE`", ("TRUNCATE TABLE t",)),
    Case("`DELETE` of all rows", ("DELETE FROM t",)),
    Case("`OPTIMIZE`, `ALTER … FORCE`, `ENGINE=InnoDB`", ("OPTIMIZE TABLE t",)),
    Case("`ANALYZE`", ("ANALYZE TABLE t",)),
    Case("an index added, in place", ("ALTER TABLE t ADD KEY (a)",)),
    Case("an index added by a copy", ("ALTER TABLE t ADD KEY (a), ALGORITHM=COPY",)),
    Case("a column added, `INSTANT`", ("ALTER TABLE t ADD COLUMN c INT",)),
    Case("another type of a column", ("ALTER TABLE t MODIFY a BIGINT",)),
    Case("another comment or default", ("ALTER TABLE t ALTER a SET DEFAULT 5",)),
    Case(
        "a column dropped and added again, the same",
        ("ALTER TABLE t DROP COLUMN b", "ALTER TABLE t ADD COLUMN b INT"),
    ),
    Case(
        "the same by a copy",
        (
            "ALTER TABLE t DROP COLUMN b, ALGORITHM=COPY",
            "ALTER TABLE t ADD COLUMN b INT, ALGORITHM=COPY",
        ),
    ),
    Case(
        "`EXCHANGE PARTITION`",
        ("ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE o",),
        PARTED,
        ("CREATE TABLE o (id INT PRIMARY KEY, a INT)", "INSERT INTO o VALUES (12, 9)"),
    ),
    Case(
        "`EXCHANGE PARTITION`, the other table",
        ("ALTER TABLE o EXCHANGE PARTITION p1 WITH TABLE t",),
        "(id INT PRIMARY KEY, a INT)",
        (f"CREATE TABLE o {PARTED}", "DELETE FROM t WHERE id = 1"),
    ),
    Case("`TRUNCATE PARTITION`", ("ALTER TABLE t TRUNCATE PARTITION p1",), PARTED),
    Case("`DROP PARTITION`", ("ALTER TABLE t DROP PARTITION p1",), PARTED),
    Case("`REORGANIZE PARTITION`, of an empty one", (SPLIT,), PARTED),
    Case(
        "`REORGANIZE PARTITION`, of one with rows",
        (SPLIT,),
        PARTED,
        ("INSERT INTO t VALUES (77, 7)",),
    ),
    Case("`REBUILD PARTITION`", ("ALTER TABLE t REBUILD PARTITION p1",), PARTED),
    Case(
        "`RENAME TABLE t TO x, o TO t`, the same definition",
        ("RENAME TABLE t TO x, o TO t",),
        PLAIN,
        (f"CREATE TABLE o {PLAIN}", ROWS.format("o")),
    ),
    Case(
        "the same of another definition (gh-ost, pt-osc)",
        ("RENAME TABLE t TO x, o TO t",),
        PLAIN,
        (f"CREATE TABLE o {INDEXED}", ROWS.format("o")),
    ),
    Case("renamed, and back", ("RENAME TABLE t TO x", "RENAME TABLE x TO t")),
)


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.mark.full
def test_the_documents_say_what_each_server_changes(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    """Numbers, time, definition and what a sync says: a row of the table for each case."""
    found: list[str] = []
    with connected(server, database) as connection:
        maria = is_mariadb(connection)
        for case in CASES:
            for name in ("t", "o", "x"):
                sql(f"DROP TABLE IF EXISTS {name}")
            sql(f"CREATE TABLE t {case.made}")
            sql(ROWS.format("t") if case.made == PLAIN else "INSERT INTO t VALUES (1, 1), (12, 2)")
            if case.first:
                time.sleep(1.1)
                sql(*case.first)
            before = read_identity(connection, read_table(connection, database, "t"))
            time.sleep(1.1)  # servers keep the second in which a table was made
            sql(*case.statements)
            found.append(_row(connection, database, case.title, before))
    found.append("the server restarted: –: nothing")  # `test_a_restart_changes_nothing`
    assert found == _rows_of_page(maria=maria), "\n".join(found)


@pytest.mark.full
@pytest.mark.parametrize("kind", [MariaDB, pytest.param(MySQL8, marks=pytest.mark.full)])
def test_a_restart_changes_nothing(kind: type[EmbeddedServer], tmp_path: Path) -> None:
    found: list[list[Identity]] = []
    for _ in range(2):
        with kind.start(tmp_path / "server") as server, server.admin() as admin:
            with admin.cursor() as cursor:
                cursor.execute("CREATE DATABASE IF NOT EXISTS d")
                cursor.execute(f"CREATE TABLE IF NOT EXISTS d.t {PLAIN}")
                cursor.execute(f"CREATE TABLE IF NOT EXISTS d.p {PARTED}")
            tables = [read_table(admin, "d", name) for name in ("t", "p")]
            found.append([read_identity(admin, table) for table in tables])
        time.sleep(1.1)  # servers keep the second in which a table was made
    assert found[0] == found[1]
    assert all(identity.numbers for identity in found[0])


def _row(connection: Any, database: str, title: str, before: Identity) -> str:
    table = read_table(connection, database, "t")
    now = read_identity(connection, table)
    sign = why_another(before, now)
    common = before.numbers.keys() & now.numbers.keys()
    assert common
    changed = [
        "number" if any(before.numbers[part] != now.numbers[part] for part in common) else "",
        "time" if before.made != now.made else "",
        "definition" if before.definition != now.definition else "",
    ]
    said = "nothing"
    if sign is not None:
        empty = sign.altered and sign.partitions
        unseen = empty and not filled_partitions(connection, table, sign.partitions)
        words = re.sub(r" at \d{4}-\S+ \S+", " at …", sign.words)
        said = "nothing" if unseen else words
    return f"{title}: {', '.join(filter(None, changed)) or '–'}: {said}"


def _rows_of_page(*, maria: bool) -> list[str]:
    """The documents' rows; where servers differ, MariaDB's words stand before a slash."""
    lines = PAGE.read_text(encoding="utf-8").split("| statement |", 1)[-1].splitlines()[2:]
    found: list[str] = []
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines):
        title, changes, says = (cell.strip() for cell in line.strip("|").split("|"))
        of_server = [words.split(" / ")[0 if maria else -1] for words in (changes, says)]
        found.append(f"{title}: {of_server[0]}: {of_server[1]}")
    return found


def test_what_names_and_privileges_hide(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    """ASCII names are spelled as InnoDB spells them; without PROCESS nothing is seen."""
    sql(
        "CREATE TABLE `my-orders 1` (id INT PRIMARY KEY)",
        "CREATE TABLE `größe` (id INT PRIMARY KEY)",
    )
    sql(f"CREATE TABLE `p-t` {PARTED}", f"CREATE TABLE pxt {PARTED}")
    with server.admin(database) as admin:
        names = ["my-orders 1", "größe", "p-t"]
        ids = {n: read_identity(admin, read_table(admin, database, n)) for n in names}
        assert ids["my-orders 1"].innodb_id is not None
        assert not ids["größe"].numbers
        assert sorted(ids["p-t"].partitions or ()) == ["p#p0", "p#p1", "p#pm"]
        for name in names:
            there = read_numbers_in(admin, [database, "another"], name).get(database, {})
            assert there == ids[name].numbers
        assert read_fingerprints(admin, database, names).keys() == set(names)
        other = read_identity(admin, read_table(admin, database, "pxt")).numbers
        assert set(ids["p-t"].numbers.values()).isdisjoint(other.values())
        assert can_see_numbers(admin)
    sql("CREATE USER sees_none IDENTIFIED BY 'x'", f"GRANT SELECT ON {database}.* TO sees_none")
    try:
        with _logged_in(server, database) as blind:
            assert not read_identity(blind, read_table(blind, database, "p-t")).numbers
            assert not can_see_numbers(blind)
    finally:
        sql("DROP USER sees_none")


def _logged_in(server: EmbeddedServer, database: str) -> pymysql.connections.Connection[Any]:
    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user="sees_none",
        password=b"x",  # type: ignore[arg-type]
        database=database,
        ssl_disabled=True,
    )
