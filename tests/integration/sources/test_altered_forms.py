"""What migrations contain beside columns and indexes, against what the servers make of it: the
table's shape, its rows, and whether a sync would take it for a table that was made again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection

from mirrorlake.preflight.statements import rebuilt_findings
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.ddl.actions import MoveRows, Statement
from mirrorlake.sources.mysql.ddl.altered import alter, around_after
from mirrorlake.sources.mysql.ddl.parser import parse_ddl
from mirrorlake.sources.mysql.ddl.surroundings import read_surroundings
from mirrorlake.sources.mysql.introspection.identity import (
    Identity,
    Sign,
    read_identity,
    why_another,
)
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import connected
from tests.integration.sources.test_altered import shape

PLAIN = """CREATE TABLE {} (id INT NOT NULL AUTO_INCREMENT, a VARCHAR(20), b INT NOT NULL DEFAULT 1,
    PRIMARY KEY (id), UNIQUE KEY ua (a), KEY kb (b), FULLTEXT KEY fa (a)) DEFAULT CHARSET = latin1"""
PARTED = """CREATE TABLE {} (id INT NOT NULL, a VARCHAR(20), PRIMARY KEY (id), KEY ka (a))
    DEFAULT CHARSET = latin1 PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10),
    PARTITION p1 VALUES LESS THAN (20), PARTITION `p;2` VALUES LESS THAN (30))"""
LIKE_IT = "CREATE TABLE {} (id INT NOT NULL, a VARCHAR(20), PRIMARY KEY (id), KEY ka (a)) DEFAULT CHARSET = latin1"

ON_PLAIN = """FORCE; ENGINE=InnoDB; ENGINE = InnoDB ROW_FORMAT=DYNAMIC; ORDER BY a, b DESC; ENABLE KEYS;
    DISABLE KEYS, ALGORITHM=DEFAULT, LOCK=DEFAULT; AUTO_INCREMENT=500; COMMENT='x, y'; COMMENT='';
    STATS_PERSISTENT=1, STATS_AUTO_RECALC=0; ADD (n INT, `m,(` DECIMAL(8,2)); ADD COLUMN (n INT, KEY kn (n));
    ADD p POINT, ADD q LINESTRING, ADD r POLYGON, ADD s MULTIPOINT; ADD point INT, ADD p GEOMETRY;
    ADD s MULTILINESTRING, ADD t MULTIPOLYGON FIRST, ADD u GEOMETRYCOLLECTION;
    ALTER COLUMN b SET DEFAULT 5; ALTER b DROP DEFAULT; ALTER COLUMN a SET DEFAULT NULL;
    ALTER COLUMN b SET DEFAULT 1; MODIFY a VARCHAR(20); RENAME INDEX ua TO `u``a`; DROP INDEX fa;
    ADD KEY kn (n), ADD n INT; ADD KEY ua (b), DROP KEY ua; ADD n INT UNIQUE, DROP KEY ua;
    DROP KEY kb, ADD KEY kb (b); DROP INDEX kb, DROP INDEX fa, ADD FULLTEXT KEY fb (a);
    ADD CONSTRAINT c CHECK (b <> 77); ADD CHECK (b <> 77), ADD n INT NOT NULL DEFAULT 1 CHECK (n > 0);
    DEFAULT CHARSET=utf8mb4 COLLATE utf8mb4_bin, ADD n VARCHAR(9); DEFAULT CHARACTER SET latin1;
    ADD n VARCHAR(9), DEFAULT CHARSET = utf8mb4; ADD n VARCHAR(9) CHARACTER SET utf8, COLLATE latin1_bin;
    CONVERT TO CHARSET latin1; CONVERT TO CHARACTER SET utf8 COLLATE utf8_bin;
    PARTITION BY HASH (id) PARTITIONS 2, DROP KEY ua; ADD n INT first; ADD n INT after id;
    ALGORITHM=COPY, ADD n INT DEFAULT 1; /*!50000 ADD */ n /*! INT */"""
ON_PLAIN = ON_PLAIN.replace("PARTITION BY HASH (id) PARTITIONS 2, DROP KEY ua; ", "")
MARIADB_ALONE = """ADD COLUMN IF NOT EXISTS (a INT, n INT); ADD u UUID, ADD i INET4, ADD j INET6 NOT NULL;
    MODIFY COLUMN IF EXISTS nope INT; CHANGE COLUMN IF EXISTS a z VARCHAR(30); DROP COLUMN IF EXISTS nope;
    RENAME COLUMN IF EXISTS nope TO z; RENAME INDEX IF EXISTS nope TO z; ALTER COLUMN IF EXISTS nope SET DEFAULT 1;
    ADD INDEX IF NOT EXISTS kb (a); ADD INDEX IF NOT EXISTS kz (a); DROP INDEX IF EXISTS nope, DROP KEY IF EXISTS kb;
    ADD UNIQUE INDEX IF NOT EXISTS ub (b, id); DROP CONSTRAINT ua; DROP CONSTRAINT IF EXISTS nope;
    DROP FOREIGN KEY IF EXISTS nope; ADD CONSTRAINT IF NOT EXISTS c CHECK (b <> 77);
    ALTER INDEX kb IGNORED; ALTER INDEX kb NOT IGNORED; ADD KEY kz (a) IGNORED;
    NOWAIT ADD n INT; WAIT 3 FORCE; ADD p POINT REF_SYSTEM_ID=4326; ADD g INT AS (b + 1) PERSISTENT;
    ADD n INT INVISIBLE DEFAULT 3; RENAME COLUMN a TO z, ALGORITHM=NOCOPY, LOCK=NONE"""
MYSQL_ALONE = """ALTER INDEX kb INVISIBLE; ALTER INDEX kb VISIBLE; ADD KEY kz (a) INVISIBLE;
    ADD UNIQUE KEY uz (b, id) COMMENT 'VISIBLE' INVISIBLE; ADD n POINT SRID 4326;
    ADD n INT COLUMN_FORMAT FIXED STORAGE MEMORY AFTER id; ADD u GEOMCOLLECTION;
    ADD g INT AS (b + 1), WITHOUT VALIDATION; FORCE, ALGORITHM=COPY, LOCK=EXCLUSIVE"""
ON_PARTED = """DROP PARTITION p0; DROP PARTITION p0, `p;2`; TRUNCATE PARTITION p0; TRUNCATE PARTITION ALL;
    EXCHANGE PARTITION p0 WITH TABLE {u}; REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (20));
    ADD PARTITION (PARTITION pm VALUES LESS THAN MAXVALUE); REBUILD PARTITION p0, p1;
    OPTIMIZE PARTITION ALL; ANALYZE PARTITION p1; CHECK PARTITION `p;2`; REPAIR PARTITION p0;
    REMOVE PARTITIONING; ADD n INT REMOVE PARTITIONING; PARTITION BY HASH (id) PARTITIONS 3;
    ADD KEY k2 (id, a) PARTITION BY KEY () PARTITIONS 2; FORCE; ADD n INT"""
PARTED_ON_MARIADB = """DROP PARTITION IF EXISTS p0, nope; CONVERT PARTITION p0 TO TABLE {u}x;
    CONVERT TABLE {u} TO PARTITION pz VALUES LESS THAN (40)"""
PARTED_ON_MYSQL = (
    """EXCHANGE PARTITION p0 WITH TABLE {u} WITHOUT VALIDATION; DISCARD PARTITION p0 TABLESPACE"""
)
OWN = {
    "mariadb": (
        "CREATE OR REPLACE INDEX kb ON {t} (a, b)", "CREATE INDEX IF NOT EXISTS kb ON {t} (a)",
        "DROP INDEX IF EXISTS nope ON {t}", "ALTER IGNORE TABLE {t} ADD UNIQUE (b)",
        "SET STATEMENT max_statement_time = 9 FOR ALTER TABLE {t} ADD n INT",
        "CREATE INDEX kz ON {t} (a) NOWAIT IGNORED", "ALTER ONLINE TABLE {t} ADD n INT",
        "ALTER TABLE IF EXISTS {t} ADD n INT",
    ),
    "mysql": (
        "CREATE INDEX kz ON {t} (a) INVISIBLE", "DROP INDEX fa ON {t} ALGORITHM=INPLACE LOCK=NONE",
    ),
    "both": (
        "OPTIMIZE TABLE {t}", "ALTER TABLE {t}", "DROP INDEX fa ON {t}",
        "CREATE UNIQUE INDEX ub USING BTREE ON {t} (b, id) COMMENT 'ON x' ALGORITHM = INPLACE",
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def clauses(text: str) -> list[str]:
    """Their semicolons but those in names."""
    return [one.strip() for one in text.replace("p;2", "\0").split(";")]


def cases(connection: Connection[Any]) -> list[tuple[str, str]]:
    """(CREATE TABLE, statement) for this server."""
    maria = is_mariadb(connection)
    plain = clauses(ON_PLAIN) + clauses(MARIADB_ALONE if maria else MYSQL_ALONE)
    parted = clauses(ON_PARTED) + clauses(PARTED_ON_MARIADB if maria else PARTED_ON_MYSQL)
    found = [(PLAIN, f"ALTER TABLE {{t}} {clause}") for clause in plain]
    found += [(PARTED, f"ALTER TABLE {{t}} {clause}".replace("\0", "p;2")) for clause in parted]
    found += [(PLAIN, one) for one in (*OWN["both"], *OWN["mariadb" if maria else "mysql"])]
    return found


def rows(connection: Connection[Any], table: str) -> list[Any]:
    return [row[0] for row in rows_of(connection, f"SELECT id FROM {table} ORDER BY id")]


class Case:
    """One statement, its tables, and what they were before it."""

    def __init__(self, number: int, make: str, statement: str) -> None:
        self.table, self.other = f"t{number}", f"u{number}"
        self.make, self.text = make, statement.format(t=self.table, u=self.other)

    def fill(self, sql: Callable[..., Any]) -> None:
        sql(self.make.format(self.table), LIKE_IT.format(self.other))
        first = "(NULL, 'a'), (NULL, 'b')" if self.make is PLAIN else "(1, 'a'), (2, 'b')"
        more = "" if self.make is PLAIN else ", (15, 'c'), (25, 'd')"
        sql(f"INSERT INTO {self.table} (id, a) VALUES {first}{more}")
        sql(f"INSERT INTO {self.other} VALUES ({3 if 'EXCHANGE' in self.text else 35}, 'e')")

    def check(
        self, connection: Connection[Any], sql: Callable[..., Any], workspace: Workspace
    ) -> str:
        """What is wrong with what is predicted; '' if nothing."""
        database = workspace.config.tables[0].database
        before = read_table(connection, database, self.table)
        around = read_surroundings(connection, database, self.table)
        identity, held = read_identity(connection, before), rows(connection, self.table)
        statements = [one for one in parse_ddl(self.text) if one.table == self.table]
        actions = [action for statement in statements for action in statement.actions]
        predicted = alter(before, actions, around)
        said = rebuilt_findings(
            workspace.config.tables[0], connection, before, predicted, around, statements
        )
        severities = [finding.severity for finding in said]
        try:
            sql(self.text)
        except pymysql.Error as error:
            return f"the server refuses it: {error}"
        after = read_table(connection, database, self.table)
        usable = [[(i.name, bool(i.ranges)) for i in t.indexes] for t in (predicted, after)]
        if shape(predicted) != shape(after) or sorted(usable[0]) != sorted(usable[1]):
            return f"{shape(predicted)}\n  and is {shape(after)}"
        moves = any(isinstance(action, MoveRows) for action in actions)
        if "DISCARD" not in self.text and moves != (rows(connection, self.table) != held):
            return f"rows move: {moves}"
        again = why_another(identity, read_identity(connection, after))
        return wrong(severities, again, moves=moves)


def wrong(severities: list[str], again: Sign | None, *, moves: bool) -> str:
    """Where a sync compares the table's rows, and nothing said so, or the other way. What an ALTER
    rebuilds, and changes, is no finding of its own."""
    said = ("made again or rebuilt", "to what it was defined as before")
    rebuilt = again is not None and any(words in again.words for words in said)
    if severities == ["ok"] or (moves and not rebuilt):
        return ""  # it depends on what is not kept here; or it is said that rows move
    return "" if rebuilt == bool(severities) else f"{severities}, and a sync says {again}"


@pytest.mark.full
def test_a_table_after_every_form(
    server: EmbeddedServer,
    database: str,
    sql: Callable[..., Any],
    engine_for: Callable[..., Workspace],
) -> None:
    workspace = engine_for({"t": {"mode": "append", "key": ["id"], "cursor": "id"}})
    with connected(server, database) as connection:
        listed = [Case(n, *case) for n, case in enumerate(cases(connection))]
        for case in listed:
            case.fill(sql)
        time.sleep(1.1)  # servers keep the second in which a table was made
        found = {case.text: case.check(connection, sql, workspace) for case in listed}
    assert not (differ := [f"{text}: {why}" for text, why in found.items() if why]), "\n".join(
        differ
    )


def test_columns_that_come_after_another_default(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    sql(PLAIN.format("t"))
    text = (
        "ALTER TABLE t DEFAULT CHARSET = utf8 COLLATE utf8_bin; ALTER TABLE t ADD n VARCHAR(9);"
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4; ALTER TABLE t ADD m TEXT, ADD k INT"
    )
    with connected(server, database) as connection:
        predicted = read_table(connection, database, "t")
        around = read_surroundings(connection, database, "t")
        for statement in parse_ddl(text):
            predicted = alter(predicted, statement.actions, around)
            around = around_after(statement.actions, around)
        sql(*text.split(";"))
        assert shape(predicted) == shape(read_table(connection, database, "t"))


def test_the_other_table_of_an_exchange(
    server: EmbeddedServer, database: str, sql: Callable[..., Any]
) -> None:
    """With PROCESS a sync sees that it is another one; the rows are there whoever looks."""
    sql(PARTED.format("t"), LIKE_IT.format("u"), "INSERT INTO u VALUES (3, 'e')")
    text = "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u"
    found: list[Statement] = list(parse_ddl(text))
    assert [(one.table, one.kind, type(one.actions[0])) for one in found] == [
        ("t", "alter", MoveRows), ("u", "alter", MoveRows),
    ]  # fmt: skip
    with connected(server, database) as connection:
        before: Identity = read_identity(connection, read_table(connection, database, "u"))
        sql(text)
        now = read_identity(connection, read_table(connection, database, "u"))
        assert (rows(connection, "t"), rows(connection, "u")) == ([3], [])
    assert before.definition == now.definition
